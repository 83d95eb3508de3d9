package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering makes customers of a server that answers one request after the other with these members of a response. To
// all that follow it gives the last one again.
func answering(t *testing.T, answers ...string) *customers {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": 1, %s}`, answers[0])
		answers = answers[min(1, len(answers)-1):]
	}))
	t.Cleanup(server.Close)
	return &customers{http: http.DefaultClient, url: func() string { return server.URL }, ledger: newLedger(),
		rotation: new(rotation)}
}

func TestWhatHasEndedDoesNotChange(t *testing.T) {
	for answer, want := range map[string]string{
		`"result": {"status": "completed", "result": {"structuredContent": {"name": "vm"}}}`: "",
		`"result": {"status": "working"}`: "changed: task t (vm, extension): it was completed, and is working",
		`"result": {"status": "completed", "result": {"structuredContent": {"name": "other"}}}`: "changed: task t (vm, " +
			"extension): its result was",
		`"error": {"code": -32602, "message": "task not found"}`: "lost: task t (vm, extension): a server does not know it",
	} {
		c := answering(t, answer)
		c.lookAgain(t.Context(), &order{id: "t", name: "vm", extension: true, ended: "completed",
			result: outcome{Name: "vm"}})
		if got := texts(c.ledger); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: violations %q, want %q", answer, got, want)
		}
	}
}

func TestWhatACallInRoundsMustNotDo(t *testing.T) {
	const (
		both = `"result": {"resultType": "input_required", "inputRequests": {"google_login": {}, "github_login": {}}, ` +
			`"requestState": "1"}`
		github = `"result": {"resultType": "input_required", "inputRequests": {"github_login": {}}, "requestState": "2"}`
		done   = `"result": {"content": [{"text": "Linked github_login-5 (GitHub) and google_login-5 (Google)."}]}`
		half   = `"result": {"content": [{"text": "Linked github_login-5 (GitHub)."}]}`
		stale  = `"error": {"code": -32602, "message": "the state cannot be opened"}`
		broken = `"error": {"code": -32603, "message": "internal error"}`
	)
	for _, tt := range []struct {
		name      string
		answers   []string
		forgotten bool
		want      string
	}{
		{"all is well", []string{both, github, done}, false, ""},
		{"a server fails once", []string{both, broken, github, done}, false, ""},
		{"it asks again", []string{both, github, github, done}, false,
			`lost: call 5 in rounds: it asks "github_login" again`},
		{"half of it", []string{both, github, half}, false, "wrong: call 5 in rounds: it answered"},
		{"a state is refused", []string{both, stale}, false, "lost: call 5 in rounds: a server refuses its state"},
		{"a state of a key that is forgotten", []string{both, stale}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := answering(t, tt.answers...)
			if tt.forgotten {
				c.rotation.forget()
				c.rotation.switchAt = time.Now().Add(time.Hour)
			}
			c.link(t.Context(), 5)
			if got := texts(c.ledger); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
		})
	}
}
