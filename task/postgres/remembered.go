package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

const rememberedTables = `
	-- Decisions that let later calls pass, whom they concern, and which calls have passed.
	CREATE TABLE {schema}.remembered (
		key       text COLLATE "C" PRIMARY KEY,
		who       text[] NOT NULL,
		content   bytea NOT NULL,
		decided   timestamptz NOT NULL,
		until     timestamptz NOT NULL,
		uses      bigint NOT NULL, -- that are left
		forgotten timestamptz
	);
	CREATE TABLE {schema}.remembered_who (
		who text COLLATE "C" NOT NULL,
		key text COLLATE "C" NOT NULL,
		PRIMARY KEY (who, key)
	);
	CREATE TABLE {schema}.recalled (
		key  text COLLATE "C" NOT NULL REFERENCES {schema}.remembered ON DELETE CASCADE,
		call text COLLATE "C" NOT NULL,
		PRIMARY KEY (key, call)
	);

	CREATE INDEX remembered_until ON {schema}.remembered (until) WHERE ` + endedDecision + `;
	CREATE INDEX remembered_newest ON {schema}.remembered (decided DESC, key) WHERE ` + newestDecision + `;
	CREATE INDEX remembered_whose ON {schema}.remembered_who (key) WHERE ` + keyedDecision + `;
	`

// Conditions of indexes, as in sql.go.
const (
	endedDecision  = `until > '-infinity'`
	keyedDecision  = `key > ''`
	newestDecision = `forgotten IS NULL AND uses > 0`
)

type rememberedStatements struct {
	remember, rememberWho, recallable, recall, remembered, rememberedBy, forget, purgeRemembered string
}

func newRememberedStatements(in func(string) string) rememberedStatements {
	const found = `r.key, r.who, r.content, r.decided, r.until, r.uses`
	const listed = ` (r.decided < coalesce($1::timestamptz, 'infinity') OR r.decided = $1 AND r.key > $2::text)
				AND r.until > statement_timestamp() AND ` + newestDecision
	return rememberedStatements{
		remember: in(`
			INSERT INTO {schema}.remembered AS r (key, who, content, decided, until, uses)
			SELECT $1::text, $2::text[], $3::bytea, $4::timestamptz, $5::timestamptz, $6::bigint
			WHERE $5::timestamptz > statement_timestamp()
			ON CONFLICT (key) DO UPDATE SET who = excluded.who, content = excluded.content, decided = excluded.decided,
				until = excluded.until, uses = excluded.uses, forgotten = NULL
			WHERE r.decided < excluded.decided AND coalesce(r.forgotten, '-infinity') < excluded.decided`),
		// The lock of the decision is held.
		rememberWho: in(`
			WITH gone AS (DELETE FROM {schema}.remembered_who 
				WHERE key = $1 AND who <> ALL ($2::text[]) AND ` + keyedDecision + `)
			INSERT INTO {schema}.remembered_who (who, key) SELECT who, $1 FROM unnest($2::text[]) AS who
			ON CONFLICT (who, key) DO NOTHING`),
		recallable: in(`
			SELECT ` + found + ` FROM {schema}.remembered AS r
			WHERE key = $1 AND forgotten IS NULL AND until > statement_timestamp() FOR NO KEY UPDATE`),
		// The lock of the decision is held.
		recall: in(`
			WITH p AS (
				INSERT INTO {schema}.recalled (key, call)
				SELECT key, $2::text FROM {schema}.remembered WHERE key = $1 AND uses > 0
				ON CONFLICT (key, call) DO NOTHING RETURNING key
			), u AS (
				UPDATE {schema}.remembered SET uses = uses - 1 WHERE key = $1 AND EXISTS (SELECT FROM p)
			)
			SELECT EXISTS (SELECT FROM p), EXISTS (SELECT FROM {schema}.recalled WHERE key = $1 AND call = $2)`),
		remembered: in(`
			SELECT ` + found + ` FROM {schema}.remembered AS r WHERE ` + listed + ` ORDER BY decided DESC, key LIMIT $3`),
		rememberedBy: in(`
			SELECT ` + found + ` FROM (
				SELECT DISTINCT l.key FROM unnest($4::text[]) AS p (who), LATERAL (
					SELECT key FROM {schema}.remembered_who WHERE who = p.who) AS l
			) AS w, LATERAL (SELECT * FROM {schema}.remembered WHERE key = w.key LIMIT 1) AS r
			WHERE ` + listed + ` ORDER BY r.decided DESC, r.key LIMIT $3`),
		forget: in(`
			UPDATE {schema}.remembered SET forgotten = {now}
			WHERE key = $1 AND forgotten IS NULL AND until > statement_timestamp()`),
		purgeRemembered: in(`
			WITH gone AS (
				DELETE FROM {schema}.remembered WHERE until <= statement_timestamp() AND ` + endedDecision + ` RETURNING key
			)
			DELETE FROM {schema}.remembered_who WHERE key = ANY (ARRAY (SELECT key FROM gone)) AND ` + keyedDecision),
	}
}

// Remember implements [task.Store].
func (s *Store) Remember(ctx context.Context, r *task.Remembered) (err error) {
	defer s.wrap(ctx, "remember a decision", &err)
	if err := check("Key", r.Key); err != nil {
		return err
	}
	for _, who := range r.Who {
		if err := check("Who", who); err != nil {
			return err
		}
	}
	return s.on(ctx, workers, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, s.sql.remember, r.Key, list(r.Who), list(r.Content), r.Decided.Truncate(time.Millisecond),
				r.Until.Truncate(time.Millisecond), r.Left)
			if err == nil && tag.RowsAffected() > 0 {
				_, err = tx.Exec(ctx, s.sql.rememberWho, r.Key, list(r.Who))
			}
			return err
		})
	})
}

// Recall implements [task.Store].
func (s *Store) Recall(ctx context.Context, key, call string) (r *task.Remembered, err error) {
	defer s.wrap(ctx, "recall a decision", &err)
	if err := check("call", call); err != nil {
		return nil, err
	}
	err = s.on(ctx, workers, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, s.sql.recallable, lookup(key))
			var err error
			if r, err = pgx.CollectExactlyOneRow(rows, scanRemembered); errors.Is(err, pgx.ErrNoRows) {
				return task.ErrNotFound
			} else if err != nil {
				return err
			}
			var passes, passed bool
			if err := tx.QueryRow(ctx, s.sql.recall, key, call).Scan(&passes, &passed); err != nil {
				return err
			}
			switch {
			case passes:
				r.Left--
			case !passed:
				return task.ErrNotFound
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Remembered implements [task.Store].
func (s *Store) Remembered(
	ctx context.Context, who []string, after *task.Remembered, limit int,
) (found []*task.Remembered, err error) {
	defer s.wrap(ctx, "read remembered decisions", &err)
	var decided *time.Time
	var key string
	if after != nil {
		decided, key = &after.Decided, fit(after.Key)
	}
	if who == nil {
		return collect(ctx, s, clients, scanRemembered, s.sql.remembered, decided, key, max(limit, 0))
	}
	return collect(ctx, s, clients, scanRemembered, s.sql.rememberedBy, decided, key, max(limit, 0), storable(who))
}

func scanRemembered(row pgx.CollectableRow) (*task.Remembered, error) {
	var r task.Remembered
	if err := row.Scan(&r.Key, &r.Who, &r.Content, &r.Decided, &r.Until, &r.Left); err != nil {
		return nil, fmt.Errorf("read a remembered decision: %w", err)
	}
	r.Decided, r.Until = r.Decided.UTC(), r.Until.UTC()
	return &r, nil
}

// Forget implements [task.Store].
func (s *Store) Forget(ctx context.Context, key string) (err error) {
	defer s.wrap(ctx, "forget a decision", &err)
	rows, err := s.exec(ctx, workers, s.sql.forget, lookup(key))
	if err == nil && rows == 0 {
		err = task.ErrNotFound
	}
	return err
}
