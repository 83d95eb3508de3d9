package home

import (
	"context"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// Carrier makes the homes of clients' calls. It is safe for concurrent use, once its fields are set.
type Carrier struct {
	Keys     *seal.Ring
	Audience string
	Limits   bound.Limits
	// Bare leaves requestState out of a first round that has nothing to remember.
	Bare  bool
	Guard state.Guard // nil: a state may be used again
	// Since is the time from which the guard knows all used states, or zero if it knows every one. An older state may
	// have been used by a process that has ended.
	Since  time.Time
	States *state.Options // nil: there is no store beside requestState
	Audit  *report.Audit
	Tasks  Tasks // nil: no call becomes one
	// Desk says that questions may go to people apart from the client.
	Desk bool
	// PlainForms has the meaning of askback.Options.PlainForms.
	PlainForms func(client *mcp.Implementation) bool
	Log        *slog.Logger
}

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
	Fresh   bool // the call began with this request
}

// Tasks move calls of clients to [Stored].
type Tasks interface {
	// Create makes a task of a call that has come as far as j. A client that cannot take a task awaits its outcome: see
	// [call.Outcome].
	Create(ctx context.Context, r *call.Request, as TaskRequest, j *journal.Journal) (*call.Outcome, error)
	// Find returns the outcome of a request whose call became a task before, or nil.
	Find(ctx context.Context, r *call.Request, as TaskRequest, callID string) (*call.Outcome, error)
}

// tell tells the operator what became of a request's state.
func (c *Carrier) tell(ctx context.Context, r *call.Request, kind, reason string) {
	c.Audit.Tell(ctx, report.AuditEvent{
		Kind: kind, Principal: r.Principal, Method: r.Handler.Method, Target: r.Params.Target, Reason: reason,
	})
}
