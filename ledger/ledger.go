// Package ledger runs a step exactly once for each call, in the author's own database: the record of the step commits
// with what the step writes.
//
//	l, err := ledger.New(ctx, db, ledger.Postgres) // creates its table, unless it is there
//
//	id, err := ledger.Do(ctx, l, call, "book", func(ctx context.Context, tx *sql.Tx) (int, error) {
//		var id int
//		err := tx.QueryRowContext(ctx, `INSERT INTO bookings (room) VALUES ($1) RETURNING id`, in.Room).Scan(&id)
//		return id, err
//	})
//
// A process that dies leaves both or neither. A request that is sent twice at once, or a worker that has lost its
// lease, waits for the transaction of the other, and gets its result. This is so from the call's first requestState or
// task on: a client that sends its very first request again makes another call, and under
// [askback.Options.BareFirstRound] so may every request without a state. Ask before the step, and no two requests have
// one call's first effect.
//
// The package needs a *sql.DB of PostgreSQL or SQLite, and no other module. Effects elsewhere are steps of
// [askback.Do] or [askback.AtMostOnce].
package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askback-mcp/askback"
)

// A Dialect is what a database understands.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite" // a transaction that begins while another writes waits for as long as busy_timeout says
)

// The table of a ledger in each dialect, to be created beside other tables. A row has the public ID
// of a call, which is no secret, the name of a step, its result as JSON, and when it was written in seconds since 1970.
const (
	PostgresDDL = `CREATE TABLE IF NOT EXISTS askback_ledger (
	call text NOT NULL,
	step text NOT NULL,
	result text,
	written bigint NOT NULL DEFAULT extract(epoch FROM now()),
	PRIMARY KEY (call, step)
);
CREATE INDEX IF NOT EXISTS askback_ledger_written ON askback_ledger (written);`

	SQLiteDDL = `CREATE TABLE IF NOT EXISTS askback_ledger (
	call TEXT NOT NULL,
	step TEXT NOT NULL,
	result TEXT,
	written INTEGER NOT NULL DEFAULT (unixepoch()),
	PRIMARY KEY (call, step)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS askback_ledger_written ON askback_ledger (written);`
)

// Ledger is the record of steps in a database. It is safe for concurrent use, and several processes may share the
// table.
type Ledger struct {
	db                    *sql.DB
	begin, read, end, age string
}

// New returns a ledger in db, and creates its table unless it is there. It may be called by several processes at once.
func New(ctx context.Context, db *sql.DB, d Dialect) (*Ledger, error) {
	ddl, mark := PostgresDDL, "$"
	switch d {
	case Postgres:
	case SQLite:
		ddl, mark = SQLiteDDL, "?"
	default:
		return nil, fmt.Errorf("ledger: unknown dialect %q: take ledger.Postgres or ledger.SQLite", d)
	}
	l := &Ledger{db: db,
		begin: `INSERT INTO askback_ledger (call, step) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		read:  `SELECT result FROM askback_ledger WHERE call = $1 AND step = $2`,
		end:   `UPDATE askback_ledger SET result = $3 WHERE call = $1 AND step = $2`,
		age:   `DELETE FROM askback_ledger WHERE written < $1`,
	}
	for _, statement := range []*string{&l.begin, &l.read, &l.end, &l.age} {
		*statement = strings.ReplaceAll(*statement, "$", mark)
	}
	var err error
	for range 3 { // two that create a table at once may meet in the catalog of PostgreSQL
		if _, err = db.ExecContext(ctx, ddl); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("ledger: creating the table: %w", err)
}

// Expire deletes the records of steps that were written longer ago than age, by the clock of this process, and returns
// how many. Call it now and then: a call whose record is gone runs its step again, so that age must be more than a call
// can live. That is Tasks.MaxTTL and the deadlines of its questions, or Limits.CallTTL.
func (l *Ledger) Expire(ctx context.Context, age time.Duration) (int64, error) {
	res, err := l.db.ExecContext(ctx, l.age, time.Now().Add(-age).Unix())
	if err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	return res.RowsAffected()
}

// Do runs step in a transaction, and commits with it that this call has done the step of this name, and its result as
// JSON. Once it has, Do returns the result, in every later round too, and step does not run. It is a step as of
// [askback.Do]: none runs while a question is open, it cannot ask, and each needs its own name.
//
// If step returns an error or panics, or ctx ends, everything is rolled back, and the next run tries again. If the
// answer to the commit is lost, Do looks whether it was made, and otherwise runs step again: step must do nothing but
// write to tx. The transaction has the isolation that is the database's default.
func Do[T any](
	ctx context.Context, l *Ledger, call *askback.Call, name string, step func(context.Context, *sql.Tx) (T, error),
) (T, error) {
	return askback.Do(ctx, call, name, func(ctx context.Context) (result T, err error) {
		encode := func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
			v, err := step(ctx, tx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(v)
		}
		var data []byte
		for range 3 {
			if data, err = l.once(ctx, call.ID(), name, encode); !errors.Is(err, errCommit) || ctx.Err() != nil {
				break
			}
		}
		if err == nil {
			err = json.Unmarshal(data, &result)
		}
		return result, err
	})
}

// errCommit says that the answer to a commit was an error, or lost.
var errCommit = errors.New("the commit may not have been made")

// once returns the recorded result of a step, or runs it in a transaction.
func (l *Ledger) once(
	ctx context.Context, call, name string, step func(context.Context, *sql.Tx) ([]byte, error),
) (result []byte, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer func() { _ = tx.Rollback() }()                 // also when the step panics
	res, err := tx.ExecContext(ctx, l.begin, call, name) // waits for a transaction that has inserted it
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return nil, fmt.Errorf("ledger: %w", err)
	case n == 0:
		var recorded *string
		if err := tx.QueryRowContext(ctx, l.read, call, name).Scan(&recorded); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
		if recorded == nil {
			return nil, fmt.Errorf("ledger: the step %q has no result: its function must not commit", name)
		}
		return []byte(*recorded), nil
	}
	if result, err = step(ctx, tx); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, l.end, call, name, string(result)); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("ledger: %w: %w", errCommit, err)
	}
	return result, nil
}
