package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
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
			var p struct{ Name, URI, TaskID string }
			_ = json.Unmarshal([]byte("{"+params+"}"), &p)
			m, _ := exchangeHTTP(t, h, Request{Method: method, Target: p.Name + p.URI + p.TaskID,
				Body: Modern(1, method, params), Header: http.Header{},
				Context: func(r *http.Request) *http.Request { return r.WithContext(ctx) }})
			return m
		}
	}},
	{"HTTP session", true, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
		h := authenticated(srv, token)
		session := ""
		post := func(body string) map[string]any {
			m, header := exchangeHTTP(t, h, Request{Body: body, Header: http.Header{"Mcp-Session-Id": {session},
				"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Method": nil, "Mcp-Name": nil}})
			session = cmp.Or(session, header.Get("Mcp-Session-Id"))
			return m
		}
		hello := post(Message(1, "initialize", Initialize, ""))
		if hello["error"] != nil { // the refusal stands for the response to every request
			return func(string, string) map[string]any { return hello }
		}
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return func(method, params string) map[string]any { return post(Message(2, method, params, "")) }
	}},
	{"connection", false, connection(false)},
	{"connection session", true, connection(true)},
}

// LineFronts are the fronts that carry no token.
var LineFronts = []Front{
	{"stdio", false, func(t *testing.T, srv *askback.Server, _ *auth.TokenInfo) Ask { return Pipe(t, srv).asks(false) }},
	{"stdio session", true,
		func(t *testing.T, srv *askback.Server, _ *auth.TokenInfo) Ask { return Pipe(t, srv).asks(true) }},
}

// connection connects through a transport that sends the token with each request.
func connection(session bool) func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
	return func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) Ask {
		return Connect(t, func(ctx context.Context, line *mcp.IOTransport) error {
			return expect.Must(srv.Connect(ctx, bearer{line, token}, nil))(t).Wait()
		}).asks(session)
	}
}

// asks asks over a connection, in a session before 2026-07-28 or without one.
func (c *Conversation) asks(session bool) Ask {
	id, capabilities := 1, WithExtension
	if session {
		c.Open(Initialize)
		capabilities = ""
	}
	return func(method, params string) map[string]any {
		id++
		return c.Call(id, method, params, capabilities)
	}
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

// exchangeHTTP sends a request, and returns the last message of the response, with its status.
func exchangeHTTP(t *testing.T, h http.Handler, r Request) (m map[string]any, header http.Header) {
	t.Helper()
	r.Header.Set("Authorization", "Bearer token")
	res := r.Send(t, h)
	m = map[string]any{}
	if body := lastMessage(res.Header, []byte(res.Raw)); len(body) > 0 {
		expect.Check(t, json.Unmarshal(body, &m))
	}
	m["status"] = res.Status
	return m, res.Header
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

// Everything returns a server with a handler of each kind, on a server of the SDK that was prepared.
func Everything(t *testing.T, opts askback.Options, prepare ...func(*mcp.Server)) *askback.Server {
	t.Helper()
	opts.Tasks, opts.Events = &askback.Tasks{Store: new(task.MemoryStore)}, &askback.EventOptions{}
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
	for _, f := range prepare {
		f(m)
	}
	srv := NewServerOn(t, m, &opts,
		AddTool("quiet", func(context.Context, *askback.Call, struct{}) (string, error) { return "ours", nil }))
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
