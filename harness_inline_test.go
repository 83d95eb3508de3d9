package askback_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// inline is a handler in the form that the SDK has.
type inline = mcp.ToolHandlerFor[harness.Greeting, any]

// elicitName asks through the SDK's session.
func elicitName(ctx context.Context, req *mcp.CallToolRequest, message string) (*mcp.ElicitResult, error) {
	return req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}}, Required: []string{"name"},
	}})
}

// user answers forms by their message, in turn, and records the questions.
type user struct {
	answers map[string][]string // "-" declines, "--" cancels

	mu    sync.Mutex
	asked []string
}

// all are the questions so far, sorted.
func (u *user) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(slices.Values(u.asked))
}

func (u *user) answer(message string) *mcp.ElicitResult {
	u.mu.Lock()
	defer u.mu.Unlock()
	turn := 0
	for _, m := range u.asked {
		if m == message {
			turn++
		}
	}
	u.asked = append(u.asked, message)
	answers := u.answers[message]
	if len(answers) == 0 {
		return accept(map[string]any{"name": fmt.Sprint(message, turn)})
	}
	switch a := answers[min(turn, len(answers)-1)]; a {
	case "-":
		return &mcp.ElicitResult{Action: "decline"}
	case "--":
		return &mcp.ElicitResult{Action: "cancel"}
	default:
		return accept(map[string]any{"name": a})
	}
}

// caller calls a tool with one of the clients, whose user is u.
type caller struct {
	name string
	call func(t testing.TB, endpoint string, u *user, tool string) (string, error)
}

// callers lists the clients that an inline handler has to serve: the Go SDK's and ours of
// 2026-07-28, and the Go SDK's in a session of 2025-11-25.
func callers() []caller {
	return []caller{
		{"sdk 2026-07-28", func(t testing.TB, endpoint string, u *user, tool string) (string, error) {
			return callSDK(t, endpoint, u, tool, "2026-07-28")
		}},
		{"askback 2026-07-28", callAskback},
		{"sdk 2025-11-25", func(t testing.TB, endpoint string, u *user, tool string) (string, error) {
			return callSDK(t, endpoint, u, tool, "2025-11-25")
		}},
	}
}

func callSDK(t testing.TB, endpoint string, u *user, tool, version string) (string, error) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return u.answer(req.Params.Message), nil
		},
		CreateMessageWithToolsHandler: func(context.Context,
			*mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return completion, nil
		},
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:  &mcp.RootCapabilities{},
			Sampling: &mcp.SamplingCapabilities{Tools: &mcp.SamplingToolsCapabilities{}},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{},
				URL: &mcp.URLElicitationCapabilities{}},
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///src", Name: "src"})
	session := expect.Must(c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint},
		&mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: harness.Greeting{Place: "Oslo"}})
	return outcome(res), err
}

var completion = &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m",
	Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}

func callAskback(t testing.TB, endpoint string, u *user, tool string) (string, error) {
	t.Helper()
	ask := func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		return u.answer(q.Message), nil
	}
	session, err := client.New(&client.Options{
		Form: ask,
		URL:  ask,
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult,
			error) {
			return completion, nil
		},
		SampleTools: true,
		Roots: func(context.Context) ([]*mcp.Root, error) {
			return []*mcp.Root{{URI: "file:///src", Name: "src"}}, nil
		},
	}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
	expect.Check(t, err)
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: harness.Greeting{Place: "Oslo"}})
	return outcome(res), err
}

// outcome returns a result's text, after "error: " if it is a tool error.
func outcome(res *mcp.CallToolResult) string {
	var b strings.Builder
	if res == nil {
		return ""
	}
	if res.IsError {
		b.WriteString("error: ")
	}
	for _, c := range res.Content {
		b.WriteString(c.(*mcp.TextContent).Text)
	}
	return b.String()
}

// alternating serves a tool on two servers with the same keys. They take turns with the requests of
// a modern client. The first one serves all requests of a session.
func alternating(t testing.TB, opts *askback.Options, h inline) string {
	t.Helper()
	if opts == nil {
		opts = &askback.Options{}
	}
	opts.Keys = harness.NewRing(t)
	var handlers [2]http.Handler
	for i := range handlers {
		handlers[i] = harness.NewServer(t, opts, func(srv *askback.Server) {
			askback.AddInlineTool(srv, &mcp.Tool{Name: "tool"}, h)
		}).HTTPHandler(nil)
	}
	var n atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := 0
		if r.Header.Get("Mcp-Method") == "tools/call" {
			i = int(n.Add(1) % 2)
		}
		handlers[i].ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}
