package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// Pending is a call that has no result yet. It marshals to JSON, and another process can
// continue it with [Session.Resume]: it has all that the call needs, including the answers
// that were given already. It is as confidential as the call's arguments and answers are.
type Pending struct {
	// Endpoint is the URL of the server, or empty if it has none. In a call that comes from elsewhere, its author chose
	// it: show it to the user, send no credentials there that the user did not mean for it, and never run it as a program.
	Endpoint string `json:"endpoint,omitempty"`
	// Method is "tools/call", "prompts/get" or "resources/read".
	Method string `json:"method"`
	// Params are the parameters of the call: name or uri, arguments, and task if it asks for one.
	Params json.RawMessage `json:"params,omitempty"`
	// Round is the number of the last round.
	Round int `json:"round"`
	// Questions wait for answers, in the server's order.
	Questions []*Question `json:"questions"`
	// Answers are those that were given already, by the questions' keys.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// State is the server's, to be returned exactly.
	State string `json:"requestState,omitempty"`
	// Parked is when the last round ended.
	Parked time.Time `json:"parked"`
	// Meta goes with the requests of [Session.Resume], such as a progress token. It is not encoded.
	Meta mcp.Meta `json:"-"`
	// Expires is when the server stops accepting the state, or forgets the task. It is nil if
	// the server did not say so.
	Expires *time.Time `json:"expires,omitempty"`
	// Trace is the call's trace: see [Operation.Trace].
	Trace string `json:"trace,omitempty"`
	// TaskID is the ID of the task that the call has become, or empty. The parameters of a
	// task's call may be missing.
	TaskID string `json:"taskId,omitempty"`
	// Tasks is the task's dialect. It outranks the client's [Options].
	Tasks TaskDialect `json:"tasks,omitempty"`

	empty bool // the state is the empty string, and not absent
}

// state is the server's state, or nil where there was none.
func (p *Pending) state() *string {
	if p.State == "" && !p.empty {
		return nil
	}
	return &p.State
}

func (p *Pending) setState(state *string) {
	if state != nil {
		p.State, p.empty = *state, *state == ""
	}
}

// MarshalJSON keeps all that [Session.Resume] needs.
func (p Pending) MarshalJSON() ([]byte, error) {
	type plain Pending
	return json.Marshal(struct {
		plain
		State *string `json:"requestState,omitempty"`
	}{plain(p), p.state()})
}

// UnmarshalJSON reads what a Pending marshals to.
func (p *Pending) UnmarshalJSON(data []byte) error {
	type plain Pending
	if err := json.Unmarshal(data, (*plain)(p)); err != nil {
		return fmt.Errorf("not a pending call: %w", err)
	}
	if state, err := requestState(data); err == nil { // null is no state
		p.setState(state)
	}
	if p.TaskID == "" && (p.Method == "" || len(p.Params) == 0 || len(p.Questions) == 0 && p.state() == nil) {
		return errors.New("not a pending call: method, params and questions or requestState are needed, or a task")
	}
	if p.TaskID == "" && !slices.Contains([]string{wire.CallTool, wire.GetPrompt, wire.ReadResource}, p.Method) {
		return fmt.Errorf("not a pending call: the method %.80q cannot wait", p.Method)
	}
	for _, q := range p.Questions {
		if q == nil {
			return errors.New("not a pending call: a question is null")
		}
		if err := parse(q); err != nil {
			return err
		}
	}
	return nil
}

// PendingError reports that a call ended here without a result, and can continue from Pending
// with [Session.Resume]. Err is the reason, and is wrapped:
//
//   - [ErrPark], when a handler parked the call;
//   - a [*LimitError], when a limit was reached: the call can continue under wider limits;
//   - for a call that has become a task, the reason why the waiting ended, such as the context's
//     cause: the task itself may continue or wait.
type PendingError struct {
	Pending *Pending
	Err     error
}

func (e *PendingError) Error() string {
	task := e.Pending.TaskID
	switch parked := errors.Is(e.Err, ErrPark); {
	case parked && task != "":
		return fmt.Sprintf("the task %.80q waits for answers to %s", task, e.Pending.unanswered())
	case parked:
		return "the call waits for answers to " + e.Pending.unanswered()
	case task != "":
		return fmt.Sprintf("%v; the task %.80q may still go on", e.Err, task)
	}
	return e.Err.Error()
}

func (e *PendingError) Unwrap() error { return e.Err }

// unanswered names the questions that wait for answers.
func (p *Pending) unanswered() string {
	var keys []string
	for _, q := range p.Questions {
		if _, answered := p.Answers[q.Key]; !answered {
			keys = append(keys, fmt.Sprintf("%q", q.Key))
		}
	}
	return strings.Join(keys, ", ")
}
