// Package task runs durable tasks: work that survives the process, waits for input
// without holding anything, and goes on in any instance that shares the store.
//
// A [Task] is one small row: whose it is, how it stands, what it waits for. What its
// work has recorded, the journal, lies apart from it, so that asking how a task stands
// costs the same whatever it has done. A [Store] keeps both: task/sqlite and task/postgres
// durably, [MemoryStore] for as long as the process lives. task/storetest is the suite
// that every store must pass.
//
// An [Engine] lets tasks run: it claims those that are due under a lease, runs a
// [Handler] with the journal, and writes what comes of it:
//
//	engine := task.NewEngine(store, &task.Options{Handler: handler})
//	go engine.Run(ctx) // claims and runs until ctx is done, then gives its leases back
//
//	t, err := engine.Create(ctx, &task.New{Principal: "alice", Method: "tools/call", Target: "deploy", Call: call})
//
// What it promises: a task exists before Create returns. At any time at most one worker
// can write to a task: each claim has a higher fencing token, and a worker that lost its
// lease can commit nothing. What a worker recorded is there for the next one. A parked
// task is a row and nothing else.
//
// The package knows neither HTTP nor MCP. Package askback lets calls of tools run as
// tasks; use this package to configure it, or to write a store.
package task

import (
	"context"
	"errors"
	"time"
)

// Status is how a task stands, as the client sees it.
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

// Task is the row of a task. Stores treat what is a []byte as opaque. Times have a
// resolution of a millisecond.
type Task struct {
	ID        string // at least 128 random bits
	Principal string // whose it is; "" is the anonymous one
	Method    string // of the request that became a task, such as "tools/call"
	Target    string // such as the tool's name
	Dialect   string // of the client that made it; the Engine does not look at it

	Status       Status
	Message      string // for people: where it is, why it failed
	Pending      []byte // what it waits for; empty unless the status is InputRequired
	Outcome      []byte // what it came to; empty unless it completed or failed
	Round        int    // how often it has asked
	Created      time.Time
	Updated      time.Time
	Expires      time.Time // when its time to live ends
	PollInterval time.Duration

	// Stopped says that the task was ended from outside, by a cancellation or at the
	// end of its time to live, so that its handler may have to clean up.
	Stopped bool
	// Attempts counts the claims since the task last recorded anything.
	Attempts int
	// Version rises with every [Store.Update].
	Version int64
	// Fence is the fencing token of the last claim: it rises with every one.
	Fence int64
}

// Errors of a [Store].
var (
	// ErrNotFound says that there is no task with this id.
	ErrNotFound = errors.New("task not found")
	// ErrConflict says that the task was changed meanwhile: read it again.
	ErrConflict = errors.New("the task was changed meanwhile")
	// ErrLeaseLost says that another worker has claimed the task.
	ErrLeaseLost = errors.New("the lease on the task is lost")
	// ErrExists says that there is a task with this id already.
	ErrExists = errors.New("there is a task with this id already")
	// ErrQuota says that the principal has too many tasks that have not ended.
	ErrQuota = errors.New("too many unfinished tasks")
)

// Update says, besides the row, what an update of a task writes.
type Update struct {
	// Leased requires that the Fence of the given task is the stored one: what a worker
	// sets for all that it writes.
	Leased bool
	// Keep leaves alone when the task is due next: the worker goes on, or nobody was
	// to claim it and that stays so.
	Keep bool
	// Due is when the task may be claimed next, from now. Negative means not at all.
	// It is not used with Keep.
	Due time.Duration
	// Entries are added to the journal.
	Entries [][]byte
}

// Store keeps tasks. It is safe for concurrent use, by any number of processes if it is
// meant for them. Whatever a method has done is durable when it returns. It uses one
// clock, its own, for all instances; contexts bound how long a method may take. Empty bytes
// may be stored as nil. A method that takes an id gives ErrNotFound for one that is none.
//
// An error that is none of this package's says that the answer was lost, and leaves open
// whether the write was made: it is made whole or not at all. The engine repeats what a
// worker records, and how a run ended, until there is an answer. Under a Version that is
// no longer the stored one an Update is refused whole, and so the engine learns that it
// was made.
//
// A task is due when it may be claimed, and by whom does not matter: a new one at once,
// a claimed one when its lease ends, a parked one not at all.
type Store interface {
	// Create adds a task with its journal: the call, which never changes, and the
	// entries. The error is ErrExists if there is one with its ID. It sets t.Created and
	// t.Updated to now and t.Expires to now+ttl; Version and Fence start at 0; the task is
	// due at once. If the principal has quota or more tasks that are not terminal, the
	// error is ErrQuota; a quota of 0 is none. With both, either.
	Create(ctx context.Context, t *Task, ttl time.Duration, call []byte, entries [][]byte, quota int) error

	// Get reads the row of a task, and nothing that grows with its journal.
	Get(ctx context.Context, id string) (*Task, error)

	// List reads up to limit tasks of a principal with this dialect, newest first, ties
	// by id, descending. It begins after the task with this id and time of creation; the
	// zero time and "" are the start. Pending and Outcome may be left out.
	List(ctx context.Context, principal, dialect string, created time.Time, id string, limit int) ([]*Task, error)

	// Claim takes a task that is due and makes it due again at the end of the lease:
	// Fence and Attempts rise by one. Among the principals that have due tasks it takes
	// the first that is greater than after, in any order that is always the same, or the
	// first of all; of that principal's tasks the one that has been due longest. If none
	// is due, both results are nil.
	Claim(ctx context.Context, after string, lease time.Duration) (*Task, error)

	// Journal reads the call and the entries, in the order they were added.
	Journal(ctx context.Context, id string) (call []byte, entries [][]byte, err error)

	// Append adds one entry to the journal under the lease with this fence, and sets
	// Attempts to 0. It changes neither Version nor Updated. The error is ErrLeaseLost
	// if another claim came between, whatever the status.
	Append(ctx context.Context, id string, fence int64, entry []byte) error

	// Renew makes the lease with this fence end after the given time, and returns the
	// task's Version. A task that is not due at all, because it was parked or has ended,
	// stays so. The error is ErrLeaseLost if another claim came between.
	Renew(ctx context.Context, id string, fence int64, lease time.Duration) (version int64, err error)

	// Update writes Status, Message, Pending, Outcome, Round, Expires, Stopped and
	// Attempts of t if its Version is the stored one, and sets t.Updated to now and
	// t.Version to its successor. The error is ErrLeaseLost if with u.Leased the Fence is
	// not the stored one, whatever the Version, and ErrConflict if the Version is not: then
	// nothing is written, and t is as it was.
	Update(ctx context.Context, t *Task, u Update) error

	// Expired returns up to limit tasks that are not terminal and whose time to live has
	// ended.
	Expired(ctx context.Context, limit int) (ids []string, err error)

	// Purge deletes up to limit tasks whose time to live ended longer than grace ago,
	// that are terminal and due neither now nor later, with their journals.
	Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error)

	// Close releases what the store holds. Nothing else may be called afterwards.
	Close() error
}

// Watcher is what a [Store] implements whose database tells instances of each other's
// writes. Without it an [Engine] learns of them by asking again.
type Watcher interface {
	// Watch calls changed with the id of each task that any instance, this one included,
	// has created or updated, until ctx is done. It returns earlier, with an error, when
	// the connection is lost; ids may have been missed then, and it can be called again.
	// An id may be lost in other ways, too: engines look for themselves now and then.
	// ready, if not nil, is called once when it listens. When ctx is done the error is its.
	Watch(ctx context.Context, ready func(), changed func(id string)) error
}
