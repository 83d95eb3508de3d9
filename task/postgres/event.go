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

// eventTables have what becomes of tasks, for callers who look. Triggers write it under the lock of the task.
//
// An event has no position before somebody reads it. A reader who finds such events of a principal numbers them, under
// a lock for the principal that lasts until the numbers are committed. So what a transaction commits late gets its
// number late, and nobody reads beyond a number that is still to come. The numbers of one task's events are in the
// order in which these were written.
const eventTables = `
	CREATE TABLE {schema}.event (
		id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		position  bigint, -- null until somebody reads it
		task      text COLLATE "C" NOT NULL,
		kind      text COLLATE "C" NOT NULL,
		key       text COLLATE "C" NOT NULL,
		outcome   text COLLATE "C" NOT NULL, -- the status of a task that has ended
		principal text COLLATE "C" NOT NULL,
		target    text COLLATE "C" NOT NULL,
		written   timestamptz NOT NULL,
		fresh     boolean NOT NULL DEFAULT true, -- it has still to make subscriptions due
		UNIQUE (task, kind, key)
	);

	CREATE INDEX event_log ON {schema}.event (principal, position) WHERE ` + numberedEvent + `;
	CREATE INDEX event_new ON {schema}.event (principal, id) WHERE ` + newEvent + `;
	CREATE INDEX event_fresh ON {schema}.event (id) WHERE ` + freshEvent + `;
	CREATE SEQUENCE {schema}.event_position;

	-- The last event of each principal that was deleted.
	CREATE TABLE {schema}.deleted_event (
		principal text COLLATE "C" PRIMARY KEY,
		position  bigint NOT NULL,
		written   timestamptz NOT NULL
	);

	CREATE INDEX deleted_event_written ON {schema}.deleted_event (written);

	CREATE FUNCTION {schema}.task_event() RETURNS trigger LANGUAGE plpgsql AS $askback$
	BEGIN
		INSERT INTO {schema}.event (task, kind, key, outcome, principal, target, written)
		SELECT NEW.id, kind, CASE kind WHEN 'input' THEN NEW.version::text ELSE '' END,
			CASE kind WHEN 'input' THEN '' ELSE NEW.status END, NEW.principal, NEW.target, NEW.updated
		FROM (SELECT CASE NEW.status WHEN 'input_required' THEN 'input' ELSE 'ended' END AS kind) AS k
		ON CONFLICT DO NOTHING; -- no event may keep a task from its status
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER task_added_event AFTER INSERT ON {schema}.task FOR EACH ROW
		WHEN (` + eventful + `) EXECUTE FUNCTION {schema}.task_event();
	CREATE TRIGGER task_changed_event AFTER UPDATE OF status ON {schema}.task FOR EACH ROW
		WHEN (NEW.status <> OLD.status AND ` + eventful + `) EXECUTE FUNCTION {schema}.task_event();

	-- A new event was read by nobody: its number is beyond what everybody has read. The rows are locked in one order.
	CREATE FUNCTION {schema}.task_events_deleted() RETURNS trigger LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	BEGIN
		WITH gone AS (
			DELETE FROM {schema}.event WHERE id = ANY (ARRAY (
				SELECT id FROM {schema}.event WHERE task = ANY (ARRAY (SELECT id FROM deleted WHERE events))
				ORDER BY id FOR UPDATE))
			RETURNING principal, coalesce(position, nextval('{schema}.event_position')) AS position, written
		)
		INSERT INTO {schema}.deleted_event AS d
		SELECT principal, max(position), max(written) FROM gone GROUP BY principal ORDER BY principal
		ON CONFLICT (principal) DO UPDATE SET position = greatest(d.position, excluded.position),
			written = greatest(d.written, excluded.written);
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER task_events_deleted AFTER DELETE ON {schema}.task REFERENCING OLD TABLE AS deleted
		FOR EACH STATEMENT EXECUTE FUNCTION {schema}.task_events_deleted();
	`

// Conditions, as in sql.go.
const (
	numberedEvent = `position IS NOT NULL`
	newEvent      = `position IS NULL`
	freshEvent    = `fresh`
	// eventful says that the task NEW has just got a status that is an event.
	eventful = `NEW.events AND (NEW.status IN ('completed', 'failed', 'cancelled')
			OR NEW.status = 'input_required' AND NEW.pending IS NOT NULL)`
)

type eventStatements struct{ events, taskEvents, lockEvents, numberEvents, numberTaskEvents, forgetEvents string }

func newEventStatements(in func(string) string) eventStatements {
	return eventStatements{
		events:     in(ofCaller.read()),
		taskEvents: in(ofTask.read()),

		lockEvents:       in(`SELECT pg_advisory_xact_lock(hashtextextended({name} || ' events ' || $1, 0))`),
		numberEvents:     in(ofCaller.number()),
		numberTaskEvents: in(ofTask.number()),

		forgetEvents: in(`DELETE FROM {schema}.deleted_event WHERE written < statement_timestamp() - $1::interval`),
	}
}

// eventScope is what is read: its condition, the position of an event, and the condition for a new event. What is of a
// task is written so that no index of its principal serves it, who may be anonymous and have very many.
type eventScope struct{ of, position, isNew string }

var (
	ofCaller = eventScope{`principal = $1 AND $2::text IS NULL`, `position`, newEvent}
	ofTask   = eventScope{`task = $2 AND coalesce(principal, '') = $1`, `coalesce(position, 0)`,
		`coalesce(position, 0) = 0`}
)

// read is the query for a page, whose rows have all that is said of the page beside an event of it. It is one
// statement, so that all is of one moment.
func (x eventScope) read() string {
	some := func(which string) string {
		return `LEFT JOIN LATERAL (SELECT position, kind, task, target, key, outcome, written FROM {schema}.event
				WHERE ` + x.of + which + `) AS `
	}
	return `
			SELECT {now}, coalesce((SELECT position FROM {schema}.deleted_event WHERE principal = $1), 0),
				EXISTS (SELECT FROM {schema}.event WHERE ` + x.of + ` AND ` + x.isNew + `), at.*, last.*, e.*
			FROM (SELECT) AS page
			` + some(` AND `+x.position+` = $3::bigint LIMIT 1`) + `at ON true
			` + some(` AND `+x.position+` > 0 ORDER BY principal DESC, `+x.position+` DESC LIMIT 1`) + `last ON true
			` + some(` AND `+x.position+` > $3 AND ($4::text[] IS NULL OR kind = ANY ($4))
				AND ($5::text = '' OR target = $5) ORDER BY principal, `+x.position+` LIMIT $6::bigint`) + `e ON true
			ORDER BY e.position`
}

// number is the statement that numbers new events. It begins when its transaction has the lock. An event that somebody
// deletes at this moment is waited for, so that the next statement sees that it is gone. Rows are locked in the order
// in which those who delete lock them; it is written so that the primary key does not serve it.
func (x eventScope) number() string {
	return `
			WITH new AS MATERIALIZED (
				SELECT id FROM {schema}.event WHERE ` + x.of + ` AND ` + x.isNew + ` ORDER BY id + 0 FOR UPDATE
			), numbered AS MATERIALIZED (SELECT id, nextval('{schema}.event_position') AS position FROM new)
			UPDATE {schema}.event AS e SET position = numbered.position FROM numbered WHERE e.id = numbered.id`
}

// Events implements [task.EventLog]. It writes, too, if somebody looks at an event for the first time.
func (s *Store) Events(ctx context.Context, q task.EventQuery) (page *task.EventPage, err error) {
	defer s.wrap(ctx, "read events", &err)
	list, number := s.sql.events, s.sql.numberEvents
	var of *string
	if q.Task != "" {
		list, number, of = s.sql.taskEvents, s.sql.numberTaskEvents, lookup(q.Task)
	}
	principal := lookup(q.Principal)
	args := []any{principal, of, q.After, storable(q.Kinds), fit(q.Target), max(q.Limit, 0)}
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, list, args...)
		news := false
		if page, news, err = scanEvents(rows); err != nil || !news {
			return err
		}
		var batch pgx.Batch // one transaction
		batch.Queue(s.sql.lockEvents, principal)
		batch.Queue(number, principal, of)
		batch.Queue(list, args...).Query(func(rows pgx.Rows) error {
			page, _, err = scanEvents(rows)
			return err
		})
		return conn.SendBatch(ctx, &batch).Close()
	})
	return page, err
}

// scanEvents reads the rows of [eventScope.read]. News says that there are events without a number.
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
	position                         *int64
	kind, task, target, key, outcome *string
	written                          *time.Time
}

func (r *eventRow) columns() []any {
	return []any{&r.position, &r.kind, &r.task, &r.target, &r.key, &r.outcome, &r.written}
}

func (r *eventRow) event() *task.Event {
	if r.position == nil {
		return nil
	}
	return &task.Event{Position: *r.position, Kind: task.EventKind(*r.kind), Task: *r.task, Target: *r.target, Key: *r.key,
		Status: task.Status(*r.outcome), Written: r.written.UTC()}
}
