// Package report tells the operator what the server does: an [Audit] gets each fact once it is one, and an [Observer]
// follows each operation from its beginning to its end.
package report

import (
	"context"
	"log/slog"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// AuditEvent has the meaning of askback.AuditEvent.
type AuditEvent struct {
	Kind                      string
	Principal, Method, Target string
	Call, Task                string
	Round                     int
	Key, Digest               string
	Action                    string
	Reason                    string
	By, Channel, Why          string
	For                       string
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

	AuditVoted      = "voted"
	AuditDecided    = "decided"
	AuditUnanswered = "unanswered"
	AuditRecalled   = "recalled"

	AuditCancelled = "cancelled"
)

// Late is the reason of an AuditRefused for an answer that came after the deadline of its question.
const Late = "late"

// Audit passes events to the operator's hook. A nil Audit drops them.
type Audit struct {
	Hook func(ctx context.Context, e AuditEvent)
	Log  *slog.Logger
}

// Tell calls the hook. A panic there does not affect the request. The event leaves out what a client may keep secret, a
// task's ID, and what it chose freely, an action that the protocol does not know: an audit is read where neither
// belongs.
func (a *Audit) Tell(ctx context.Context, e AuditEvent) {
	if a == nil {
		return
	}
	if wire.IsTask(e.Method) {
		e.Task, e.Target = TaskName(e.Target), ""
	}
	switch e.Action {
	case "accept", "decline", "cancel":
	default:
		e.Action = ""
	}
	if err := fault.Safely(func() error { a.Hook(ctx, e); return nil }); err != nil {
		logPanic(ctx, a.Log, "Options.Audit", err)
	}
}

// TaskName returns the name of the task with an ID that a client sent, or "" for an empty ID.
func TaskName(id string) string {
	if id == "" {
		return ""
	}
	return task.Name(id)
}

func logPanic(ctx context.Context, log *slog.Logger, hook string, err error) {
	log.ErrorContext(ctx, "askback: an observer panicked", "observer", hook, "error", err)
}
