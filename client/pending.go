package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Pending is a call that waits for answers. It is the error of a call whose handlers
// returned [ErrPark], and marshals to JSON, so that another process can go on with it:
// it has all that the call needs, and the answers that were given already. It is as
// confidential as the call's arguments and answers are.
type Pending struct {
	// Endpoint is where the server was reached over HTTP, or empty. In a call that comes
	// from elsewhere it is whatever its author wrote: show it to the user, send no
	// credentials there that the user did not mean for it, and never run it as a program.
	Endpoint string `json:"endpoint,omitempty"`
	// Method is "tools/call", "prompts/get" or "resources/read".
	Method string `json:"method"`
	// Params are those of the call: name or uri, arguments, and task if it asks for one.
	Params json.RawMessage `json:"params,omitempty"`
	// Round is the number of the last round.
	Round int `json:"round"`
	// Questions wait for answers, in the server's order.
	Questions []*Question `json:"questions"`
	// Answers that were given already, by the questions' keys.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// State is the server's, to be sent back exactly.
	State string `json:"requestState,omitempty"`
	// Parked is when the last round ended.
	Parked time.Time `json:"parked"`
	// Meta goes with the requests of [Session.Resume], such as a progress token. It is
	// not kept.
	Meta mcp.Meta `json:"-"`
	// Expires is when the server will no longer take the state back, or when it forgets the
	// task, if it said so.
	Expires *time.Time `json:"expires,omitempty"`
	// TaskID is the id of the task that the call has become, or empty. Then the task waits,
	// and the parameters may be missing.
	TaskID string `json:"taskId,omitempty"`
	// Tasks is how to speak about the task, whatever the client's [Options] say.
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

func (p *Pending) Error() string {
	var keys []string
	for _, q := range p.Questions {
		if _, answered := p.Answers[q.Key]; !answered {
			keys = append(keys, fmt.Sprintf("%q", q.Key))
		}
	}
	if p.TaskID != "" {
		return fmt.Sprintf("the task %.80q waits for answers to %s", p.TaskID, strings.Join(keys, ", "))
	}
	return "the call waits for answers to " + strings.Join(keys, ", ")
}

// MarshalJSON keeps all that [Session.Resume] needs.
func (p Pending) MarshalJSON() ([]byte, error) {
	type plain Pending
	if p.State != "" || !p.empty {
		return json.Marshal(plain(p))
	}
	return json.Marshal(struct {
		plain
		State string `json:"requestState"`
	}{plain: plain(p)})
}

// UnmarshalJSON reads what a Pending marshals to.
func (p *Pending) UnmarshalJSON(data []byte) error {
	type plain Pending
	if err := json.Unmarshal(data, (*plain)(p)); err != nil {
		return fmt.Errorf("not a pending call: %w", err)
	}
	if state, err := requestState(data); err == nil { // what is null is none
		p.setState(state)
	}
	if p.TaskID == "" && (p.Method == "" || len(p.Params) == 0 || len(p.Questions) == 0 && p.state() == nil) {
		return fmt.Errorf("not a pending call: method, params and questions or requestState are needed, or a task")
	}
	for _, q := range p.Questions {
		if q == nil {
			return fmt.Errorf("not a pending call: a question is null")
		}
		if err := q.parse(); err != nil {
			return err
		}
	}
	return nil
}
