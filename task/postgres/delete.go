package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Purge implements [task.Store]. It leaves tasks that will be due later, such as those under a lease.
func (s *Store) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "purge tasks", &err)
	if _, err := s.exec(ctx, clients, s.sql.purgeRemembered); err != nil {
		return 0, err
	}
	if _, err := s.exec(ctx, clients, s.sql.purgeEvents); err != nil {
		return 0, err
	}
	if n, err = s.delete(ctx, limit, s.sql.purgeable, grace); n > 0 {
		_, forgot := s.exec(ctx, clients, s.sql.forgetEvents, task.EventGapsKept)
		err = errors.Join(err, forgot)
	}
	return n, err
}

// Evict implements [task.Store].
func (s *Store) Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "delete ended tasks", &err)
	return s.delete(ctx, limit, s.sql.evictable, lookup(principal), age)
}

// mostFailed bounds the tasks that one call tries to delete in vain.
const mostFailed = 100

// delete deletes up to limit tasks that a query finds and locks. It goes on past those that cannot be deleted, which
// the query skips then, and its error says why not.
func (s *Store) delete(ctx context.Context, limit int, query string, args ...any) (n int, err error) {
	var failed []error
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			n, failed = 0, nil
			for more := true; more && n < limit && len(failed) < mostFailed; {
				rows, _ := tx.Query(ctx, query, append(args, limit-n, len(failed))...)
				ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil || len(ids) == 0 {
					return err
				}
				deleted, errs := s.deleteLocked(ctx, tx, ids)
				n, failed, more = n+deleted, append(failed, errs...), len(errs) > 0
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return n, errors.Join(failed...)
}

// deleteLocked deletes tasks that are locked: together or, if that fails, one by one. A statement does not see what
// came after it began; so it is another one than the one that locked the tasks, and deletes all that was added to their
// journals until then.
func (s *Store) deleteLocked(ctx context.Context, tx pgx.Tx, ids []string) (n int, failed []error) {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.sql.purge, ids)
		return err
	})
	switch {
	case err == nil:
		return len(ids), nil
	case len(ids) == 1 || ctx.Err() != nil:
		return 0, []error{fmt.Errorf("task %s: %w", task.Name(ids[0]), err)}
	}
	for i := range ids {
		one, errs := s.deleteLocked(ctx, tx, ids[i:i+1])
		n, failed = n+one, append(failed, errs...)
	}
	return n, failed
}
