package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// oldest is the oldest version of PostgreSQL that the store supports.
const oldest = 13

// A migration brings a schema up to date while other instances work. It uses connections of its own and ends with them.
// A statement that others could wait for takes a moment or gives up.
type migration struct {
	pool   *pgxpool.Pool
	schema string
	steps  []step
}

// Times of a migration.
var (
	// lockWait is how long a step waits for a lock while others queue behind it.
	lockWait = 200 * time.Millisecond
	// quietWait is how long a step waits for a lock that only VACUUM and the like queue for. It is longer than
	// deadlock_timeout, after which an autovacuum yields.
	quietWait = 5 * time.Second
	// again is the pause before a step that got no lock is tried again, or another instance's migration is checked again.
	again = 500 * time.Millisecond
	// patience is how long a step is tried before it fails for want of a lock.
	patience = time.Minute
	// fillAgain is the pause before an instance checks again whether another one fills, or tries a failed fill again.
	fillAgain = 10 * time.Second
)

// fillRows is how many rows a transaction of a fill reads, and locks at most.
const fillRows = 200

// prepare makes the steps that an instance needs before it begins, and reports whether fills are left.
func (m *migration) prepare(ctx context.Context) (left bool, err error) {
	if err := m.checkServer(ctx); err != nil {
		return false, err
	}
	for {
		// As a rule there is nothing to do, and no lock to wait for.
		missing, err := m.missing(ctx)
		if err != nil {
			return false, err
		}
		if slices.IndexFunc(missing, func(s step) bool { return s.fill == nil }) < 0 {
			return len(missing) > 0, nil
		}
		switch done, err := m.alone(ctx, m.expand); {
		case err != nil:
			return false, err
		case !done: // another instance is at it
			if err := wait(ctx, again); err != nil {
				return false, err
			}
		}
	}
}

func (m *migration) checkServer(ctx context.Context) error {
	var server, isolation string
	var number int
	err := m.pool.QueryRow(ctx, `
		SELECT current_setting('server_version'), current_setting('server_version_num')::int,
			current_setting('transaction_isolation')`).Scan(&server, &number, &isolation)
	switch {
	case err != nil:
		return err
	case number/10000 < oldest:
		return fmt.Errorf("the server is PostgreSQL %s, and it must be %d or newer: upgrade it", server, oldest)
	case isolation != "read committed":
		return fmt.Errorf("transactions are %s by default, and must be read committed: "+
			"add default_transaction_isolation=read%%20committed to the URL", isolation)
	}
	return nil
}

// missing returns the steps that have not been made. The error says that a newer release has removed what this one
// needs.
func (m *migration) missing(ctx context.Context) ([]step, error) {
	at, made, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	if at > version {
		return nil, fmt.Errorf("it has version %d, made by a newer Askback, and this one knows no later than %d: "+
			"upgrade this instance", at, version)
	}
	return slices.DeleteFunc(slices.Clone(m.steps), func(s step) bool {
		return s.since > 0 && s.since <= at || slices.Contains(made, s.name)
	}), nil
}

// read returns the version of the schema, 0 if there is none, and the steps that were noted.
func (m *migration) read(ctx context.Context) (at int, made []string, err error) {
	var versions, noted bool
	err = m.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL`,
		m.table("migration"), m.table("migration_step")).Scan(&versions, &noted)
	if err == nil && versions {
		err = m.pool.QueryRow(ctx, m.sql(`SELECT coalesce(max(version), 0) FROM {schema}.migration`)).Scan(&at)
	}
	if err == nil && noted {
		err = m.pool.QueryRow(ctx, m.sql(`SELECT coalesce(array_agg(name), '{}') FROM {schema}.migration_step`)).Scan(&made)
	}
	return at, made, err
}

func (m *migration) sql(sql string) string { return inSchema(sql, m.schema) }

func (m *migration) table(name string) string { return pgx.Identifier{m.schema, name}.Sanitize() }

// alone calls do with a connection unless another instance is doing so, and reports whether it did. The lock belongs to
// a transaction, so it works through a pooler and ends with this process. The transaction has no snapshot, so nothing
// waits for it.
func (m *migration) alone(ctx context.Context, do func(context.Context, *pgx.Conn) error) (done bool, err error) {
	config := m.pool.Config().ConnConfig // a copy
	config.RuntimeParams["application_name"] = "askback migration"
	guard, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer disconnect(ctx, guard)
	// A machine that is gone is noticed soon. The simple protocol leaves no portal open, and so no snapshot.
	results, err := guard.PgConn().Exec(ctx, m.sql(`BEGIN;
		SET LOCAL idle_in_transaction_session_timeout = 0;
		SET LOCAL tcp_keepalives_idle = 5; SET LOCAL tcp_keepalives_interval = 5; SET LOCAL tcp_keepalives_count = 3;
		SELECT pg_try_advisory_xact_lock(hashtextextended({name} || ' steps', 0))`)).ReadAll()
	if err != nil {
		return false, err
	}
	if string(results[len(results)-1].Rows[0][0]) != "t" {
		return false, nil
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer disconnect(ctx, conn)
	return true, do(ctx, conn)
}

func disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	_ = conn.Close(ctx)
}

// expand makes the missing steps except for fills; in a schema that is new, all of them.
func (m *migration) expand(ctx context.Context, conn *pgx.Conn) error {
	at, made, err := m.read(ctx)
	if err != nil {
		return err
	}
	if at == 0 && made == nil {
		return m.create(ctx, conn)
	}
	if _, err := conn.Exec(ctx, m.sql(notes)); err != nil {
		return err
	}
	missing, err := m.missing(ctx)
	if err != nil {
		return err
	}
	for _, s := range missing {
		switch {
		case s.sql != "":
			err = m.change(ctx, conn, s)
		case s.index != "":
			err = m.index(ctx, conn, s)
		}
		if err != nil {
			return fmt.Errorf("migrate it, step %q: %w", s.name, err)
		}
	}
	return nil
}

const (
	// versions is the table that the release before looks at.
	versions = `CREATE TABLE IF NOT EXISTS {schema}.migration (
		version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())`
	notes = `CREATE TABLE IF NOT EXISTS {schema}.migration_step (
		name text PRIMARY KEY, made timestamptz NOT NULL DEFAULT now())`
	note = `INSERT INTO {schema}.migration_step (name) VALUES ($1)`
	// noteVersion tells the release before that the schema is what it knows.
	noteVersion = `INSERT INTO {schema}.migration (version) SELECT generate_series(1, $1) ON CONFLICT (version) DO NOTHING`
)

// create makes the schema with all its steps in one transaction.
func (m *migration) create(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// A role that may not create schemas may not say IF NOT EXISTS either.
		var exists bool
		err := tx.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, pgx.Identifier{m.schema}.Sanitize()).Scan(&exists)
		if err != nil {
			return err
		}
		all := []string{versions, notes}
		if !exists {
			all = slices.Insert(all, 0, `CREATE SCHEMA {schema}`)
		}
		for _, s := range m.steps {
			switch {
			case s.sql != "":
				all = append(all, s.sql)
			case s.index != "":
				all = append(all, `CREATE INDEX `+s.index)
			}
		}
		for _, sql := range all {
			// The simple protocol takes several statements.
			if _, err := conn.PgConn().Exec(ctx, m.sql(sql)).ReadAll(); err != nil {
				return err
			}
		}
		for _, s := range m.steps {
			if _, err := tx.Exec(ctx, m.sql(note), s.name); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, m.sql(noteVersion), version)
		return err
	})
}

// change makes a step whose statements take a moment, but need a lock that stops others even while the step waits for
// it. So it waits for a moment only.
func (m *migration) change(ctx context.Context, conn *pgx.Conn, s step) error {
	return m.untilLocked(ctx, func() error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := m.lockTable(ctx, conn); err != nil {
				return err
			}
			if _, err := conn.PgConn().Exec(ctx, m.sql(s.sql)).ReadAll(); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, m.sql(note), s.name)
			return err
		})
	})
}

// lockTable keeps VACUUM, other migrations and the like off the table of tasks; reads and writes continue. Further
// locks of the transaction wait for lockWait at most.
func (m *migration) lockTable(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.PgConn().Exec(ctx, m.sql(fmt.Sprintf(`
		SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d;
		LOCK TABLE {schema}.task IN SHARE UPDATE EXCLUSIVE MODE;
		SET LOCAL lock_timeout = %d`,
		2*quietWait.Milliseconds(), quietWait.Milliseconds(), lockWait.Milliseconds()))).ReadAll()
	return err
}

// index makes an index while others write. It first drops what a failed attempt has left.
func (m *migration) index(ctx context.Context, conn *pgx.Conn, s step) error {
	valid := func() (valid, exists bool, err error) {
		err = conn.QueryRow(ctx, `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)`,
			m.table(s.indexName())).Scan(&valid)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, false, nil
		}
		return valid, err == nil, err
	}
	if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement { // otherwise the session belongs to a pooler
		if _, err := conn.Exec(ctx, `SET statement_timeout = 0`); err != nil {
			return err
		}
	}
	return m.untilLocked(ctx, func() error {
		ok, exists, err := valid()
		if err != nil {
			return err
		}
		if exists && !ok {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				if err := m.lockTable(ctx, conn); err != nil { // waits for an instance that is still making it
					return err
				}
				if ok, _, err = valid(); err != nil || ok {
					return err
				}
				_, err := tx.Exec(ctx, m.sql(`DROP INDEX IF EXISTS {schema}.`+s.indexName()))
				return err
			})
			if err != nil {
				return err
			}
		}
		if !ok {
			if _, err := conn.Exec(ctx, m.sql(`CREATE INDEX CONCURRENTLY `+s.index)); err != nil {
				return err
			}
		}
		_, err = conn.Exec(ctx, m.sql(note), s.name)
		return err
	})
}

// untilLocked repeats do while it cannot get its locks, until patience is over. In between, the transactions that
// queued behind it continue.
func (m *migration) untilLocked(ctx context.Context, do func() error) error {
	for until := time.Now().Add(patience); ; {
		err := do()
		switch code(err) {
		case "55P03", "40P01": // lock_not_available, deadlock_detected
		default:
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: somebody has kept the table locked for %v%s: end that transaction, and start again",
				err, patience, m.holder(ctx))
		}
		if err := wait(ctx, again); err != nil {
			return fmt.Errorf("somebody keeps the table locked%s: %w", m.holder(ctx), err)
		}
	}
}

// holder names the database process that has held a lock on the table of tasks for the longest time.
func (m *migration) holder(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var pid int
	var application string
	err := m.pool.QueryRow(ctx, `
		SELECT pid, coalesce(application_name, '') FROM pg_locks JOIN pg_stat_activity AS a USING (pid)
		WHERE relation = to_regclass($1) AND granted AND pid <> pg_backend_pid() AND a.datname = current_database()
		ORDER BY xact_start LIMIT 1`, m.table("task")).Scan(&pid, &application)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d of the database, application %q)", pid, application)
}

// finish makes the fills, or waits until another instance has made them. It returns when ctx is done. It tries a failed
// fill again; until then, statements cope with the rows as they are.
func (m *migration) finish(ctx context.Context) {
	for {
		if missing, err := m.missing(ctx); err == nil && len(missing) == 0 {
			return
		}
		if done, err := m.alone(ctx, m.fill); done && err == nil {
			return
		}
		if wait(ctx, fillAgain) != nil {
			return
		}
	}
}

// fill makes the missing fills, and then tells the release before that the schema is what it knows.
func (m *migration) fill(ctx context.Context, conn *pgx.Conn) error {
	missing, err := m.missing(ctx)
	if err != nil {
		return err
	}
	for _, s := range missing {
		if s.fill == nil {
			return fmt.Errorf("step %q is missing", s.name) // a schema that somebody has changed
		}
		for passedOver := true; passedOver; {
			if passedOver, err = m.pass(ctx, conn, s.fill); err != nil {
				return err
			}
		}
		if _, err := conn.Exec(ctx, m.sql(note), s.name); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, m.sql(noteVersion), version)
	return err
}

// pass goes once through all tasks, in the order of their IDs, and rests as long as it works. It reports whether it has
// skipped wrong rows because somebody else had locked them.
func (m *migration) pass(ctx context.Context, conn *pgx.Conn, f *fill) (passedOver bool, err error) {
	for after := ""; ; {
		begun := time.Now()
		last, over, err := m.fillSome(ctx, conn, f, after)
		if err != nil {
			return false, err
		}
		passedOver = passedOver || over
		if last == nil {
			return passedOver, nil
		}
		after = *last
		if err := wait(ctx, max(time.Since(begun), 5*time.Millisecond)); err != nil {
			return false, err
		}
	}
}

// fillSome corrects tasks among the next few after an ID, and returns the last of these, or nil if there are none.
func (m *migration) fillSome(
	ctx context.Context, conn *pgx.Conn, f *fill, after string,
) (last *string, passedOver bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Otherwise the plan for an empty table may still be used when the table is full.
		_, err := conn.PgConn().Exec(ctx, fmt.Sprintf(`
			SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
			SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d`,
			quietWait.Milliseconds(), lockWait.Milliseconds())).ReadAll()
		if err != nil {
			return err
		}
		var wrong, locked []string
		err = tx.QueryRow(ctx, m.sql(`
			WITH t AS MATERIALIZED (SELECT * FROM {schema}.task WHERE id > $1::text ORDER BY id LIMIT $2)
			SELECT (SELECT max(id) FROM t), ARRAY (SELECT id FROM t WHERE `+f.wrong+`)`), after, fillRows).Scan(&last, &wrong)
		if err != nil || len(wrong) == 0 {
			return err
		}
		rows, _ := tx.Query(ctx, m.sql(`
			SELECT id FROM {schema}.task WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`), wrong)
		if locked, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		// A statement sees what was committed when it began, so the correction of the locked rows needs a new statement.
		passedOver = len(locked) < len(wrong)
		_, err = tx.Exec(ctx, m.sql(`UPDATE {schema}.task AS t SET `+f.set+` WHERE id = ANY ($1::text[])`), locked)
		return err
	})
	return last, passedOver, err
}

// wait waits until a time has passed or ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
