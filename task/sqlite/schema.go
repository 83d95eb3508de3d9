package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// applicationID is in the header of each file of ours: "Askb".
const applicationID = 0x41736b62

// migrations lead from each schema version to the next. One that was released is never
// changed. The version of a file is the number of migrations that it has seen, and a release must know all of them to
// open it. A release that only adds to the file does so in [steps], so that the previous release can still open it.
var migrations = []string{`
-- A task is due since "due", or becomes so at "wake", where a lease or a delay ends, or
-- neither: then it is parked. That these are two columns lets Claim find the next
-- principal in task_due without wading through the tasks that others have leased.
CREATE TABLE task (
	seq       INTEGER PRIMARY KEY,
	id        TEXT    NOT NULL UNIQUE,
	version   INTEGER NOT NULL,
	fence     INTEGER NOT NULL,
	attempts  INTEGER NOT NULL,
	due       INTEGER,
	wake      INTEGER,
	ended     INTEGER NOT NULL, -- whether the status is terminal
	created   INTEGER NOT NULL, -- times are milliseconds since 1970
	updated   INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	poll      INTEGER NOT NULL, -- milliseconds
	round     INTEGER NOT NULL,
	stopped   INTEGER NOT NULL,
	status    TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	dialect   TEXT    NOT NULL,
	method    TEXT    NOT NULL,
	target    TEXT    NOT NULL,
	message   TEXT    NOT NULL,
	-- What may be large is last, so that reading the rest does not touch it.
	pending   BLOB,
	outcome   BLOB
) STRICT;

CREATE INDEX task_list       ON task (principal, dialect, created, id);
CREATE INDEX task_due        ON task (principal, due) WHERE due IS NOT NULL;
CREATE INDEX task_wake       ON task (wake)           WHERE wake IS NOT NULL;
CREATE INDEX task_unfinished ON task (principal)      WHERE ended = 0;
CREATE INDEX task_expiry     ON task (expires)        WHERE ended = 0;
CREATE INDEX task_purge      ON task (expires)        WHERE ended = 1 AND due IS NULL AND wake IS NULL;

-- The call is entry 0; what was added comes after it.
CREATE TABLE journal (
	task  INTEGER NOT NULL, -- task.seq
	n     INTEGER NOT NULL,
	entry BLOB    NOT NULL,
	PRIMARY KEY (task, n)
) STRICT, WITHOUT ROWID;
`, `
-- States that calls go on from, which have nothing to do with tasks.
CREATE TABLE state (
	id      TEXT    NOT NULL PRIMARY KEY,
	call    TEXT    NOT NULL, -- empty if it is not looked up that way
	expires INTEGER NOT NULL, -- milliseconds since 1970
	data    BLOB    NOT NULL
) STRICT;

CREATE INDEX state_call    ON state (call, expires) WHERE call > '';
CREATE INDEX state_expires ON state (expires);
`, `
-- What each principal has. Triggers count it, so that no write can forget to, not even one of an older release.
CREATE TABLE usage (
	principal  TEXT    NOT NULL PRIMARY KEY,
	unfinished INTEGER NOT NULL, -- tasks that have not ended
	kept       INTEGER NOT NULL, -- tasks
	bytes      INTEGER NOT NULL  -- of their calls, journals, questions and outcomes
) STRICT, WITHOUT ROWID;

ALTER TABLE task ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- of the call and the journal

UPDATE task SET bytes = (SELECT coalesce(sum(length(entry)), 0) FROM journal WHERE task = seq);
INSERT INTO usage SELECT principal, sum(ended = 0), count(*),
	sum(bytes + coalesce(length(pending), 0) + coalesce(length(outcome), 0)) FROM task GROUP BY principal;

DROP INDEX task_unfinished;
CREATE INDEX task_evict ON task (principal) WHERE ended = 1 AND due IS NULL AND wake IS NULL;

CREATE TRIGGER journal_added AFTER INSERT ON journal BEGIN
	UPDATE task SET bytes = bytes + length(NEW.entry) WHERE seq = NEW.task;
END;
CREATE TRIGGER task_added AFTER INSERT ON task BEGIN
	INSERT INTO usage VALUES (NEW.principal, NEW.ended = 0, 1,
		NEW.bytes + coalesce(length(NEW.pending), 0) + coalesce(length(NEW.outcome), 0))
	ON CONFLICT (principal) DO UPDATE SET unfinished = unfinished + excluded.unfinished,
		kept = kept + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER task_changed AFTER UPDATE OF ended, bytes, pending, outcome ON task BEGIN
	UPDATE usage SET unfinished = unfinished + (NEW.ended = 0) - (OLD.ended = 0),
		bytes = bytes + NEW.bytes + coalesce(length(NEW.pending), 0) + coalesce(length(NEW.outcome), 0)
			- OLD.bytes - coalesce(length(OLD.pending), 0) - coalesce(length(OLD.outcome), 0)
	WHERE principal = NEW.principal;
END;
CREATE TRIGGER task_deleted AFTER DELETE ON task BEGIN
	UPDATE usage SET unfinished = unfinished - (OLD.ended = 0), kept = kept - 1,
		bytes = bytes - OLD.bytes - coalesce(length(OLD.pending), 0) - coalesce(length(OLD.outcome), 0)
	WHERE principal = OLD.principal;
	DELETE FROM usage WHERE principal = OLD.principal AND kept = 0;
END;
`, `
-- States that were used, where each may be used once.
CREATE TABLE used_state (
	id      TEXT    NOT NULL PRIMARY KEY,
	expires INTEGER NOT NULL -- milliseconds since 1970
) STRICT;

CREATE INDEX used_state_expires ON used_state (expires);
`}

// A step adds to a file that processes of the previous release may have open: their statements and their check of the
// version continue to work. A step takes a moment, however many tasks there are.
type step struct{ name, sql string }

// notes is the table of the steps that a file has seen.
const notes = `CREATE TABLE IF NOT EXISTS migration_step (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID`

var steps = []step{
	{"nonce", `
-- The random part of the last claim, which an older release does not set.
ALTER TABLE task ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
`},
	{"turns", `
-- The targets of a principal take turns.
CREATE INDEX task_turns ON task (principal, target, due) WHERE due IS NOT NULL;
`},
	{"parked until", `
-- The time until which a task is parked, in milliseconds since 1970. An older release leaves it as it is when it
-- changes the task, so that only the status says whether it still holds.
ALTER TABLE task ADD COLUMN parked_until INTEGER;
CREATE INDEX task_parked ON task (parked_until) WHERE status = 'input_required' AND parked_until IS NOT NULL;
`},
}

// prepareSchema makes the file a store of this release, in WAL mode. Several processes may do that at once.
func prepareSchema(ctx context.Context, conn *sql.Conn) error {
	// A file that is not ours is to stay as it is, so look before anything is written.
	done, err := inTransaction(ctx, conn, "BEGIN", func(ctx context.Context, conn *sql.Conn) (bool, error) {
		version, missing, err := readSchema(ctx, conn)
		return version == len(migrations) && len(missing) == 0, err
	})
	if err != nil {
		return err
	}
	if err := useWAL(ctx, conn); err != nil || done {
		return err
	}
	_, err = inTransaction(ctx, conn, "BEGIN IMMEDIATE", func(ctx context.Context, conn *sql.Conn) (int, error) {
		version, missing, err := readSchema(ctx, conn) // another process may have been quicker
		if err != nil {
			return 0, err
		}
		for i, m := range migrations[version:] {
			if _, err := conn.ExecContext(ctx, m); err != nil {
				return 0, fmt.Errorf("migrating it to schema version %d: %w", version+i+1, err)
			}
		}
		if _, err := conn.ExecContext(ctx, notes); err != nil {
			return 0, err
		}
		for _, s := range missing {
			if _, err := conn.ExecContext(ctx, s.sql); err != nil {
				return 0, fmt.Errorf("migrating it, step %q: %w", s.name, err)
			}
			if _, err := conn.ExecContext(ctx, `INSERT INTO migration_step VALUES (?)`, s.name); err != nil {
				return 0, err
			}
		}
		_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID,
			len(migrations)))
		return 0, err
	})
	return err
}

// readSchema returns the schema version of a file, and the steps that it has not seen. It must be in a transaction.
func readSchema(ctx context.Context, conn *sql.Conn) (version int, missing []step, err error) {
	if version, err = readVersion(ctx, conn); err != nil {
		return 0, nil, err
	}
	var noted int
	err = conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'migration_step'`).Scan(&noted)
	if err != nil || noted == 0 {
		return version, steps, err
	}
	for _, s := range steps {
		var seen int
		err := conn.QueryRowContext(ctx, `SELECT count(*) FROM migration_step WHERE name = ?`, s.name).Scan(&seen)
		if err != nil {
			return 0, nil, err
		}
		if seen == 0 {
			missing = append(missing, s)
		}
	}
	return version, missing, nil
}

// readVersion returns the schema version of a file that is a store, and 0 for one that is
// empty. It must be in a transaction, so that what it reads belongs together.
func readVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var application, version, objects int
	for query, to := range map[string]*int{
		"PRAGMA application_id":              &application,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &objects,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(to); err != nil {
			return 0, err
		}
	}
	switch {
	case application == 0 && version == 0 && objects == 0:
		return 0, nil
	case application != applicationID:
		return 0, fmt.Errorf("the file is a database of another application (its application_id is %#x, a store's %#x): "+
			"choose another path",
			uint32(application), applicationID)
	case version > len(migrations):
		return 0, fmt.Errorf("the file has schema version %d, of a newer release; this one knows up to version %d: upgrade "+
			"this program, or restore a backup",
			version, len(migrations))
	}
	return version, nil
}

// useWAL lets readers go on while somebody writes. The mode stays with the file.
func useWAL(ctx context.Context, conn *sql.Conn) error {
	// Where two change the mode at once, SQLite does not wait for its busy_timeout.
	for deadline := time.Now().Add(busyTimeout); ; {
		var mode string
		err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("its journal mode is %q and cannot be changed to WAL: put it on a local disk", mode)
		case !isCode(err, sqlite3.SQLITE_BUSY) || time.Now().After(deadline):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func inTransaction[T any](
	ctx context.Context, conn *sql.Conn, begin string, do func(context.Context, *sql.Conn) (T, error),
) (result T, err error) {
	if _, err = conn.ExecContext(ctx, begin); err == nil {
		if result, err = do(ctx, conn); err == nil {
			_, err = conn.ExecContext(ctx, "COMMIT")
		}
	}
	if err != nil {
		if _, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); e != nil && !isCode(e, sqlite3.SQLITE_ERROR) {
			err = errors.Join(err, e) // other than that there is nothing to roll back
		}
	}
	return result, err
}
