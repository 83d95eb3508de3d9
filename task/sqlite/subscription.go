package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Subscriptions. A trigger makes them due: see [schema].
const (
	// The others of the principal are counted, up to as many as it may have.
	subscribeSQL = `INSERT INTO subscription (id, principal, host, expires, due, woken, version, terms, progress)
		SELECT ?1, ?2, ?3, ?4, ?5, 1, 1, ?6, ?7 WHERE ?8 > (
			SELECT count(*) FROM (SELECT 1 FROM subscription WHERE principal = ?2 AND id <> ?1 LIMIT ?8))
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, expires = excluded.expires, terms = excluded.terms,
			version = version + 1, woken = 1, due = iif(claim = '', excluded.due, due)
		RETURNING version, progress`
	unsubscribeSQL = `DELETE FROM subscription WHERE id = ?`
	subscribedSQL  = `SELECT ` + subscriptionColumns + ` FROM subscription WHERE principal = ? AND expires > ? ORDER BY id`

	endSubscriptionsSQL   = `DELETE FROM subscription WHERE expires <= ?`
	anySubscriptionSQL    = `SELECT EXISTS (SELECT 1 FROM subscription WHERE due <= ?1 OR expires <= ?1)`
	claimSubscriptionsSQL = `UPDATE subscription SET due = ?2, claim = ?3, woken = 0 WHERE id IN (
			SELECT id FROM (
				SELECT id, due, row_number() OVER (PARTITION BY principal ORDER BY due, id) AS of_principal,
					row_number() OVER (PARTITION BY host ORDER BY due, id) AS of_host
				FROM subscription WHERE due <= ?1 AND principal NOT IN (SELECT value FROM json_each(?4))
					AND host NOT IN (SELECT value FROM json_each(?5))
			) WHERE max(of_principal, of_host) <= ?6 ORDER BY due, id LIMIT ?7)
		RETURNING ` + subscriptionColumns
	settleSubscriptionSQL = `UPDATE subscription SET claim = '', progress = ?3, terms = iif(version = ?4, ?5, terms),
			due = iif(woken, ?6, ?7) WHERE id = ?1 AND claim = ?2 AND claim <> ''`

	subscriptionColumns = `id, principal, host, expires, version, claim, terms, progress`
)

// Subscribe adds or prolongs a subscription. See [task.Subscriptions].
func (s *Store) Subscribe(ctx context.Context, sub *task.Subscription, ttl time.Duration, most int) (err error) {
	defer s.wrap(ctx, "subscribe", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.exec(ctx, endSubscriptionsSQL, now); err != nil {
			return err
		}
		expires := now + ceil(ttl)
		err := s.w[subscribeSQL].QueryRowContext(ctx, sub.ID, sub.Principal, sub.Host, expires, now, blob(sub.Terms),
			blob(sub.Progress), most).Scan(&sub.Version, &sub.Progress)
		if errors.Is(err, sql.ErrNoRows) {
			return task.ErrQuota
		}
		sub.Expires = timeAt(expires)
		return err
	})
}

// Subscribed reads the subscriptions of a principal. See [task.Subscriptions].
func (s *Store) Subscribed(ctx context.Context, principal string) (all []*task.Subscription, err error) {
	defer s.wrap(ctx, "read subscriptions", &err)
	return collect(ctx, s.r[subscribedSQL], scanSubscription, principal, time.Now().UnixMilli())
}

// Unsubscribe deletes a subscription. See [task.Subscriptions].
func (s *Store) Unsubscribe(ctx context.Context, id string) (err error) {
	defer s.wrap(ctx, "unsubscribe", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.exec(ctx, endSubscriptionsSQL, now); err != nil {
			return err
		}
		return s.wrote(ctx, task.ErrNotFound, unsubscribeSQL, id)
	})
}

// ClaimSubscriptions takes subscriptions that are due. See [task.Subscriptions].
func (s *Store) ClaimSubscriptions(
	ctx context.Context, c task.SubscriptionClaim,
) (taken []*task.Subscription, err error) {
	defer s.wrap(ctx, "claim subscriptions", &err)
	var some bool
	err = s.r[anySubscriptionSQL].QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&some)
	if err != nil || !some {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, now int64) (err error) {
		if _, err = s.w.exec(ctx, endSubscriptionsSQL, now); err != nil {
			return err
		}
		taken, err = collect(ctx, s.w[claimSubscriptionsSQL], scanSubscription, now, now+ceil(c.Lease), rand.Text(),
			listOrNull(append([]string{}, c.Principals...)), listOrNull(append([]string{}, c.Hosts...)), c.Each, max(c.Limit, 0))
		return err
	})
	return taken, err
}

// SettleSubscription ends a claim. See [task.Subscriptions].
func (s *Store) SettleSubscription(ctx context.Context, sub *task.Subscription, due time.Duration) (err error) {
	defer s.wrap(ctx, "settle a subscription", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		var at any
		if due >= 0 {
			at = now + ceil(due)
		}
		return s.wrote(ctx, task.ErrLeaseLost, settleSubscriptionSQL, sub.ID, sub.Claim, blob(sub.Progress), sub.Version,
			blob(sub.Terms), now, at)
	})
}

// wrote runs a statement, and returns the error if it wrote nothing.
func (s *Store) wrote(ctx context.Context, nothing error, query string, args ...any) error {
	rows, err := s.w.exec(ctx, query, args...)
	if err == nil && rows == 0 {
		err = nothing
	}
	return err
}

// scanSubscription reads subscriptionColumns.
func scanSubscription(rows *sql.Rows, to **task.Subscription) error {
	sub := new(task.Subscription)
	*to = sub
	var expires int64
	err := rows.Scan(&sub.ID, &sub.Principal, &sub.Host, &expires, &sub.Version, &sub.Claim, &sub.Terms, &sub.Progress)
	sub.Expires = timeAt(expires)
	return err
}
