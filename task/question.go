package task

import (
	"errors"
	"time"
)

// Question is what a task waits for apart from its client: the answer of people at a desk, a deadline, or both. It is a
// row of its own, so that people can answer while the task runs. To stores each []byte is opaque. Key, Equal and each
// of For and Voters have at most 512 bytes. Times have a resolution of a millisecond.
//
// What a [Store] does with questions in other methods than those for questions:
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
	// Version rises with every [Store.ChangeQuestion] and with every change of Status.
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

// Errors of the methods of a [Store] for questions, and of an Update with Ask, Answered or Expired.
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

// QuestionFilter selects open questions. A nil or zero field lets all pass. A question for nobody never passes.
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

// QuestionHistory selects questions with any status: the questions that one name has voted on, or that the tasks of one
// principal have asked. One field is set.
type QuestionHistory struct {
	Voter     string
	Principal string
}
