package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// oldest is the oldest version of PostgreSQL that the store supports.
const oldest = 13

// version is in the schema's table of that name, and tells schemas apart. When the schema changes, docs/tasks.md says
// how.
const version = 2

// tables is what a new schema gets.
//
// Text is compared by its bytes, so that an order never changes. Rows of tasks keep room
// in their page, so that an entry of the journal, which changes no index, moves none.
//
// For each statement there is one index that can serve it and no other, by conditions
// that they share: while a table is small any would do, and the choice is kept.
var tables = `
	CREATE TABLE {schema}.version (
		one     boolean PRIMARY KEY CHECK (one),
		version int NOT NULL
	);
	` + taskTables + stateTables + questionTables + rememberedTables + eventTables +
	subscriptionTables

const taskTables = `
	CREATE TABLE {schema}.task (
		id            text COLLATE "C" PRIMARY KEY,
		principal     text COLLATE "C" NOT NULL,
		method        text COLLATE "C" NOT NULL,
		target        text COLLATE "C" NOT NULL,
		dialect       text COLLATE "C" NOT NULL,
		status        text COLLATE "C" NOT NULL,
		message       text COLLATE "C" NOT NULL,
		pending       bytea,
		outcome       bytea,
		round         bigint NOT NULL,
		created       timestamptz NOT NULL,
		updated       timestamptz NOT NULL,
		expires       timestamptz NOT NULL,
		ttl           interval NOT NULL DEFAULT '0', -- how long it lives on when it continues
		lease         interval NOT NULL DEFAULT '0', -- zero if it was given back
		due           timestamptz,              -- when it may be claimed; null is not at all
		poll_interval bigint NOT NULL,          -- nanoseconds
		stopped       boolean NOT NULL,
		attempts      bigint NOT NULL,
		version       bigint NOT NULL,
		fence         bigint NOT NULL,
		nonce         text COLLATE "C" NOT NULL DEFAULT '', -- the random part of the last claim
		entries       bigint NOT NULL,          -- how many the journal has
		bytes         bigint NOT NULL,          -- of the call and the journal; no index has them
		asks          smallint NOT NULL DEFAULT 0, -- 0: it never had a question; 1: none is open; 2: some may be
		events        boolean NOT NULL DEFAULT false -- whether what becomes of it is logged
	) WITH (fillfactor = 80);

	CREATE INDEX task_due ON {schema}.task (principal, due) WHERE due IS NOT NULL;
	CREATE INDEX task_turns ON {schema}.task (principal, target, due) WHERE ` + inTurn + `;
	CREATE INDEX task_list ON {schema}.task (principal, dialect, created, id) WHERE ` + listed + `;
	CREATE INDEX task_expired ON {schema}.task (expires) WHERE ` + expirable + `;
	CREATE INDEX task_purgeable ON {schema}.task (expires) WHERE ` + purgeable + `;
	CREATE INDEX task_kept ON {schema}.task (principal) WHERE ` + kept + `;
	CREATE INDEX task_evictable ON {schema}.task (principal, created) WHERE ` + evictable + `;

	CREATE TABLE {schema}.journal (
		id   text COLLATE "C" NOT NULL, -- of the task
		seq  bigint NOT NULL,           -- 0 is the call, then come the entries
		body bytea NOT NULL,
		PRIMARY KEY (id, seq)
	);
	`

const stateTables = `
	-- States that calls go on from, which have nothing to do with tasks.
	CREATE TABLE {schema}.state (
		id      text COLLATE "C" PRIMARY KEY,
		call    text COLLATE "C" NOT NULL, -- empty if it is not looked up that way
		expires timestamptz NOT NULL,
		data    bytea NOT NULL
	);

	CREATE INDEX state_call ON {schema}.state (call, expires) WHERE ` + calledState + `;
	CREATE INDEX state_expires ON {schema}.state (expires);

	-- States that were used, where each may be used once.
	CREATE TABLE {schema}.used_state (
		id      text COLLATE "C" PRIMARY KEY,
		expires timestamptz NOT NULL
	);

	CREATE INDEX used_state_expires ON {schema}.used_state (expires);
	`

// Questions are rows of their own. Every change of a question's status is made under the lock of its task's row, which
// is taken first: by an update of the task, by the end of a task, by its deletion, and by a decision. So a task that
// parks either sees the decision or is woken by it, and no two transactions wait for each other. A vote takes the lock
// of the question only, and waits for nothing while it has it.
//
// Triggers keep what follows from a status: the lists in which questions are looked up, and what becomes of questions
// when a task ends or is deleted. Tasks that never had a question are told apart by a column of their own row, and cost
// nothing. A function keeps its plans, like a session.
var questionTables = `
	CREATE TABLE {schema}.question (
		task      text COLLATE "C" NOT NULL,
		key       text COLLATE "C" NOT NULL,
		name      text COLLATE "C" NOT NULL, -- of the task
		principal text COLLATE "C" NOT NULL,
		target    text COLLATE "C" NOT NULL,
		equal     text COLLATE "C" NOT NULL,
		who       text[] NOT NULL,
		content   bytea NOT NULL,
		notice    bytea, -- what its notices tell
		asked     timestamptz NOT NULL,
		deadline  timestamptz,
		remind    timestamptz,
		status    text COLLATE "C" NOT NULL,
		expired   boolean NOT NULL, -- it was decided by its deadline
		over      boolean NOT NULL DEFAULT false, -- it was withdrawn once, so it has had that notice
		votes     bytea,
		voters    text[] NOT NULL DEFAULT '{}',
		decision  bytea,
		version   bigint NOT NULL,
		changed   timestamptz NOT NULL,
		PRIMARY KEY (task, key)
	) WITH (fillfactor = 80);

	` + noticeTables + `
	CREATE INDEX question_name ON {schema}.question (name, asked, key) WHERE ` + askedQuestion + `;
	CREATE INDEX question_open ON {schema}.question (task) WHERE ` + openQuestion + `;
	CREATE INDEX question_overdue ON {schema}.question (deadline) WHERE ` + overdueQuestion + `;
	CREATE INDEX question_remind ON {schema}.question (remind) WHERE ` + reminded + `;
	CREATE INDEX question_changes ON {schema}.question (changed, name, key) WHERE ` + changedQuestion + `;

	CREATE FUNCTION {schema}.question_stamp() RETURNS trigger LANGUAGE plpgsql AS $askback$
	BEGIN
		NEW.changed := date_trunc('milliseconds', clock_timestamp());
		RETURN NEW;
	END $askback$;
	CREATE TRIGGER question_added_at BEFORE INSERT ON {schema}.question FOR EACH ROW
		EXECUTE FUNCTION {schema}.question_stamp();
	CREATE TRIGGER question_changed_at BEFORE UPDATE OF version ON {schema}.question FOR EACH ROW
		EXECUTE FUNCTION {schema}.question_stamp();

	-- An open question is in the list of all, of each that it is for, and of those that are equal; one of any status is in
	-- the list of its principal and of each who has voted.
	CREATE TABLE {schema}.question_list (
		list      text COLLATE "C" NOT NULL,
		task      text COLLATE "C" NOT NULL,
		key       text COLLATE "C" NOT NULL,
		target    text COLLATE "C" NOT NULL,
		principal text COLLATE "C" NOT NULL,
		asked     timestamptz NOT NULL,
		deadline  timestamptz, -- of an open question
		PRIMARY KEY (task, key, list)
	);

	CREATE INDEX question_list_asked ON {schema}.question_list (list, asked, task, key) WHERE ` + listedAsked + `;
	CREATE INDEX question_list_deadline ON {schema}.question_list (list, deadline, task, key) WHERE ` + listedDeadline + `;

	CREATE FUNCTION {schema}.question_lists() RETURNS trigger LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	DECLARE
		news text;
	BEGIN
		IF TG_OP <> 'INSERT' THEN
			DELETE FROM {schema}.question_list WHERE task = OLD.task AND key = OLD.key;
		END IF;
		IF TG_OP <> 'DELETE' THEN
			-- The principal, which may be long, is hashed: see ofPrincipal.
			INSERT INTO {schema}.question_list (list, task, key, target, principal, asked, deadline)
			SELECT l.list, NEW.task, NEW.key, NEW.target, NEW.principal, NEW.asked, l.deadline FROM (
				SELECT list, NEW.deadline FROM (
					SELECT '' UNION SELECT 'for ' || who FROM unnest(NEW.who) AS who
					UNION SELECT 'equal ' || NEW.equal WHERE NEW.equal <> ''
				) AS o (list) WHERE NEW.status = 'open'
				UNION SELECT 'of ' || encode(sha256(convert_to(NEW.principal, 'UTF8')), 'hex'), NULL
				UNION SELECT 'by ' || voter, NULL FROM unnest(NEW.voters) AS voter
			) AS l (list, deadline) WHERE NEW.who <> '{}';
			news := CASE
				WHEN TG_OP = 'INSERT' THEN 'asked'
				WHEN OLD.status = NEW.status THEN NULL
				WHEN NEW.status = 'withdrawn' AND NOT OLD.over THEN 'ended'
				WHEN NEW.status <> 'decided' THEN NULL
				WHEN NEW.expired THEN 'unanswered'
				ELSE 'decided' END;
			IF news IS NOT NULL AND NEW.who <> '{}' THEN
				PERFORM {schema}.leave_notice(NEW, news);
			END IF;
			IF news IS NULL AND NEW.status = 'open' AND OLD.who <> NEW.who THEN
				news := 'asked'; -- of those who are new
			END IF;
			IF news <> 'ended' AND NEW.who <> '{}' THEN
				INSERT INTO {schema}.event (task, kind, key, outcome, principal, target, written, reader)
				SELECT id, news, NEW.key, '', principal, target, NEW.changed, reader
				FROM {schema}.task, unnest(` + callerReader("task") + ` || NEW.who) WITH ORDINALITY AS r (reader, place)
				WHERE id = NEW.task AND events ORDER BY place
				ON CONFLICT DO NOTHING;
			END IF;
		END IF;
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER question_added AFTER INSERT ON {schema}.question FOR EACH ROW
		WHEN (NEW.who <> '{}') EXECUTE FUNCTION {schema}.question_lists();
	CREATE TRIGGER question_changed AFTER UPDATE OF status, who, deadline, voters ON {schema}.question FOR EACH ROW
		WHEN ((OLD.status, OLD.who, OLD.deadline, OLD.voters) IS DISTINCT FROM
				(NEW.status, NEW.who, NEW.deadline, NEW.voters) AND (OLD.who <> '{}' OR NEW.who <> '{}'))
		EXECUTE FUNCTION {schema}.question_lists();
	CREATE TRIGGER question_deleted AFTER DELETE ON {schema}.question FOR EACH ROW
		EXECUTE FUNCTION {schema}.question_lists();

	CREATE FUNCTION {schema}.task_stops_asking() RETURNS trigger LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	BEGIN
		UPDATE {schema}.question SET status = 'withdrawn', over = true, version = version + 1
			WHERE task = NEW.id AND ` + openQuestion + `;
		IF NEW.status <> 'input_required' THEN
			PERFORM {schema}.leave_notice(q, 'ended') FROM {schema}.question AS q
				WHERE task = NEW.id AND who <> '{}' AND NOT over ORDER BY asked, key;
		END IF;
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER task_stops_asking AFTER UPDATE OF status ON {schema}.task FOR EACH ROW
		WHEN (OLD.asks = 2 AND NEW.asks = 1 OR OLD.asks > 0 AND NEW.status IN ('completed', 'failed', 'cancelled')
			AND OLD.status NOT IN ('completed', 'failed', 'cancelled'))
		EXECUTE FUNCTION {schema}.task_stops_asking();

	CREATE FUNCTION {schema}.task_deleted() RETURNS trigger LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	BEGIN
		DELETE FROM {schema}.question WHERE task = OLD.id;
		RETURN NULL;
	END $askback$;
	CREATE TRIGGER task_deleted AFTER DELETE ON {schema}.task FOR EACH ROW
		WHEN (OLD.asks > 0) EXECUTE FUNCTION {schema}.task_deleted();
	`

// The triggers of questions and of their tasks leave notices, under the lock of the task. So the notices of a task are
// numbered in the order in which they are committed. A notice has what it tells, and outlives its question and its
// task: it is deleted when it is settled.
//
// Only the first notice of a task can be taken. As long as it is not due the others are not either, so nobody looks
// at them. A transaction that changes when they are due has the lock of the first.
var noticeTables = `
	-- Until when somebody listens, and how many notices a principal may have.
	CREATE TABLE {schema}.listening (
		one       boolean PRIMARY KEY CHECK (one),
		until     timestamptz NOT NULL,
		named     bigint NOT NULL,
		anonymous bigint NOT NULL
	);

	CREATE TABLE {schema}.notice (
		id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		task      text COLLATE "C" NOT NULL,
		key       text COLLATE "C" NOT NULL,
		kind      text COLLATE "C" NOT NULL,
		principal text COLLATE "C" NOT NULL,
		target    text COLLATE "C" NOT NULL,
		who       text[] NOT NULL,
		asked     timestamptz NOT NULL,
		deadline  timestamptz,
		written   timestamptz NOT NULL,
		attempts  bigint NOT NULL DEFAULT 0,
		due       timestamptz, -- null: it is refused, because its principal has as many as it may
		notice    bytea
	);

	CREATE INDEX notice_due ON {schema}.notice (principal, due, id) WHERE ` + dueNotice + `;
	CREATE INDEX notice_first ON {schema}.notice (task, id) WHERE ` + openNotice + `;
	CREATE INDEX notice_kept ON {schema}.notice (principal) WHERE ` + keptNotice + `;
	CREATE INDEX notice_refused ON {schema}.notice (written, id) WHERE ` + refusedNotice + `;
	CREATE INDEX notice_refusals ON {schema}.notice (principal) WHERE ` + ownRefused + `;

	CREATE FUNCTION {schema}.leave_notice(q {schema}.question, kind text) RETURNS void LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	DECLARE
		most bigint;
		at   timestamptz := date_trunc('milliseconds', statement_timestamp());
	BEGIN
		SELECT CASE WHEN q.principal = '' THEN anonymous ELSE named END INTO most FROM {schema}.listening
			WHERE one AND until > statement_timestamp();
		IF NOT FOUND THEN
			RETURN;
		END IF;
		IF most > 0 AND most <= (SELECT count(*) FROM (
			SELECT FROM {schema}.notice WHERE principal = q.principal AND ` + keptNotice + ` LIMIT most) AS n) THEN
			INSERT INTO {schema}.notice (task, key, kind, principal, target, who, asked, deadline, written)
			SELECT q.task, q.key, leave_notice.kind, q.principal, q.target, q.who, q.asked, q.deadline, at
			WHERE ` + mostRefused + ` > (SELECT count(*) FROM (
				SELECT FROM {schema}.notice WHERE principal = q.principal AND ` + ownRefused + `
				LIMIT ` + mostRefused + `) AS n);
			RETURN;
		END IF;
		INSERT INTO {schema}.notice (task, key, kind, principal, target, who, asked, deadline, written, due, notice)
		VALUES (q.task, q.key, leave_notice.kind, q.principal, q.target, q.who, q.asked, q.deadline, at, greatest(at, (
			SELECT due FROM {schema}.notice AS first WHERE task = q.task AND ` + openNotice + ` ORDER BY id LIMIT 1 FOR SHARE)),
			q.notice);
	END $askback$;
	`

var mostRefused = strconv.Itoa(task.RefusedKept)

// prepare makes the tables in a schema that has none of ours. Several instances may do that at once.
func prepare(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := checkServer(ctx, pool); err != nil {
		return err
	}
	if made, err := readVersion(ctx, pool, schema); err != nil || made { // as a rule, so that nobody waits for a lock
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		lock := inSchema(`SELECT pg_advisory_xact_lock(hashtextextended({name} || ' schema', 0))`, schema)
		if _, err := tx.Exec(ctx, lock); err != nil {
			return err
		}
		if made, err := readVersion(ctx, tx, schema); err != nil || made {
			return err
		}
		// A role that may not create schemas may not say IF NOT EXISTS either.
		var exists bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&exists)
		if err != nil {
			return err
		}
		sql := tables + fmt.Sprintf(`INSERT INTO {schema}.version VALUES (true, %d)`, version)
		if !exists {
			sql = `CREATE SCHEMA {schema};` + sql
		}
		_, err = tx.Conn().PgConn().Exec(ctx, inSchema(sql, schema)).ReadAll() // the simple protocol takes several statements
		return err
	})
}

func checkServer(ctx context.Context, pool *pgxpool.Pool) error {
	var server, isolation string
	var number int
	err := pool.QueryRow(ctx, `
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

// readVersion reports whether the schema has our tables; if not, it has none with their names.
func readVersion(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, schema string) (made bool, err error) {
	var noted, tasks bool
	// The functions to_regclass and the like may give what they gave before another instance committed.
	err = on.QueryRow(ctx, `
		SELECT coalesce(bool_or(relname = 'version'), false), coalesce(bool_or(relname = 'task'), false)
		FROM pg_class WHERE relname IN ('version', 'task')
			AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&noted, &tasks)
	if err != nil || !noted && !tasks {
		return false, err
	}
	const do = "run the Askback that made it, or name another schema with search_path in the URL"
	var stored int
	if noted {
		err = on.QueryRow(ctx, inSchema(`SELECT version FROM {schema}.version`, schema)).Scan(&stored)
	}
	switch {
	case !noted || errors.Is(err, pgx.ErrNoRows):
		return false, errors.New("it has tables without a version that this program knows: " + do)
	case err != nil:
		return false, err
	case stored != version:
		return false, fmt.Errorf("it has version %d, and this program knows version %d only: %s", stored, version, do)
	}
	return true, nil
}
