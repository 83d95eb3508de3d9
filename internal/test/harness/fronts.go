package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// Front is a way for requests to reach a server. Dial returns a function that sends one request, with a verified token
// unless that is nil, and returns the response.
type Front struct {
	Name    string
	Session bool // before 2026-07-28
	Dial    func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask
}

// Ask sends a request with these members of params, and returns its response.
type Ask func(method, params string) map[string]any

// Fronts are all ways for requests to reach a server.
var Fronts = []Front{
	{"HTTP", false, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
		h := authenticated(srv, token)
		return func(method, params string) map[string]any {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(Modern(1, method, params)))
			var p struct{ Name, URI, TaskID string }
			_ = json.Unmarshal([]byte("{"+params+"}"), &p)
			m, _ := exchangeHTTP(t, h, r, "2026-07-28", "Mcp-Method", method, "Mcp-Name", p.Name+p.URI+p.TaskID)
			return m
		}
	}},
	{"HTTP session", true, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
		h := authenticated(srv, token)
		session := ""
		post := func(body string) map[string]any {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
			m, header := exchangeHTTP(t, h, r, "2025-11-25", "Mcp-Session-Id", session)
			session = cmp.Or(session, header.Get("Mcp-Session-Id"))
			return m
		}
		hello := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + Initialize + `}}`)
		if hello["error"] != nil { // the refusal stands for the response to every request
			return func(string, string) map[string]any { return hello }
		}
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return func(method, params string) map[string]any {
			return post(`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":{` + params + `}}`)
		}
	}},
	{"connection", false, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
		send := dial(t, srv, token)
		id := 0
		return func(method, params string) map[string]any {
			id++
			return send(id, Modern(id, method, params))
		}
	}},
	{"connection session", true, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
		send := dial(t, srv, token)
		send(1, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+Initialize+`}}`)
		send(0, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		id := 1
		return func(method, params string) map[string]any {
			id++
			return send(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params))
		}
	}},
}

// LineFronts are the fronts that carry no token.
var LineFronts = []Front{
	{"stdio", false, func(t *testing.T, srv *askback.Server, _ *auth.TokenInfo) Ask {
		c := Pipe(t, srv)
		return func(method, params string) map[string]any {
			c.Write(Modern(1, method, params))
			return c.Response(1)
		}
	}},
	{"stdio session", true, func(t *testing.T, srv *askback.Server, _ *auth.TokenInfo) Ask {
		c := Pipe(t, srv)
		c.Call(1, "initialize", Initialize, "")
		c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return func(method, params string) map[string]any { return c.Call(2, method, params, "") }
	}},
}

// PassOn is middleware that changes nothing. It is a function of its own, without which the SDK's server would not know
// of it.
func PassOn(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		return next(ctx, method, req)
	}
}

// Initialize are the members of the parameters with which a client of 2025-11-25 opens a session.
const Initialize = `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},` +
	`"clientInfo":{"name":"c","version":"1"}`

// Modern returns a request of a client of 2026-07-28 that takes tasks.
func Modern(id int, method, params string) string {
	return Message(id, method, params, WithExtension)
}

// authenticated returns the server behind a verifier that gives every request this token.
func authenticated(srv *askback.Server, token *auth.TokenInfo) http.Handler {
	h := srv.HTTPHandler(nil)
	if token == nil {
		return h
	}
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		own := *token
		own.Expiration = time.Now().Add(time.Hour)
		return &own, nil
	}
	return auth.RequireBearerToken(verify, nil)(h)
}

// exchangeHTTP sends a request with these headers, and returns the last message of the response, with its status.
func exchangeHTTP(
	t *testing.T, h http.Handler, r *http.Request, version string, headers ...string,
) (m map[string]any, header http.Header) {
	t.Helper()
	setHeaders(r, append(headers, "MCP-Protocol-Version", version, "Authorization", "Bearer token"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	m = map[string]any{}
	if body := lastMessage(w.Header(), w.Body.Bytes()); len(body) > 0 {
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatalf("status %d: %v in %s", w.Code, err, w.Body)
		}
	}
	m["status"] = w.Code
	return m, w.Header()
}

// dial connects in memory, through a transport that sends the token with each request.
func dial(t *testing.T, srv *askback.Server, token *auth.TokenInfo) (send func(id int, message string) map[string]any) {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), bearer{there, token}, nil); err != nil {
		t.Fatal(err)
	}
	return Converse(t, here)
}

// Converse returns a function that sends a message over a transport, and returns the response with this id. With the
// id 0 it waits for none.
func Converse(t *testing.T, transport mcp.Transport) (send func(id int, message string) map[string]any) {
	t.Helper()
	conn, err := transport.Connect(t.Context())
	expect.Check(t, err)
	t.Cleanup(func() { conn.Close() })
	return func(id int, message string) map[string]any {
		t.Helper()
		msg, err := jsonrpc.DecodeMessage([]byte(message))
		expect.Check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		expect.Check(t, conn.Write(ctx, msg))
		for id != 0 {
			answer, err := conn.Read(ctx)
			if err != nil {
				t.Fatalf("reading the response to %s: %v", message, err)
			}
			if res, ok := answer.(*jsonrpc.Response); ok && res.ID.Raw() == int64(id) {
				data, err := jsonrpc.EncodeMessage(res)
				expect.Check(t, err)
				m := map[string]any{}
				expect.Check(t, json.Unmarshal(data, &m))
				return m
			}
		}
		return nil
	}
}

// bearer is a transport whose requests carry a token.
type bearer struct {
	mcp.Transport
	token *auth.TokenInfo
}

func (b bearer) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := b.Transport.Connect(ctx)
	return bearerConnection{conn, b.token}, err
}

type bearerConnection struct {
	mcp.Connection
	token *auth.TokenInfo
}

func (b bearerConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := b.Connection.Read(ctx)
	if req, ok := msg.(*jsonrpc.Request); ok && b.token != nil {
		req.Extra = &mcp.RequestExtra{TokenInfo: b.token}
	}
	return msg, err
}

// Identifies lists the requests that identify their caller: for Askback's handlers, for those on the SDK's server, and
// for tasks and their events.
func (f Front) Identifies(task string) map[string]string {
	requests := map[string]string{
		"tools/call":      `"name":"quiet"`,
		"tools/call SDK":  `"name":"plain"`,
		"prompts/get":     `"name":"p"`,
		"resources/read":  `"uri":"test:r"`,
		"resources/read ": `"uri":"test:plain"`,
		// It is on the SDK's server, and matches a template of ours.
		"resources/read  ": `"uri":"shadow:plain"`,
		"tasks/get":        `"taskId":"` + task + `"`,
		"tasks/cancel":     `"taskId":"` + task + `"`,
	}
	if f.Session {
		requests["tasks/result"] = `"taskId":"` + task + `"`
		requests["tasks/list"] = ``
	} else {
		requests["tasks/update"] = `"taskId":"` + task + `","inputResponses":{}`
		requests["events/poll"] = `"name":"call.ended","arguments":{"taskId":"` + task + `"}`
		requests["events/stream"] = requests["events/poll"]
		requests["subscriptions/listen"] = `"notifications":{"taskIds":["` + task + `"]}`
	}
	return requests
}

// Everything returns a server with a handler of each kind.
func Everything(t *testing.T, opts askback.Options) *askback.Server {
	t.Helper()
	return EverythingOn(t, opts, func(*mcp.Server) {})
}

// EverythingOn is [Everything] on a given server of the SDK.
func EverythingOn(t *testing.T, opts askback.Options, prepare func(*mcp.Server)) *askback.Server {
	t.Helper()
	opts.Tasks, opts.Events = &askback.Tasks{Store: new(task.MemoryStore)}, &askback.EventOptions{}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	m.AddTool(&mcp.Tool{Name: "plain", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return Text("plain"), nil
		})
	for _, uri := range []string{"test:plain", "shadow:plain"} {
		m.AddResource(&mcp.Resource{URI: uri, Name: "plain"},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "plain"}}}, nil
			})
	}
	prepare(m)
	srv, err := askback.New(m, &opts)
	expect.Check(t, err)
	askback.AddTool(srv, &mcp.Tool{Name: "quiet"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		return "ours", nil
	})
	srv.AddPrompt(&mcp.Prompt{Name: "p"},
		func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "shadow", URITemplate: "shadow:{x}"},
		func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "shadow:x", Text: "ours"}}}, nil
		})
	srv.AddResource(&mcp.Resource{URI: "test:r", Name: "r"},
		func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test:r", Text: "ours"}}}, nil
		})
	return srv
}

// EachRequest sends each request that identifies its caller over every front.
func EachRequest(t *testing.T, srv *askback.Server, token *auth.TokenInfo,
	check func(t *testing.T, f Front, response map[string]any)) {
	t.Helper()
	for _, f := range Fronts {
		for method, params := range f.Identifies("nonesuch") {
			t.Run(f.Name+" "+method, func(t *testing.T) {
				ask := f.Dial(t, srv, token)
				check(t, f, ask(strings.Fields(method)[0], params))
			})
		}
	}
}
