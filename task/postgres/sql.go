package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/task"
)

// statements is the SQL of the store, with the name of its schema in place. Each statement is one round trip and,
// except in Purge, a transaction of its own.
//
// The time is the server's when it received the statement. At the level read committed, a
// statement that waited for a row sees the row as it is then, and checks its conditions again:
// that makes versions and fences exact. It sees no other rows that were added meanwhile, so an
// entry's number comes from a counter in the task's row, not from the other entries.
type statements struct {
	lockTimeout, uncompiled, lockQuotas, lockTask, create, createAsking, get, versions, list, selectTasks, count, claim,
	journal, append, renew, notify, state string
	update                               map[updateKind]string
	expired, purgeable, evictable, purge string

	putState, addState, swapState, purgeStates, getState, findStates, deleteState, useState, purgeUsed string

	questionStatements
	noticeStatements
	rememberedStatements
	eventStatements
	subscriptionStatements
}

// updateKind is what an update does besides writing to the row of its task and to its journal.
type updateKind struct {
	within     bool // its principal has a bound
	asking     bool // it asks, or brings answers
	stopAsking bool // it withdraws all questions
}

// newStatements names the schema in each: nothing depends on the session's search_path.
func newStatements(schema string) statements {
	in := func(sql string) string { return inSchema(sql, schema) }
	s := statements{
		lockTimeout: `SELECT set_config('lock_timeout', '1s', true)`,

		// Once the server has statistics, claim looks so dear to it that it would compile the statement, which takes a
		// thousand times as long.
		uncompiled: `SELECT set_config('jit', 'off', true)`,

		// The locks end with the transaction. All take theirs in the same order.
		lockQuotas: in(`
			SELECT pg_advisory_xact_lock(key) FROM (
				SELECT DISTINCT hashtextextended({name} || ' quota ' || principal, 0) AS key FROM (
					SELECT unnest($1::text[]) AS principal
					UNION ALL
					SELECT (SELECT principal FROM {schema}.task AS t WHERE t.id = u.id) FROM unnest($2::text[]) AS u (id)
				) AS p WHERE principal IS NOT NULL ORDER BY key
			) AS k`),

		lockTask: in(`SELECT FROM {schema}.task WHERE id = $1 FOR NO KEY UPDATE`),

		create:       in(create("", "0", "")),
		createAsking: in(withAsking(create(askWith, "2", addedMore), createArgs+1)),

		get: in(`SELECT ` + columns("pending", "outcome") + ` FROM {schema}.task AS t WHERE id = $1`),

		// The subquery keeps to the index, independent of what the planner makes of the list.
		versions: in(`
			SELECT id, version FROM (
				SELECT id, (SELECT version FROM {schema}.task AS t WHERE t.id = u.id) AS version FROM unnest($1::text[]) AS u (id)
			) AS v WHERE version IS NOT NULL`),

		list: in(`
			SELECT ` + columns("substring(pending FROM 1 FOR 1)", "NULL::bytea") + `
			FROM {schema}.task AS t
			WHERE principal = $1 AND dialect = $2 AND (created, id) < (coalesce($3::timestamptz, 'infinity'), $4::text)
				AND ` + listed + `
			ORDER BY created DESC, id DESC
			LIMIT $5`),

		selectTasks: in(`
			SELECT ` + columns("pending", "NULL::bytea") + `
			FROM {schema}.task AS t
			WHERE id > $1::text AND ($2::text[] IS NULL OR status = ANY ($2)) AND ($3::text[] IS NULL OR principal = ANY ($3))
				AND ($4::text[] IS NULL OR target = ANY ($4))
			ORDER BY id
			LIMIT $5`),

		count: in(`
			SELECT count(*) FILTER (WHERE status = 'working'), count(*) FILTER (WHERE status = 'input_required')
			FROM {schema}.task WHERE ` + expirable),

		// A claimed row is locked before it is changed, and rows that others have locked are passed over: instances that
		// claim at once get different tasks. "one" has one task of each principal that has nothing, in turn, with one probe
		// of the index for each and only as many as needed. "more" has further tasks of these principals and of the
		// principals in the load, target by target, at least as many as they can get. "turns" puts them all in the order of
		// claiming. A principal gets tasks while it has fewer than there are workers left.
		//
		// A row is read as it is when it is locked, but the journal as it was when the statement began. The row says how
		// many entries there are.
		claim: in(`
			WITH RECURSIVE later (principal) AS (
				(SELECT principal FROM {schema}.task WHERE due <= statement_timestamp() AND principal > $1::text
					ORDER BY principal, due LIMIT 1)
				UNION ALL
				SELECT next.principal FROM later, LATERAL (
					SELECT principal FROM {schema}.task
					WHERE due <= statement_timestamp() AND principal > later.principal ORDER BY principal, due LIMIT 1) AS next
			), earlier (principal) AS (
				(SELECT principal FROM {schema}.task WHERE due <= statement_timestamp() AND principal <= $1::text
					ORDER BY principal, due LIMIT 1)
				UNION ALL
				SELECT next.principal FROM earlier, LATERAL (
					SELECT principal FROM {schema}.task
					WHERE due <= statement_timestamp() AND principal > earlier.principal AND principal <= $1::text
					ORDER BY principal, due LIMIT 1) AS next
			), one AS MATERIALIZED (
				SELECT t.principal, due.id, due.target
				FROM (SELECT principal FROM later UNION ALL SELECT principal FROM earlier) AS t, LATERAL (
					SELECT id, target FROM {schema}.task WHERE due <= statement_timestamp() AND principal = t.principal
					ORDER BY principal, due LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS due
				WHERE t.principal <> ALL ($2::text[])
				LIMIT $6::bigint
			), load (principal, target, tasks) AS (
				SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[])
				UNION ALL
				SELECT principal, target, 1 FROM one
			), sharing (principal, first, has, most) AS (
				SELECT principal, id, 1, $6 / (1 + (SELECT count(*) FROM one)) FROM one
				UNION ALL
				SELECT principal, NULL, sum(tasks), $6 - sum(tasks) FROM load
				WHERE principal = ANY ($2) AND (SELECT count(*) FROM one) < $6
				GROUP BY principal HAVING sum(tasks) < $6
			), more AS MATERIALIZED (
				SELECT s.principal, s.has, due.id, due.due,
					coalesce((SELECT sum(tasks) FROM load AS l WHERE (l.principal, l.target) = (s.principal, its.target)), 0)
						+ row_number() OVER (PARTITION BY s.principal, its.target ORDER BY due.due) AS nth
				FROM sharing AS s, LATERAL (
					WITH RECURSIVE targets (target) AS (
						(SELECT target FROM {schema}.task
						WHERE due <= statement_timestamp() AND principal = s.principal AND s.most > 0 AND ` + inTurn + `
						ORDER BY principal, target, due LIMIT 1)
						UNION ALL
						SELECT next.target FROM targets, LATERAL (
							SELECT target FROM {schema}.task
							WHERE due <= statement_timestamp() AND principal = s.principal AND target > targets.target AND ` + inTurn + `
							ORDER BY principal, target, due LIMIT 1) AS next
					)
					SELECT target FROM targets
				) AS its, LATERAL (
					SELECT id, due FROM {schema}.task
					WHERE due <= statement_timestamp() AND principal = s.principal AND target = its.target
						AND id IS DISTINCT FROM s.first AND ` + inTurn + `
					ORDER BY principal, target, due LIMIT s.most FOR NO KEY UPDATE SKIP LOCKED) AS due
			), turns AS (
				SELECT id, had, row_number() OVER (ORDER BY had, principal <= $1, principal) AS turn FROM (
					SELECT id, principal, 0 AS had FROM one
					UNION ALL
					SELECT id, principal, has + row_number() OVER (PARTITION BY principal ORDER BY nth, due) - 1 FROM more
				) AS candidates
			), next AS MATERIALIZED (
				SELECT turn, id FROM turns WHERE had < $6 - turn + 1
			), t AS (
				UPDATE {schema}.task
				SET fence = fence + 1, nonce = $7::text || (SELECT turn FROM next WHERE next.id = task.id),
					attempts = attempts + 1, due = statement_timestamp() + $5::interval, lease = $5
				WHERE id = ANY (ARRAY (SELECT id FROM next))
				RETURNING *
			)
			SELECT ` + columns("pending", "outcome") + `, (SELECT turn FROM next WHERE next.id = t.id), entries,
				ARRAY (SELECT body FROM {schema}.journal AS j WHERE j.id = t.id ORDER BY seq)
			FROM t`),

		journal: in(`SELECT body FROM {schema}.journal WHERE id = $1 AND seq <= $2 ORDER BY seq`),

		append: in(`
			WITH t AS (
				UPDATE {schema}.task SET attempts = 0, entries = entries + 1, bytes = bytes + coalesce(octet_length($3::bytea), 0),
					due = ` + prolongedLease + `
				WHERE id = $1 AND fence = $2 AND nonce = $5 AND entries = $4
				RETURNING id, entries
			)
			INSERT INTO {schema}.journal (id, seq, body)
			SELECT id, entries, coalesce($3::bytea, '') FROM t
			RETURNING seq`),

		// Locked rows are skipped, because a row that stays locked must not end all other leases. Past claims never come
		// back, so a lease is lost if the row did not have its claim when the statement began.
		renew: in(`
			WITH held AS (
				SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY AS h (id, fence, nonce, place)
			), free AS MATERIALIZED (
				SELECT id FROM {schema}.task WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED
			), t AS (
				UPDATE {schema}.task AS t
				SET due = CASE WHEN due IS NOT NULL THEN statement_timestamp() + $4::interval END, lease = $4
				WHERE id = ANY (ARRAY (SELECT id FROM free))
					AND EXISTS (SELECT FROM held AS h WHERE (h.id, h.fence, h.nonce) = (t.id, t.fence, t.nonce))
				RETURNING id, fence, nonce, version
			)
			SELECT t.version, s.id IS NOT NULL, coalesce((s.fence, s.nonce) = (h.fence, h.nonce), false)
			FROM held AS h LEFT JOIN t USING (id, fence, nonce)
				LEFT JOIN LATERAL (SELECT id, fence, nonce FROM {schema}.task WHERE id = h.id LIMIT 1) AS s ON true
			ORDER BY h.place`),

		update: make(map[updateKind]string),

		notify: in(`SELECT pg_notify({name}, fingerprint) FROM unnest($1::text[]) AS fingerprint`),

		state: in(`SELECT fence, nonce, version, status FROM {schema}.task WHERE id = $1`),

		expired: in(`
			SELECT id FROM {schema}.task
			WHERE expires <= statement_timestamp() AND ` + expirable + `
			ORDER BY expires
			LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED`),

		purgeable: in(`
			SELECT id FROM {schema}.task
			WHERE expires < statement_timestamp() - $1::interval AND ` + purgeable + `
			ORDER BY expires
			LIMIT $2 OFFSET $3 FOR UPDATE SKIP LOCKED`),

		evictable: in(`
			SELECT id FROM {schema}.task
			WHERE principal = $1 AND updated < statement_timestamp() - $2::interval AND ` + evictable + `
			ORDER BY created
			LIMIT $3 OFFSET $4 FOR UPDATE SKIP LOCKED`),

		purge: in(`
			WITH t AS (DELETE FROM {schema}.task WHERE id = ANY ($1))
			DELETE FROM {schema}.journal WHERE id = ANY ($1)`),

		putState: in(`
			INSERT INTO {schema}.state (id, call, expires, data) VALUES ($1, $2, $3, coalesce($4::bytea, ''))
			ON CONFLICT (id) DO UPDATE SET call = excluded.call, expires = excluded.expires, data = excluded.data`),

		addState: in(`
			INSERT INTO {schema}.state AS s (id, call, expires, data) VALUES ($1, $2, $3, coalesce($4::bytea, ''))
			ON CONFLICT (id) DO UPDATE SET call = excluded.call, expires = excluded.expires, data = excluded.data
			WHERE s.expires <= statement_timestamp()`),

		swapState: in(`
			UPDATE {schema}.state SET call = $2, expires = $3, data = coalesce($4::bytea, '')
			WHERE id = $1 AND expires > statement_timestamp() AND data = $5`),

		// Rows that somebody else deletes or writes are passed over: nobody waits, and so nobody waits in a circle.
		purgeStates: in(`
			DELETE FROM {schema}.state WHERE id = ANY (ARRAY (
				SELECT id FROM {schema}.state WHERE expires <= statement_timestamp()
				ORDER BY expires LIMIT $1 FOR UPDATE SKIP LOCKED))`),

		getState: in(`SELECT data FROM {schema}.state WHERE id = $1 AND expires > statement_timestamp()`),

		findStates: in(`
			SELECT data FROM {schema}.state
			WHERE call = $1 AND ` + calledState + ` AND expires > statement_timestamp()
			ORDER BY call, expires LIMIT $2`),

		deleteState: in(`DELETE FROM {schema}.state WHERE id = $1`),

		// Of two that use a state at once, the second waits for the first, and then finds its row.
		useState: in(`INSERT INTO {schema}.used_state (id, expires) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`),

		purgeUsed: in(`
			DELETE FROM {schema}.used_state WHERE id = ANY (ARRAY (
				SELECT id FROM {schema}.used_state WHERE expires <= statement_timestamp()
				ORDER BY expires LIMIT $1 FOR UPDATE SKIP LOCKED))`),

		questionStatements:     newQuestionStatements(in),
		noticeStatements:       newNoticeStatements(in),
		rememberedStatements:   newRememberedStatements(in),
		eventStatements:        newEventStatements(in),
		subscriptionStatements: newSubscriptionStatements(in),
	}
	for i := range 1 << 3 {
		kind := updateKind{within: i&1 > 0, asking: i&2 > 0, stopAsking: i&4 > 0}
		s.update[kind] = in(update(kind))
	}
	return s
}

// Conditions of indexes: a statement can use an index only if it contains the same condition.
// Every time is after '-infinity'; that condition keeps other statements off an index.
const (
	listed      = `created > '-infinity'`
	unfinished  = `status NOT IN ('completed', 'failed', 'cancelled')`
	expirable   = unfinished + ` AND expires > '-infinity'`
	calledState = `call > ''`
	purgeable   = `status IN ('completed', 'failed', 'cancelled') AND due IS NULL`
	kept        = `created < 'infinity'`
	inTurn      = `due > '-infinity'`
	evictable   = `status IN ('completed', 'failed', 'cancelled') AND coalesce(due, 'infinity') = 'infinity' AND ` +
		`created < 'infinity'`
)

// prolongedLease is when the task of a writer under a lease is due again. It moves an index only when the lease needs
// it.
const prolongedLease = `CASE WHEN lease > '0' AND due < statement_timestamp() + lease * 2 / 3
	THEN statement_timestamp() + lease ELSE due END`

// createArgs is how many arguments create has without questions.
const createArgs = 27

// create is the statement that adds a task, with what it adds for questions.
func create(with, asks, more string) string {
	return `
		WITH ` + with + `used AS MATERIALIZED (` + usage("$2", "nullif($17::bigint, 0)") + `), t AS (
			INSERT INTO {schema}.task (id, principal, method, target, dialect, status, message, pending, outcome, round,
				poll_interval, stopped, attempts, created, updated, expires, ttl, due, lease, version, fence, nonce, entries,
				bytes, asks, events)
			SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::bytea, $9::bytea, $10::bigint,
				$11::bigint, $12::boolean, $13::bigint, now, now, now + $25::interval, $14::interval,
				statement_timestamp() + $24::interval, $21::interval, $26::bigint,
				$22::bigint, $23::text,
				cardinality($16::bytea[]), $20::bigint, ` + asks + `, $27::boolean
			FROM {now} AS now, used
			WHERE ($18::bigint = 0 OR used.unfinished < $18) AND ($17 = 0 OR used.kept < $17)
				AND ($19::bigint = 0 OR used.bytes + $20::bigint + coalesce(octet_length($8::bytea), 0)
					+ coalesce(octet_length($9::bytea), 0) <= $19)
			ON CONFLICT (id) DO NOTHING
			RETURNING id, principal, target, created, updated, expires
		), j AS (
			INSERT INTO {schema}.journal (id, seq, body)
			SELECT id, 0, coalesce($15::bytea, '') FROM t
			UNION ALL
			SELECT id, e.seq, coalesce(e.body, '') FROM t, unnest($16::bytea[]) WITH ORDINALITY AS e (body, seq)
		)` + more + `
		SELECT created, expires, unfinished, kept, bytes FROM used LEFT JOIN t ON true`
}

// update is the statement of an update. Its arguments are the arguments of every update, the arguments of questions,
// and the bound.
func update(kind updateKind) string {
	with, set, from, where, more, lives := "", "", "", "", "", ""
	result, bound := "SELECT updated, version, fence, expires FROM t", 21
	if kind.asking {
		with, set, where, more, lives = askingWith, askingSet, askingWhere, askingMore, askingLives
		result, bound = "SELECT why, updated, version, fence, expires FROM refused LEFT JOIN t ON true", 22+askingArgs
	}
	if kind.stopAsking {
		set = stopAsking
	}
	if kind.within {
		// The usage is exact since its statement begins when the lock is held.
		with += "used AS MATERIALIZED (" +
			usage("(SELECT principal FROM {schema}.task WHERE id = $1)", "null::bigint") + "), "
		from, where = "FROM used", where+" AND used.bytes + $15 <= $"+strconv.Itoa(bound)+"::bigint"
	}
	return withAsking(`
		WITH `+with+`t AS (
			UPDATE {schema}.task AS t
			SET status = $4, message = $5, pending = $6, outcome = $7, round = $8, stopped = $10,
				ttl = greatest(ttl, $9::interval), expires = greatest(expires, {now} + $9,
					CASE WHEN status = 'input_required' AND $4 = 'working' THEN {now} + ttl END`+lives+`),
				attempts = $11 + $17::bigint,
				updated = date_trunc('milliseconds', statement_timestamp()), version = version + 1, fence = fence + $17::bigint,
				nonce = coalesce(nullif($18::text, ''), nonce),
				due = CASE WHEN $16::interval IS NOT NULL THEN statement_timestamp() + $16::interval
					WHEN NOT $12::boolean THEN statement_timestamp() + $13::interval
					WHEN $3 IS NULL THEN due ELSE `+prolongedLease+` END,
				lease = CASE WHEN $12 AND $16::interval IS NULL THEN lease ELSE coalesce($16::interval, '0') END,
				entries = entries + cardinality($14::bytea[]), bytes = t.bytes + $15::bigint`+set+`
			`+from+`
			WHERE id = $1 AND version = $2 AND ($3::bigint IS NULL OR fence = $3 AND nonce = $19)
				AND CASE WHEN `+unfinished+` THEN true ELSE status = $4 END
				AND (NOT $20::boolean OR expires <= statement_timestamp())`+where+`
			RETURNING id, principal, target, updated, version, fence, entries, expires
		), j AS (
			INSERT INTO {schema}.journal (id, seq, body)
			SELECT id, entries - cardinality($14::bytea[]) + e.seq, coalesce(e.body, '')
			FROM t, unnest($14::bytea[]) WITH ORDINALITY AS e (body, seq)
		)`+more+` `+result, 21)
}

// usage is the query for what a principal has. It reads up to limit of its tasks, if that is not null.
func usage(principal, limit string) string {
	return `
		SELECT count(*) FILTER (WHERE ` + unfinished + `) AS unfinished, count(*) AS kept,
			coalesce(sum(bytes + coalesce(octet_length(pending), 0) + coalesce(octet_length(outcome), 0)), 0)::bigint AS bytes
		FROM (SELECT status, bytes, pending, outcome FROM {schema}.task
			WHERE principal = ` + principal + ` AND ` + kept + ` LIMIT ` + limit + `) AS t`
}

// inSchema puts the schema into SQL: {schema} is its identifier, and {name} its name as a text, which is also the name
// of the channel of notifications. {now} is the time of the statement, and {after} is [task.AfterDeadline].
func inSchema(sql, schema string) string {
	return strings.NewReplacer(
		"{now}", "date_trunc('milliseconds', statement_timestamp())",
		"{after}", "interval '"+strconv.Itoa(int(task.AfterDeadline.Seconds()))+" s'",
		"{schema}", pgx.Identifier{schema}.Sanitize(),
		"{name}", "'"+strings.ReplaceAll(schema, "'", "''")+"'",
	).Replace(sql)
}
