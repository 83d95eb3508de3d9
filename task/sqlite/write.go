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
	// The last parameter is the fence, or NULL if it does not matter.
	updateWhereSQL = ` WHERE id = ? AND version = ? AND fence = coalesce(?, fence) RETURNING seq`
	updateKeepSQL  = updateSQL + updateWhereSQL
	updateDueSQL   = updateSQL + `, due = ?, wake = ?` + updateWhereSQL

	stateSQL = `SELECT version, fence FROM task WHERE id = ?`

	purgeSQL = `DELETE FROM task WHERE seq IN (SELECT seq FROM task
		WHERE ended = 1 AND due IS NULL AND wake IS NULL AND expires <= ? ORDER BY expires LIMIT ?) RETURNING seq`
	purgeJournalSQL = `DELETE FROM journal WHERE task = ?`
)

// writes are the statements of the writer.
type writes struct {
	begin, commit, rollback      *sql.Stmt
	quota, create, call, entry   *sql.Stmt
	wake, claim                  *sql.Stmt
	leased, recorded, renew      *sql.Stmt
	updateKeep, updateDue, state *sql.Stmt
	purge, purgeJournal          *sql.Stmt

	putState, deleteState, purgeStates *sql.Stmt
}

func (s *Store) prepareWrites(ctx context.Context) error {
	w := &s.w
	return s.prepare(ctx, s.conn, map[**sql.Stmt]string{
		&w.begin: "BEGIN IMMEDIATE", &w.commit: "COMMIT", &w.rollback: "ROLLBACK",
		&w.quota: quotaSQL, &w.create: createSQL, &w.call: callSQL, &w.entry: entrySQL,
		&w.wake: wakeSQL, &w.claim: claimSQL,
		&w.leased: leasedSQL, &w.recorded: recordedSQL, &w.renew: renewSQL,
		&w.updateKeep: updateKeepSQL, &w.updateDue: updateDueSQL, &w.state: stateSQL,
		&w.purge: purgeSQL, &w.purgeJournal: purgeJournalSQL,
		&w.putState: putStateSQL, &w.deleteState: deleteStateSQL, &w.purgeStates: purgeStatesSQL,
	})
}

// alone calls do while nobody else in this process writes.
func (s *Store) alone(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.writing <- struct{}{}:
	}
	defer func() { <-s.writing }()
	return do()
}

// write calls do in a transaction that nobody can write beside. What do gives to
// statements is a context that does not end: they wait for nothing, and a transaction
// whose COMMIT is interrupted may or may not have happened.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, now int64) error) error {
	return s.alone(ctx, func() (err error) {
		on := context.WithoutCancel(ctx)
		defer func() {
			if err != nil {
				s.w.rollback.ExecContext(on) // fails if there is nothing to roll back
			}
		}()
		if _, err := s.w.begin.ExecContext(ctx); err != nil {
			return err
		}
		if err := do(on, time.Now().UnixMilli()); err != nil {
			return err
		}
		_, err = s.w.commit.ExecContext(on)
		return err
	})
}

// Create adds a task with its journal. See [task.Store].
func (s *Store) Create(ctx context.Context, t *task.Task, ttl time.Duration, call []byte, entries [][]byte, quota int) error {
	var created, expires int64
	err := s.write(ctx, func(ctx context.Context, now int64) error {
		if quota > 0 {
			var n int
			if err := s.w.quota.QueryRowContext(ctx, t.Principal, quota).Scan(&n); err != nil {
				return err
			}
			if n >= quota {
				return task.ErrQuota
			}
		}
		created, expires = now, now+ttl.Milliseconds()
		result, err := s.w.create.ExecContext(ctx, t.ID, t.Principal, t.Method, t.Target, t.Dialect,
			string(t.Status), t.Message, t.Round, created, created, expires, t.PollInterval.Milliseconds(), t.Stopped, t.Attempts,
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
		if _, err := s.w.call.ExecContext(ctx, seq, blob(call)); err != nil {
			return err
		}
		return s.addEntries(ctx, seq, entries)
	})
	if err != nil {
		return s.failed(ctx, "create a task", err)
	}
	t.Created, t.Updated, t.Expires = timeAt(created), timeAt(created), timeAt(expires)
	t.Version, t.Fence = 0, 0
	return nil
}

func (s *Store) addEntries(ctx context.Context, seq int64, entries [][]byte) error {
	for _, entry := range entries {
		if _, err := s.w.entry.ExecContext(ctx, seq, blob(entry)); err != nil {
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

// bytesOrNull makes what is empty NULL, which takes no room in the row.
func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Claim takes a task that is due, or nil. See [task.Store].
func (s *Store) Claim(ctx context.Context, after string, lease time.Duration) (*task.Task, error) {
	var due bool
	err := s.r.anyDue.QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&due)
	if err != nil {
		return nil, s.failed(ctx, "look for a task to claim", err)
	}
	if !due {
		return nil, nil
	}
	t := new(task.Task)
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.wake.ExecContext(ctx, now); err != nil {
			return err
		}
		err := scan(s.w.claim.QueryRowContext(ctx, now+ceil(lease), after), t, &t.Pending, &t.Outcome)
		if errors.Is(err, sql.ErrNoRows) { // another process was quicker
			t, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, s.failed(ctx, "claim a task", err)
	}
	return t, nil
}

// ceil returns a duration in milliseconds that is not shorter.
func ceil(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Append adds an entry to the journal under a lease. See [task.Store].
func (s *Store) Append(ctx context.Context, id string, fence int64, entry []byte) error {
	err := s.write(ctx, func(ctx context.Context, _ int64) error {
		var seq int64
		var attempts int
		err := s.w.leased.QueryRowContext(ctx, id, fence).Scan(&seq, &attempts)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = s.state(ctx, id, &fence)
		}
		if err != nil {
			return err
		}
		if attempts != 0 {
			if _, err := s.w.recorded.ExecContext(ctx, seq); err != nil {
				return err
			}
		}
		return s.addEntries(ctx, seq, [][]byte{entry})
	})
	if err != nil {
		return s.failed(ctx, "append to the journal of a task", err)
	}
	return nil
}

// state reads the version of a task. The error is that of a task that is not there, or of
// a lease that is lost, if fence is not nil.
func (s *Store) state(ctx context.Context, id string, fence *int64) (version int64, err error) {
	var stored int64
	err = s.w.state.QueryRowContext(ctx, id).Scan(&version, &stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = task.ErrNotFound
	case err == nil && fence != nil && *fence != stored:
		err = task.ErrLeaseLost
	}
	return version, err
}

// Renew lets a lease end later. See [task.Store].
func (s *Store) Renew(ctx context.Context, id string, fence int64, lease time.Duration) (version int64, err error) {
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.renew.ExecContext(ctx, now+ceil(lease), id, fence); err != nil {
			return err
		}
		version, err = s.state(ctx, id, &fence)
		return err
	})
	if err != nil {
		return 0, s.failed(ctx, "renew the lease on a task", err)
	}
	return version, nil
}

// Update writes what may change in the row of a task, and entries. See [task.Store].
func (s *Store) Update(ctx context.Context, t *task.Task, u task.Update) error {
	var updated int64
	err := s.write(ctx, func(ctx context.Context, now int64) error {
		updated = now
		var fence *int64
		if u.Leased {
			fence = &t.Fence
		}
		stmt := s.w.updateKeep
		args := append(make([]any, 0, 15), string(t.Status), t.Status.Terminal(), t.Message,
			bytesOrNull(t.Pending), bytesOrNull(t.Outcome), t.Round, t.Expires.UnixMilli(), t.Stopped, t.Attempts, now)
		if !u.Keep {
			stmt = s.w.updateDue
			due, wake := schedule(now, u.Due)
			args = append(args, due, wake)
		}
		var seq int64
		err := stmt.QueryRowContext(ctx, append(args, t.ID, t.Version, fence)...).Scan(&seq)
		if errors.Is(err, sql.ErrNoRows) {
			if _, err = s.state(ctx, t.ID, fence); err == nil {
				err = task.ErrConflict
			}
		}
		if err != nil {
			return err
		}
		return s.addEntries(ctx, seq, u.Entries)
	})
	if err != nil {
		return s.failed(ctx, "update a task", err)
	}
	t.Updated = timeAt(updated)
	t.Version++
	return nil
}

// schedule returns what the columns due and wake are to be.
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

// Purge deletes tasks that nobody needs any more. See [task.Store].
func (s *Store) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	before := func() int64 { return time.Now().Add(-grace).UnixMilli() }
	var any bool
	if err := s.r.anyPurgeable.QueryRowContext(ctx, before()).Scan(&any); err != nil {
		return 0, s.failed(ctx, "look for tasks to purge", err)
	}
	if !any {
		return 0, nil
	}
	err = s.write(ctx, func(on context.Context, _ int64) error {
		var purged []int64
		err := each(on, s.w.purge, func(rows *sql.Rows) error {
			purged = append(purged, 0)
			return rows.Scan(&purged[len(purged)-1])
		}, before(), max(limit, 0))
		for _, seq := range purged {
			if err == nil {
				err = ctx.Err() // journals may be large
			}
			if err != nil {
				return err
			}
			_, err = s.w.purgeJournal.ExecContext(on, seq)
		}
		n = len(purged)
		return err
	})
	if err != nil {
		return 0, s.failed(ctx, "purge tasks", err)
	}
	return n, nil
}
