package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/wire"
)

// trace prints a conversation as it goes: who sent what, and how long it took. Of answers it shows the keys and of
// state the size only. A nil trace prints nothing.
type trace struct {
	console *console
	began   time.Time

	mu     sync.Mutex
	rounds int // that were sent
}

func newTrace(c *console) *trace { return &trace{console: c, began: time.Now()} }

func (t *trace) line(format string, args ...any) {
	if t != nil {
		t.console.line("%8.3fs  %s", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// sent tells of a request or notification by what is on the wire.
func (t *trace) sent(method string, raw json.RawMessage) {
	if t == nil || method == "" {
		return
	}
	text := "→ " + method
	if wire.MayAsk(method) {
		var params struct {
			Name           string                     `json:"name"`
			URI            string                     `json:"uri"`
			InputResponses map[string]json.RawMessage `json:"inputResponses"`
			RequestState   string                     `json:"requestState"`
		}
		_ = json.Unmarshal(raw, &params) // it was encoded here
		t.mu.Lock()
		t.rounds++
		text += fmt.Sprintf(" %s%s, round %d", params.Name, params.URI, t.rounds)
		t.mu.Unlock()
		if len(params.InputResponses) > 0 {
			text += ", answers " + keys(slices.Sorted(maps.Keys(params.InputResponses)))
		}
		if params.RequestState != "" {
			text += fmt.Sprintf(", state %d bytes", len(params.RequestState))
		}
	}
	t.line("%s", text)
}

func (t *trace) resumed(p *client.Pending) {
	if t != nil {
		t.rounds = p.Round
		t.line("resumed after round %d: the server asked %s", p.Round, questions(p.Questions))
	}
}

func (t *trace) connected(server *mcp.Implementation, revision string) {
	name := "a server without a name"
	if server != nil {
		name = strings.TrimSpace(server.Name + " " + server.Version)
	}
	t.line("connected to %s, revision %s", harmlessLine(name, 60), harmlessLine(revision, 20))
}

// round tells of a response.
func (t *trace) round(r *client.Round) {
	text := "← "
	switch {
	case r.Err != nil:
		text += "error"
	case r.Final:
		text += "result"
	case len(r.Questions) == 0:
		text += fmt.Sprintf("nothing to answer, go on after %v", r.Pause.Round(time.Millisecond))
	default:
		text += "asks " + questions(r.Questions)
	}
	if r.StateReceived > 0 {
		text += fmt.Sprintf(", state %d bytes", r.StateReceived)
	}
	t.line("%s, after %v", text, elapsed(r.Elapsed))
}

// inSession tells of a question that came inside a session; others came with a round.
func (t *trace) inSession(session string, q *client.Question) {
	if session != "" {
		t.line("← asks %s", questions([]*client.Question{q}))
	}
}

func (t *trace) answered(key, action, from string) {
	if action != "" {
		action = ": " + action
	}
	t.line("  answer to %s%s (from %s)", harmlessLine(key, 60), action, from)
}

func elapsed(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

func questions(list []*client.Question) string {
	var texts []string
	for _, q := range list {
		kind := map[string]string{sampling: "sampling", "roots/list": "roots", elicitation: "form"}[q.Method]
		if q.URL != "" {
			kind = "page"
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", harmlessLine(q.Key, 60), kind))
	}
	return strings.Join(texts, ", ")
}

func keys(list []string) string {
	var texts []string
	for _, key := range list {
		texts = append(texts, harmlessLine(key, 60))
	}
	return strings.Join(texts, ", ")
}
