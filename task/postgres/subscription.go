package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
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
		due       timestamptz,            -- while it is claimed, the end of the lease
		claim     text COLLATE "C" NOT NULL DEFAULT '',
		woken     boolean NOT NULL,       -- an event has come since it was claimed
		version   bigint NOT NULL,
		terms     bytea NOT NULL,
		progress  bytea NOT NULL
	) WITH (fillfactor = 80);

	CREATE INDEX subscription_principal ON {schema}.subscription (principal) WHERE ` + ownSubscription + `;
	CREATE INDEX subscription_due ON {schema}.subscription (due) WHERE ` + dueSubscription + `;
	CREATE INDEX subscription_expires ON {schema}.subscription (expires);
	`

const (
	dueSubscription = `due > '-infinity'`
	ownSubscription = `principal > ''` // anonymous callers have none

	subscriptionColumns = `s.id, s.principal, s.host, s.expires, s.version, s.claim, s.terms, s.progress`

	// freshTogether bounds the events that a claim looks at.
	freshTogether = `1000`
)

type subscriptionStatements struct {
	lockSubscriptions, subscribe, subscribed, unsubscribe, endSubscriptions, wakeSubscriptions, claimSubscriptions,
	settleSubscription string
}

func newSubscriptionStatements(in func(string) string) subscriptionStatements {
	return subscriptionStatements{
		lockSubscriptions: in(`SELECT pg_advisory_xact_lock(hashtextextended({name} || ' subscriptions ' || $1, 0))`),

		subscribe: in(`
			INSERT INTO {schema}.subscription AS s (id, principal, host, expires, due, woken, version, terms, progress)
			SELECT $1, $2, $3, date_trunc('milliseconds', statement_timestamp() + $4::interval), statement_timestamp(), true, 1,
				$5, $6
			WHERE $7::bigint > (SELECT count(*) FROM (
				SELECT FROM {schema}.subscription
				WHERE principal = $2::text AND ` + ownSubscription + ` AND id <> $1::text
					AND expires > statement_timestamp()
				LIMIT $7) AS n)
			ON CONFLICT (id) DO UPDATE SET host = excluded.host, terms = excluded.terms, expires = excluded.expires,
				version = s.version + 1, woken = true,
				claim = CASE WHEN s.expires > statement_timestamp() THEN s.claim ELSE '' END,
				due = CASE WHEN s.expires > statement_timestamp() AND s.claim <> '' THEN s.due ELSE excluded.due END,
				progress = CASE WHEN s.expires > statement_timestamp() THEN s.progress ELSE excluded.progress END
			RETURNING expires, version, progress`),

		subscribed: in(`
			SELECT ` + subscriptionColumns + ` FROM {schema}.subscription AS s
			WHERE principal = $1 AND ` + ownSubscription + ` AND expires > statement_timestamp() ORDER BY id || ''`),

		unsubscribe: in(`DELETE FROM {schema}.subscription WHERE id = $1 RETURNING expires > statement_timestamp()`),

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
				WHERE principal = ANY (ARRAY (SELECT DISTINCT principal FROM fresh)) AND ` + ownSubscription + ` AND NOT woken
				ORDER BY id || '' FOR NO KEY UPDATE
			)
			UPDATE {schema}.subscription AS s SET woken = true,
				due = CASE WHEN claim = '' THEN statement_timestamp() ELSE due END
			WHERE id = ANY (ARRAY (SELECT id FROM woken))`),

		// Rows are locked before they are changed, and rows that others have locked are passed over. So instances that claim
		// at once get different ones.
		claimSubscriptions: in(`
			WITH candidates AS MATERIALIZED (
				SELECT id, principal, host, due FROM {schema}.subscription
				WHERE due <= statement_timestamp() AND ` + dueSubscription + ` AND expires > statement_timestamp()
					AND principal <> ALL ($1::text[]) AND host <> ALL ($2::text[])
				ORDER BY due LIMIT 8 * $4::bigint FOR NO KEY UPDATE SKIP LOCKED
			), turns AS (
				SELECT id, due, row_number() OVER (PARTITION BY principal ORDER BY due, id) AS of_principal,
					row_number() OVER (PARTITION BY host ORDER BY due, id) AS of_host
				FROM candidates
			)
			UPDATE {schema}.subscription AS s
			SET due = statement_timestamp() + $5::interval, claim = $6, woken = false
			WHERE id = ANY (ARRAY (
				SELECT id FROM turns WHERE greatest(of_principal, of_host) <= $3 ORDER BY due, id LIMIT $4))
			RETURNING ` + subscriptionColumns),

		settleSubscription: in(`
			UPDATE {schema}.subscription SET claim = '', progress = $3, terms = CASE WHEN version = $4 THEN $5 ELSE terms END,
				due = CASE WHEN woken THEN statement_timestamp() ELSE statement_timestamp() + $6::interval END
			WHERE id = $1 AND claim = $2 AND claim <> ''`),
	}
}

// Subscribe implements [task.Subscriptions].
func (s *Store) Subscribe(ctx context.Context, sub *task.Subscription, ttl time.Duration, most int) (err error) {
	defer s.wrap(ctx, "subscribe", &err)
	if err := errors.Join(check("ID", sub.ID), check("principal", sub.Principal), check("host", sub.Host)); err != nil {
		return err
	}
	var batch pgx.Batch
	batch.Queue(s.sql.lockSubscriptions, sub.Principal)
	batch.Queue(s.sql.subscribe, sub.ID, sub.Principal, sub.Host, ttl, list(sub.Terms), list(sub.Progress), most).QueryRow(
		func(row pgx.Row) error { return row.Scan(&sub.Expires, &sub.Version, &sub.Progress) })
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
	if errors.Is(err, pgx.ErrNoRows) {
		return task.ErrQuota
	}
	sub.Expires = sub.Expires.UTC()
	return err
}

// Subscribed implements [task.Subscriptions].
func (s *Store) Subscribed(ctx context.Context, principal string) (all []*task.Subscription, err error) {
	defer s.wrap(ctx, "read subscriptions", &err)
	return collect(ctx, s, clients, scanSubscription, s.sql.subscribed, lookup(principal))
}

// Unsubscribe implements [task.Subscriptions].
func (s *Store) Unsubscribe(ctx context.Context, id string) (err error) {
	defer s.wrap(ctx, "unsubscribe", &err)
	var live bool
	err = s.queryRow(ctx, clients, []any{&live}, s.sql.unsubscribe, lookup(id))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !live {
		return task.ErrNotFound
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
		rows, _ := conn.Query(ctx, s.sql.claimSubscriptions, storable(list(c.Principals)), storable(list(c.Hosts)), c.Each,
			max(c.Limit, 0), c.Lease, rand.Text())
		taken, err = pgx.CollectRows(rows, scanSubscription)
		return err
	})
	return taken, err
}

// SettleSubscription implements [task.Subscriptions].
func (s *Store) SettleSubscription(ctx context.Context, sub *task.Subscription, due time.Duration) (err error) {
	defer s.wrap(ctx, "settle a subscription", &err)
	var in *time.Duration
	if due >= 0 {
		in = &due
	}
	rows, err := s.exec(ctx, clients, s.sql.settleSubscription, lookup(sub.ID), sub.Claim, list(sub.Progress), sub.Version,
		list(sub.Terms), in)
	if err == nil && rows == 0 {
		err = task.ErrLeaseLost
	}
	return err
}

// scanSubscription reads subscriptionColumns.
func scanSubscription(row pgx.CollectableRow) (*task.Subscription, error) {
	s := new(task.Subscription)
	err := row.Scan(&s.ID, &s.Principal, &s.Host, &s.Expires, &s.Version, &s.Claim, &s.Terms, &s.Progress)
	s.Expires = s.Expires.UTC()
	return s, err
}
