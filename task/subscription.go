package task

import (
	"context"
	"time"
)

// Subscriptions is an [EventLog] that also keeps who has subscribed to its events. Only on such a [Store] a server
// posts events to webhooks. To the store, what a subscription says and how far it has come are opaque.
type Subscriptions interface {
	EventLog

	// Subscribe adds a subscription that ends after ttl, without a claim. If there is one with its ID that has not
	// ended, it writes Host and Terms of that, lets it end after ttl from now, raises its Version, and leaves its Progress
	// and its claim as they are. Either is due at once. It sets Expires, Version and Progress of s to what is stored then.
	// The error is [ErrQuota], and nothing is written, if the principal would have more than most subscriptions that have
	// not ended.
	Subscribe(ctx context.Context, s *Subscription, ttl time.Duration, most int) error

	// Subscribed reads the subscriptions of a principal that have not ended, in the order of their IDs.
	Subscribed(ctx context.Context, principal string) ([]*Subscription, error)

	// Unsubscribe deletes a subscription. The error is [ErrNotFound] if it does not exist, or has ended.
	Unsubscribe(ctx context.Context, id string) error

	// ClaimSubscriptions takes subscriptions that are due, those at first that have been due longest, and makes them due
	// again at the end of the lease. Each has a new Claim. An event that the log gets for its principal, as the
	// caller or as "user:" and its name, makes a subscription due, at the latest at the next call: at once or, while it is
	// claimed, when it is settled. It reads an index, so that subscriptions that are not due cost nothing. It also deletes
	// subscriptions that have ended.
	ClaimSubscriptions(ctx context.Context, c SubscriptionClaim) ([]*Subscription, error)

	// SettleSubscription ends the claim of a subscription and writes its Progress, and its Terms if its Version is the
	// stored one. It is due again after that time, and not at all if the time is negative. The error is [ErrLeaseLost] if
	// the Claim is not the stored one, or if the subscription does not exist any more.
	SettleSubscription(ctx context.Context, s *Subscription, due time.Duration) error
}

// Subscription is what a principal has subscribed to.
type Subscription struct {
	ID        string
	Principal string // whose events it gets
	Host      string // to which they go
	Expires   time.Time
	Version   int64
	Claim     string // of [Subscriptions.ClaimSubscriptions]; random, and empty if it is not claimed
	Terms     []byte // what its subscriber has said
	Progress  []byte // what has become of its events
}

// SubscriptionClaim says which subscriptions [Subscriptions.ClaimSubscriptions] takes.
type SubscriptionClaim struct {
	// Principals and Hosts have enough under way: subscriptions of one of them are left out.
	Principals, Hosts []string
	Each              int // how many of one principal, or for one host, are taken at most
	Limit             int // how many are taken at most
	Lease             time.Duration
}
