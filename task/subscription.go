package task

import (
	"context"
	"time"
)

// Subscriptions is an [EventLog] that also keeps who has subscribed to its events. Only on such a [Store] a server
// posts events to webhooks.
type Subscriptions interface {
	EventLog

	// Subscribed reads the subscriptions of a principal that have not ended, in the order of their IDs.
	Subscribed(ctx context.Context, principal string) ([]*Subscription, error)

	// SaveSubscription writes Expires, Due and State of a subscription whose Version is the stored one. It ends its claim
	// and gives it another Version. A subscription without a Version is added, if no other has its ID, and if its
	// principal has fewer than most. What has ended counts as deleted. The error is [ErrConflict], and nothing is written,
	// if the Version is not the stored one, or if the subscription cannot be added.
	SaveSubscription(ctx context.Context, s *Subscription, most int) error

	// ClaimSubscriptions takes subscriptions that are due and not claimed, those at first that have been due longest. It
	// gives each another Version, and makes it due at the end of the lease. An event that the log gets for a principal,
	// as the caller or as "user:" and its name, makes the principal's subscriptions due, at the latest at the next call.
	// One that is claimed then is due when its claim ends, also if it is saved with another Due. It reads an index, so
	// that subscriptions that are not due cost nothing. It also deletes subscriptions that have ended.
	ClaimSubscriptions(ctx context.Context, c SubscriptionClaim) ([]*Subscription, error)
}

// Subscription is what a principal has subscribed to.
type Subscription struct {
	ID        string
	Principal string    // whose events it gets
	Host      string    // to which they go
	Expires   time.Time // by the clock of the store, as Due
	Due       time.Time // when it can be claimed; zero is when an event comes
	Version   string    // random, and another one after each write
	State     []byte    // opaque to the store
}

// SubscriptionClaim says which subscriptions [Subscriptions.ClaimSubscriptions] takes.
type SubscriptionClaim struct {
	// Principals and Hosts have enough under way: subscriptions of one of them are left out.
	Principals, Hosts []string
	Limit             int // how many are taken at most
	Lease             time.Duration
}
