package call

import (
	"context"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/wire"
)

// AuditEvent has the meaning of askback.AuditEvent.
type AuditEvent struct {
	Kind                      string
	Principal, Method, Target string
	Call                      string
	Round                     int
	Key, Digest               string
	Action                    string
	Reason                    string
}

// The kinds of events: see askback.AuditAsked and the others.
const (
	AuditAsked    = "asked"
	AuditAnswered = "answered"
	AuditStep     = "step"
	AuditRefused  = "refused"
	AuditShed     = "shed"
	AuditState    = "state"
	AuditEnded    = "ended"
)

// Audit tells the operator what happens. A nil Audit tells nobody.
type Audit struct {
	Hook func(ctx context.Context, e AuditEvent)
	Log  *slog.Logger
}

// Tell calls the hook. A panic there does not affect the request.
func (a *Audit) Tell(ctx context.Context, e AuditEvent) {
	if a == nil {
		return
	}
	if wire.IsTask(e.Method) {
		e.Target = "" // the id of a task is a secret
	}
	if err := fault.Safely(func() error { a.Hook(ctx, e); return nil }); err != nil {
		a.Log.ErrorContext(ctx, "askback: an observer panicked", "observer", "Options.Audit", "error", err)
	}
}

// tell completes an event of a call, whose secret id is given, and calls the hook.
func (a *Audit) tell(ctx context.Context, r *Request, id string, round int, e AuditEvent) {
	if a == nil {
		return
	}
	e.Principal, e.Method, e.Target = r.Principal, r.Handler.Method, r.Params.Target
	e.Call, e.Round = journal.Derived("call", id), round
	a.Tell(ctx, e)
}

// ended tells the operator how a call ended.
func (a *Audit) ended(ctx context.Context, r *Request, id string, round int, out *Outcome, err error) {
	if a == nil || r.interrupted(ctx, err) {
		return
	}
	a.tell(ctx, r, id, round, AuditEvent{Kind: AuditEnded, Reason: endReason(ctx, out, err)})
}

// endReason is the outcome of a call that has ended.
func endReason(ctx context.Context, out *Outcome, err error) string {
	switch fault.During(ctx, err) {
	case fault.None:
	case fault.Limit:
		return "limit"
	case fault.Capability:
		return "capability"
	case fault.Cancelled:
		return "cancelled"
	default:
		return "failed"
	}
	if out.Task != nil {
		return "task"
	}
	if result, ok := out.Result.(*mcp.CallToolResult); ok && result.IsError {
		return "failed"
	}
	return "completed"
}

// tell tells the operator what happened in this round of the call.
func (c *Call) tell(ctx context.Context, e AuditEvent) {
	c.engine.Audit.tell(ctx, c.Request, c.id, c.Round, e)
}

// Answered is the event of a client's answer to a question.
func Answered(key string, d journal.Digest, answer []byte) AuditEvent {
	action, _ := question.Action(answer) // which only the answer to an elicitation has
	return AuditEvent{Kind: AuditAnswered, Key: key, Digest: digestText(d), Action: action}
}

// tellManual tells the operator of the answers that a handler in the SDK's manual style was given.
func (c *Call) tellManual() {
	if c.engine.Audit == nil || len(c.manual.Responses) == 0 {
		return
	}
	var responses mcp.InputResponseMap
	switch r := c.Request.view(c.manual).(type) {
	case *mcp.CallToolRequest:
		responses = r.Params.InputResponses
	case *mcp.GetPromptRequest:
		responses = r.Params.InputResponses
	case *mcp.ReadResourceRequest:
		responses = r.Params.InputResponses
	}
	for _, key := range slices.Sorted(maps.Keys(responses)) {
		action := ""
		if r, ok := responses[key].(*mcp.ElicitResult); ok {
			action = KnownAction(r.Action)
		}
		c.tell(c.ctx, AuditEvent{Kind: AuditAnswered, Key: key, Action: action})
	}
}

// KnownAction returns an action if it is one of the three; any other text is the client's own.
func KnownAction(action string) string {
	switch action {
	case "accept", "decline", "cancel":
		return action
	}
	return ""
}

// digestText is a digest as an event has it. A handler in the SDK's manual style asks questions without one.
func digestText(d journal.Digest) string {
	if d == (journal.Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}
