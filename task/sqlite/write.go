package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/askback-mcp/askback/task"
)

const (
	beginSQL    = `BEGIN IMMEDIATE`
	commitSQL   = `COMMIT`
	rollbackSQL = `ROLLBACK`

	// Counting ends at the quota, however many tasks there are.
	quotaSQL  = `SELECT count(*) FROM (SELECT 1 FROM task WHERE principal = ? AND ended = 0 LIMIT ?)`
	createSQL = `INSERT INTO task (` + columns + `, pending, outcome, due, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?)`
	callSQL  = `INSERT INTO journal (task, n, entry) VALUES (?, 0, ?)`
	entrySQL = `INSERT INTO journal (task, n, entry) SELECT ?1, max(n) + 1, ?2 FROM journal WHERE task = ?1`

	// A task whose lease or delay has ended is due since then.
	wakeSQL = `UPDATE task SET due = wake, wake = NULL WHERE wake <= ?`
	// The next principal in the index, or the first one; of its tasks the first.
	claimSQL = `UPDATE task SET due = NULL, wake = ?, fence = fence + 1, attempts = attempts + 1
		WHERE seq = coalesce(
			(SELECT seq FROM task WHERE due IS NOT NULL AND principal > ? ORDER BY principal, due LIMIT 1),
			(SELECT seq FROM task WHERE due IS NOT NULL ORDER BY principal, due LIMIT 1))
		RETURNING ` + columns + `, pending, outcome`

	leasedSQL   = `SELECT seq, attempts FROM task WHERE id = ? AND fence = ?`
	recordedSQL = `UPDATE task SET attempts = 0 WHERE seq = ?`
	// A parked task has no lease that could end.
	renewSQL = `UPDATE task SET wake = ?, due = NULL
		WHERE id = ? AND fence = ? AND (due IS NOT NULL OR wake IS NOT NULL)`

	updateSQL = `UPDATE task SET status = ?, ended = ?, message = ?, pending = ?, outcome = ?, round = ?, expires = ?,
		stopped = ?, attempts = ?, updated = ?, version = version + 1`
	// The parameter after the version is the fence, or NULL if it does not matter. The last one is the status again.
	updateWhereSQL = ` WHERE id = ? AND version = ? AND fence = coalesce(?, fence) AND (ended = 0 OR status = ?) RETURNING seq`
	updateKeepSQL  = updateSQL + updateWhereSQL
	updateDueSQL   = updateSQL + `, due = ?, wake = ?` + updateWhereSQL

	stateSQL = `SELECT version, fence FROM task WHERE id = ?`

	purgeSQL = `DELETE FROM task WHERE seq IN (SELECT seq FROM task
		WHERE ended = 1 AND due IS NULL AND wake IS NULL AND expires <= ? ORDER BY expires LIMIT ?) RETURNING seq`
	purgeJournalSQL = `DELETE FROM journal WHERE task = ?`
)

// writes are the statements of the writer.
var writes = []string{
	beginSQL, commitSQL, rollbackSQL, quotaSQL, createSQL, callSQL, entrySQL, wakeSQL, claimSQL, leasedSQL, recordedSQL, renewSQL,
	updateKeepSQL, updateDueSQL, stateSQL, purgeSQL, purgeJournalSQL, putStateSQL, deleteStateSQL, purgeStatesSQL,
}

// write calls do in a transaction, while nobody else writes. What do gives to statements is a context that does not
// end: they wait for nothing, and a transaction whose COMMIT is interrupted may or may not have happened.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, now int64) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.writing <- struct{}{}:
	}
	defer func() { <-s.writing }()
	on := context.WithoutCancel(ctx)
	defer func() {
		if err != nil {
			s.w[rollbackSQL].ExecContext(on) // fails if there is nothing to roll back
		}
	}()
	if _, err := s.w[beginSQL].ExecContext(ctx); err != nil {
		return err
	}
	if err := do(on, time.Now().UnixMilli()); err != nil {
		return err
	}
	_, err = s.w[commitSQL].ExecContext(on)
	return err
}

// Create adds a task with its journal. See [task.Store].
func (s *Store) Create(ctx context.Context, t *task.Task, ttl time.Duration, call []byte, entries [][]byte, quota int) (err error) {
	defer s.wrap(ctx, "create a task", &err)
	var created time.Time
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if quota > 0 {
			var n int
			if err := s.w[quotaSQL].QueryRowContext(ctx, t.Principal, quota).Scan(&n); err != nil {
				return err
			}
			if n >= quota {
				return task.ErrQuota
			}
		}
		created = timeAt(now)
		result, err := s.w[createSQL].ExecContext(ctx, t.ID, t.Principal, t.Method, t.Target, t.Dialect,
			string(t.Status), t.Message, t.Round, now, now, now+ttl.Milliseconds(), t.PollInterval.Milliseconds(), t.Stopped, t.Attempts,
			bytesOrNull(t.Pending), bytesOrNull(t.Outcome), now, t.Status.Terminal())
		if isCode(err, sqlite3.SQLITE_CONSTRAINT_UNIQUE) {
			return task.ErrExists
		}
		if err != nil {
			return err
		}
		seq, err := result.LastInsertId()
		if err != nil {
			return err
		}
		if _, err := s.w[callSQL].ExecContext(ctx, seq, blob(call)); err != nil {
			return err
		}
		return s.addEntries(ctx, seq, entries)
	})
	if err != nil {
		return err
	}
	t.Created, t.Updated, t.Expires = created, created, created.Add(ttl.Truncate(time.Millisecond))
	t.Version, t.Fence = 0, 0
	return nil
}

func (s *Store) addEntries(ctx context.Context, seq int64, entries [][]byte) error {
	for _, entry := range entries {
		if _, err := s.w[entrySQL].ExecContext(ctx, seq, blob(entry)); err != nil {
			return err
		}
	}
	return nil
}

// blob makes nil empty, as the driver takes nil for NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// bytesOrNull makes empty bytes NULL, which takes no room in the row.
func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Claim takes a task that is due, or nil. See [task.Store].
func (s *Store) Claim(ctx context.Context, after string, lease time.Duration) (t *task.Task, err error) {
	defer s.wrap(ctx, "claim a task", &err)
	var due bool
	err = s.r[anyDueSQL].QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&due)
	if err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, now int64) (err error) {
		if _, err := s.w[wakeSQL].ExecContext(ctx, now); err != nil {
			return err
		}
		t, err = scanWhole(s.w[claimSQL].QueryRowContext(ctx, now+ceil(lease), after))
		if errors.Is(err, sql.ErrNoRows) { // another process was quicker
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ceil returns a duration in milliseconds that is not shorter.
func ceil(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Append adds an entry to the journal under a lease. See [task.Store].
func (s *Store) Append(ctx context.Context, id string, fence int64, entry []byte) (err error) {
	defer s.wrap(ctx, "append to the journal of a task", &err)
	return s.write(ctx, func(ctx context.Context, _ int64) error {
		var seq int64
		var attempts int
		err := s.w[leasedSQL].QueryRowContext(ctx, id, fence).Scan(&seq, &attempts)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = s.state(ctx, id, &fence)
		}
		if err != nil {
			return err
		}
		if attempts != 0 {
			if _, err := s.w[recordedSQL].ExecContext(ctx, seq); err != nil {
				return err
			}
		}
		return s.addEntries(ctx, seq, [][]byte{entry})
	})
}

// state reads the version of a task. The error is [task.ErrNotFound] if it does not exist, and
// [task.ErrLeaseLost] if fence is not nil and not the stored one.
func (s *Store) state(ctx context.Context, id string, fence *int64) (version int64, err error) {
	var stored int64
	err = s.w[stateSQL].QueryRowContext(ctx, id).Scan(&version, &stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = task.ErrNotFound
	case err == nil && fence != nil && *fence != stored:
		err = task.ErrLeaseLost
	}
	return version, err
}

// Renew makes a lease end later. See [task.Store].
func (s *Store) Renew(ctx context.Context, id string, fence int64, lease time.Duration) (version int64, err error) {
	defer s.wrap(ctx, "renew the lease on a task", &err)
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w[renewSQL].ExecContext(ctx, now+ceil(lease), id, fence); err != nil {
			return err
		}
		version, err = s.state(ctx, id, &fence)
		return err
	})
	return version, err
}

// Update writes what may change in the row of a task, and entries. See [task.Store].
func (s *Store) Update(ctx context.Context, t *task.Task, u task.Update) (err error) {
	defer s.wrap(ctx, "update a task", &err)
	var updated int64
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		updated = now
		var fence *int64
		if u.Leased {
			fence = &t.Fence
		}
		stmt := s.w[updateKeepSQL]
		args := append(make([]any, 0, 16), string(t.Status), t.Status.Terminal(), t.Message,
			bytesOrNull(t.Pending), bytesOrNull(t.Outcome), t.Round, t.Expires.UnixMilli(), t.Stopped, t.Attempts, now)
		if !u.Keep {
			stmt = s.w[updateDueSQL]
			due, wake := schedule(now, u.Due)
			args = append(args, due, wake)
		}
		var seq int64
		err := stmt.QueryRowContext(ctx, append(args, t.ID, t.Version, fence, string(t.Status))...).Scan(&seq)
		if errors.Is(err, sql.ErrNoRows) {
			var version int64
			version, err = s.state(ctx, t.ID, fence)
			switch {
			case err != nil:
			case version == t.Version:
				err = task.ErrEnded // nothing else forbids the write
			default:
				err = task.ErrConflict
			}
		}
		if err != nil {
			return err
		}
		return s.addEntries(ctx, seq, u.Entries)
	})
	if err != nil {
		return err
	}
	t.Updated = timeAt(updated)
	t.Version++
	return nil
}

// schedule returns the new values of the columns due and wake.
func schedule(now int64, in time.Duration) (due, wake any) {
	switch {
	case in < 0:
		return nil, nil
	case in == 0:
		return now, nil
	default:
		return nil, now + ceil(in)
	}
}

// Purge deletes tasks whose time to live ended long ago. See [task.Store].
func (s *Store) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "purge tasks", &err)
	before := func() int64 { return time.Now().Add(-grace).UnixMilli() }
	var any bool
	if err := s.r[anyPurgeableSQL].QueryRowContext(ctx, before()).Scan(&any); err != nil || !any {
		return 0, err
	}
	err = s.write(ctx, func(on context.Context, _ int64) error {
		purged, err := collect(on, s.w[purgeSQL], column[int64], before(), max(limit, 0))
		for _, seq := range purged {
			if err := ctx.Err(); err != nil { // journals may be large
				return err
			}
			if _, err := s.w[purgeJournalSQL].ExecContext(on, seq); err != nil {
				return err
			}
		}
		n = len(purged)
		return err
	})
	return n, err
}
