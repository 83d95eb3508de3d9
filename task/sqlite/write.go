package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/askback-mcp/askback/task"
)

const (
	beginSQL    = `BEGIN IMMEDIATE`
	commitSQL   = `COMMIT`
	rollbackSQL = `ROLLBACK`

	savepointSQL  = `SAVEPOINT one`
	rollbackToSQL = `ROLLBACK TO one`
	releaseSQL    = `RELEASE one`

	usageSQL  = `SELECT unfinished, kept, bytes FROM usage WHERE principal = ?`
	createSQL = `INSERT INTO task (` + whole + `, due, wake, ended, ttl, lease)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	callSQL  = `INSERT INTO journal (task, n, entry) VALUES (?, 0, ?)`
	entrySQL = `INSERT INTO journal (task, n, entry) SELECT ?1, max(n) + 1, ?2 FROM journal WHERE task = ?1`
	// Number 0 is the call.
	appendSQL = `INSERT INTO journal (task, n, entry) SELECT ?1, ?3 + 1, ?2
		WHERE (SELECT max(n) FROM journal WHERE task = ?1) = ?3`

	// A task whose lease or delay has ended is due since then.
	wakeSQL           = `UPDATE task SET due = wake, wake = NULL WHERE wake <= ?`
	firstPrincipalSQL = `SELECT principal FROM task WHERE due IS NOT NULL ORDER BY principal LIMIT 1`
	nextPrincipalSQL  = `SELECT principal FROM task WHERE due IS NOT NULL AND principal > ? ORDER BY principal LIMIT 1`
	firstTargetSQL    = `SELECT seq, target, due FROM task WHERE due IS NOT NULL AND principal = ?
		ORDER BY target, due LIMIT 1`
	nextTargetSQL = `SELECT seq, target, due FROM task WHERE due IS NOT NULL AND principal = ? AND target > ?
		ORDER BY target, due LIMIT 1`
	claimSQL = `UPDATE task SET due = NULL, wake = ?, lease = ?, fence = fence + 1, nonce = ?, attempts = attempts + 1
		WHERE seq = ?
		RETURNING ` + whole
	claimedJournalSQL = `SELECT entry FROM journal WHERE task = ? ORDER BY n`

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
	updateSQL = `UPDATE task SET status = ?1, updated = ?2, ttl = iif(?3 > ttl AND ?3 > 0, ?3, ttl), ended = ?5, message = ?6, pending = ?7,
		outcome = ?8, round = ?9, stopped = ?10, attempts = ?11, version = version + 1,
		expires = max(expires, iif(?3 > 0, ?2 + ?3, expires), iif(status = 'input_required' AND ?1 = 'working', ?2 + ttl, expires))`
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
	liveSQL  = `UPDATE task SET expires = max(expires, ?) WHERE seq = ? RETURNING expires`
	ownerSQL = `SELECT unfinished, kept, usage.bytes FROM task JOIN usage USING (principal) WHERE seq = ?`

	purgeableSQL = `SELECT seq FROM task WHERE ended = 1 AND due IS NULL AND wake IS NULL AND expires <= ?
		ORDER BY expires, seq LIMIT ? OFFSET ?`
	evictableSQL = `SELECT seq FROM task
		WHERE ended = 1 AND due IS NULL AND wake IS NULL AND principal = ? AND updated < ? ORDER BY seq LIMIT ? OFFSET ?`
	deleteSQL       = `DELETE FROM task WHERE seq = ?`
	purgeJournalSQL = `DELETE FROM journal WHERE task = ?`
)

// writes are the statements of the writer.
var writes = []string{
	beginSQL, commitSQL, rollbackSQL, savepointSQL, rollbackToSQL, releaseSQL, usageSQL, createSQL, callSQL, entrySQL,
	appendSQL, wakeSQL,
	firstPrincipalSQL, nextPrincipalSQL, firstTargetSQL, nextTargetSQL, claimSQL, claimedJournalSQL,
	leasedSQL, recordedSQL, renewSQL, updateKeepSQL, updateRenewSQL, updateDueSQL, stateSQL, liveSQL, ownerSQL,
	purgeableSQL, evictableSQL, deleteSQL, purgeJournalSQL,
	putStateSQL, addStateSQL, swapStateSQL, deleteStateSQL, purgeStatesSQL, useStateSQL, purgeUsedSQL,
	questionSQL, namedSQL, openSQL, addQuestionSQL, reopenSQL, withdrawSQL, changeQuestionSQL, liveOnSQL,
	dueAtOnceSQL,
	listenSQL, remindSQL, remindedSQL, wakeNoticesSQL, firstNotifiedSQL, nextNotifiedSQL, takeNoticeSQL, settleSQL,
	retrySQL, refusedSQL,
}

// A write is what one caller does in a transaction, which it shares with others who write at the same time: so that one
// sync makes them all durable.
type write struct {
	do   func(ctx context.Context, now int64) error
	err  error
	done chan struct{}
}

// write calls do in a transaction, while nobody else writes. What do gives to statements is a context that does not
// end: they wait for nothing, and a transaction whose COMMIT is interrupted may or may not have happened.
//
// The goroutine that gets the connection makes all writes that wait, each within a savepoint, so that one that fails
// leaves the others alone.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, now int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{do: do, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.done: // another has made it
		return w.err
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
		select {
		case <-w.done: // both came at once
			return w.err
		default:
		}
	case <-ctx.Done():
		if s.withdraw(w) {
			return ctx.Err()
		}
		<-w.done
		return w.err
	}
	on := context.WithoutCancel(ctx)
	if _, err := s.w[beginSQL].ExecContext(ctx); err != nil {
		s.w[rollbackSQL].ExecContext(on) // it may have begun, just when ctx ended
		s.withdraw(w)
		return err // the others try for themselves
	}
	s.transact(on)
	return w.err
}

// withdraw takes a write back, unless it was or is being made.
func (s *Store) withdraw(w *write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	return i >= 0
}

// transact makes the writes that wait, in the transaction that has begun.
func (s *Store) transact(ctx context.Context) {
	s.mu.Lock()
	writes := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	broken := errors.New("another write in the same transaction panicked")
	defer func() {
		if broken != nil {
			s.w[rollbackSQL].ExecContext(ctx) // fails if there is nothing to roll back
		}
		for _, w := range writes {
			w.err = cmp.Or(w.err, broken)
			close(w.done)
		}
	}()
	broken = s.makeAll(ctx, writes)
}

// makeAll makes writes and commits them. An error is one of the transaction, of which nothing will be left.
func (s *Store) makeAll(ctx context.Context, writes []*write) (err error) {
	for _, w := range writes {
		if w.err, err = s.within(ctx, w, len(writes) > 1); err != nil {
			return err
		}
	}
	if _, err = s.w[commitSQL].ExecContext(ctx); err != nil {
		return err
	}
	return s.present()
}

// within makes one write. If others share the transaction it takes a savepoint, and an error of the write is not one of
// the transaction.
func (s *Store) within(ctx context.Context, w *write, shared bool) (err, broken error) {
	if !shared {
		err := w.do(ctx, time.Now().UnixMilli())
		return err, err
	}
	if _, err := s.w[savepointSQL].ExecContext(ctx); err != nil {
		return err, err
	}
	if err = w.do(ctx, time.Now().UnixMilli()); err != nil {
		_, broken = s.w[rollbackToSQL].ExecContext(ctx)
	}
	if broken == nil {
		_, broken = s.w[releaseSQL].ExecContext(ctx)
	}
	return err, broken
}

// Create adds a task with its journal. See [task.Store].
func (s *Store) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) (err error) {
	defer s.wrap(ctx, "create a task", &err)
	var created time.Time
	var claim task.Claim
	claims := 0
	if lease > 0 {
		claims, claim = 1, task.Claim{Fence: 1, Nonce: rand.Text()}
	}
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		used, err := usage(s.w[usageSQL].QueryRowContext(ctx, t.Principal))
		if err != nil {
			return err
		}
		size := size(entries) + int64(len(call)+len(t.Pending)+len(t.Outcome))
		if err := quota.Check(used, task.Quota{Unfinished: 1, Kept: 1, Bytes: size}); err != nil {
			return err
		}
		created = timeAt(now)
		due, wake := schedule(now, lease)
		result, err := s.w[createSQL].ExecContext(ctx, t.ID, t.Principal, t.Method, t.Target, t.Dialect,
			string(t.Status), t.Message, t.Round, now, now, now+ttl.Milliseconds(), t.PollInterval.Milliseconds(), t.Stopped,
			t.Attempts+claims,
			claims, bytesOrNull(t.Pending), bytesOrNull(t.Outcome), claim.Nonce, due, wake, t.Status.Terminal(),
			ttl.Milliseconds(), ceil(max(lease, 0)))
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
	t.Version, t.Claim = 0, claim
	t.Attempts += claims
	return nil
}

// usage scans what a principal has.
func usage(row *sql.Row) (used task.Quota, err error) {
	err = row.Scan(&used.Unfinished, &used.Kept, &used.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return used, err
}

func size(entries [][]byte) (n int64) {
	for _, entry := range entries {
		n += int64(len(entry))
	}
	return n
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

// Claim takes tasks that are due. See [task.Store].
func (s *Store) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) (claimed []*task.Claimed, err error) {
	defer s.wrap(ctx, "claim tasks", &err)
	var due bool
	err = s.r[anyDueSQL].QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&due)
	if err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w[wakeSQL].ExecContext(ctx, now); err != nil {
			return err
		}
		principals, targets := make(map[string]int), make(map[[2]string]int)
		for _, l := range load {
			principals[l.Principal] += l.Tasks
			targets[[2]string{l.Principal, l.Target}] += l.Tasks
		}
		for free := limit; free > 0; free-- {
			principal, err := nextPrincipal(ctx, s.w[firstPrincipalSQL], s.w[nextPrincipalSQL], after, principals, free)
			if errors.Is(err, sql.ErrNoRows) { // another process was quicker, or each has its share
				return nil
			}
			if err != nil {
				return err
			}
			seq, err := s.nextDue(ctx, principal, targets)
			if err != nil {
				return err
			}
			t, err := scanWhole(s.w[claimSQL].QueryRowContext(ctx, now+ceil(lease), ceil(lease), rand.Text(), seq))
			if err != nil {
				return err
			}
			journal, err := collect(ctx, s.w[claimedJournalSQL], column[[]byte], seq)
			if err != nil {
				return err
			}
			claimed = append(claimed, &task.Claimed{Task: t, Call: blob(journal[0]), Entries: journal[1:]})
			principals[t.Principal]++
			targets[[2]string{t.Principal, t.Target}]++
			after = t.Principal
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// nextPrincipal finds the principal with something due that has the fewest running, if these are fewer than the free
// places. It probes an index once for each principal with something running, and once for the first without. The
// statements read the first principal, with the arguments args, and the first after another.
func nextPrincipal(
	ctx context.Context, first, next *sql.Stmt, after string, running map[string]int, free int, args ...any,
) (best string, err error) {
	fewest := free
	following := func(principal string) *sql.Row {
		return next.QueryRowContext(ctx, append([]any{principal}, args...)...)
	}
	row, begunAnew := following(after), false
	for {
		var principal string
		err := row.Scan(&principal)
		switch {
		case errors.Is(err, sql.ErrNoRows) && !begunAnew:
			row, begunAnew = first.QueryRowContext(ctx, args...), true
			continue
		case errors.Is(err, sql.ErrNoRows) && fewest < free || err == nil && begunAnew && principal > after && fewest < free:
			return best, nil
		case err == nil && begunAnew && principal > after:
			return "", sql.ErrNoRows
		case err != nil:
			return "", err
		}
		if n := running[principal]; n < fewest {
			best, fewest = principal, n
		}
		if fewest == 0 {
			return best, nil
		}
		row = following(principal)
	}
}

// nextDue finds the task that has been due longest, of the principal's target with the fewest running tasks.
func (s *Store) nextDue(ctx context.Context, principal string, running map[[2]string]int) (seq int64, err error) {
	row := s.w[firstTargetSQL].QueryRowContext(ctx, principal)
	for fewest, longest := 0, int64(0); ; {
		var at, due int64
		var target string
		err := row.Scan(&at, &target, &due)
		if errors.Is(err, sql.ErrNoRows) && seq > 0 {
			return seq, nil
		}
		if err != nil {
			return 0, err
		}
		n := running[[2]string{principal, target}]
		if seq == 0 || cmp.Or(cmp.Compare(n, fewest), cmp.Compare(due, longest), cmp.Compare(at, seq)) < 0 {
			seq, fewest, longest = at, n, due
		}
		row = s.w[nextTargetSQL].QueryRowContext(ctx, principal, target)
	}
}

// ceil returns a duration in milliseconds that is not shorter.
func ceil(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
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
			if _, err := s.w[recordedSQL].ExecContext(ctx, seq, now); err != nil {
				return err
			}
		}
		added, err := s.w[appendSQL].ExecContext(ctx, seq, blob(entry), there)
		if err != nil {
			return err
		}
		if n, err := added.RowsAffected(); err != nil || n == 0 {
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
			if _, err := s.w[renewSQL].ExecContext(ctx, now, ceil(lease), l.ID, l.Fence, l.Nonce); err != nil {
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

// live makes a task live until a time at least, and returns when its time to live ends.
func (s *Store) live(ctx context.Context, seq, until int64) (expires int64, err error) {
	err = s.w[liveSQL].QueryRowContext(ctx, until, seq).Scan(&expires)
	return expires, err
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
	return s.deleteTasks(ctx, limit, func(on context.Context, limit, skip int) ([]int64, error) {
		return collect(on, s.w[purgeableSQL], column[int64], before(), limit, skip)
	})
}

// Evict deletes tasks of a principal that ended long ago. See [task.Store].
func (s *Store) Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "delete ended tasks", &err)
	return s.deleteTasks(ctx, limit, func(on context.Context, limit, skip int) ([]int64, error) {
		return collect(on, s.w[evictableSQL], column[int64], principal, time.Now().Add(-age).UnixMilli(), limit, skip)
	})
}

// mostFailed bounds the tasks that one call tries to delete in vain.
const mostFailed = 100

// deleteTasks deletes up to limit of the tasks that find finds, with their journals, and returns how many. It goes on
// past those that cannot be deleted, which find skips then, and its error says why not.
func (s *Store) deleteTasks(
	ctx context.Context, limit int, find func(on context.Context, limit, skip int) ([]int64, error),
) (n int, err error) {
	var failed []error
	err = s.write(ctx, func(on context.Context, _ int64) error {
		n, failed = 0, nil
		for n < limit && len(failed) < mostFailed {
			found, err := find(on, limit-n, len(failed))
			if err != nil || len(found) == 0 {
				return err
			}
			for _, seq := range found {
				if err := ctx.Err(); err != nil { // journals may be large
					return err
				}
				switch err, broken := s.deleteTask(on, seq); {
				case broken != nil:
					return broken
				case err != nil:
					failed = append(failed, fmt.Errorf("task %d: %w", seq, err))
				default:
					n++
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, errors.Join(failed...)
}

// deleteTask deletes a task and its journal, or nothing. Broken is an error of the transaction.
func (s *Store) deleteTask(ctx context.Context, seq int64) (err, broken error) {
	if _, err := s.w[savepointSQL].ExecContext(ctx); err != nil {
		return err, err
	}
	if _, err = s.w[deleteSQL].ExecContext(ctx, seq); err == nil {
		_, err = s.w[purgeJournalSQL].ExecContext(ctx, seq)
	}
	if err != nil {
		_, broken = s.w[rollbackToSQL].ExecContext(ctx)
	}
	if broken == nil {
		_, broken = s.w[releaseSQL].ExecContext(ctx)
	}
	return err, broken
}
