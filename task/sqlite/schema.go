package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/askback-mcp/askback/task"
)

// applicationID is in the header of each file of ours: "Askb".
const applicationID = 0x41736b62

// version is in the header of each file, and tells schemas apart. When the schema changes, docs/tasks.md says how.
const version = 2

// schema is what a new file gets. Triggers keep counts, lists and notices, so that no write can forget to.
var schema = `
-- A task is due since "due", or becomes so at "wake", where a lease or a delay ends, or
-- neither: then it is parked. That these are two columns lets Claim find the next
-- principal in task_due without wading through the tasks that others have leased.
CREATE TABLE task (
	seq       INTEGER PRIMARY KEY,
	id        TEXT    NOT NULL UNIQUE,
	version   INTEGER NOT NULL,
	fence     INTEGER NOT NULL,
	nonce     TEXT    NOT NULL DEFAULT '', -- the random part of the last claim
	attempts  INTEGER NOT NULL,
	due       INTEGER,
	wake      INTEGER,
	ended     INTEGER NOT NULL, -- whether the status is terminal
	created   INTEGER NOT NULL, -- times are milliseconds since 1970
	updated   INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	ttl       INTEGER NOT NULL DEFAULT 0, -- milliseconds that it lives on when it continues
	lease     INTEGER NOT NULL DEFAULT 0, -- milliseconds; 0 if it was given back
	poll      INTEGER NOT NULL, -- milliseconds
	round     INTEGER NOT NULL,
	stopped   INTEGER NOT NULL,
	status    TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	dialect   TEXT    NOT NULL,
	method    TEXT    NOT NULL,
	target    TEXT    NOT NULL,
	message   TEXT    NOT NULL,
	bytes     INTEGER NOT NULL DEFAULT 0, -- of the call and the journal
	events    INTEGER NOT NULL DEFAULT 0, -- whether what becomes of it is logged
	-- What may be large is last, so that reading the rest does not touch it.
	pending   BLOB,
	outcome   BLOB
) STRICT;

CREATE INDEX task_list   ON task (principal, dialect, created, id);
CREATE INDEX task_due    ON task (principal, due)         WHERE due IS NOT NULL;
CREATE INDEX task_turns  ON task (principal, target, due) WHERE due IS NOT NULL;
CREATE INDEX task_wake   ON task (wake)                   WHERE wake IS NOT NULL;
CREATE INDEX task_expiry ON task (expires)                WHERE ended = 0;
CREATE INDEX task_purge  ON task (expires)                WHERE ended = 1 AND due IS NULL AND wake IS NULL;
CREATE INDEX task_evict  ON task (principal)              WHERE ended = 1 AND due IS NULL AND wake IS NULL;

-- The call is entry 0; what was added comes after it.
CREATE TABLE journal (
	task  INTEGER NOT NULL, -- task.seq
	n     INTEGER NOT NULL,
	entry BLOB    NOT NULL,
	PRIMARY KEY (task, n)
) STRICT, WITHOUT ROWID;

-- What each principal has.
CREATE TABLE usage (
	principal  TEXT    NOT NULL PRIMARY KEY,
	unfinished INTEGER NOT NULL, -- tasks that have not ended
	kept       INTEGER NOT NULL, -- tasks
	bytes      INTEGER NOT NULL  -- of their calls, journals, questions and outcomes
) STRICT, WITHOUT ROWID;

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

-- States that calls go on from, which have nothing to do with tasks.
CREATE TABLE state (
	id      TEXT    NOT NULL PRIMARY KEY,
	call    TEXT    NOT NULL, -- empty if it is not looked up that way
	expires INTEGER NOT NULL, -- milliseconds since 1970
	data    BLOB    NOT NULL
) STRICT;

CREATE INDEX state_call    ON state (call, expires) WHERE call > '';
CREATE INDEX state_expires ON state (expires);

-- States that were used, where each may be used once.
CREATE TABLE used_state (
	id      TEXT    NOT NULL PRIMARY KEY,
	expires INTEGER NOT NULL -- milliseconds since 1970
) STRICT;

CREATE INDEX used_state_expires ON used_state (expires);

-- Decisions that let later calls pass, whom they concern, and which calls have passed.
CREATE TABLE remembered (
	key       TEXT    NOT NULL PRIMARY KEY,
	who       TEXT    NOT NULL, -- as JSON
	content   BLOB    NOT NULL,
	decided   INTEGER NOT NULL, -- times are milliseconds since 1970
	until     INTEGER NOT NULL,
	uses      INTEGER NOT NULL, -- that are left
	forgotten INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE remembered_who (
	who TEXT NOT NULL,
	key TEXT NOT NULL,
	PRIMARY KEY (key, who)
) STRICT, WITHOUT ROWID;
CREATE TABLE recalled (
	key  TEXT NOT NULL,
	call TEXT NOT NULL,
	PRIMARY KEY (key, call)
) STRICT, WITHOUT ROWID;

CREATE INDEX remembered_until   ON remembered (until);
CREATE INDEX remembered_newest  ON remembered (decided, key);
CREATE INDEX remembered_whose   ON remembered_who (who, key);

CREATE TRIGGER remembered_added AFTER INSERT ON remembered BEGIN
	INSERT INTO remembered_who (who, key) SELECT DISTINCT value, NEW.key FROM json_each(NEW.who);
END;
CREATE TRIGGER remembered_changed AFTER UPDATE OF who ON remembered BEGIN
	DELETE FROM remembered_who WHERE key = OLD.key;
	INSERT INTO remembered_who (who, key) SELECT DISTINCT value, NEW.key FROM json_each(NEW.who);
END;
CREATE TRIGGER remembered_deleted AFTER DELETE ON remembered BEGIN
	DELETE FROM remembered_who WHERE key = OLD.key;
	DELETE FROM recalled WHERE key = OLD.key;
END;

-- What tasks wait for apart from their clients.
CREATE TABLE question (
	seq      INTEGER PRIMARY KEY,
	task     INTEGER NOT NULL, -- task.seq
	key      TEXT    NOT NULL,
	name     TEXT    NOT NULL, -- of the task
	status   TEXT    NOT NULL,
	version  INTEGER NOT NULL,
	asked    INTEGER NOT NULL, -- times are milliseconds since 1970
	changed  INTEGER NOT NULL,
	deadline INTEGER,
	remind   INTEGER,          -- NULL: there is no reminder, or it was written
	expired  INTEGER NOT NULL, -- whether the deadline has decided it
	over     INTEGER NOT NULL DEFAULT 0, -- whether it was withdrawn once, so that it has had that notice
	equal    TEXT    NOT NULL,
	people   TEXT,             -- who may answer, as JSON; NULL: nobody
	voters   TEXT,             -- who has voted, as JSON; NULL: nobody
	content  BLOB,
	notice   BLOB,             -- what its notices tell
	votes    BLOB,
	decision BLOB,
	UNIQUE (task, key)
) STRICT;

CREATE INDEX question_name     ON question (name, asked, key);
CREATE INDEX question_open     ON question (task)     WHERE status = 'open';
CREATE INDEX question_deadline ON question (deadline) WHERE status = 'open' AND deadline IS NOT NULL;
CREATE INDEX question_remind   ON question (remind)   WHERE status = 'open' AND remind IS NOT NULL;
CREATE INDEX question_changes  ON question (changed, name, key) WHERE people IS NOT NULL;

-- A question for people is in lists. An open one is in the list of all, and in those of its target, of equal questions
-- and of each who may answer. A question of any status is in the list of its principal and of each who has voted; there
-- it has no deadline. The first letter keeps their names apart.
CREATE TABLE question_list (
	list      TEXT    NOT NULL,
	question  INTEGER NOT NULL, -- question.seq
	asked     INTEGER NOT NULL,
	deadline  INTEGER,
	id        TEXT    NOT NULL, -- of the task
	key       TEXT    NOT NULL,
	target    TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	PRIMARY KEY (question, list)
) STRICT, WITHOUT ROWID;

CREATE INDEX question_list_asked    ON question_list (list, asked, id, key, target, principal);
CREATE INDEX question_list_deadline ON question_list (list, deadline, id, key, asked, target, principal)
	WHERE deadline IS NOT NULL;

CREATE TRIGGER question_added AFTER INSERT ON question BEGIN` + listQuestion + `END;
CREATE TRIGGER question_changed AFTER UPDATE OF status, deadline, people, voters ON question
WHEN NEW.status <> OLD.status OR NEW.deadline IS NOT OLD.deadline OR NEW.people IS NOT OLD.people
	OR NEW.voters IS NOT OLD.voters BEGIN
	DELETE FROM question_list WHERE question = OLD.seq;` + listQuestion + `END;
CREATE TRIGGER question_deleted AFTER DELETE ON question BEGIN
	DELETE FROM question_list WHERE question = OLD.seq;
END;

-- What somebody who listens is to be told. A row has what it tells, and outlives its question and its task.
--
-- The first one of a task is due since "due", or becomes so at "wake", like a task. The others are neither.
CREATE TABLE notice (
	seq       INTEGER PRIMARY KEY,
	task      TEXT    NOT NULL, -- its id
	key       TEXT    NOT NULL,
	kind      TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	target    TEXT    NOT NULL,
	asked     INTEGER NOT NULL, -- times are milliseconds since 1970
	deadline  INTEGER,
	written   INTEGER NOT NULL,
	due       INTEGER,
	wake      INTEGER,
	attempts  INTEGER NOT NULL DEFAULT 0,
	refused   INTEGER NOT NULL DEFAULT 0, -- whether its principal had as many as it may
	people    TEXT    NOT NULL, -- who may answer, as JSON
	notice    BLOB
) STRICT;

CREATE INDEX notice_due     ON notice (principal, due) WHERE due IS NOT NULL;
CREATE INDEX notice_wake    ON notice (wake)           WHERE wake IS NOT NULL;
CREATE INDEX notice_task    ON notice (task)           WHERE refused = 0;
CREATE INDEX notice_kept    ON notice (principal)      WHERE refused = 0;
CREATE INDEX notice_refused ON notice (principal)      WHERE refused = 1;

-- Until when somebody listens, and how many notices a principal may have: at most one row.
CREATE TABLE listening (
	id        INTEGER PRIMARY KEY CHECK (id = 1),
	until     INTEGER NOT NULL,
	named     INTEGER NOT NULL,
	anonymous INTEGER NOT NULL
) STRICT;

CREATE TRIGGER notice_added AFTER INSERT ON notice BEGIN
	UPDATE notice SET refused = 1, notice = NULL WHERE seq = NEW.seq AND ` + mostNotices + ` < (
		SELECT count(*) FROM (SELECT 1 FROM notice WHERE principal = NEW.principal AND refused = 0
			LIMIT 1 + ` + mostNotices + `));
	DELETE FROM notice WHERE seq = NEW.seq AND refused = 1 AND ` + mostRefused + ` < (
		SELECT count(*) FROM (SELECT 1 FROM notice WHERE principal = NEW.principal AND refused = 1
			LIMIT 1 + ` + mostRefused + `));
	UPDATE notice SET due = written WHERE seq = NEW.seq AND refused = 0
		AND seq = (SELECT min(seq) FROM notice WHERE task = NEW.task AND refused = 0);
END;
CREATE TRIGGER notice_settled AFTER DELETE ON notice WHEN NOT OLD.refused BEGIN
	UPDATE notice SET due = written WHERE due IS NULL AND wake IS NULL
		AND seq = (SELECT min(seq) FROM notice WHERE task = OLD.task AND refused = 0);
END;

CREATE TRIGGER question_asked AFTER INSERT ON question WHEN NEW.people IS NOT NULL BEGIN
	` + leaveNotice + ` SELECT task.id, NEW.key, 'asked', principal, target, NEW.asked, NEW.deadline,
		NEW.changed, NEW.people,
			NEW.notice
		FROM listening, task WHERE until > NEW.changed AND seq = NEW.task;
END;
CREATE TRIGGER question_told AFTER UPDATE OF status ON question
WHEN NEW.status <> OLD.status AND (NEW.status = 'decided' OR NEW.over AND NOT OLD.over) AND NEW.people IS NOT NULL BEGIN
	` + leaveNotice + ` SELECT task.id, NEW.key, CASE NEW.status WHEN 'withdrawn' THEN 'ended'
			ELSE iif(NEW.expired, 'unanswered', 'decided') END, principal, target, NEW.asked, NEW.deadline, NEW.changed,
			NEW.people, NEW.notice
		FROM listening, task WHERE until > NEW.changed AND seq = NEW.task;
END;

-- What a task that has ended asked is withdrawn.
CREATE TRIGGER task_ended AFTER UPDATE OF ended ON task WHEN NEW.ended AND NOT OLD.ended BEGIN
	UPDATE question SET status = 'withdrawn', over = 1, version = version + 1, changed = NEW.updated
	WHERE task = NEW.seq AND status = 'open';
	` + leaveNotice + ` SELECT NEW.id, key, 'ended', NEW.principal, NEW.target, asked, deadline, NEW.updated,
		people, notice
		FROM listening, question WHERE until > NEW.updated AND task = NEW.seq AND people IS NOT NULL AND NOT over
		ORDER BY asked, key;
END;
CREATE TRIGGER task_questions_deleted AFTER DELETE ON task BEGIN
	DELETE FROM question WHERE task = OLD.seq;
END;

-- What becomes of tasks, for each who may read it: the caller, and the people of a question; and what authors emit. No
-- seq is used again, and since one writes at a time they are committed in their order.
CREATE TABLE event (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	task      INTEGER NOT NULL, -- task.seq; 0 if it was emitted
	kind      TEXT    NOT NULL,
	key       TEXT    NOT NULL,
	outcome   TEXT    NOT NULL, -- the status of a task that has ended, or what was emitted
	written   INTEGER NOT NULL, -- milliseconds since 1970
	reader    TEXT    NOT NULL,
	expires   INTEGER,          -- of what was emitted
	UNIQUE (task, kind, key, reader)
) STRICT;

CREATE INDEX event_reader  ON event (reader, seq);
CREATE INDEX event_expires ON event (expires) WHERE expires IS NOT NULL;

-- The last event of each reader that was deleted.
CREATE TABLE deleted_event (
	reader  TEXT    NOT NULL PRIMARY KEY,
	seq     INTEGER NOT NULL,
	written INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX deleted_event_written ON deleted_event (written);

-- Who has subscribed to the events of a principal.
CREATE TABLE subscription (
	id        TEXT    NOT NULL PRIMARY KEY,
	principal TEXT    NOT NULL,
	host      TEXT    NOT NULL,
	expires   INTEGER NOT NULL, -- times are milliseconds since 1970
	due       INTEGER,
	leased    INTEGER NOT NULL,
	version   TEXT    NOT NULL,
	state     BLOB    NOT NULL
) STRICT;

CREATE INDEX subscription_principal ON subscription (principal);
CREATE INDEX subscription_due       ON subscription (due) WHERE due IS NOT NULL;
CREATE INDEX subscription_expires   ON subscription (expires);

CREATE TRIGGER event_subscribed AFTER INSERT ON event BEGIN
	UPDATE subscription SET due = NEW.written
	WHERE principal = substr(NEW.reader, instr(NEW.reader, ':') + 1) AND (due IS NULL OR due > NEW.written);
END;
CREATE TRIGGER event_deleted AFTER DELETE ON event WHEN OLD.reader NOT GLOB 'task:*' BEGIN
	INSERT INTO deleted_event VALUES (OLD.reader, OLD.seq, OLD.written) ON CONFLICT (reader)
		DO UPDATE SET seq = max(seq, excluded.seq), written = max(written, excluded.written);
END;
CREATE TRIGGER task_added_event AFTER INSERT ON task WHEN ` + eventful + ` BEGIN` + logStatus + `END;
CREATE TRIGGER task_changed_event AFTER UPDATE OF status ON task
	WHEN NEW.status <> OLD.status AND ` + eventful + ` BEGIN
` + logStatus + `END;
CREATE TRIGGER question_added_event AFTER INSERT ON question WHEN NEW.people IS NOT NULL BEGIN` + logQuestion + `END;
CREATE TRIGGER question_changed_event AFTER UPDATE OF status, people ON question WHEN NEW.people IS NOT NULL
	AND (NEW.status = 'decided' AND OLD.status <> 'decided' OR NEW.status = 'open' AND NEW.people IS NOT OLD.people) BEGIN
` + logQuestion + `END;
CREATE TRIGGER task_events_deleted AFTER DELETE ON task WHEN OLD.events BEGIN
	DELETE FROM event WHERE task = OLD.seq;
END;
`

// listQuestion is the part of a trigger that adds a question to its lists.
const listQuestion = `
	INSERT INTO question_list (list, question, asked, deadline, id, key, target, principal)
		SELECT DISTINCT list, NEW.seq, NEW.asked, iif(open, NEW.deadline, NULL), id, NEW.key, target, principal
		FROM task, (SELECT '' AS list, 1 AS open
			UNION ALL SELECT '@' || target, 1 FROM task WHERE seq = NEW.task
			UNION ALL SELECT '~' || NEW.equal, 1 WHERE NEW.equal > ''
			UNION ALL SELECT '=' || value, 1 FROM json_each(NEW.people)
			UNION ALL SELECT '!' || principal, 0 FROM task WHERE seq = NEW.task
			UNION ALL SELECT '+' || value, 0 FROM json_each(NEW.voters))
		WHERE seq = NEW.task AND (NEW.status = 'open' OR NOT open) AND NEW.people IS NOT NULL;
`

// Parts of triggers that leave notices.
const (
	leaveNotice = `INSERT INTO notice (task, key, kind, principal, target, asked, deadline, written, people, notice)`
	// mostNotices is how many notices the principal of NEW may have.
	mostNotices = `(SELECT coalesce(nullif(iif(NEW.principal = '', anonymous, named), 0), 1 << 40) FROM listening)`
)

// Parts of triggers that log what becomes of tasks. No event may keep a task from its status.
var (
	logEvent = `INSERT OR IGNORE INTO event (task, kind, key, outcome, written, reader)`
	// eventful says that the task NEW has just got a status that is an event.
	eventful  = `NEW.events AND (NEW.ended OR NEW.status = 'input_required' AND NEW.pending IS NOT NULL)`
	logStatus = `
	` + logEvent + ` SELECT NEW.seq, iif(NEW.ended, 'ended', 'input'), iif(NEW.ended, '', NEW.version),
		iif(NEW.ended, NEW.status, ''), NEW.updated, ` + callerReader("NEW") + `;
`
	logQuestion = `
	` + logEvent + ` SELECT NEW.task, iif(NEW.status = 'open', 'asked', iif(NEW.expired, 'unanswered', 'decided')),
			NEW.key, '', NEW.changed, reader
		FROM task, (SELECT ` + callerReader("task") + ` AS reader FROM task WHERE seq = NEW.task
			UNION ALL SELECT value FROM json_each(NEW.people))
		WHERE seq = NEW.task AND events;
`
)

// callerReader is [task.CallerReader] of the principal of a task.
func callerReader(row string) string {
	return "iif(" + row + ".principal = '', 'task:' || " + row + ".id, 'caller:' || " + row + ".principal)"
}

var mostRefused = strconv.Itoa(task.RefusedKept)

// prepareSchema makes the file a store, in WAL mode. Several processes may do that at once.
func prepareSchema(ctx context.Context, conn *sql.Conn) error {
	// A file that is not ours is to stay as it is, so look before anything is written.
	made, err := inTransaction(ctx, conn, "BEGIN", readVersion)
	if err != nil {
		return err
	}
	if err := useWAL(ctx, conn); err != nil || made {
		return err
	}
	_, err = inTransaction(ctx, conn, "BEGIN IMMEDIATE", func(ctx context.Context, conn *sql.Conn) (bool, error) {
		made, err := readVersion(ctx, conn) // another process may have been quicker
		if err != nil || made {
			return made, err
		}
		_, err = conn.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d",
			applicationID, version))
		return err == nil, err
	})
	return err
}

// readVersion reports whether a file is a store; if not, it is empty. It must be in a transaction, so that what it
// reads belongs together.
func readVersion(ctx context.Context, conn *sql.Conn) (made bool, err error) {
	var application, stored, objects int
	for query, to := range map[string]*int{
		"PRAGMA application_id":              &application,
		"PRAGMA user_version":                &stored,
		"SELECT count(*) FROM sqlite_schema": &objects,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(to); err != nil {
			return false, err
		}
	}
	switch {
	case application == 0 && stored == 0 && objects == 0:
		return false, nil
	case application != applicationID:
		return false, fmt.Errorf("the file is a database of another application (its application_id is %#x, a store's "+
			"%#x): choose another path", uint32(application), applicationID)
	case stored != version:
		return false, fmt.Errorf("the file has schema version %d, and this program knows version %d only: run the Askback "+
			"that made the file, or choose another path", stored, version)
	}
	return true, nil
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
