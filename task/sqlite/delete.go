package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	// Purge looks before it writes, because there is seldom something to do.
	anyPurgeableSQL = `SELECT EXISTS (SELECT 1 FROM task WHERE ended = 1 AND due IS NULL AND wake IS NULL
		AND expires <= ?)`

	purgeableSQL = `SELECT seq FROM task WHERE ended = 1 AND due IS NULL AND wake IS NULL AND expires <= ?
		ORDER BY expires, seq LIMIT ? OFFSET ?`
	evictableSQL = `SELECT seq FROM task
		WHERE ended = 1 AND due IS NULL AND wake IS NULL AND principal = ? AND updated < ? ORDER BY seq LIMIT ? OFFSET ?`
	deleteSQL       = `DELETE FROM task WHERE seq = ?`
	purgeJournalSQL = `DELETE FROM journal WHERE task = ?`
)

// Purge deletes tasks whose time to live ended long ago. See [task.Store].
func (s *Store) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "purge tasks", &err)
	if err := errors.Join(s.purgeRemembered(ctx), s.purgeEvents(ctx)); err != nil {
		return 0, err
	}
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
	err = s.write(ctx, func(on context.Context, now int64) error {
		n, failed = 0, nil
		if _, err := s.w.exec(on, forgetEventsSQL, now-task.EventGapsKept.Milliseconds()); err != nil {
			return err
		}
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
	return s.saving(ctx, func() error {
		_, err := s.w.exec(ctx, deleteSQL, seq)
		if err == nil {
			_, err = s.w.exec(ctx, purgeJournalSQL, seq)
		}
		return err
	})
}
