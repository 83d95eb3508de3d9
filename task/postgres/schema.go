package postgres

import "strings"

// A step changes the schema while instances of this release and of the previous one work. It only adds: everything that
// the statements of the previous release use stays as it is, indexes included. A later release removes what nobody uses
// any more.
//
// Text is compared by its bytes, so that an order never changes. Rows of tasks keep room
// in their page, so that an entry of the journal, which changes no index, moves none.
//
// For each statement there is one index that can serve it and no other, by conditions
// that they share: while a table is small any would do, and the choice is kept.
type step struct {
	name  string // is noted when the step has been made
	since int    // stores of this version and later ones have the step, although it was not noted; 0 means none

	// A step has one of these. The sql must take the same time for any number of rows, because it holds its locks until it
	// is done.
	sql   string
	index string // is made while others write; it begins with its name
	fill  *fill  // is made after an instance has begun to work
}

// A fill corrects the existing rows of tasks, a few at a time. Until it is done, statements cope with the rows as they
// are.
type fill struct {
	wrong string // the condition for rows to correct
	set   string // corrects them while they are locked
}

// version is the version of a store's schema, which an instance must know to use the store. A step that only adds
// leaves it alone, so that the previous release can open the store; a step that removes what the previous release uses
// raises it.
const version = 3

var steps = []step{
	{name: "tasks", since: 1, sql: `
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
		due           timestamptz,     -- when it may be claimed; null is not at all
		poll_interval bigint NOT NULL, -- nanoseconds
		stopped       boolean NOT NULL,
		attempts      bigint NOT NULL,
		version       bigint NOT NULL,
		fence         bigint NOT NULL,
		entries       bigint NOT NULL  -- how many the journal has
	) WITH (fillfactor = 80);

	CREATE INDEX task_due ON {schema}.task (principal, due) WHERE due IS NOT NULL;
	CREATE INDEX task_list ON {schema}.task (principal, dialect, created, id) WHERE ` + listed + `;
	CREATE INDEX task_expired ON {schema}.task (expires) WHERE ` + expirable + `;
	CREATE INDEX task_purgeable ON {schema}.task (expires) WHERE ` + purgeable + `;

	CREATE TABLE {schema}.journal (
		id   text COLLATE "C" NOT NULL, -- of the task
		seq  bigint NOT NULL,           -- 0 is the call, then come the entries
		body bytea NOT NULL,
		PRIMARY KEY (id, seq)
	);
	`},
	{name: "states", since: 2, sql: `
	-- States that calls go on from, which have nothing to do with tasks.
	CREATE TABLE {schema}.state (
		id      text COLLATE "C" PRIMARY KEY,
		call    text COLLATE "C" NOT NULL, -- empty if it is not looked up that way
		expires timestamptz NOT NULL,
		data    bytea NOT NULL
	);

	CREATE INDEX state_call ON {schema}.state (call, expires) WHERE ` + calledState + `;
	CREATE INDEX state_expires ON {schema}.state (expires);
	`},
	{name: "used states", since: 3, sql: `
	-- States that were used, where each may be used once.
	CREATE TABLE {schema}.used_state (
		id      text COLLATE "C" PRIMARY KEY,
		expires timestamptz NOT NULL
	);

	CREATE INDEX used_state_expires ON {schema}.used_state (expires);
	`},
	{name: "bytes", sql: `
	-- The bytes of the call and the journal; null is not counted. No index has them, so that an entry of the journal
	-- still changes none.
	ALTER TABLE {schema}.task ADD COLUMN IF NOT EXISTS bytes bigint;
	ALTER TABLE {schema}.task ALTER COLUMN bytes DROP NOT NULL, ALTER COLUMN bytes DROP DEFAULT;

	-- Instances of a release that does not know the column leave it as it is when they add entries.
	CREATE FUNCTION {schema}.task_not_counted() RETURNS trigger LANGUAGE plpgsql
		AS 'BEGIN NEW.bytes := NULL; RETURN NEW; END';
	CREATE TRIGGER task_not_counted BEFORE UPDATE OF entries ON {schema}.task FOR EACH ROW
		WHEN (NEW.entries <> OLD.entries AND NEW.bytes = OLD.bytes) EXECUTE FUNCTION {schema}.task_not_counted();
	`},
	{name: "nonce", sql: `
	-- The random part of the last claim, which an older release does not set. A constant default writes to no row.
	ALTER TABLE {schema}.task ADD COLUMN nonce text COLLATE "C" NOT NULL DEFAULT '';
	`},
	{name: "kept", index: `task_kept ON {schema}.task (principal) WHERE ` + kept},
	{name: "evictable", index: `task_evictable ON {schema}.task (principal, created) WHERE ` + evictable},
	{name: "turns", index: `task_turns ON {schema}.task (principal, target, due) WHERE ` + inTurn},
	{name: "questions", sql: questionTables + noticeTables},
	{name: "histories", sql: historyTables},
	{name: "counted", fill: &fill{
		wrong: `bytes IS DISTINCT FROM ` + journalBytes,
		set:   `bytes = ` + journalBytes,
	}},
}

// journalBytes are the bytes of the call and the journal of task t.
const journalBytes = `(SELECT coalesce(sum(octet_length(body)), 0)::bigint
	FROM {schema}.journal AS j WHERE j.id = t.id)`

// indexName returns the name of a step's index.
func (s step) indexName() string {
	name, _, _ := strings.Cut(s.index, " ")
	return name
}
