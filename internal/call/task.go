package call

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// The dialects in which a client takes a task: that of the extension, and that of the
// proposals from which Multi Round-Trip Requests grew. See "Two dialects" in docs/tasks.md.
const (
	DialectExtension = "extension"
	DialectProposal  = "proposal"
)

// TaskRequest is what a request says of tasks.
type TaskRequest struct {
	Dialect string // in which its client can take one; empty if it cannot
	TTL     time.Duration
	AtOnce  bool       // the call becomes one before its handler runs
	Running bool       // the call is one, and its handler runs as such
	Claim   task.Claim // the claim under which the task runs
}

// lost reports whether a run of a task ended with err because its claim is no longer the current one. The store says
// so, or an outside system to which the handler showed the claim.
func (r *Request) lost(err error) bool { return r.Task.Running && errors.Is(err, task.ErrLeaseLost) }

// interrupted reports whether a run of a task ended without an outcome, so that the task continues later.
func (r *Request) interrupted(ctx context.Context, err error) bool {
	return r.Task.Running && ctx.Err() != nil || r.lost(err)
}

// readTaskRequest reads what a call says of tasks, and refuses it where its tool cannot do
// without one, or cannot be one.
func (e *Engine) readTaskRequest(r *Request) error {
	support := r.Handler.Tasks
	extension := r.Can&wire.Tasks != 0 // which no session has
	r.Can &^= wire.Tasks
	switch {
	case e.Tasks == nil || r.Handler.Method != wire.CallTool: // which ignores the member (2025-11-25, "Task Support and Handling")
	case support != nil && extension:
		r.Task.Dialect = DialectExtension
	case extension: // which never heard of the member task
	case r.Params.Task == nil || strictjson.TypeOf(r.Params.Task) == strictjson.TypeNull:
	case support == nil:
		return wire.Errorf(jsonrpc.CodeMethodNotFound, `the tool %q cannot run as a task: call it without the member "task"`,
			r.Params.Target)
	default:
		ttl, fault := wire.ParseTTL(r.Params.Task)
		if fault != nil {
			return fault
		}
		r.Task.Dialect, r.Task.TTL = DialectProposal, ttl
	}
	if r.Task.Dialect != "" {
		r.Can |= wire.Tasks
		// In a session the answer must be a task (2025-11-25, "Result Retrieval").
		r.Task.AtOnce = r.InSession || !support.AtDetach
	} else if support != nil && support.Required {
		if r.InSession {
			return wire.Errorf(jsonrpc.CodeMethodNotFound,
				`the tool %q runs as a task only: call it with the member "task" in params`, r.Params.Target)
		}
		return wire.MissingCapability(wire.Tasks)
	}
	return nil
}
