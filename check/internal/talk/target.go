package talk

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/plan"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

// A Target is something that asks.
type Target struct {
	Method, Name string
	Make         func(text string) map[string]any // the arguments of a call, with a text of its own
	Free         string                           // the argument that takes any text, if there is one
	Rows         []*Row                           // values that calls use up, those that were used last at the end
	Plan         plan.Call
	Ends         bool   // it may be called to its end
	Why          string // why it may not
	Rounds       []*Reply
	Text         string // of the arguments of the call with these rounds
	Resists      bool   // it has refused every change of a state that shows no signature
	Inputs       map[string]fit.Property
	Task         *Task         // that a call becomes for a client with the extension, as far as it was followed
	Lag          int           // requests until an answer to the task was seen, or its end
	Heard        time.Duration // until the owner of a task heard of it
}

// A Row is the values of arguments that serve one call, because the call uses them up.
type Row struct {
	Values map[string]any
	spent  bool // a call with them has come to an end
}

func (t *Target) String() string {
	if t == nil {
		return ""
	}
	return t.Method + " " + t.Name
}

// Asks reports whether the target asks before its result, or before it becomes a task.
func (t *Target) Asks() bool { return len(t.Rounds) > 0 && t.Rounds[0].Asks() }

// StateRound is the number of the last round that has a state, from one. Zero means that none has.
func (t *Target) StateRound() int {
	for i, round := range slices.Backward(t.Rounds) {
		if round.Asks() && round.State != nil {
			return i + 1
		}
	}
	return 0
}

// AskRound is the number of the last round that asks.
func (t *Target) AskRound() int {
	for i, round := range slices.Backward(t.Rounds) {
		if round.Asks() {
			return i + 1
		}
	}
	return 0
}

// TaskRounds is how many times the task of a target asks.
func (t *Target) TaskRounds() (n int) {
	if t == nil || t.Task == nil {
		return 0
	}
	last := ""
	for _, p := range t.Task.Seen {
		if p.Class == Advanced && p.Text != last {
			n, last = n+1, p.Text
		}
	}
	return n
}

// Unsigned reports whether the state of a round can be read, and nothing in it looks like a signature. An argument of
// the call may look like one.
func (t *Target) Unsigned(state *string) bool {
	if state == nil {
		return false
	}
	without := *state
	if text, err := json.Marshal(t.Text); err == nil && t.Text != "" {
		if changed, err := alter.State(without, fmt.Sprintf(`swap %s "argument"`, text)); err == nil {
			without = changed
		}
	}
	leaves := alter.Leaves(without)
	return len(leaves) > 0 && !slices.ContainsFunc(leaves, func(l alter.Leaf) bool { return l.Protected })
}

// Params are the parameters of a first request.
func (t *Target) Params(arguments map[string]any) map[string]any {
	switch t.Method {
	case "resources/read":
		return map[string]any{"uri": t.Name}
	case "tools/list", "prompts/list", "resources/list":
		return map[string]any{}
	default:
		return map[string]any{"name": t.Name, "arguments": arguments}
	}
}
