package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Every request declares the client's capabilities.
func TestExtensionIsDeclared(t *testing.T) {
	for dialect, want := range map[client.TaskDialect]bool{client.TasksAuto: true, client.TasksExtension: true,
		client.TasksProposal: false, client.TasksOff: false} {
		var caps string
		opts := patient()
		opts.Tasks = dialect
		session := connect(t, opts, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
			caps = string(m.Params["_meta"])
			respond(w, m, done)
		}), "")
		expect.Must(called(t, session, "t"))(t)
		if got := strings.Contains(caps, `"extensions":{"io.modelcontextprotocol/tasks":{}}`); got != want ||
			!strings.Contains(caps, `"elicitation":{"form":{}`) {
			t.Errorf("%q declares %s", dialect, caps)
		}
	}
	// Capabilities are declared only where they belong.
	opts := patient()
	session := connect(t, opts, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		respond(w, m, done)
	}), "2025-11-25")
	expect.Must(called(t, session, "t"))(t)
	opts.Tasks = client.TasksOff
	session = connect(t, opts,
		serveTasks(t, map[string]func(int, message) string{"tools/call": always(created("working", ""))}).transport(), "")
	if _, err := called(t, session, "t"); !isProtocol(err) {
		t.Errorf("a task that the client does not take: %v", err)
	}
}
