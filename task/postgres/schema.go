package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// migrations make the schema of version n+1 from that of version n. They only add: the
// statements of earlier versions must go on working, for instances that still run.
//
// Text is compared by its bytes, so that an order never changes. Rows of tasks keep room
// in their page, so that an entry of the journal, which changes no index, moves none.
//
// For each statement there is one index that can serve it and no other, by conditions
// that they share: while a table is small any would do, and the choice is kept.
var migrations = []string{
	`
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
	CREATE INDEX task_unfinished ON {schema}.task (principal) WHERE ` + unfinished + `;
	CREATE INDEX task_expired ON {schema}.task (expires) WHERE ` + expirable + `;
	CREATE INDEX task_purgeable ON {schema}.task (expires) WHERE ` + purgeable + `;

	CREATE TABLE {schema}.journal (
		id   text COLLATE "C" NOT NULL, -- of the task
		seq  bigint NOT NULL,           -- 0 is the call, then come the entries
		body bytea NOT NULL,
		PRIMARY KEY (id, seq)
	);
	`,
	`
	-- States that calls go on from, which have nothing to do with tasks.
	CREATE TABLE {schema}.state (
		id      text COLLATE "C" PRIMARY KEY,
		call    text COLLATE "C" NOT NULL, -- empty if it is not looked up that way
		expires timestamptz NOT NULL,
		data    bytea NOT NULL
	);

	CREATE INDEX state_call ON {schema}.state (call, expires) WHERE ` + calledState + `;
	CREATE INDEX state_expires ON {schema}.state (expires);
	`,
	`
	-- No index has bytes, so that an entry of the journal still changes none.
	ALTER TABLE {schema}.task ADD COLUMN bytes bigint NOT NULL DEFAULT 0; -- of the call and the journal

	UPDATE {schema}.task AS t SET bytes = j.bytes
	FROM (SELECT id, sum(octet_length(body)) AS bytes FROM {schema}.journal GROUP BY id) AS j WHERE j.id = t.id;

	DROP INDEX {schema}.task_unfinished;
	CREATE INDEX task_kept ON {schema}.task (principal) WHERE ` + kept + `;
	CREATE INDEX task_evictable ON {schema}.task (principal, created) WHERE ` + evictable + `;

	-- States that were used, where each may be used once.
	CREATE TABLE {schema}.used_state (
		id      text COLLATE "C" PRIMARY KEY,
		expires timestamptz NOT NULL
	);

	CREATE INDEX used_state_expires ON {schema}.used_state (expires);
	`,
	`
	-- The random part of the last claim, which an older release does not set. A constant default writes to no row.
	ALTER TABLE {schema}.task ADD COLUMN nonce text COLLATE "C" NOT NULL DEFAULT '';
	`,
}

// oldest is the first version of PostgreSQL that will do.
const oldest = 13

// migrate brings the schema to the version that these migrations make.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string, migrations []string) error {
	var server, isolation string
	var number int
	var exists bool
	err := pool.QueryRow(ctx, `
		SELECT current_setting('server_version'), current_setting('server_version_num')::int,
			current_setting('transaction_isolation'), to_regclass($1) IS NOT NULL`,
		pgx.Identifier{schema, "migration"}.Sanitize()).Scan(&server, &number, &isolation, &exists)
	if err != nil {
		return err
	}
	if number/10000 < oldest {
		return fmt.Errorf("the server is PostgreSQL %s, and it must be %d or newer: upgrade it", server, oldest)
	}
	if isolation != "read committed" {
		return fmt.Errorf("transactions are %s by default, and must be read committed: add default_transaction_isolation=read%%20committed to the URL", isolation)
	}
	if exists {
		// As a rule there is nothing to do, and no lock to wait for.
		version, err := schemaVersion(ctx, pool, schema, migrations)
		if err != nil || version == len(migrations) {
			return err
		}
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// One instance at a time: the others find it done.
		lock := inSchema(`SELECT pg_advisory_xact_lock(hashtextextended({name} || ' migration', 0))`, schema)
		if _, err := tx.Exec(ctx, lock); err != nil {
			return err
		}
		// A role that may not create schemas may not say IF NOT EXISTS either.
		if err := tx.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, pgx.Identifier{schema}.Sanitize()).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, inSchema(`CREATE SCHEMA {schema}`, schema)); err != nil {
				return err
			}
		}
		table := inSchema(`CREATE TABLE IF NOT EXISTS {schema}.migration (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())`, schema)
		if _, err := tx.Exec(ctx, table); err != nil {
			return err
		}
		version, err := schemaVersion(ctx, tx, schema, migrations)
		if err != nil {
			return err
		}
		for ; version < len(migrations); version++ {
			// The simple protocol takes several statements.
			sql := inSchema(migrations[version], schema)
			if _, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll(); err != nil {
				return fmt.Errorf("migrate to version %d: %w", version+1, err)
			}
			if _, err := tx.Exec(ctx, inSchema(`INSERT INTO {schema}.migration (version) VALUES ($1)`, schema), version+1); err != nil {
				return err
			}
		}
		return nil
	})
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schemaVersion reads the version that the schema has, which must not be a later one.
func schemaVersion(ctx context.Context, db querier, schema string, migrations []string) (version int, err error) {
	err = db.QueryRow(ctx, inSchema(`SELECT coalesce(max(version), 0) FROM {schema}.migration`, schema)).Scan(&version)
	if err == nil && version > len(migrations) {
		err = fmt.Errorf("it has version %d, made by a newer Askback, and this one knows no later than %d: upgrade this instance", version, len(migrations))
	}
	return version, err
}
