package task

import (
	"context"
	"time"
)

// Store keeps tasks. These methods are all that running tasks needs. What a store can do beyond them it declares by
// implementing [Evicter], [Lister], [Counter], [Versioner], [Asker], [Outbox] and [Watcher]; each says what is missing
// without it. A type that wraps a Store hides what it does not pass on.
//
// What holds for all methods, including the optional interfaces:
//
//   - They are safe for concurrent use, by several processes too if the store is meant for
//     them. A write is durable when its method returns.
//   - A write is made whole or not at all. An error that is not one of this package's leaves
//     open which of the two happened: the answer was lost. The server then repeats what a
//     worker records, and the last update of a run, until there is an answer. An Update whose
//     Version is no longer the stored one is refused whole, which tells the server that its
//     first attempt was made.
//   - The error for an ID that does not exist is [ErrNotFound].
//   - The store has one clock for all instances. Contexts bound how long a method may take.
//   - Empty bytes may be stored as nil.
//
// A task is due when any server may claim it: a new task at once, a claimed one when its
// lease ends, a parked one not at all.
type Store interface {
	// Create adds a task with its journal: the call, which does not change, and the entries. It sets t.Created and
	// t.Updated to now, t.Expires to now+ttl, Version to 0 and the Claim to its zero value. The task is due at once; but
	// with a lease that is more than zero it is claimed for the caller, as by Claim: Fence and Attempts rise by one, and
	// the Nonce is set. The error is ErrExists if there is a task with its ID, and the error of [Quota.Check] if the
	// principal would have more than its quota; if both apply, it may be either.
	Create(ctx context.Context, t *Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota Quota) error

	// Get reads the row of a task, and nothing that grows with its journal.
	Get(ctx context.Context, id string) (*Task, error)

	// Claim takes due tasks for a server that has limit free workers and already runs load, and makes them due again at
	// the end of the lease: Fence and Attempts rise by one, and each has a new Nonce. It returns them with their journals.
	// It takes one task after another, and adds each to the load:
	//
	//   - The next task belongs to the principal with the fewest tasks; of several, to the first principal after the given
	//     one, in any fixed order of principals that starts again after the last.
	//   - A principal gets another task only while it has fewer tasks than there are free workers. So some workers are
	//     left for principals that have none.
	//   - Of a principal's tasks, the next one has the Target for which the principal has the fewest tasks; among several
	//   tasks, it is the task that has been due longest.
	//
	// Claim may take fewer tasks than these rules allow, but at least one.
	Claim(ctx context.Context, after string, load []Load, lease time.Duration, limit int) ([]*Claimed, error)

	// Journal reads the call and up to most entries, in the order they were added. It reads no others. A negative most
	// is no bound.
	Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error)

	// Append adds one entry to the journal under the lease of this claim, and sets Attempts to 0. It also prolongs the
	// lease, as an Update with Leased and Keep does: afterwards at least two thirds of the length are left that the last
	// Claim or Renew gave it. Version and Updated stay as they are. The error is ErrLeaseLost if the claim is not the
	// stored one, with any status. Otherwise it is ErrConflict if the journal does not have exactly there entries, so that
	// an Append that is repeated or arrives late never adds an entry twice.
	Append(ctx context.Context, id string, claim Claim, there int, entry []byte) error

	// Renew makes leases end after the given time, and returns the result for each, in the same order. It is one write,
	// however many leases there are. A task that is not due at all, because it was parked or has ended, stays so. A lease
	// that cannot be renewed leaves the others alone, and Renew does not wait for a row that somebody else has locked. If
	// Renew itself returns an error, the results are unknown.
	Renew(ctx context.Context, leases []Leased, lease time.Duration) ([]Renewed, error)

	// Update writes Status, Message, Pending, Outcome, Round, Stopped and Attempts of t if its Version is the stored one.
	// It sets t.Updated to now, t.Version to its successor, and t.Expires to what is stored then. A task that becomes
	// [Working] after it was [InputRequired] lives at least as long from now as it was given: by its Create, or by the
	// longest Update.TTL since.
	//
	// The error is ErrLeaseLost if u.Leased is set and the Claim is not the stored one, with any Version; else it is
	// ErrConflict if the Version is not the stored one; else it is ErrEnded if the stored status is terminal and t has
	// another; else ErrEarly if u.Expired is set and the time to live has not ended; and else the error of [Quota.Check]
	// if the principal would have more bytes than u.Quota allows. With an error nothing is written and t is unchanged.
	Update(ctx context.Context, t *Task, u Update) error

	// Expired returns the IDs of up to limit tasks that are not terminal and whose time to live has ended. Tasks that
	// somebody else has locked may be left out.
	Expired(ctx context.Context, limit int) (ids []string, err error)

	// Purge deletes up to limit tasks whose time to live ended longer than grace ago,
	// that are terminal and not due now or later, with their journals. A task that cannot be deleted leaves the others
	// alone: n counts those that were deleted, also with an error.
	Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error)

	// Close releases what the store holds. Nothing else may be called afterwards.
	Close() error
}
