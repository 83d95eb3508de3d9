package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	// Claim looks before it writes, because there is seldom something to do.
	anyDueSQL = `SELECT EXISTS (SELECT 1 FROM task WHERE due IS NOT NULL) OR EXISTS (SELECT 1 FROM task
		WHERE wake <= ?)`

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
)

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
		if _, err := s.w.exec(ctx, wakeSQL, now); err != nil {
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
