package task

import (
	"context"
	"errors"
	"time"
)

// Question is what a task waits for apart from its client: the answer of people at a desk, a deadline, or both. It is a
// row of its own, so that people can answer while the task runs. To stores each []byte is opaque. Key, Equal and each
// of For and Voters have at most 512 bytes. Times have a resolution of a millisecond.
type Question struct {
	Task      string // the ID of its task
	Key       string // names the question within its task; no other question of the task ever has the same
	Principal string // of the task
	Target    string // of the task
	// Equal is the same for the questions of equal calls. Empty means that nobody looks for it that way.
	Equal string
	// For says who may answer, such as "user:alice" and "group:release", each once. A question for nobody waits for its
	// deadline only: it is not listed and not announced.
	For     []string
	Content []byte // what is asked; it never changes
	Notice  []byte // what its notices tell besides the fields of its row; it never changes, and only they have it

	Asked    time.Time
	Deadline time.Time // zero means no deadline
	// Within and Remind are read when a question is added: the times from then to its deadline, and to the notice that the
	// deadline is near, which moves with the deadline. Zero means that the question has no deadline. What a store reads
	// has zeros.
	Within, Remind time.Duration

	Status   QuestionStatus
	Votes    []byte   // what people have said and done so far
	Voters   []string // the names of those who have voted, each once
	Decision []byte   // empty until it is decided
	// Version rises with every [Asker.ChangeQuestion] and with every change of Status.
	Version int64
	// Changed is when the question was asked or got its Version, by the clock of the store.
	Changed time.Time
}

// QuestionStatus is the state of a [Question].
type QuestionStatus string

// The states of a question. An open one is the only one that can be answered.
const (
	QuestionOpen      QuestionStatus = "open"
	QuestionDecided   QuestionStatus = "decided"
	QuestionWithdrawn QuestionStatus = "withdrawn" // its task has ended, no longer asks, or was answered by its client
)

// AfterDeadline is how much longer than the deadlines of its questions a task lives at least, so that it can go on.
const AfterDeadline = 10 * time.Minute

// Errors of an [Asker], and of an Update with Expired.
var (
	// ErrDecided says that a question was decided, so that its task must not be parked: it has to run.
	ErrDecided = errors.New("the question was decided meanwhile")
	// ErrLate says that the deadline of a question has passed.
	ErrLate = errors.New("the deadline of the question has passed")
	// ErrEarly says that the deadline of a question, or the time to live of a task, has not passed, or that the question
	// has no deadline.
	ErrEarly = errors.New("the time has not passed")
	// ErrClosed says that a question is no longer open.
	ErrClosed = errors.New("the question is no longer open")
)

// QuestionFilter selects open questions of an [Asker]. A nil or zero field lets all pass. A question for nobody never
// passes.
type QuestionFilter struct {
	For []string // questions for at least one of these
	// ForOthers adds the questions for at least one of these that tasks of other principals than Own ask, so that
	// somebody's own calls do not fill the list of their groups. If For is nil, only these pass.
	ForOthers []string
	Own       string
	Targets   []string  // of the tasks
	Equal     string    // the questions with this Equal
	Before    time.Time // asked before this time

	// ByDeadline orders by the deadline, the nearest first, and leaves out questions without one. Otherwise the question
	// that was asked first is the first or, with Newest, the last.
	ByDeadline bool
	Newest     bool
}

// QuestionHistory selects questions of an [Asker], with any status: the questions that one name has voted on, or that
// the tasks of one principal have asked. One field is set.
type QuestionHistory struct {
	Voter     string
	Principal string
}

// Asker is a [Store] that keeps questions. Without it a handler can ask only the client of its call, and cannot wait
// for a time. What an Asker does beyond its own methods:
//
//   - An [Store.Update] that is Leased and makes or leaves the task [InputRequired] sets what is open: a question of
//     [Update.Ask] whose Key the task has not had is added, with Asked now, and with Task, Principal and Target of the
//     task; one that was Withdrawn is open again, and otherwise as it was; one that is open stays as it is. Every other
//     open question of the task is Withdrawn. If one of Ask is Decided the error is [ErrDecided].
//   - An Update withdraws the open questions named by [Update.Answered]. The error is [ErrLate] if one of them is not
//     open, or its deadline has passed; a name that the task does not have is ignored.
//   - These errors come after ErrLeaseLost, ErrConflict and ErrEnded of Update, and as with those nothing is written.
//   - A task lives at least [AfterDeadline] longer than the deadline of a question that is added or moved, and at least
//     as long from a decision as [Store.Update] says for one that becomes Working.
//   - When a task ends, however that comes, its open questions are Withdrawn. When it is deleted, so are its questions.
//   - What questions hold does not count in a [Quota].
type Asker interface {
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
}

// Outbox is an [Asker] that tells of questions. While somebody listens, each write leaves its notices in the same
// transaction, at most one of each kind for a question, also when it was settled. Questions for nobody have none. A
// notice has what it tells, so it outlives its question and its task: it stays until it is settled.
type Outbox interface {
	Asker

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
}

// NoticeClaim says which notices [Outbox.Notices] takes.
type NoticeClaim struct {
	After      string         // the principal that was served last
	Delivering map[string]int // the deliveries of this process that are under way, by principal; each more than zero
	Free       int            // how many more there may be
	Lease      time.Duration
	// Age leaves out notices that were written less long ago. Then the search may read each notice that is due.
	Age time.Duration
}

// RefusedKept is how many refused notices of a principal a store keeps: see [Outbox].
const RefusedKept = 1000

// Notice says that something has become of a question.
type Notice struct {
	Kind     NoticeKind
	Written  time.Time
	Attempts int // how often it was taken
	// Age is how long before it was taken it was written, by the clock of the store. A refused notice has none.
	Age time.Duration
	// Question is the question as it was when the notice was written. It has Task, Key, Principal, Target, For, Notice,
	// Asked and Deadline. The question, and its task, may have been deleted since.
	Question *Question
}

// NoticeKind is what has become of a [Question].
type NoticeKind string

// The kinds of notices, in the order in which a question has them.
const (
	NoticeAsked      NoticeKind = "asked"
	NoticeDueSoon    NoticeKind = "due_soon"
	NoticeDecided    NoticeKind = "decided"    // by people
	NoticeUnanswered NoticeKind = "unanswered" // by its deadline
	NoticeEnded      NoticeKind = "ended"      // it was withdrawn, or its task has ended
)
