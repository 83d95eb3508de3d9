package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/task"
)

// Create implements [task.Store].
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

// Insert implements [task.Inserter].
func (s *Store) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) (err error) {
	defer s.wrap(ctx, "create a task", &err)
	if err := errors.Join(check("ID", t.ID), check("Principal", t.Principal), check("Method", t.Method),
		check("Target", t.Target), check("Dialect", t.Dialect), check("Status", string(t.Status))); err != nil {
		return err
	}
	ttl = max(ttl, cmp.Or(u.TTL, ttl)).Truncate(time.Millisecond)
	lives, bytes := ttl, size(u.Entries)+int64(len(call))
	var due *time.Duration
	if in := cmp.Or(u.Lease, u.Due); in >= 0 {
		due = &in
	}
	w := &write{id: t.ID, sql: s.sql.create}
	var asked []any
	if t.Status == task.InputRequired && len(u.Ask) > 0 {
		if asked, err = askingArguments(t, u.Ask); err != nil {
			return err
		}
		w.sql = s.sql.createAsking
		for _, q := range u.Ask {
			if q.Within > 0 {
				lives = max(lives, q.Within.Truncate(time.Millisecond)+task.AfterDeadline)
			}
		}
	}
	w.args = append([]any{
		t.ID, t.Principal, t.Method, t.Target, t.Dialect,
		string(t.Status), fit(t.Message), optional(t.Pending), optional(t.Outcome), t.Round,
		int64(t.PollInterval), t.Stopped, t.Attempts, ttl,
		call, list(u.Entries), quota.Kept, quota.Unfinished, quota.Bytes, bytes,
		max(u.Lease, 0), t.Fence, t.Nonce, due, lives, t.Version, t.Events,
	}, asked...)
	var created, expires *time.Time
	var used task.Quota
	w.result = func(row pgx.Row) error {
		return row.Scan(&created, &expires, &used.Unfinished, &used.Kept, &used.Bytes)
	}
	if quota != (task.Quota{}) {
		w.lock.principal = &t.Principal
	}
	if err := s.write(ctx, w); err != nil {
		return err
	}
	if created == nil {
		add := task.Quota{Unfinished: 1, Kept: 1, Bytes: bytes + int64(len(t.Pending)+len(t.Outcome))}
		return cmp.Or(quota.Check(used, add), task.ErrExists)
	}
	t.Created, t.Updated, t.Expires = created.UTC(), created.UTC(), expires.UTC()
	if due != nil && *due == 0 {
		s.tell(t.ID, true)
	}
	return nil
}

// Append implements [task.Store].
func (s *Store) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) (err error) {
	defer s.wrap(ctx, "append to a journal", &err)
	var seq int64
	err = s.write(ctx, &write{
		id: id, sql: s.sql.append, args: []any{lookup(id), claim.Fence, entry, there, claim.Nonce},
		result: func(row pgx.Row) error { return row.Scan(&seq) },
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s.refused(ctx, &task.Task{ID: id, Claim: claim}, true, nil, "")
	}
	return err
}

// Renew implements [task.Store]. A row that somebody else has locked at this moment is skipped, with an error for its
// lease.
func (s *Store) Renew(
	ctx context.Context, leases []task.Leased, lease time.Duration,
) (renewed []task.Renewed, err error) {
	defer s.wrap(ctx, "renew leases", &err)
	ids, fences, nonces := make([]*string, len(leases)), make([]int64, len(leases)), make([]string, len(leases))
	for i, l := range leases {
		ids[i], fences[i], nonces[i] = lookup(l.ID), l.Fence, fit(l.Nonce)
	}
	read := func(row pgx.CollectableRow) (r task.Renewed, err error) {
		var version *int64
		var exists, held bool
		err = row.Scan(&version, &exists, &held)
		switch {
		case version != nil:
			r.Version = *version
		case !exists:
			r.Err = task.ErrNotFound
		case !held:
			r.Err = task.ErrLeaseLost
		default:
			r.Err = errors.New("task/postgres: renew a lease: somebody else is writing to the task")
		}
		return r, err
	}
	return collect(ctx, s, renewals, read, s.sql.renew, ids, fences, nonces, lease)
}

// Update implements [task.Store]. A worker that has lost its lease gets [task.ErrLeaseLost]
// rather than [task.ErrConflict].
func (s *Store) Update(ctx context.Context, t *task.Task, u task.Update) (err error) {
	defer s.wrap(ctx, "update a task", &err)
	if err := check("Status", string(t.Status)); err != nil {
		return err
	}
	var leased *int64
	if u.Leased {
		leased = &t.Fence
	}
	var due *time.Duration
	if u.Due >= 0 {
		due = &u.Due
	}
	var ttl *time.Duration
	if u.TTL > 0 {
		ms := u.TTL.Truncate(time.Millisecond)
		ttl = &ms
	}
	args := []any{
		lookup(t.ID), t.Version, leased,
		string(t.Status), fit(t.Message), optional(t.Pending), optional(t.Outcome), t.Round,
		ttl, t.Stopped, t.Attempts,
		u.Keep, due, list(u.Entries), size(u.Entries), nil, 0, "", t.Nonce, u.Expired,
	}
	var nonce string
	if u.Lease > 0 {
		nonce = rand.Text()
		args[15], args[16], args[17] = u.Lease, 1, nonce
	}
	var why string
	var updated, expires *time.Time
	var version, fence *int64
	w := &write{id: t.ID, result: func(row pgx.Row) error { return row.Scan(&updated, &version, &fence, &expires) }}
	kind := updateKind{stopAsking: u.Leased && t.Status == task.InputRequired}
	if asks := kind.stopAsking && len(u.Ask) > 0; asks || len(u.Answered) > 0 {
		var ask []*task.Question
		if asks {
			ask, kind.stopAsking = u.Ask, false
		}
		asked, err := askingArguments(t, ask)
		if err != nil {
			return err
		}
		kind.asking, w.first, args = true, true, append(append(args, asked...), list(storable(u.Answered)))
		w.result = func(row pgx.Row) error { return row.Scan(&why, &updated, &version, &fence, &expires) }
	}
	if u.Quota.Bytes > 0 && size(u.Entries) > 0 {
		// The principal is the stored one: the given task's may be any.
		kind.within, w.lock.owner, args = true, lookup(t.ID), append(args, u.Quota.Bytes)
	}
	w.sql, w.args = s.sql.update[kind], args
	err = s.write(ctx, w)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && version == nil {
		err = s.refused(ctx, t, u.Leased, &u, why)
	}
	if err != nil {
		return err
	}
	t.Updated, t.Version, t.Expires = updated.UTC(), *version, expires.UTC()
	if u.Lease > 0 {
		t.Claim = task.Claim{Fence: *fence, Nonce: nonce}
		t.Attempts++
	}
	s.tell(t.ID, u.Lease <= 0 && !u.Keep && u.Due == 0)
	return nil
}

// refused returns the reason why a write under conditions found no task. The claim matters if the write is leased, and
// the version and the status only for an update. Past claims and versions never come back, so the reason still holds
// although it is read after the write. Why is what the write has said of questions.
func (s *Store) refused(ctx context.Context, t *task.Task, leased bool, u *task.Update, why string) error {
	var stored task.Claim
	var version int64
	var status task.Status
	to := []any{&stored.Fence, &stored.Nonce, &version, (*string)(&status)}
	err := s.queryRow(ctx, workers, to, s.sql.state, lookup(t.ID))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return task.ErrNotFound
	case err != nil:
		return err
	case leased && t.Claim != stored:
		return task.ErrLeaseLost
	case u == nil || version != t.Version:
		return task.ErrConflict
	case status.Terminal() && status != t.Status:
		return task.ErrEnded
	case u.Expired:
		return task.ErrEarly
	case why != "":
		return questionErrors[why]
	}
	return &task.QuotaError{Max: task.Quota{Bytes: u.Quota.Bytes}} // nothing else forbids the write
}
