package task

import (
	"context"
	"time"
)

// Store keeps tasks, what they ask, and the notices of that. A server learns of what other instances write sooner if
// the Store is also a [Watcher]. A type that wraps a Store hides what it does not pass on.
//
// What holds for all methods:
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

	// Versions reads the Version of each of these tasks that exists.
	Versions(ctx context.Context, ids []string) (map[string]int64, error)

	// Claim takes due tasks for a server that has limit free workers and already runs load, and makes them due again at
	// the end of the lease: Fence and Attempts rise by one, and each has a new Nonce. It returns them with their journals.
	// It takes one task after another, and adds each to the load:
	//
	//   - The next task belongs to the principal with the fewest tasks; of several, to the first principal after the given
	//     one, in any fixed order of principals that starts again after the last.
	//   - A principal gets another task only while it has fewer tasks than there are free workers. So some workers are
	//     left for principals that have none.
	//   - Of a principal's tasks, the next one has the Target for which the principal has the fewest tasks; among several
	//     tasks, it is the task that has been due longest.
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
	// alone: n counts those that were deleted, also with an error. It also deletes remembered decisions that have ended.
	Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error)

	// Evict deletes up to limit tasks of a principal that are terminal, not due now or later, and were last updated longer
	// than age ago, with their journals: those that were created first.
	Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error)

	// List reads up to limit tasks of a principal with this dialect: newest first, and those created at the same time
	// by ID, descending. It begins after the task with this ID and time of creation; the zero time and "" are the
	// start. Outcome and Nonce may be left out, and of Pending all after its first byte.
	List(ctx context.Context, principal, dialect string, created time.Time, id string, limit int) ([]*Task, error)

	// Select reads up to limit tasks that the filter lets pass, of all principals and in all dialects: in an order of
	// their IDs, beginning after the given one; "" is the start. Outcome and Nonce may be left out. It is for
	// operators, and may read every task.
	Select(ctx context.Context, f Filter, after string, limit int) ([]*Task, error)

	// Count counts the tasks that have not ended, of all principals and in all dialects, by their status: Working and
	// InputRequired. It costs the more, the more of them there are, but reads none that has ended. A status without
	// tasks may be missing.
	Count(ctx context.Context) (map[Status]int, error)

	// Questions reads the questions of the tasks whose [Name] is this or begins like this, with any status: in the order
	// of the names, then in the order in which they were asked and, within one time, by Key. The result is empty if there
	// is no such task. It reads an index, so that the questions of other tasks cost nothing.
	Questions(ctx context.Context, name string) ([]*Question, error)

	// Waiting reads up to limit open questions that the filter lets pass, each once, in the order that the filter says;
	// questions of one time are ordered by the ID of their task and then by Key, reversed with Newest. It begins after the
	// given question, and reads its Asked, Deadline, Task and Key; nil is the start. It reads an index, so that what
	// others wait for costs nothing.
	Waiting(ctx context.Context, f QuestionFilter, after *Question, limit int) ([]*Question, error)

	// History reads up to limit questions of a history, in the order of [QuestionFilter.Newest]. Questions for nobody are
	// left out. It begins after the given question, and reads its Asked, Task and Key; nil is the start. It reads an
	// index, so that the history of others costs nothing.
	History(ctx context.Context, of QuestionHistory, after *Question, limit int) ([]*Question, error)

	// Changes reads up to limit questions in the order in which they were changed last; questions of one time are ordered
	// by the [Name] of their task and then by Key. Questions for nobody are left out. It begins after the given question,
	// and reads its Changed, Task and Key; without a Task it begins with the first of this time, and nil is the start. It
	// reads an index, so that what was changed before costs nothing. It also returns the time by the clock of the store,
	// as it was before the questions were read; a limit of zero reads only that.
	//
	// A change can be seen later than one with a later Changed, since transactions last: so a reader reads again what was
	// changed a short time before, and knows what it has seen by Task, Key and Version.
	Changes(ctx context.Context, after *Question, limit int) (changed []*Question, now time.Time, err error)

	// ChangeQuestion writes For, Deadline, Votes, Voters and Decision of q if its Version is the stored one, and raises
	// it. With a Decision the question is Decided, and its task, if it is [InputRequired], becomes [Working] and due at
	// once, with its Pending as it is, its Version and Updated as by an Update, and Attempts 0. Version and Status are set
	// in q too.
	//
	// Expired says that the change is made because the deadline has passed. The errors, in this order: [ErrNotFound];
	// [ErrConflict] if the Version is not the stored one; [ErrClosed] if the question is not open; [ErrLate] if the
	// stored deadline has passed, or is now, and expired is not set; [ErrEarly] if expired is set, and the deadline has
	// not passed or the question has no deadline. With an error nothing is written and q is unchanged.
	ChangeQuestion(ctx context.Context, q *Question, expired bool) error

	// Overdue reads up to limit open questions whose deadline has passed, the one that passed first at first. Questions
	// for nobody are among them.
	Overdue(ctx context.Context, limit int) ([]*Question, error)

	// Listen says that somebody listens for this time from now. It never shortens the time that was said before. Writes of
	// all instances leave notices until it ends. A write leaves no more of a principal than named allows, and no more of
	// the anonymous principal than anonymous allows: what is beyond is refused. Zero allows any number. The bounds of the
	// last call hold; writes at the same time may pass them by one each.
	Listen(ctx context.Context, d time.Duration, named, anonymous int) error

	// Notices takes notices that are due. It makes them due again at the end of the lease, and raises their Attempts by
	// one. Of each task only the one that was written first can be taken. Before that it writes, while somebody listens,
	// the notices of deadlines of open questions that have come near. Principals take turns as in [Store.Claim]:
	//
	//   - The next notice belongs to the principal with the fewest deliveries; of several, to the first principal after
	//     the given one, in any fixed order of principals that starts again after the last.
	//   - A principal gets another delivery only while it has fewer than are free.
	//   - Of a principal's notices, the next one is the one that has been due longest.
	//
	// The notices are in the order in which they were taken. Notices may take fewer than these rules allow, but at least
	// one. It reads an index, so that the notices of others cost nothing.
	Notices(ctx context.Context, c NoticeClaim) ([]*Notice, error)

	// Settle deletes a notice or, if retry is more than zero, makes it due after that time, unless it was taken again
	// since: then it does nothing. A notice that does not exist any more is no error.
	Settle(ctx context.Context, n *Notice, retry time.Duration) error

	// Refused deletes up to limit notices that a bound of Listen has refused, and returns them: those that were written
	// first at first. They have no Notice of their question. Of a principal the first 1,000 are kept for it.
	Refused(ctx context.Context, limit int) ([]*Notice, error)

	// Remember keeps a decision until r.Until. It takes the place of the one that has its Key, and is left out if it was
	// not decided later than that one, or not later than that one was forgotten: so a Remember that is repeated changes
	// nothing. Purge deletes what has ended.
	Remember(ctx context.Context, r *Remembered) error

	// Recall lets a call pass by the decision with a Key, and lowers its Left in the same write. A call that it has let
	// pass before passes again, and nothing is lowered. The error is [ErrNotFound] if there is no such decision, if it has
	// ended or was forgotten, or if nothing is Left of it for another call.
	Recall(ctx context.Context, key, call string) (*Remembered, error)

	// Remembered reads up to limit decisions that let further calls pass and that concern one of who; nil is anybody. The
	// last one decided is the first; of one time they are ordered by Key. It begins after the given one, and reads its
	// Decided and Key; nil is the start.
	Remembered(ctx context.Context, who []string, after *Remembered, limit int) ([]*Remembered, error)

	// Forget ends a decision. The error is [ErrNotFound] if no decision has that Key, or if it has ended.
	Forget(ctx context.Context, key string) error

	// Close releases what the store holds. Nothing else may be called afterwards.
	Close() error
}

// Inserter is a [Store] that can add a task as its first run leaves it, in one write. With any other Store the server
// adds the task before the run, and updates it after it.
type Inserter interface {
	// Insert adds a task with its journal, as [Store.Create] does. The Claim, the Attempts and the Version are the given
	// ones. In the same write it makes what u says of Entries, Ask, TTL, and Due or Lease, as an Update with Leased does.
	// It does not use the other fields of u. The errors are the same as for Create.
	Insert(ctx context.Context, t *Task, ttl time.Duration, call []byte, u Update, quota Quota) error
}

// Watcher is a [Store] whose database tells instances of each other's writes. With any other
// Store a server learns of them by asking again.
type Watcher interface {
	// Watch calls changed with the [Name] of each task that another instance has created or updated, and says whether
	// the task is due at once; until ctx is done: then it returns the error of ctx. A task that was created under a
	// lease, or inserted and is not due, is left out, since nobody can wait for it yet. What this Store itself has written
	// may be left out, too: its server knows. Watch calls ready, if that is not nil, once it listens. When the connection
	// is lost it returns an error, and can be called again, unless it is an errors.ErrUnsupported. Changes may be missed
	// then and at other times: servers look for themselves now and then.
	Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error
}
