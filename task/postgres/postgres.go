// Package postgres keeps tasks in PostgreSQL, for any number of instances that share them. The example of [Open] is an
// instance.
//
// # The database
//
// PostgreSQL 13 or newer, in the isolation level read committed, which is the default. [Open] makes the tables in a
// schema of their own, named askback, if it has no tables; several instances may do so at once. It refuses tables of
// another version, and leaves them as they are. The search_path of the URL names another schema, so that services, or
// tests, can share a database without seeing each other's tasks. A role that may not create a schema needs one that it
// may create tables in.
//
// Tasks change often, so PostgreSQL must be able to clear old rows away: leave autovacuum on, and keep transactions
// in the same database short. While one stays open, each Claim is slower than the one before.
//
// # The URL
//
// It has either form that PostgreSQL knows, postgres://… or "key=value key=value", and takes
// the parameters of pgxpool.
//
// A Store opens at most pool_max_conns connections (by default the number of CPUs, at least 4; one will do), and
// [Store.Watch] one more. Half of the connections, at least one, also serve reads and everything that can be late. The
// others serve only workers, whose writes always come first: renewals of leases, then claims, records and other writes.
// A call that waits for a connection for half of the time that its context has left gets an error.
//
// Through PgBouncer in transaction mode, set default_query_exec_mode=exec, because prepared statements and session
// settings need a session of their own: without it Open returns an error. Watch needs such a session as well, and
// always returns an error behind such a pooler.
//
// # States
//
// The Store also keeps states, as a state.Store, in a table of their own: see
// [Store.PutState]. Writes delete those that have expired. [Store.Guard] makes states single use.
//
// # Text
//
// PostgreSQL stores only valid UTF-8 without zero bytes. Create and Update refuse any other ID,
// Principal, Method, Target, Dialect or Status; in a Message each invalid part becomes U+FFFD.
// An ID may have up to 2 KB, and so may Principal and Dialect together. Of a task that asks, an ID may have up to 1 KB,
// and so may the Equal of a question, each of those that it is for, and each of its Voters.
package postgres

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Open connects to the database with this URL, and creates its tables if they do not exist; see the package comment.
// Errors never show the URL, which may hold a password.
func Open(ctx context.Context, url string) (*Store, error) {
	config, schema, err := parse(url)
	if err != nil {
		return nil, err
	}
	pooled, err := behindPooler(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("task/postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("task/postgres: %w", err)
	}
	if err := prepare(ctx, pool, schema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("task/postgres: prepare the schema %q: %w", schema, err)
	}
	s := &Store{
		pool: pool, connections: newConnections(int(config.MaxConns)), schema: schema, sql: newStatements(schema),
		name: rand.Text(), news: make(chan news, 1024), pooled: pooled,
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	s.running.Go(s.notify)
	return s, nil
}
