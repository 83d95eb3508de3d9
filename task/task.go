// Package task is the contract between the servers that run durable tasks and the stores that keep them. A task is work
// that survives the process, waits for input without holding anything, and goes on in any instance that shares the
// store.
//
// A [Task] is one small row: its principal, its status, its open questions. What its work has recorded, the journal,
// is kept apart from it, so that reading the status costs the same whatever the task has done. A [Store] keeps both:
// task/sqlite and task/postgres durably, [MemoryStore] for as long as the process lives. task/storetest is the suite
// that every store must pass.
//
// Package askback runs calls of tools as tasks, with the [Settings] and the Store of its Tasks. Package desk is for
// whoever runs the store. Use this package to configure tasks, or to write a store.
//
// What a server promises on a store that keeps its contract:
//
//   - A task exists before its client knows its ID.
//   - At any time at most one worker can write to a task: a [Claim] has a number, which rises with each claim, and a
//     random nonce, and a worker that lost its lease can commit nothing.
//   - What a worker recorded is there for the next one, unless the database itself loses commits, as an asynchronous
//     failover does. Even then two workers never write under one claim: see docs/failover.md.
//   - A parked task is a row and nothing else.
package task

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"time"
)

// Status is the state of a task as the client sees it.
type Status string

// The statuses of a task. The last three are terminal.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Terminal reports whether a task with this status has ended.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is the row of a task. To stores each []byte is opaque. Times have a resolution of a millisecond.
type Task struct {
	ID        string // at least 128 random bits
	Principal string // the owner; "" is the anonymous principal
	Method    string // the method of the request that became a task, such as "tools/call"
	Target    string // the tool's name, or what else the method names
	Dialect   string // the dialect of the client that made it; only its server looks at it

	Status       Status
	Message      string // for people: the progress, or the reason of a failure
	Pending      []byte // the open questions; empty unless the status is InputRequired
	Outcome      []byte // the result or the error; empty unless it completed or failed
	Round        int    // how many rounds ended with questions
	Created      time.Time
	Updated      time.Time
	Expires      time.Time // when its time to live ends
	PollInterval time.Duration

	// Stopped says that a cancellation or the end of its time to live ended the task. Its
	// handler may have to clean up.
	Stopped bool
	// Attempts counts the claims since the task last recorded anything.
	Attempts int
	// Version rises with every [Store.Update].
	Version int64
	// Claim is the last claim. [Store.Claim], and a Create or Update with a lease, make a new one.
	Claim
}

// Claim identifies a claim of a task. Two claims are the same only if both fields are equal. A task that nobody has
// claimed has the zero value.
type Claim struct {
	// Fence is the number of the claim, one more than the number of the previous claim. If the database has lost commits,
	// the number proves nothing, because the next claim then has the number of the lost one.
	Fence int64
	// Nonce is random, with at least 128 bits, in letters and digits, and distinguishes a claim from a lost claim with the
	// same number. A release before nonces leaves the previous nonce as it is, or empty.
	Nonce string
}

// Errors of a [Store].
var (
	// ErrNotFound says that there is no task with this ID.
	ErrNotFound = errors.New("task not found")
	// ErrConflict says that the task was changed meanwhile: read it again.
	ErrConflict = errors.New("the task was changed meanwhile")
	// ErrEnded says that the task is in a terminal status, which never changes.
	ErrEnded = errors.New("the task has ended")
	// ErrLeaseLost says that another worker has claimed the task, or that the database has lost the claim.
	ErrLeaseLost = errors.New("the lease on the task is lost")
	// ErrExists says that there is a task with this ID already.
	ErrExists = errors.New("there is a task with this id already")
)

// Update is what an update of a task writes besides the row.
type Update struct {
	// Leased requires that the Claim of the given task is the stored one. A worker sets it in all its updates.
	Leased bool
	// Keep leaves the time at which the task is due as it is: a running task stays leased,
	// and a parked one stays parked.
	Keep bool
	// Lease claims the task for the writer, as [Store.Claim] does, if it is more than zero: in the store and in the given
	// task, Fence and Attempts rise by one, and the Nonce is new. Keep and Due are ignored then.
	Lease time.Duration
	// Due is the time from now after which the task may be claimed. Negative means that the
	// task is parked: it cannot be claimed. With Keep, Due is ignored.
	Due time.Duration
	// Wake is the time from now after which a [Waker] gives the ID of a task that this update parks, unless a later
	// update comes first. Zero means never. With Keep, Wake is ignored. Any other Store ignores it always.
	Wake time.Duration
	// Entries are added to the journal.
	Entries [][]byte
	// Quota bounds the bytes that the task's principal has once the Entries are added. Its other fields are ignored.
	// A worker sets none: what it has done must be recorded.
	Quota Quota
}

// Filter selects tasks of a [Store]. A nil field lets all pass.
type Filter struct {
	Statuses   []Status
	Principals []string // "" is the anonymous one
	Targets    []string
}

// Load is how many tasks of a principal and a target an engine runs.
type Load struct {
	Principal, Target string
	Tasks             int // more than zero
}

// Leased names a task, and the claim under which somebody has it.
type Leased struct {
	ID string
	Claim
}

// Renewed is the result of renewing a lease.
type Renewed struct {
	// Err is nil, or ErrLeaseLost if the task has another claim, or ErrNotFound. After any other error the lease was not
	// renewed, and Renew can be tried again.
	Err     error
	Version int64 // of the task, if Err is nil
}

// Claimed is a task that was claimed, with its journal: the call and the entries. A Call that is nil says that the
// journal was not read.
type Claimed struct {
	*Task
	Call    []byte
	Entries [][]byte
}

// Store keeps tasks. What holds for all its methods:
//
//   - They are safe for concurrent use, by several processes too if the store is meant for
//     them. A write is durable when its method returns.
//   - A write is made whole or not at all. An error that is not one of this package's leaves
//     open which of the two happened: the answer was lost. The engine then repeats what a
//     worker records, and the last update of a run, until there is an answer. An Update whose
//     Version is no longer the stored one is refused whole, which tells the engine that its
//     first attempt was made.
//   - The error for an ID that does not exist is [ErrNotFound].
//   - The store has one clock for all instances. Contexts bound how long a method may take.
//   - Empty bytes may be stored as nil.
//
// A task is due when any engine may claim it: a new task at once, a claimed one when its
// lease ends, a parked one not at all.
type Store interface {
	// Create adds a task with its journal: the call, which never changes, and the entries. It sets t.Created and
	// t.Updated to now, t.Expires to now+ttl, Version to 0 and the Claim to its zero value. The task is due at once; but
	// with a lease that is more than zero it is claimed for the caller, as by Claim: Fence and Attempts rise by one, and
	// the Nonce is set. The error is ErrExists if there is a task with its ID, and the error of [Quota.Check] if the
	// principal would have more than its quota; if both apply, it may be either.
	Create(ctx context.Context, t *Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota Quota) error

	// Get reads the row of a task, and nothing that grows with its journal.
	Get(ctx context.Context, id string) (*Task, error)

	// Versions reads the Version of each of these tasks that exists.
	Versions(ctx context.Context, ids []string) (map[string]int64, error)

	// List reads up to limit tasks of a principal with this dialect: newest first, and those created at the same time
	// by ID, descending. It begins after the task with this ID and time of creation; the zero time and "" are the
	// start. Pending, Outcome and Nonce may be left out.
	List(ctx context.Context, principal, dialect string, created time.Time, id string, limit int) ([]*Task, error)

	// Select reads up to limit tasks that the filter lets pass, of all principals and in all dialects: in an order of
	// their IDs, beginning after the given one; "" is the start. Outcome and Nonce may be left out. It is for
	// operators, and may read every task.
	Select(ctx context.Context, f Filter, after string, limit int) ([]*Task, error)

	// Count counts the tasks that have not ended, of all principals and in all dialects, by their status: Working and
	// InputRequired. It costs the more, the more of them there are, but reads none that has ended. A status without
	// tasks may be missing.
	Count(ctx context.Context) (map[Status]int, error)

	// Claim takes due tasks for an engine that has limit free workers and already runs load, and makes them due again at
	// the end of the lease: Fence and Attempts rise by one, and each has a new Nonce. It returns them with their journals.
	// It takes one task after another, and adds each to the load:
	//
	//   - The next task belongs to the principal with the fewest tasks; of several, to the first principal after the given
	//     one, in any fixed order of principals that starts again after the last.
	//   - A principal gets another task only while it has fewer tasks than there are free workers. So some workers are
	//     left for principals that have none.
	//   - Of a principal's tasks, the next one has the Target of which the principal has the fewest tasks; of several
	//     tasks, it is the one that has been due longest.
	//
	// Claim may take fewer tasks than these rules allow, but at least one.
	Claim(ctx context.Context, after string, load []Load, lease time.Duration, limit int) ([]*Claimed, error)

	// Journal reads the call and the entries, in the order they were added.
	Journal(ctx context.Context, id string) (call []byte, entries [][]byte, err error)

	// Append adds one entry to the journal under the lease of this claim, and sets Attempts to 0. Version and Updated stay
	// as they are. The error is ErrLeaseLost if the claim is not the stored one, whatever the status. Otherwise it is
	// ErrConflict if the journal does not have exactly there entries, so that an Append that is repeated or arrives late
	// never adds an entry twice.
	Append(ctx context.Context, id string, claim Claim, there int, entry []byte) error

	// Renew makes leases end after the given time, and returns the result for each, in the same order. It is one write,
	// however many leases there are. A task that is not due at all, because it was parked or has ended, stays so. A lease
	// that cannot be renewed leaves the others alone, and Renew does not wait for a row that somebody else has locked. If
	// Renew itself returns an error, the results are unknown.
	Renew(ctx context.Context, leases []Leased, lease time.Duration) ([]Renewed, error)

	// Update writes Status, Message, Pending, Outcome, Round, Expires, Stopped and Attempts of t if its Version is
	// the stored one, and sets t.Updated to now and t.Version to its successor. The error is ErrLeaseLost if u.Leased
	// is set and the Claim is not the stored one, whatever the Version; else it is ErrConflict if the Version is not
	// the stored one; else it is ErrEnded if the stored status is terminal and t has another, and else the error of
	// [Quota.Check] if the principal would have more bytes than u.Quota allows. With an error nothing is written and t is
	// unchanged.
	Update(ctx context.Context, t *Task, u Update) error

	// Expired returns the IDs of up to limit tasks that are not terminal and whose time to live has ended.
	Expired(ctx context.Context, limit int) (ids []string, err error)

	// Purge deletes up to limit tasks whose time to live ended longer than grace ago,
	// that are terminal and due neither now nor later, with their journals.
	Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error)

	// Evict deletes up to limit tasks of a principal that are terminal, due neither now nor later, and were last
	// updated longer than age ago, with their journals: those that were created first.
	Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error)

	// Close releases what the store holds. Nothing else may be called afterwards.
	Close() error
}

// Waker is a [Store] whose parked tasks may wait for a time as well as for an answer, such as for the deadline of an
// open question. A release that does not know of this must not take such a task for one that is due, so the time is
// stored apart from what Claim looks at. Whoever gets the ID decides what becomes of the task, by an Update that is
// refused if an answer was first.
type Waker interface {
	// Woken returns the IDs of up to limit tasks with the status InputRequired that an Update parked and whose Wake has
	// passed, the one that has waited longest first. It returns them again until an Update without Keep.
	Woken(ctx context.Context, limit int) (ids []string, err error)
}

// Watcher is a [Store] whose database tells instances of each other's writes. With any other
// Store a server learns of them by asking again.
type Watcher interface {
	// Watch calls changed with the [Name] of each task that another instance has created or updated, and says whether
	// the task is due at once; until ctx is done: then it returns the error of ctx. A task that was
	// created under a lease is left out, since nobody can wait for it yet. What this Store itself has written may be
	// left out, too: its engine knows. Watch calls ready, if that is not nil, once it listens. When the connection is
	// lost it returns an error, and can be called again, unless it is an errors.ErrUnsupported. Changes may be missed
	// then and at other times: engines look for themselves now and then.
	Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error
}

// Name returns the name by which operators know a task: in lists, log lines, audit events, spans and notifications. The
// ID cannot be had from it, and the ID can be all that protects a task. It has 26 letters and digits, so that it can be
// typed.
func Name(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
}
