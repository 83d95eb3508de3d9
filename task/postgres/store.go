package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Store is a [task.Store] and a [task.Watcher]. It is safe for concurrent use.
//
// When the connection or the server is lost, methods return an error until the server is back. The error is a
// *pgconn.ConnectError if no connection could be made, and a *pgconn.PgError if the server sent it, with the code
// 57P01 if it shut down. A write whose connection broke may or may not have been made.
//
// The server's synchronous_commit decides when a write is durable; by default it survives a crash of the server.
type Store struct {
	pool        *pgxpool.Pool
	connections *connections
	group       group
	schema      string
	sql         statements

	name   string    // The name of this Store among those that are open.
	news   chan news // changed tasks, for the other instances
	pooled bool      // a pooler lends sessions for a transaction, so that there are no notifications

	puts, uses atomic.Int64 // how many states were put and used

	closing context.Context
	stop    context.CancelFunc
	running sync.WaitGroup // goroutines and calls of Watch
}

var _ interface {
	task.Store
	task.Inserter
	task.Watcher
	task.Subscriptions
} = (*Store)(nil)

// Close ends each Watch, waits for the calls that are under way, and closes the connections. The error is nil.
func (s *Store) Close() error {
	s.stop()
	s.running.Wait()
	s.pool.Close()
	return nil
}

// wrap adds to an error what was being done. If the server is gone, so are the other
// connections, which would each fail one more call.
func (s *Store) wrap(ctx context.Context, doing string, err *error) {
	if *err == nil {
		return
	}
	if ctx.Err() == nil && lost(*err) {
		s.pool.Reset()
	}
	*err = fmt.Errorf("task/postgres: %s: %w", doing, *err)
}

// collect returns the result of scan for each row of a query.
func collect[T any](
	ctx context.Context, s *Store, l lane, scan pgx.RowToFunc[T], sql string, args ...any,
) (all []T, err error) {
	err = s.on(ctx, l, func(conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, sql, args...)
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// exec runs a statement, and returns how many rows it wrote.
func (s *Store) exec(ctx context.Context, l lane, sql string, args ...any) (rows int64, err error) {
	err = s.on(ctx, l, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// queryRow scans the one row of a query.
func (s *Store) queryRow(ctx context.Context, l lane, to []any, sql string, args ...any) error {
	return s.on(ctx, l, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(to...) })
}

// on calls do with a connection.
func (s *Store) on(ctx context.Context, l lane, do func(conn *pgxpool.Conn) error) error {
	if err := s.connections.take(ctx, l); err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		s.connections.give(l)
		return err
	}
	session := conn.Conn().PgConn()
	defer func() {
		// Released, the connection may be somebody else's already. The pool closes what is not idle.
		idle := !session.IsClosed() && !session.IsBusy() && session.TxStatus() == 'I'
		conn.Release()
		if idle {
			s.connections.give(l)
			return
		}
		// The connection broke, or ctx ended before the answer came. The pool counts it until it is closed. This takes a
		// while if the server is silent, and closing the pool waits for it, too.
		go func() {
			<-session.CleanupDone()
			s.connections.give(l)
		}()
	}()
	return do(conn)
}

// news is a change of a task.
type news struct {
	name string
	due  bool // at once
}
