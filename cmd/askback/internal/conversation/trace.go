package conversation

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
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/wire"
)

// trace prints the messages of a conversation and the time that each took. It shows the keys of answers and the size of
// the state, but not the answers or the state. A nil trace prints nothing.
type trace struct {
	console *console
	began   time.Time

	mu     sync.Mutex
	rounds int // requests that may ask, sent so far
}

func newTrace(c *console) *trace { return &trace{console: c, began: time.Now()} }

func (t *trace) line(format string, args ...any) {
	if t != nil {
		t.console.line("%8.3fs  %s", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// sent prints a request or notification. Raw holds its params.
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
		_ = json.Unmarshal(raw, &params) // this process has encoded it
		t.mu.Lock()
		t.rounds++
		text += fmt.Sprintf(" %s%s, round %d", params.Name, params.URI, t.rounds)
		t.mu.Unlock()
		if len(params.InputResponses) > 0 {
			text += ", answers " + cli.Keys(slices.Sorted(maps.Keys(params.InputResponses)))
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
		t.line("resumed after round %d: the server asked %s", p.Round, Questions(p.Questions))
	}
}

func (t *trace) connected(server *mcp.Implementation, revision string) {
	name := "a server without a name"
	if server != nil {
		name = strings.TrimSpace(server.Name + " " + server.Version)
	}
	t.line("connected to %s, revision %s", cli.HarmlessLine(name, 60), cli.HarmlessLine(revision, 20))
}

// round prints a response.
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
		text += "asks " + Questions(r.Questions)
	}
	if r.StateReceived > 0 {
		text += fmt.Sprintf(", state %d bytes", r.StateReceived)
	}
	t.line("%s, after %v", text, r.Elapsed.Round(100*time.Microsecond))
}

func (t *trace) answered(key, action, from string) {
	if action != "" {
		action = ": " + action
	}
	t.line("  answer to %s%s (from %s)", cli.HarmlessLine(key, 60), action, from)
}
