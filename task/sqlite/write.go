package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/askback-mcp/askback/task"
)

const (
	usageSQL  = `SELECT unfinished, kept, bytes FROM usage WHERE principal = ?`
	createSQL = `INSERT INTO task (` + whole + `, due, wake, ended, ttl, lease)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	callSQL  = `INSERT INTO journal (task, n, entry) VALUES (?, 0, ?)`
	entrySQL = `INSERT INTO journal (task, n, entry) SELECT ?1, max(n) + 1, ?2 FROM journal WHERE task = ?1`
	// Number 0 is the call.
	appendSQL = `INSERT INTO journal (task, n, entry) SELECT ?1, ?3 + 1, ?2
		WHERE (SELECT max(n) FROM journal WHERE task = ?1) = ?3`

	// A task is written to only if its attempts or its lease change.
	leasedSQL = `SELECT seq, attempts <> 0 OR lease > 0 AND coalesce(wake, due) < ? + lease * 2 / 3
		FROM task WHERE id = ? AND fence = ? AND nonce = ?`
	recordedSQL  = `UPDATE task SET attempts = 0` + prolongLease + ` WHERE seq = ?1`
	prolongLease = `,
		wake = iif(lease > 0 AND coalesce(wake, due) < ?2 + lease * 2 / 3, ?2 + lease, wake),
		due = iif(lease > 0 AND coalesce(wake, due) < ?2 + lease * 2 / 3, NULL, due)`
	// A parked task has no lease that could end.
	renewSQL = `UPDATE task SET wake = ?1 + ?2, lease = ?2, due = NULL
		WHERE id = ?3 AND fence = ?4 AND nonce = ?5 AND (due IS NOT NULL OR wake IS NOT NULL)`

	// ?1 is the status, ?2 the time, ?3 a time to live, ?4 whether the claim matters.
	updateSQL = `UPDATE task SET status = ?1, updated = ?2, ttl = iif(?3 > ttl AND ?3 > 0, ?3, ttl), ended = ?5,
		message = ?6, pending = ?7,
		outcome = ?8, round = ?9, stopped = ?10, attempts = ?11, version = version + 1,
		expires = max(expires, iif(?3 > 0, ?2 + ?3, expires),
			iif(status = 'input_required' AND ?1 = 'working', ?2 + ttl, expires))`
	// The returned seq is negative if the task has open questions: another column would be another allocation.
	updateWhereSQL = ` WHERE id = ?12 AND version = ?13 AND (NOT ?4 OR fence = ?14 AND nonce = ?15)
		AND (ended = 0 OR status = ?1) AND (NOT ?16 OR expires <= ?2)
		RETURNING iif(EXISTS (SELECT 1 FROM question WHERE question.task = task.seq AND question.status = 'open'),
			-seq, seq) AS seq, fence, expires`
	updateKeepSQL  = updateSQL + updateWhereSQL
	updateRenewSQL = updateSQL + prolongLease + updateWhereSQL
	updateDueSQL   = updateSQL + `, due = ?17, wake = ?18, lease = ?19, fence = fence + ?20,
		nonce = coalesce(nullif(?21, ''), nonce)` + updateWhereSQL

	stateSQL = `SELECT version, fence, nonce, ended FROM task WHERE id = ?`
	ownerSQL = `SELECT unfinished, kept, usage.bytes FROM task JOIN usage USING (principal) WHERE seq = ?`
)

// Create adds a task with its journal. See [task.Store].
func (s *Store) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	added := *t
	if added.Claim, added.Version = (task.Claim{}), 0; lease > 0 {
		added.Claim, added.Attempts = task.Claim{Fence: 1, Nonce: rand.Text()}, t.Attempts+1
	}
	err := s.Insert(ctx, &added, ttl, call, task.Update{Lease: lease, Entries: entries}, quota)
	if err == nil {
		*t = added
	}
	return err
}

// Insert adds a task as its first run leaves it. See [task.Inserter].
func (s *Store) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) (err error) {
	defer s.wrap(ctx, "create a task", &err)
	var created, expires int64
	ttl = max(ttl, cmp.Or(u.TTL, ttl))
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		used, err := usage(s.w[usageSQL].QueryRowContext(ctx, t.Principal))
		if err != nil {
			return err
		}
		size := size(u.Entries) + int64(len(call)+len(t.Pending)+len(t.Outcome))
		if err := quota.Check(used, task.Quota{Unfinished: 1, Kept: 1, Bytes: size}); err != nil {
			return err
		}
		created, expires = now, now+ttl.Milliseconds()
		due, wake := schedule(now, cmp.Or(u.Lease, u.Due))
		result, err := s.w[createSQL].ExecContext(ctx, t.ID, t.Principal, t.Method, t.Target, t.Dialect,
			string(t.Status), t.Message, t.Round, now, now, expires, t.PollInterval.Milliseconds(), t.Stopped, t.Attempts,
			t.Version, t.Fence, t.Events, bytesOrNull(t.Pending), bytesOrNull(t.Outcome), t.Nonce, due, wake,
			t.Status.Terminal(), ttl.Milliseconds(), ceil(max(u.Lease, 0)))
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
		if _, err := s.w.exec(ctx, callSQL, seq, blob(call)); err != nil {
			return err
		}
		if t.Status == task.InputRequired && len(u.Ask) > 0 {
			until, err := s.ask(ctx, seq, t.ID, u.Ask, now)
			if err == nil && until > expires {
				expires, err = s.live(ctx, seq, until)
			}
			if err != nil {
				return err
			}
		}
		return s.addEntries(ctx, seq, u.Entries)
	})
	if err != nil {
		return err
	}
	t.Created, t.Updated, t.Expires = timeAt(created), timeAt(created), timeAt(expires)
	return nil
}

func (s *Store) addEntries(ctx context.Context, seq int64, entries [][]byte) error {
	for _, entry := range entries {
		if _, err := s.w.exec(ctx, entrySQL, seq, blob(entry)); err != nil {
			return err
		}
	}
	return nil
}

// Append adds an entry to the journal under a lease. See [task.Store].
func (s *Store) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) (err error) {
	defer s.wrap(ctx, "append to the journal of a task", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		var seq int64
		var changes bool
		err := s.w[leasedSQL].QueryRowContext(ctx, now, id, claim.Fence, claim.Nonce).Scan(&seq, &changes)
		if errors.Is(err, sql.ErrNoRows) {
			_, _, err = s.state(ctx, id, &claim)
		}
		if err != nil {
			return err
		}
		if changes {
			if _, err := s.w.exec(ctx, recordedSQL, seq, now); err != nil {
				return err
			}
		}
		if added, err := s.w.exec(ctx, appendSQL, seq, blob(entry), there); err != nil || added == 0 {
			return cmp.Or(err, task.ErrConflict)
		}
		return nil
	})
}

// state reads the version of a task, and whether it has ended. The error is [task.ErrNotFound] if it does not exist,
// and [task.ErrLeaseLost] if claim is not nil and not the stored one.
func (s *Store) state(ctx context.Context, id string, claim *task.Claim) (version int64, ended bool, err error) {
	var stored task.Claim
	err = s.w[stateSQL].QueryRowContext(ctx, id).Scan(&version, &stored.Fence, &stored.Nonce, &ended)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = task.ErrNotFound
	case err == nil && claim != nil && *claim != stored:
		err = task.ErrLeaseLost
	}
	return version, ended, err
}

// Renew makes leases end later. See [task.Store].
func (s *Store) Renew(
	ctx context.Context, leases []task.Leased, lease time.Duration,
) (renewed []task.Renewed, err error) {
	defer s.wrap(ctx, "renew the leases on tasks", &err)
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		renewed = make([]task.Renewed, len(leases))
		for i, l := range leases {
			if _, err := s.w.exec(ctx, renewSQL, now, ceil(lease), l.ID, l.Fence, l.Nonce); err != nil {
				return err
			}
			r := &renewed[i]
			r.Version, _, r.Err = s.state(ctx, l.ID, &l.Claim)
			if r.Err != nil && !errors.Is(r.Err, task.ErrLeaseLost) && !errors.Is(r.Err, task.ErrNotFound) {
				return r.Err
			}
		}
		return nil
	})
	return renewed, err
}

// Update writes what may change in the row of a task, and entries. See [task.Store].
func (s *Store) Update(ctx context.Context, t *task.Task, u task.Update) (err error) {
	defer s.wrap(ctx, "update a task", &err)
	var updated, fence, expires int64
	claims, nonce := 0, ""
	asks := u.Leased && t.Status == task.InputRequired
	if u.Lease > 0 {
		claims, nonce = 1, rand.Text()
	}
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		updated = now
		stmt := s.w[updateKeepSQL]
		args := append(make([]any, 0, 21), string(t.Status), now, u.TTL.Milliseconds(), u.Leased, t.Status.Terminal(),
			t.Message, bytesOrNull(t.Pending), bytesOrNull(t.Outcome), t.Round, t.Stopped, t.Attempts+claims, t.ID, t.Version,
			t.Fence, t.Nonce, u.Expired)
		switch {
		case u.Lease > 0 || !u.Keep:
			stmt = s.w[updateDueSQL]
			due, wake := schedule(now, cmp.Or(u.Lease, u.Due))
			args = append(args, due, wake, ceil(u.Lease), claims, nonce)
		case u.Leased:
			stmt = s.w[updateRenewSQL]
		}
		answered, late, err := s.answered(ctx, t.ID, u.Answered, now)
		if err != nil {
			return err
		}
		var seq int64
		err = stmt.QueryRowContext(ctx, args...).Scan(&seq, &fence, &expires)
		if errors.Is(err, sql.ErrNoRows) {
			err = s.refusal(ctx, t, u.Leased)
		}
		if err != nil {
			return err
		}
		open := seq < 0
		seq = max(seq, -seq)
		if err := s.checkQuota(ctx, seq, u); err != nil {
			return err
		}
		if late {
			return task.ErrLate
		}
		if err := s.withdrawAll(ctx, answered, now); err != nil {
			return err
		}
		if asks && (open || len(u.Ask) > 0) {
			until, err := s.ask(ctx, seq, t.ID, u.Ask, now)
			if err == nil && until > expires {
				expires, err = s.live(ctx, seq, until)
			}
			if err != nil {
				return err
			}
		}
		return s.addEntries(ctx, seq, u.Entries)
	})
	if err != nil {
		return err
	}
	t.Updated, t.Expires = timeAt(updated), timeAt(expires)
	t.Version++
	if claims > 0 {
		t.Claim = task.Claim{Fence: fence, Nonce: nonce}
		t.Attempts++
	}
	return nil
}

// refusal returns the error of an update for which no row was fit.
func (s *Store) refusal(ctx context.Context, t *task.Task, leased bool) error {
	var claim *task.Claim
	if leased {
		claim = &t.Claim
	}
	switch version, ended, err := s.state(ctx, t.ID, claim); {
	case err != nil:
		return err
	case version != t.Version:
		return task.ErrConflict
	case ended:
		return task.ErrEnded
	}
	return task.ErrEarly // nothing else forbids the write
}

// checkQuota returns the error that the quota of an update has for its entries.
func (s *Store) checkQuota(ctx context.Context, seq int64, u task.Update) error {
	if u.Quota.Bytes <= 0 || len(u.Entries) == 0 {
		return nil
	}
	used, err := usage(s.w[ownerSQL].QueryRowContext(ctx, seq))
	if err != nil {
		return err
	}
	return u.Quota.Check(used, task.Quota{Bytes: size(u.Entries)})
}
