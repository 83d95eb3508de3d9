package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// eventTables have what becomes of tasks, for each who may read it: the caller, and the people of a question. Triggers
// write it under the lock of the task. They also have what authors emit.
//
// An event has no position before somebody reads it. A query that finds such events of its readers numbers them, under
// locks for all these readers that last until the numbers are committed. So what a transaction commits late gets its
// number late, and nobody reads beyond a number that is still to come. The numbers of one task's events have, for one
// reader, the order in which these were written.
var eventTables = `
	CREATE TABLE {schema}.event (
		id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		position  bigint, -- null until somebody reads it
		task      text COLLATE "C" NOT NULL, -- empty if it was emitted
		kind      text COLLATE "C" NOT NULL,
		key       text COLLATE "C" NOT NULL,
		outcome   text COLLATE "C" NOT NULL, -- the status of a task that has ended, or what was emitted
		principal text COLLATE "C" NOT NULL,
		target    text COLLATE "C" NOT NULL,
		written   timestamptz NOT NULL,
		reader    text COLLATE "C" NOT NULL,
		fresh     boolean NOT NULL DEFAULT true, -- it has still to make subscriptions due
		expires   timestamptz, -- of what was emitted
		UNIQUE (task, kind, key, reader)
	);

	CREATE INDEX event_log ON {schema}.event (reader, position) WHERE ` + numberedEvent + `;
	CREATE INDEX event_new ON {schema}.event (reader, id) WHERE ` + newEvent + `;
	CREATE UNIQUE INDEX event_at ON {schema}.event (position) WHERE ` + placedEvent + `;
	CREATE INDEX event_fresh ON {schema}.event (id) WHERE ` + freshEvent + `;
	CREATE INDEX event_emitted ON {schema}.event (reader, id) WHERE ` + emittedEvent + `;
	CREATE INDEX event_expires ON {schema}.event (expires) WHERE ` + expiringEvent + `;
	CREATE SEQUENCE {schema}.event_position;

	-- The last event of each reader that was deleted.
	CREATE TABLE {schema}.deleted_event (
		reader   text COLLATE "C" PRIMARY KEY,
		position bigint NOT NULL,
		written  timestamptz NOT NULL
	);

	CREATE INDEX deleted_event_written ON {schema}.deleted_event (written);

	CREATE FUNCTION {schema}.task_event() RETURNS trigger LANGUAGE plpgsql AS $askback$
	BEGIN
		INSERT INTO {schema}.event (task, kind, key, outcome, principal, target, written, reader)
		SELECT NEW.id, kind, CASE kind WHEN 'input' THEN NEW.version::text ELSE '' END,
			CASE kind WHEN 'input' THEN '' ELSE NEW.status END, NEW.principal, NEW.target, NEW.updated,
			` + callerReader("NEW") + `
		FROM (SELECT CASE NEW.status WHEN 'input_required' THEN 'input' ELSE 'ended' END AS kind) AS k
		ON CONFLICT DO NOTHING; -- no event may keep a task from its status
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER task_added_event AFTER INSERT ON {schema}.task FOR EACH ROW
		WHEN (` + eventful + `) EXECUTE FUNCTION {schema}.task_event();
	CREATE TRIGGER task_changed_event AFTER UPDATE OF status ON {schema}.task FOR EACH ROW
		WHEN (NEW.status <> OLD.status AND ` + eventful + `) EXECUTE FUNCTION {schema}.task_event();

	-- The rows are locked in one order.
	CREATE FUNCTION {schema}.task_events_deleted() RETURNS trigger LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	BEGIN
		WITH gone AS (
			DELETE FROM {schema}.event WHERE id = ANY (ARRAY (
				SELECT id FROM {schema}.event WHERE task = ANY (ARRAY (SELECT id FROM deleted WHERE events))
				ORDER BY id FOR UPDATE))
			` + goneEvents + `;
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER task_events_deleted AFTER DELETE ON {schema}.task REFERENCING OLD TABLE AS deleted
		FOR EACH STATEMENT EXECUTE FUNCTION {schema}.task_events_deleted();
	`

// Conditions, as in sql.go.
const (
	numberedEvent = `position IS NOT NULL`
	newEvent      = `position IS NULL`
	placedEvent   = `position + 0 > 0`
	emittedEvent  = `kind = 'emitted'`
	expiringEvent = `expires IS NOT NULL`
	// goneEvents ends a statement that deletes events, and begins as what returns them. One that was read by nobody gets
	// a number beyond what everybody has read.
	goneEvents = `RETURNING reader, coalesce(position, nextval('{schema}.event_position')) AS position, written
		)
		INSERT INTO {schema}.deleted_event AS d
		SELECT reader, max(position), max(written) FROM gone WHERE reader NOT LIKE 'task:%' GROUP BY reader ORDER BY reader
		ON CONFLICT (reader) DO UPDATE SET position = greatest(d.position, excluded.position),
			written = greatest(d.written, excluded.written)`
	freshEvent = `fresh`
	// eventful says that the task NEW has just got a status that is an event.
	eventful = `NEW.events AND (NEW.status IN ('completed', 'failed', 'cancelled')
			OR NEW.status = 'input_required' AND NEW.pending IS NOT NULL)`
)

// callerReader is [task.CallerReader] of the principal of a task.
func callerReader(row string) string {
	return "CASE " + row + ".principal WHEN '' THEN 'task:' || " + row + ".id ELSE 'caller:' || " + row + ".principal END"
}

type eventStatements struct {
	events, lockEvents, numberEvents, forgetEvents, emit, trimEvents, purgeEvents string
}

func newEventStatements(in func(string) string) eventStatements {
	return eventStatements{
		// Its rows have all that is said of the page beside an event of it. It is one statement, so that all is of one
		// moment.
		events: in(`
			SELECT {now}, coalesce((SELECT max(position) FROM ` + eachReader + `, LATERAL (
					SELECT position FROM {schema}.deleted_event WHERE reader = by.reader LIMIT 1) AS d), 0),
				EXISTS (SELECT FROM ` + eachReader + `, LATERAL (
					SELECT FROM {schema}.event WHERE event.reader = by.reader AND ` + newEvent + ` LIMIT 1) AS new),
				at.*, last.*, e.*
			FROM (SELECT) AS page
			LEFT JOIN LATERAL (` + eventRows + `position = $2::bigint AND ` + placedEvent + ` LIMIT 1) AS at ON true
			LEFT JOIN LATERAL (SELECT one.* FROM ` + eachReader + `, LATERAL (
				` + eventRows + `event.reader = by.reader AND ` + numberedEvent + `
				ORDER BY event.reader DESC, position DESC LIMIT 1) AS one ORDER BY one.position DESC LIMIT 1) AS last ON true
			LEFT JOIN LATERAL (SELECT one.* FROM ` + eachReader + `, LATERAL (
				` + eventRows + `event.reader = by.reader AND position > $2 AND ($3::text[] IS NULL OR kind = ANY ($3))
					AND ($4::text = '' OR task = $4) AND ($5::text = '' OR target = $5)
				ORDER BY event.reader, position LIMIT $6::bigint) AS one ORDER BY one.position LIMIT $6) AS e ON true
			ORDER BY e.position`),

		// All take theirs in the same order.
		lockEvents: in(`
			SELECT pg_advisory_xact_lock(key) FROM (
				SELECT DISTINCT hashtextextended({name} || ' events ' || reader, 0) AS key
				FROM unnest($1::text[]) AS reader ORDER BY key
			) AS k`),
		// It begins when its transaction has the lock. An event that somebody deletes at this moment is waited for, so that
		// the next statement sees that it is gone. Rows are locked in the order in which those who delete lock them; it is
		// written so that the primary key does not serve it.
		numberEvents: in(`
			WITH new AS MATERIALIZED (
				SELECT id FROM ` + eachReader + `, {schema}.event WHERE event.reader = by.reader AND ` + newEvent + `
				ORDER BY id + 0 FOR UPDATE OF event
			), numbered AS MATERIALIZED (SELECT id, nextval('{schema}.event_position') AS position FROM new)
			UPDATE {schema}.event AS e SET position = numbered.position FROM numbered WHERE e.id = numbered.id`),

		forgetEvents: in(`DELETE FROM {schema}.deleted_event WHERE written < statement_timestamp() - $1::interval`),

		emit: in(`
			INSERT INTO {schema}.event (task, kind, key, outcome, principal, target, written, reader, expires)
			SELECT '', 'emitted', $2::text, $3::text, '', '', {now}, reader, {now} + $4::interval
			FROM unnest($1::text[]) AS reader ORDER BY reader
			ON CONFLICT DO NOTHING`),
		trimEvents: in(`
			WITH gone AS (
				DELETE FROM {schema}.event WHERE id = ANY (ARRAY (
					SELECT id FROM {schema}.event WHERE id = ANY (ARRAY (
						SELECT id FROM ` + eachReader + `, LATERAL (
							SELECT id FROM {schema}.event WHERE event.reader = by.reader AND ` + emittedEvent + `
							ORDER BY event.reader DESC, id DESC LIMIT 100 OFFSET $2::bigint) AS old))
					ORDER BY id FOR UPDATE))
				` + goneEvents),
		// Rows that others have locked are passed over.
		purgeEvents: in(`
			WITH gone AS (
				DELETE FROM {schema}.event WHERE id = ANY (ARRAY (
					SELECT id FROM {schema}.event WHERE expires <= statement_timestamp() AND ` + expiringEvent + `
					ORDER BY expires LIMIT 1000 FOR UPDATE SKIP LOCKED))
				` + goneEvents),
	}
}

const (
	eachReader = `unnest($1::text[]) AS by (reader)`
	eventRows  = `SELECT position, event.reader, kind, task, principal, target, key, outcome, written
				FROM {schema}.event WHERE `
)

// Events implements [task.EventLog]. It writes, too, if somebody looks at an event for the first time.
func (s *Store) Events(ctx context.Context, q task.EventQuery) (page *task.EventPage, err error) {
	defer s.wrap(ctx, "read events", &err)
	readers := list(storable(q.Readers))
	args := []any{readers, q.After, storable(q.Kinds), fit(q.Task), fit(q.Target), max(q.Limit, 0)}
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, s.sql.events, args...)
		news := false
		if page, news, err = scanEvents(rows); err != nil || !news {
			return err
		}
		var batch pgx.Batch // one transaction
		batch.Queue(s.sql.lockEvents, readers)
		batch.Queue(s.sql.numberEvents, readers)
		batch.Queue(s.sql.events, args...).Query(func(rows pgx.Rows) error {
			page, _, err = scanEvents(rows)
			return err
		})
		return conn.SendBatch(ctx, &batch).Close()
	})
	return page, err
}

// Emit implements [task.EventLog].
func (s *Store) Emit(ctx context.Context, e *task.Emission) (err error) {
	defer s.wrap(ctx, "emit an event", &err)
	if err := errors.Join(check("ID", e.ID), check("Payload", e.Payload)); err != nil {
		return err
	}
	for _, reader := range e.Readers {
		if err := check("Readers", reader); err != nil {
			return err
		}
	}
	var batch pgx.Batch // one transaction
	batch.Queue(s.sql.emit, e.Readers, e.ID, e.Payload, e.Keep)
	batch.Queue(s.sql.trimEvents, e.Readers, e.Most)
	return s.on(ctx, clients, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}

// scanEvents reads the rows of the statement events. News says that there are events without a number.
func scanEvents(rows pgx.Rows) (page *task.EventPage, news bool, err error) {
	page = new(task.EventPage)
	var at, last, e eventRow
	to := slices.Concat([]any{&page.Now, &page.Deleted, &news}, at.columns(), last.columns(), e.columns())
	_, err = pgx.ForEachRow(rows, to, func() error {
		page.Now, page.At, page.Last = page.Now.UTC(), at.event(), last.event()
		if next := e.event(); next != nil {
			page.Events = append(page.Events, next)
		}
		return nil
	})
	if err == nil && page.Now.IsZero() {
		err = errors.New("the server returned no row")
	}
	return page, news, err
}

// eventRow is a row of the log, or no row.
type eventRow struct {
	position                                            *int64
	reader, kind, task, principal, target, key, outcome *string
	written                                             *time.Time
}

func (r *eventRow) columns() []any {
	return []any{&r.position, &r.reader, &r.kind, &r.task, &r.principal, &r.target, &r.key, &r.outcome, &r.written}
}

func (r *eventRow) event() *task.Event {
	if r.position == nil {
		return nil
	}
	e := &task.Event{Position: *r.position, Reader: *r.reader, Kind: task.EventKind(*r.kind), Task: *r.task,
		Principal: *r.principal, Target: *r.target, Key: *r.key, Status: task.Status(*r.outcome), Written: r.written.UTC()}
	if e.Kind == task.EventEmitted {
		e.Payload, e.Status = *r.outcome, ""
	}
	return e
}
