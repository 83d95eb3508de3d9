package task

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"
)

// EventLog is a [Store] that keeps a log of what becomes of tasks with [Task.Events]. An [Event] is written by the
// write that makes it so, and deleted with its task. Only on such a Store a server has events for callers. The log also
// has the events of authors.
type EventLog interface {
	// Emit adds an event with EventEmitted for each of its Readers, unless the Reader has one with its ID. Of each Reader
	// the newest e.Most are kept, and [Store.Purge] deletes, from time to time, what was emitted longer ago than e.Keep.
	Emit(ctx context.Context, e *Emission) error

	// Events reads events in the order of their positions. All that it returns is of one moment: what is seen later has
	// a Position beyond it. The events of one task are in the order in which they were written. It reads an index, so
	// that the events of other principals cost nothing.
	Events(ctx context.Context, q EventQuery) (*EventPage, error)
}

// EventQuery selects events of readers.
type EventQuery struct {
	Readers []string    // each once; see [Event.Reader]
	Task    string      // the ID of a task; empty lets all pass
	Kinds   []EventKind // nil lets all pass
	Target  string      // of the task; empty lets all pass
	After   int64       // the page begins after this Position
	Limit   int         // how many Events the page has at most
}

// EventPage is what a query finds.
type EventPage struct {
	Events []*Event
	// At is the event whose Position is After, of any reader. Last is the event of the Readers that has the highest
	// Position. Nothing else of the query matters for them. Nil means that there is no such event.
	At, Last *Event
	// Deleted is the highest Position of the Readers' events that were deleted, and 0 if it is not known. A store may
	// forget it [EventGapsKept] after that event was written, and does not know it of anonymous callers.
	Deleted int64
	Now     time.Time // by the clock of the store
}

// EventGapsKept is how long a store remembers at least that it has deleted an event.
const EventGapsKept = 30 * 24 * time.Hour

// Emission is an event of an author.
type Emission struct {
	Readers []string      // see [EmittedReader]
	ID      string        // what the author calls it
	Payload string        // opaque to the store
	Keep    time.Duration // at most EventGapsKept
	Most    int           // more than 0
}

// EmittedReader is the [Event.Reader] of what an author emits: for one principal or, if that is empty, for all. The
// type has no colon.
func EmittedReader(eventType, principal string) string {
	if principal == "" {
		return "emitted:" + eventType
	}
	return "emitted:" + eventType + ":" + principal
}

// CallerReader is the [Event.Reader] that the principal of a task is. The anonymous one is another for each task.
func CallerReader(principal, taskID string) string {
	if principal == "" {
		return "task:" + taskID
	}
	return "caller:" + principal
}

// Event says what has become of a task, to one reader. It has as many Positions as there are readers.
type Event struct {
	Position int64 // more than 0, and never given to another event, unless the database loses commits
	// Reader is [CallerReader] of the principal or, where people are asked or have decided, an entry of the For that the
	// Question has then. A name that is added to the For of an open Question reads EventAsked from that time on.
	Reader    string
	Kind      EventKind
	Task      string // its ID
	Principal string // of the task
	Target    string // of the task
	// Key is the Key of a [Question]. For EventInput it is the Version of the task, for EventEmitted the ID of the
	// [Emission], and empty for EventEnded.
	Key     string
	Status  Status // of the task; only EventEnded has it
	Payload string // only EventEmitted has it, and it has no Task, Principal and Target
	Written time.Time
}

// EventKind names what has become of a task. At most one event of a task and a Reader has the same kind and Key.
type EventKind string

// The kinds of events. A question for nobody has none.
const (
	EventAsked      EventKind = "asked"      // people are asked a [Question]
	EventInput      EventKind = "input"      // the task is parked and has Pending: its client is asked
	EventDecided    EventKind = "decided"    // people have decided a Question
	EventUnanswered EventKind = "unanswered" // the deadline has decided a Question
	EventEnded      EventKind = "ended"      // the task has ended
	EventEmitted    EventKind = "emitted"    // an author has emitted it
)

// ID returns the name by which a reader knows the event if it comes again, also after the database has lost commits and
// what they wrote was done anew. It is the same for all readers. The task's ID cannot be had from it.
func (e *Event) ID() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{"event", e.Task, string(e.Kind), e.Key, string(e.Status)},
		"\x00")))
	return nameEncoding.EncodeToString(sum[:16])
}
