package task

import (
	"context"
	"time"
)

// Evicter is a [Store] with quotas: its Create and Update refuse what a [Quota] does not allow, and Evict makes room.
// Any other Store may ignore the quotas that it is given. Then nothing keeps a caller from filling it: a server says so
// in its log, and refuses the store if its [Settings] have a quota.
type Evicter interface {
	// Evict deletes up to limit tasks of a principal that are terminal, not due now or later, and were last updated longer
	// than age ago, with their journals: those that were created first.
	Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error)
}

// Lister is a [Store] that finds tasks without their IDs. Without it clients have no tasks/list, and an operator's desk
// shows and cancels a task by its ID only.
type Lister interface {
	// List reads up to limit tasks of a principal with this dialect: newest first, and those created at the same time
	// by ID, descending. It begins after the task with this ID and time of creation; the zero time and "" are the
	// start. Outcome and Nonce may be left out, and of Pending all after its first byte.
	List(ctx context.Context, principal, dialect string, created time.Time, id string, limit int) ([]*Task, error)

	// Select reads up to limit tasks that the filter lets pass, of all principals and in all dialects: in an order of
	// their IDs, beginning after the given one; "" is the start. Outcome and Nonce may be left out. It is for
	// operators, and may read every task.
	Select(ctx context.Context, f Filter, after string, limit int) ([]*Task, error)
}

// Counter is a [Store] that counts tasks, for a gauge of what waits.
type Counter interface {
	// Count counts the tasks that have not ended, of all principals and in all dialects, by their status: Working and
	// InputRequired. It costs the more, the more of them there are, but reads none that has ended. A status without
	// tasks may be missing.
	Count(ctx context.Context) (map[Status]int, error)
}

// Versioner is a [Store] that reads the versions of many tasks at once. With any other Store a server that looks for
// changes gets each task that somebody waits for.
type Versioner interface {
	// Versions reads the Version of each of these tasks that exists.
	Versions(ctx context.Context, ids []string) (map[string]int64, error)
}

// Watcher is a [Store] whose database tells instances of each other's writes. With any other
// Store a server learns of them by asking again.
type Watcher interface {
	// Watch calls changed with the [Name] of each task that another instance has created or updated, and says whether
	// the task is due at once; until ctx is done: then it returns the error of ctx. A task that was created under a
	// lease is left out, since nobody can wait for it yet. What this Store itself has written may be left out, too: its
	// server knows. Watch calls ready, if that is not nil, once it listens. When the connection is lost it returns an
	// error, and can be called again, unless it is an errors.ErrUnsupported. Changes may be missed then and at other
	// times: servers look for themselves now and then.
	Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error
}
