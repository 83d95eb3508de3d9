package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/journal"
)

// change is a change of a task's row that the database itself has noted. The servers neither know nor can avoid that.
type change struct {
	at   time.Time // of the statement
	who  string    // the process, as it named itself; "" if the database does not know
	task string

	fence, oldFence     int64
	version, oldVersion int64
	status, oldStatus   string
	stopped, oldStopped bool      // ended from outside
	outcome             bool      // whether it changed
	until               time.Time // when it is due, by the store's clock, which is the end of a lease; zero if it is not
}

// entry is an entry of a journal, as the database noted it.
type entry struct {
	at   time.Time
	who  string
	task string
	step string // "" if it is no step
}

// auditPostgres notes every change in a schema of its own, with its time in microseconds.
const auditPostgres = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.change (
	n bigserial PRIMARY KEY, at bigint, who text, task text, fence bigint, old_fence bigint, version bigint, old_version bigint,
	status text, old_status text, stopped boolean, old_stopped boolean, outcome boolean, until bigint);
CREATE TABLE chaos.entry (n bigserial PRIMARY KEY, at bigint, who text, task text, seq bigint);
CREATE FUNCTION chaos.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (extract(epoch FROM statement_timestamp()) * 1000000, current_setting('application_name'), NEW.id, NEW.fence, OLD.fence,
		NEW.version, OLD.version, NEW.status, OLD.status, NEW.stopped, OLD.stopped,
		OLD.outcome IS DISTINCT FROM NEW.outcome, extract(epoch FROM NEW.due) * 1000000);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.created() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (extract(epoch FROM statement_timestamp()) * 1000000, current_setting('application_name'), NEW.id, NEW.fence, 0,
		0, 0, NEW.status, NEW.status, false, false, false, extract(epoch FROM NEW.due) * 1000000);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.entry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.entry (at, who, task, seq)
	VALUES (extract(epoch FROM clock_timestamp()) * 1000000, current_setting('application_name'), NEW.id, NEW.seq);
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_change AFTER UPDATE ON askback.task FOR EACH ROW
	WHEN ((OLD.fence, OLD.version, OLD.due) IS DISTINCT FROM (NEW.fence, NEW.version, NEW.due)) EXECUTE FUNCTION chaos.change();
CREATE TRIGGER chaos_created AFTER INSERT ON askback.task FOR EACH ROW WHEN (NEW.fence > 0) EXECUTE FUNCTION chaos.created();
CREATE TRIGGER chaos_entry AFTER INSERT ON askback.journal FOR EACH ROW EXECUTE FUNCTION chaos.entry();
`

// auditSQLite does the same in the store's file, which does not know one process from another. Its clock counts
// milliseconds: an entry is noted at the end of its own.
const auditSQLite = `
CREATE TABLE chaos_change (
	n INTEGER PRIMARY KEY, at INTEGER, who TEXT, task TEXT, fence INTEGER, old_fence INTEGER, version INTEGER, old_version INTEGER,
	status TEXT, old_status TEXT, stopped INTEGER, old_stopped INTEGER, outcome INTEGER, until INTEGER);
CREATE TABLE chaos_entry (n INTEGER PRIMARY KEY, at INTEGER, who TEXT, task INTEGER, seq INTEGER);
CREATE TRIGGER chaos_change AFTER UPDATE ON task
	WHEN OLD.fence <> NEW.fence OR OLD.version <> NEW.version OR coalesce(OLD.due, OLD.wake) IS NOT coalesce(NEW.due, NEW.wake)
BEGIN
	INSERT INTO chaos_change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, '', NEW.id, NEW.fence, OLD.fence, NEW.version, OLD.version, NEW.status, OLD.status,
		NEW.stopped, OLD.stopped, OLD.outcome IS NOT NEW.outcome, coalesce(NEW.due, NEW.wake) * 1000);
END;
CREATE TRIGGER chaos_created AFTER INSERT ON task WHEN NEW.fence > 0 BEGIN
	INSERT INTO chaos_change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, '', NEW.id, NEW.fence, 0, 0, 0, NEW.status,
		NEW.status, 0, 0, 0, coalesce(NEW.due, NEW.wake) * 1000);
END;
CREATE TRIGGER chaos_entry AFTER INSERT ON journal BEGIN
	INSERT INTO chaos_entry (at, who, task, seq) VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + 999, '', NEW.task, NEW.n);
END;
`

const changeColumns = `at, who, task, fence, old_fence, version, old_version, status, old_status, ` +
	`stopped, old_stopped, outcome, until`

// changes reads all that the database has noted, in the order in which it happened to each task.
func (o observer) changes(ctx context.Context) (changes []change, entries []entry, err error) {
	db, err := sql.Open(o.driver, o.dsn)
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	err = query(ctx, db, o.changesQuery, func(scan func(...any) error) error {
		var c change
		var at int64
		var until sql.NullInt64
		err := scan(&at, &c.who, &c.task, &c.fence, &c.oldFence, &c.version, &c.oldVersion, &c.status, &c.oldStatus,
			&c.stopped, &c.oldStopped, &c.outcome, &until)
		if c.at = time.UnixMicro(at); until.Valid {
			c.until = time.UnixMicro(until.Int64)
		}
		changes = append(changes, c)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = query(ctx, db, o.entriesQuery, func(scan func(...any) error) error {
		var e entry
		var at int64
		var body []byte
		if err := scan(&at, &e.who, &e.task, &body); err != nil {
			return err
		}
		e.at = time.UnixMicro(at)
		decoded, err := journal.DecodeEntry(body)
		if err == nil && decoded.Kind == journal.Step {
			e.step = decoded.Key
		}
		entries = append(entries, e)
		return err
	})
	return changes, entries, err
}

// taken waits until a process has lost a lease to another, but no longer than the limit. It is for PostgreSQL.
func (o observer) taken(ctx context.Context, from string, limit time.Duration) error {
	db, err := sql.Open(o.driver, o.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	const lost = `
		SELECT count(*) FROM chaos.change AS new JOIN chaos.change AS old ON old.task = new.task AND old.fence = new.old_fence
		WHERE old.who = $1 AND old.fence <> old.old_fence AND new.who <> $1 AND new.fence <> new.old_fence
			AND NOT EXISTS (SELECT FROM chaos.change AS ended WHERE ended.task = old.task AND ended.n BETWEEN old.n AND new.n AND ended.status <> 'working')`
	before := -1
	for end := time.Now().Add(limit); time.Now().Before(end); {
		var n int
		if err := db.QueryRowContext(ctx, lost, from).Scan(&n); err != nil {
			return err
		}
		if before < 0 {
			before = n
		}
		if n > before || !sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	return ctx.Err()
}

// holds waits until a process has taken a lease, but no longer than the limit. It is for PostgreSQL.
func (o observer) holds(ctx context.Context, who string, limit time.Duration) error {
	db, err := sql.Open(o.driver, o.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		var holds bool
		err := db.QueryRowContext(ctx,
			`SELECT EXISTS (SELECT FROM chaos.change WHERE who = $1 AND fence <> old_fence)`, who).Scan(&holds)
		if err != nil {
			return err
		}
		if holds || !sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	return ctx.Err()
}

// query calls row for each row of the result.
func query(ctx context.Context, db *sql.DB, statement string, row func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// watch makes the database note all changes from now on. The store's tables must be there.
func (o observer) watch(ctx context.Context) error {
	db, err := sql.Open(o.driver, o.writable)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, o.audit); err != nil {
		return fmt.Errorf("adding triggers to the database: %w", err)
	}
	return nil
}
