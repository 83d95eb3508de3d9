package desk

import (
	"time"

	"github.com/askback-mcp/askback/task"
)

// Notice reports a change of a question for people. It has the question as it was then, and arrives
// even when the task has been deleted since. It never has an answer in it.
type Notice struct {
	// ID is the same each time the notice is delivered, and differs from all others: notices are delivered at least
	// once. If a failover of the store has lost a decision, the notice of the next one has another ID.
	ID   string          `json:"id"`
	Kind task.NoticeKind `json:"kind"`
	Time time.Time       `json:"time"` // when that has happened
	// Attempt counts the deliveries of the notice, from 1. It is not encoded.
	Attempt int `json:"-"`

	Name      string   `json:"name"` // of the task: see [task.Name]
	Key       string   `json:"key"`  // of the question, for [Desk.Answer]
	Target    string   `json:"target"`
	Principal string   `json:"principal"` // whose call it is; "" is the anonymous principal
	Message   string   `json:"message"`   // at most 4 KiB; a longer one is cut and ends with "…"
	For       []string `json:"for"`
	Votes     int      `json:"votes"` // how many must accept

	Asked    time.Time `json:"asked"`
	Deadline time.Time `json:"deadline,omitzero"` // zero means no deadline
}
