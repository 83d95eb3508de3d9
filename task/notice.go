package task

import "time"

// Notice says that something has become of a question. While somebody listens, each write of a [Store] leaves its
// notices in the same transaction, at most one of each kind for a question, also when it was settled. Questions for
// nobody have none. A notice has what it tells, so it outlives its question and its task: it stays until it is settled.
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

// NoticeKind names a change of a [Question].
type NoticeKind string

// The kinds of notices, in the order in which a question has them.
const (
	NoticeAsked      NoticeKind = "asked"
	NoticeDueSoon    NoticeKind = "due_soon"
	NoticeDecided    NoticeKind = "decided"    // by people
	NoticeUnanswered NoticeKind = "unanswered" // by its deadline
	NoticeEnded      NoticeKind = "ended"      // it was withdrawn, or its task has ended
)

// NoticeClaim says which notices [Store.Notices] takes.
type NoticeClaim struct {
	After      string         // the principal that was served last
	Delivering map[string]int // the deliveries of this process that are under way, by principal; each more than zero
	Free       int            // how many more there may be
	Lease      time.Duration
	// Age leaves out notices that were written less long ago. Then the search may read each notice that is due.
	Age time.Duration
}

// RefusedKept is how many refused notices of a principal a store keeps for [Store.Refused].
const RefusedKept = 1000
