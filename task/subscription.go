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

	// SaveSubscription writes Expires, Due, Leased and State of a subscription whose Version is the stored one, and gives
	// it another Version. If it is due already, it stays due. A subscription without a Version is added, if no other has
	// its ID, and if its principal has fewer than most. What has ended counts as deleted. The error is [ErrConflict], and
	// nothing is written, if the Version is not the stored one, or if the subscription cannot be added.
	SaveSubscription(ctx context.Context, s *Subscription, most int) error

	// ClaimSubscriptions takes subscriptions that are due and not leased any more, those at first that have been due
	// longest. It gives each another Version, and makes it Leased until the end of the lease, and due then. An event that
	// the log gets for a principal, as the caller or as "user:" and its name, makes the principal's subscriptions due, at
	// the latest at the next call. It reads an index, so that subscriptions that are not due cost nothing. It also deletes
	// subscriptions that have ended.
	ClaimSubscriptions(ctx context.Context, c SubscriptionClaim) ([]*Subscription, error)
}

// Subscription is what a principal has subscribed to.
type Subscription struct {
	ID        string
	Principal string    // whose events it gets
	Host      string    // to which they go
	Expires   time.Time // by the clock of the store, as Due
	Due       time.Time // when it can be claimed; zero is when an event comes
	Leased    time.Time // until when it is claimed; zero is not at all
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
