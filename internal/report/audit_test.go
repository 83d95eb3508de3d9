package report

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/task"
)

// logger returns a log that keeps everything.
func logger() (*slog.Logger, *bytes.Buffer) {
	lines := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug})), lines
}

// The operator is told an event as it is, without what identifies a task or what only the client says.
func TestWhatAnAuditIsTold(t *testing.T) {
	var told []AuditEvent
	a := &Audit{Hook: func(_ context.Context, e AuditEvent) { told = append(told, e) }}
	whole := AuditEvent{Kind: AuditAsked, Principal: "alice", Method: "tools/call", Target: "greet", Call: "c", Round: 2,
		Key: "k", Digest: "d", Reason: "r"}
	for _, c := range []struct{ event, want AuditEvent }{
		{whole, whole},
		{AuditEvent{Kind: AuditRefused, Method: "tasks/get", Target: "the secret id"},
			AuditEvent{Kind: AuditRefused, Method: "tasks/get", Task: task.Name("the secret id")}},
		{AuditEvent{Kind: AuditRefused, Method: "tasks/list"}, AuditEvent{Kind: AuditRefused, Method: "tasks/list"}},
		{AuditEvent{Action: "accept"}, AuditEvent{Action: "accept"}},
		{AuditEvent{Action: "decline"}, AuditEvent{Action: "decline"}},
		{AuditEvent{Action: "cancel"}, AuditEvent{Action: "cancel"}},
		{AuditEvent{Action: "my password is octocat"}, AuditEvent{}},
	} {
		told = nil
		if a.Tell(t.Context(), c.event); len(told) != 1 || told[0] != c.want {
			t.Errorf("told %+v of %+v, want %+v", told, c.event, c.want)
		}
	}
}

func TestAnAuditThatPanics(t *testing.T) {
	log, lines := logger()
	a := &Audit{Hook: func(context.Context, AuditEvent) { panic("no disk") }, Log: log}
	a.Tell(t.Context(), AuditEvent{})
	for _, want := range []string{"ERROR", "Options.Audit", "no disk"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%q is not in the log: %s", want, lines)
		}
	}
	(*Audit)(nil).Tell(t.Context(), AuditEvent{}) // tells nobody
}
