package home

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// The dialects in which a client takes a task: the extension's, and the dialect of the proposals from which Multi
// Round-Trip Requests grew. See "Two dialects of tasks" in docs/proof/how-a-call-travels.md.
const (
	DialectExtension = "extension"
	DialectProposal  = "proposal"
)

// TaskRequest is how the client of a request takes a task.
type TaskRequest struct {
	Dialect string // empty if it cannot take one
	TTL     time.Duration
}

// Tasks move calls of clients to [Stored].
type Tasks interface {
	// Create makes a task of a call that has come as far as j. A client that cannot take a task awaits its outcome: see
	// [call.Outcome].
	Create(ctx context.Context, r *call.Request, as TaskRequest, j *journal.Journal) (*call.Outcome, error)
	// Find returns the outcome of a request whose call became a task before, or nil.
	Find(ctx context.Context, r *call.Request, as TaskRequest, callID string) (*call.Outcome, error)
}

// readTaskRequest reads what a call says of tasks. It refuses the call if its tool cannot do without a task, or cannot
// be one. Extension says that the client declared the extension.
func (c *Carrier) readTaskRequest(r *call.Request, extension bool) (as TaskRequest, err error) {
	support := r.Handler.Tasks
	switch {
	case c.Tasks == nil || r.Handler.Method != wire.CallTool:
		// The member is ignored (2025-11-25, "Task Support and Handling").
	case support != nil && extension:
		as.Dialect = DialectExtension
	case extension: // its clients do not send the member task
	case r.Params.Task == nil || strictjson.TypeOf(r.Params.Task) == strictjson.TypeNull:
	case support == nil:
		return as, wire.Errorf(jsonrpc.CodeMethodNotFound,
			`the tool %q cannot run as a task: call it without the member "task"`, r.Params.Target)
	default:
		ttl, fault := wire.ParseTTL(r.Params.Task)
		if fault != nil {
			return as, fault
		}
		as = TaskRequest{DialectProposal, ttl}
	}
	if as.Dialect != "" || support == nil || !support.Required {
		return as, nil
	}
	if r.InSession {
		return as, wire.Errorf(jsonrpc.CodeMethodNotFound,
			`the tool %q runs as a task only: call it with the member "task" in params`, r.Params.Target)
	}
	return as, wire.MissingCapability(wire.Tasks)
}

// opened returns a client's call that goes on from j.
func (c *Carried) opened(ctx context.Context, j *journal.Journal, answers call.Answers) call.Opened {
	c.notePlainForms(ctx, c.request, j)
	o := call.Opened{Journal: j, Answers: answers}
	h := c.request.Handler
	if c.Desk && c.Tasks != nil && h.Method == wire.CallTool && !h.Fetches {
		o.Wait = (*waiting)(c)
	}
	switch support := h.Tasks; {
	case c.task.Dialect != "":
		// In a session the answer must be a task (2025-11-25, "Result Retrieval").
		o.AtOnce = c.request.InSession || !support.AtDetach
		o.Detach = (*detaching)(c)
		c.request.Can |= wire.Tasks
	case support != nil && support.Always && o.Wait != nil:
		o.AtOnce = !support.AtDetach
		o.Detach = (*waiting)(c)
	}
	return o
}

// waiting moves the call to where people answer it. The client gets a task, or the outcome if that comes soon.
type waiting Carried

// Move implements [call.Mover].
func (w *waiting) Move(ctx context.Context, j *journal.Journal) (*call.Outcome, error) {
	c := (*Carried)(w)
	return c.Tasks.Create(ctx, c.request, c.waitsAs(), j)
}

// detaching moves the call to the task that its client asked for.
type detaching Carried

// Move implements [call.Mover].
func (d *detaching) Move(ctx context.Context, j *journal.Journal) (*call.Outcome, error) {
	return d.Tasks.Create(ctx, d.request, d.task, j)
}

// waitsAs is how the client takes the task of a call that waits for people, which may be one of a tool without tasks.
func (c *Carried) waitsAs() TaskRequest {
	as := c.task
	if as.Dialect == "" && !c.request.InSession && c.request.Params.Meta.Capabilities&wire.Tasks != 0 {
		as.Dialect = DialectExtension
	}
	return as
}

// notePlainForms notes in j whether the client of a request shows plain forms only, unless an earlier round, perhaps on
// another instance, did so.
func (c *Carrier) notePlainForms(ctx context.Context, r *call.Request, j *journal.Journal) {
	if c.PlainForms == nil || j.PlainForms {
		return
	}
	client := r.Params.Meta.Client()
	if r.Session != nil && client == nil {
		if init := r.Session.InitializeParams(); init != nil {
			client = init.ClientInfo
		}
	}
	err := fault.Safely(func() error {
		j.PlainForms = client != nil && c.PlainForms(client)
		return nil
	})
	if err != nil {
		c.Log.ErrorContext(ctx, "askback: Options.PlainForms panicked; the forms are sent as they are", "error", err)
	}
}
