package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// subscriptionTables have who has subscribed to the events of a principal. Who writes an event does not lock them: it
// leaves the event "fresh", and the next one who claims makes the subscriptions due.
const subscriptionTables = `
	CREATE TABLE {schema}.subscription (
		id        text COLLATE "C" PRIMARY KEY,
		principal text COLLATE "C" NOT NULL,
		host      text COLLATE "C" NOT NULL,
		expires   timestamptz NOT NULL,
		due       timestamptz,
		leased    timestamptz NOT NULL,
		version   text COLLATE "C" NOT NULL,
		state     bytea NOT NULL
	) WITH (fillfactor = 80);

	CREATE INDEX subscription_principal ON {schema}.subscription (principal) WHERE ` + ownSubscription + `;
	CREATE INDEX subscription_due ON {schema}.subscription (due) WHERE ` + dueSubscription + `;
	CREATE INDEX subscription_expires ON {schema}.subscription (expires);
	`

const (
	dueSubscription = `due > '-infinity'`
	ownSubscription = `principal > ''` // anonymous callers have none

	subscriptionColumns = `s.id, s.principal, s.host, s.expires, s.due, s.leased, s.version, s.state`

	// freshTogether bounds the events that a claim looks at.
	freshTogether = `1000`
)

type subscriptionStatements struct {
	subscribed, lockSubscriptions, addSubscription, saveSubscription, endSubscriptions, wakeSubscriptions,
	claimSubscriptions string
}

func newSubscriptionStatements(in func(string) string) subscriptionStatements {
	return subscriptionStatements{
		subscribed: in(`
			SELECT ` + subscriptionColumns + ` FROM {schema}.subscription AS s
			WHERE principal = $1 AND ` + ownSubscription + ` AND expires > statement_timestamp() ORDER BY id || ''`),

		lockSubscriptions: in(`SELECT pg_advisory_xact_lock(hashtextextended({name} || ' subscriptions ' || $1, 0))`),
		addSubscription: in(`
			INSERT INTO {schema}.subscription AS s (id, expires, due, leased, version, state, principal, host)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8
			WHERE $9::bigint > (SELECT count(*) FROM (
				SELECT FROM {schema}.subscription
				WHERE principal = $7::text AND ` + ownSubscription + ` AND expires > statement_timestamp()
				LIMIT $9) AS n)
			ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, due = excluded.due, leased = excluded.leased,
				version = excluded.version, state = excluded.state
				WHERE s.expires <= statement_timestamp()`),
		// The statement may have waited for one that has made it due.
		saveSubscription: in(`
			UPDATE {schema}.subscription SET expires = $2, due = CASE WHEN due <= clock_timestamp() THEN due ELSE $3 END,
				leased = $4, version = $5, state = $6
			WHERE id = $1 AND version = $7 AND expires > statement_timestamp()`),

		// Rows that others have locked are passed over.
		endSubscriptions: in(`
			DELETE FROM {schema}.subscription WHERE id = ANY (ARRAY (
				SELECT id FROM {schema}.subscription WHERE expires <= statement_timestamp()
				ORDER BY expires LIMIT 100 FOR UPDATE SKIP LOCKED))`),

		// The newest events come first, because where there were no webhooks before all are fresh. Subscriptions are locked
		// in one order, so that two who do this at once do not wait for each other. It is written so that the primary key
		// does not serve it.
		wakeSubscriptions: in(`
			WITH fresh AS (
				UPDATE {schema}.event SET fresh = false WHERE id = ANY (ARRAY (
					SELECT id FROM {schema}.event WHERE ` + freshEvent + ` ORDER BY id DESC LIMIT ` + freshTogether + `
					FOR UPDATE SKIP LOCKED))
				RETURNING substr(reader, strpos(reader, ':') + 1) AS principal
			), woken AS MATERIALIZED (
				SELECT id FROM {schema}.subscription
				WHERE principal = ANY (ARRAY (SELECT DISTINCT principal FROM fresh)) AND ` + ownSubscription + `
					AND (due IS NULL OR due > statement_timestamp())
				ORDER BY id || '' FOR NO KEY UPDATE
			)
			UPDATE {schema}.subscription SET due = statement_timestamp() WHERE id = ANY (ARRAY (SELECT id FROM woken))`),

		// Rows are locked before they are changed, and rows that others have locked are passed over. So instances that claim
		// at once get different ones.
		claimSubscriptions: in(`
			UPDATE {schema}.subscription AS s SET due = {now} + $4, leased = {now} + $4, version = $5
			WHERE id = ANY (ARRAY (
				SELECT id FROM {schema}.subscription
				WHERE due <= statement_timestamp() AND ` + dueSubscription + ` AND leased <= statement_timestamp()
					AND expires > statement_timestamp() AND principal <> ALL ($1::text[]) AND host <> ALL ($2::text[])
				ORDER BY due LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED))
			RETURNING ` + subscriptionColumns),
	}
}

// Subscribed implements [task.Subscriptions].
func (s *Store) Subscribed(ctx context.Context, principal string) (all []*task.Subscription, err error) {
	defer s.wrap(ctx, "read subscriptions", &err)
	return collect(ctx, s, clients, scanSubscription, s.sql.subscribed, lookup(principal))
}

// SaveSubscription implements [task.Subscriptions].
func (s *Store) SaveSubscription(ctx context.Context, sub *task.Subscription, most int) (err error) {
	defer s.wrap(ctx, "save a subscription", &err)
	if err := errors.Join(check("ID", sub.ID), check("principal", sub.Principal), check("host", sub.Host)); err != nil {
		return err
	}
	var due *time.Time
	if !sub.Due.IsZero() {
		due = &sub.Due
	}
	version, rows := rand.Text(), int64(0)
	args := []any{sub.ID, sub.Expires, due, sub.Leased, version, list(sub.State)}
	if sub.Version != "" {
		rows, err = s.exec(ctx, clients, s.sql.saveSubscription, append(args, sub.Version)...)
	} else {
		var batch pgx.Batch // one transaction
		batch.Queue(s.sql.lockSubscriptions, sub.Principal)
		batch.Queue(s.sql.addSubscription, append(args, sub.Principal, sub.Host, most)...).Exec(
			func(tag pgconn.CommandTag) error { rows = tag.RowsAffected(); return nil })
		err = s.on(ctx, clients, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
	}
	if err == nil && rows == 0 {
		err = task.ErrConflict
	}
	if err == nil {
		sub.Version = version
	}
	return err
}

// ClaimSubscriptions implements [task.Subscriptions].
func (s *Store) ClaimSubscriptions(
	ctx context.Context, c task.SubscriptionClaim,
) (taken []*task.Subscription, err error) {
	defer s.wrap(ctx, "claim subscriptions", &err)
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		var writes pgx.Batch // one transaction
		writes.Queue(s.sql.endSubscriptions)
		writes.Queue(s.sql.wakeSubscriptions)
		if err := conn.SendBatch(ctx, &writes).Close(); err != nil {
			return err
		}
		rows, _ := conn.Query(ctx, s.sql.claimSubscriptions, storable(list(c.Principals)), storable(list(c.Hosts)),
			max(c.Limit, 0), c.Lease, rand.Text())
		taken, err = pgx.CollectRows(rows, scanSubscription)
		return err
	})
	return taken, err
}

// scanSubscription reads subscriptionColumns.
func scanSubscription(row pgx.CollectableRow) (*task.Subscription, error) {
	s := new(task.Subscription)
	var due *time.Time
	err := row.Scan(&s.ID, &s.Principal, &s.Host, &s.Expires, &due, &s.Leased, &s.Version, &s.State)
	s.Expires, s.Leased = s.Expires.UTC(), s.Leased.UTC()
	if due != nil {
		s.Due = due.UTC()
	}
	return s, err
}
