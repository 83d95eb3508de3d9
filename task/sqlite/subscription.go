package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Subscriptions. A trigger makes them due: see [schema].
const (
	subscriptionColumns = `id, principal, host, expires, due, leased, version, state`

	subscribedSQL = `SELECT ` + subscriptionColumns + ` FROM subscription WHERE principal = ? AND expires > ? ORDER BY id`
	// The principal's subscriptions are counted, up to as many as it may have.
	addSubscriptionSQL = `INSERT OR IGNORE INTO subscription (id, expires, due, leased, version, state, principal, host)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE ?9 > (
			SELECT count(*) FROM (SELECT 1 FROM subscription WHERE principal = ?7 LIMIT ?9))`
	saveSubscriptionSQL = `UPDATE subscription
		SET expires = ?2, due = iif(due <= ?7, due, ?3), leased = ?4, version = ?5, state = ?6
		WHERE id = ?1 AND version = ?8`

	endSubscriptionsSQL   = `DELETE FROM subscription WHERE expires <= ?`
	anySubscriptionSQL    = `SELECT EXISTS (SELECT 1 FROM subscription WHERE due <= ?1 OR expires <= ?1)`
	claimSubscriptionsSQL = `UPDATE subscription SET due = ?2, leased = ?2, version = ?3 WHERE id IN (
			SELECT id FROM subscription WHERE due <= ?1 AND leased <= ?1
				AND principal NOT IN (SELECT value FROM json_each(?4)) AND host NOT IN (SELECT value FROM json_each(?5))
			ORDER BY due, id LIMIT ?6)
		RETURNING ` + subscriptionColumns
)

// Subscribed reads the subscriptions of a principal. See [task.Subscriptions].
func (s *Store) Subscribed(ctx context.Context, principal string) (all []*task.Subscription, err error) {
	defer s.wrap(ctx, "read subscriptions", &err)
	return collect(ctx, s.r[subscribedSQL], scanSubscription, principal, time.Now().UnixMilli())
}

// SaveSubscription adds or changes a subscription. See [task.Subscriptions].
func (s *Store) SaveSubscription(ctx context.Context, sub *task.Subscription, most int) (err error) {
	defer s.wrap(ctx, "save a subscription", &err)
	version := rand.Text()
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.exec(ctx, endSubscriptionsSQL, now); err != nil {
			return err
		}
		var due any
		if !sub.Due.IsZero() {
			due = sub.Due.UnixMilli()
		}
		args := []any{sub.ID, sub.Expires.UnixMilli(), due, sub.Leased.UnixMilli(), version, blob(sub.State)}
		if sub.Version == "" {
			return s.wrote(ctx, task.ErrConflict, addSubscriptionSQL, append(args, sub.Principal, sub.Host, most)...)
		}
		return s.wrote(ctx, task.ErrConflict, saveSubscriptionSQL, append(args, now, sub.Version)...)
	})
	if err == nil {
		sub.Version = version
	}
	return err
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
			listOrNull(append([]string{}, c.Principals...)), listOrNull(append([]string{}, c.Hosts...)), max(c.Limit, 0))
		return err
	})
	return taken, err
}

// scanSubscription reads subscriptionColumns.
func scanSubscription(rows *sql.Rows, to **task.Subscription) error {
	sub := new(task.Subscription)
	*to = sub
	var expires, leased int64
	var due *int64
	err := rows.Scan(&sub.ID, &sub.Principal, &sub.Host, &expires, &due, &leased, &sub.Version, &sub.State)
	sub.Leased = timeAt(leased)
	if sub.Expires = timeAt(expires); due != nil {
		sub.Due = timeAt(*due)
	}
	return err
}
