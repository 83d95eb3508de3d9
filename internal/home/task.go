package home

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

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
		as = TaskRequest{Dialect: DialectProposal, TTL: ttl}
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
