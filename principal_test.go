package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// A front is a way by which requests come to a server. Dial returns how to send one with a verified token, which may be
// nil, and get its response.
type front struct {
	name    string
	session bool // before 2026-07-28
	dial    func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) (ask func(method, params string) map[string]any)
}

var fronts = []front{
	{"HTTP", false, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) func(method, params string) map[string]any {
		h := authenticated(srv, token)
		return func(method, params string) map[string]any {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(modern(1, method, params)))
			var p struct{ Name, URI, TaskID string }
			_ = json.Unmarshal([]byte("{"+params+"}"), &p)
			return exchangeHTTP(t, h, r, "2026-07-28", "Mcp-Method", method, "Mcp-Name", p.Name+p.URI+p.TaskID)
		}
	}},
	{"HTTP session", true, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) func(method, params string) map[string]any {
		h := authenticated(srv, token)
		hello := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+initialize+`}}`))
		session := ""
		post := func(body string) map[string]any {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
			return exchangeHTTP(t, h, r, "2025-11-25", "Mcp-Session-Id", session)
		}
		w := httptest.NewRecorder()
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer token"} {
			hello.Header.Set(name, value)
		}
		h.ServeHTTP(w, hello)
		if session = w.Header().Get("Mcp-Session-Id"); session == "" || strings.Contains(w.Body.String(), `"error"`) {
			// Whoever is refused a session gets no other answer in it.
			_, event, _ := strings.Cut(w.Body.String(), "data: ")
			refusal := map[string]any{}
			if err := json.Unmarshal([]byte(event), &refusal); err != nil {
				t.Fatalf("no session: %d %s", w.Code, w.Body)
			}
			return func(string, string) map[string]any { return refusal }
		}
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return func(method, params string) map[string]any {
			return post(`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":{` + params + `}}`)
		}
	}},
	{"connection", false, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) func(method, params string) map[string]any {
		send := dial(t, srv, token)
		id := 0
		return func(method, params string) map[string]any {
			id++
			return send(id, modern(id, method, params))
		}
	}},
	{"connection session", true, func(t *testing.T, srv *askback.Server, token *auth.TokenInfo) func(method, params string) map[string]any {
		send := dial(t, srv, token)
		send(1, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+initialize+`}}`)
		send(0, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		id := 1
		return func(method, params string) map[string]any {
			id++
			return send(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params))
		}
	}},
}

const initialize = `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`

func modern(id int, method, params string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":%s}}}`, id, method, params, harness.WithExtension)
}

// authenticated is the server behind a verifier that takes every token for this one.
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
func exchangeHTTP(t *testing.T, h http.Handler, r *http.Request, version string, headers ...string) map[string]any {
	t.Helper()
	headers = append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"MCP-Protocol-Version", version, "Authorization", "Bearer token")
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body := strings.TrimSpace(w.Body.String())
	if i := strings.LastIndex(body, "data: "); i >= 0 {
		body = body[i+len("data: "):]
	}
	m := map[string]any{}
	if body != "" {
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatalf("status %d: %v in %s", w.Code, err, w.Body)
		}
	}
	m["status"] = w.Code
	return m
}

// dial connects in memory, by a transport that says who calls.
func dial(t *testing.T, srv *askback.Server, token *auth.TokenInfo) (send func(id int, message string) map[string]any) {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), bearer{there, token}, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := here.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(id int, message string) map[string]any {
		t.Helper()
		msg, err := jsonrpc.DecodeMessage([]byte(message))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := conn.Write(ctx, msg); err != nil {
			t.Fatal(err)
		}
		for id != 0 {
			answer, err := conn.Read(ctx)
			if err != nil {
				t.Fatalf("reading the response to %s: %v", message, err)
			}
			if res, ok := answer.(*jsonrpc.Response); ok && res.ID.Raw() == int64(id) {
				data, err := jsonrpc.EncodeMessage(res)
				if err != nil {
					t.Fatal(err)
				}
				m := map[string]any{}
				if err := json.Unmarshal(data, &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
		return nil
	}
}

// bearer is a transport whose requests come with a token.
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

// identifies are the requests whose caller matters: for handlers of Askback, for those on the SDK's server, and for tasks.
func (f front) identifies(task string) map[string]string {
	requests := map[string]string{
		"tools/call":      `"name":"quiet"`,
		"tools/call SDK":  `"name":"plain"`,
		"prompts/get":     `"name":"p"`,
		"resources/read":  `"uri":"test:r"`,
		"resources/read ": `"uri":"test:plain"`,
		// On the SDK's server, under a template of ours.
		"resources/read  ": `"uri":"shadow:plain"`,
		"tasks/get":        `"taskId":"` + task + `"`,
		"tasks/cancel":     `"taskId":"` + task + `"`,
	}
	if f.session {
		requests["tasks/result"] = `"taskId":"` + task + `"`
		requests["tasks/list"] = ``
	} else {
		requests["tasks/update"] = `"taskId":"` + task + `","inputResponses":{}`
		requests["subscriptions/listen"] = `"notifications":{"taskIds":["` + task + `"]}`
	}
	return requests
}

// everything is a server with one of everything.
func everything(t *testing.T, opts askback.Options) *askback.Server {
	t.Helper()
	return everythingOn(t, opts, func(*mcp.Server) {})
}

// everythingOn is everything on an SDK's server that is prepared.
func everythingOn(t *testing.T, opts askback.Options, prepare func(*mcp.Server)) *askback.Server {
	t.Helper()
	opts.Tasks = &askback.Tasks{Store: new(task.MemoryStore)}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	m.AddTool(&mcp.Tool{Name: "plain", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return harness.Text("plain"), nil
	})
	for _, uri := range []string{"test:plain", "shadow:plain"} {
		m.AddResource(&mcp.Resource{URI: uri, Name: "plain"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "plain"}}}, nil
		})
	}
	prepare(m)
	srv, err := askback.New(m, &opts)
	if err != nil {
		t.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "quiet"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		return "ours", nil
	})
	srv.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "shadow", URITemplate: "shadow:{x}"}, func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "shadow:x", Text: "ours"}}}, nil
	})
	srv.AddResource(&mcp.Resource{URI: "test:r", Name: "r"}, func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test:r", Text: "ours"}}}, nil
	})
	return srv
}

// eachRequest sends all that identifies its caller by every front.
func eachRequest(t *testing.T, srv *askback.Server, token *auth.TokenInfo, check func(t *testing.T, f front, response map[string]any)) {
	t.Helper()
	for _, f := range fronts {
		for method, params := range f.identifies("nonesuch") {
			t.Run(f.name+" "+method, func(t *testing.T) {
				ask := f.dial(t, srv, token)
				check(t, f, ask(strings.Fields(method)[0], params))
			})
		}
	}
}

func refusedCaller(t *testing.T, f front, response map[string]any) {
	t.Helper()
	if harness.At(response, "error", "code") != -32600.0 || harness.At(response, "error", "message") != "the caller could not be identified" {
		t.Errorf("got %v, want the refusal of a caller who could not be identified", response)
	}
}

// A verified token that names nobody is nobody's: not the anonymous caller's, who could go on with anybody's calls.
func TestATokenThatNamesNobodyIsRefused(t *testing.T) {
	for name, principal := range map[string]func(context.Context, *mcp.RequestExtra) (string, error){
		"by its UserID":         nil,
		"by Options.Principal ": func(context.Context, *mcp.RequestExtra) (string, error) { return "", nil },
	} {
		t.Run(name, func(t *testing.T) {
			log := new(harness.Log)
			srv := everything(t, askback.Options{Principal: principal, Logger: slog.New(slog.NewTextHandler(log, nil))})
			eachRequest(t, srv, &auth.TokenInfo{}, refusedCaller)
			for _, advice := range []string{"UserID of TokenInfo", "Options.Principal", "Options.AnonymousTokens"} {
				log.Has(t, advice)
			}
		})
	}
}

func TestCallersWhoAreNotRefused(t *testing.T) {
	named := func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	for _, tt := range []struct {
		name  string
		opts  askback.Options
		token *auth.TokenInfo
	}{
		{"without a token", askback.Options{}, nil},
		{"with a name", askback.Options{}, &auth.TokenInfo{UserID: "alice"}},
		{"named by Options.Principal", askback.Options{Principal: named}, &auth.TokenInfo{}},
		{"anonymous by choice", askback.Options{AnonymousTokens: true}, &auth.TokenInfo{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachRequest(t, everything(t, tt.opts), tt.token, func(t *testing.T, _ front, response map[string]any) {
				if strings.Contains(fmt.Sprint(harness.At(response, "error", "message")), "identified") {
					t.Errorf("refused: %v", response)
				}
			})
		})
	}
}

// What an operator supplies may panic in a goroutine of the SDK or of the task engine: the request fails, the process lives.
func TestAPrincipalThatPanics(t *testing.T) {
	log := new(harness.Log)
	srv := everything(t, askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { panic("no such tenant") },
		Logger:    slog.New(slog.NewTextHandler(log, nil)),
	})
	eachRequest(t, srv, nil, refusedCaller)
	log.Has(t, "no such tenant")

	c := harness.Pipe(t, srv)
	refusedCaller(t, front{}, c.Call(1, "tools/call", `"name":"quiet"`, harness.WithExtension))
	refusedCaller(t, front{}, c.Call(2, "subscriptions/listen", `"notifications":{"taskIds":["x"]}`, harness.WithExtension))
}

// panicking is a guard and a store of states.
type panicking struct{}

func (panicking) Use(context.Context, string, time.Time) (bool, error) { panic("no guard") }
func (panicking) PutState(context.Context, string, string, []byte, time.Time) error {
	panic("no store")
}
func (panicking) GetState(context.Context, string) ([]byte, error) { panic("no store") }
func (panicking) FindStates(context.Context, string, int) ([][]byte, error) {
	panic("no store")
}
func (panicking) DeleteState(context.Context, string) error { panic("no store") }

func TestGuardsStoresAndObserversThatPanic(t *testing.T) {
	log := new(harness.Log)
	bad := panicking{}
	base := askback.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Keys: harness.NewRing(t), Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }}
	r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}
	sealed := r.Send(t, harness.NewServer(t, &base, harness.AddGreet).HTTPHandler(nil)).Asked(t, "login")
	answers := `"name":"greet","arguments":{"place":"x"},"inputResponses":{"login":{"action":"accept","content":{"name":"octocat"}}}`
	for _, tt := range []struct {
		name    string
		options func(o *askback.Options)
		params  string
		want    string // of the response
		log     string
	}{
		{"guard", func(o *askback.Options) { o.ReplayGuard = bad }, answers + `,"requestState":"` + sealed + `"`, "internal error", "no guard"},
		{"ObserveState", func(o *askback.Options) {
			o.ObserveState = func(context.Context, state.Event) { panic("no metric") }
		},
			answers + `,"requestState":"x"`, "Invalid or expired requestState", "Options.ObserveState"},
		{"store", func(o *askback.Options) { o.States = &state.Options{Store: bad, Mode: state.Dual} },
			answers + `,"requestState":"` + sealed + `"`, "octocat", "no store"},
		{"store, without a state", func(o *askback.Options) { o.States = &state.Options{Store: bad, Mode: state.StatelessFirst} },
			answers, "input_required", "no store"},
		{"overflowing store", func(o *askback.Options) { o.States = &state.Options{Store: bad, Overflow: 10} },
			`"name":"greet","arguments":{"place":"x"}`, "internal error", "no store"},
		{"ObserveState, with a store", func(o *askback.Options) {
			o.States = &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}
			o.ObserveState = func(context.Context, state.Event) { panic("no metric") }
		}, answers + `,"requestState":"` + sealed + `"`, "octocat", "Options.ObserveState"},
	} {
		for _, f := range fronts {
			if f.session {
				continue // where a state is never read
			}
			t.Run(tt.name+" "+f.name, func(t *testing.T) {
				opts := base
				tt.options(&opts)
				got := f.dial(t, harness.NewServer(t, &opts, harness.AddGreet), nil)("tools/call", tt.params)
				if !strings.Contains(fmt.Sprint(got), tt.want) {
					t.Errorf("got %v, want %s", got, tt.want)
				}
				log.Has(t, tt.log)
			})
		}
	}
}

// panickingTasks is a store of tasks that does nothing but panic.
type panickingTasks struct{ task.Store }

func (panickingTasks) Create(context.Context, *task.Task, time.Duration, []byte, [][]byte, int) error {
	panic("no database")
}
func (panickingTasks) Get(context.Context, string) (*task.Task, error) { panic("no database") }
func (panickingTasks) Claim(context.Context, string, time.Duration) (*task.Task, error) {
	panic("no database")
}
func (panickingTasks) Expired(context.Context, int) ([]string, error) { panic("no database") }
func (panickingTasks) List(context.Context, string, string, time.Time, string, int) ([]*task.Task, error) {
	panic("no database")
}

// forgetful is a store of tasks that cannot read them.
type forgetful struct{ task.Store }

func (forgetful) Get(context.Context, string) (*task.Task, error) { panic("no database") }

// A session is told of its tasks unasked, for which they are read.
func TestAnnouncingFromATaskStoreThatPanics(t *testing.T) {
	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: forgetful{new(task.MemoryStore)}}}, harness.AddEcho)
	for _, f := range fronts {
		if !f.session {
			continue
		}
		ask := f.dial(t, srv, nil)
		if got := ask("tools/call", `"name":"echo","task":{}`); harness.At(got, "result", "task", "taskId") == nil {
			t.Errorf("%s: got %v, want a task", f.name, got)
		}
		if got := ask("tasks/get", `"taskId":"x"`); harness.At(got, "error", "code") != -32603.0 {
			t.Errorf("%s: got %v", f.name, got)
		}
	}
}

// The store of the tasks is called by requests, by workers and by whoever waits.
func TestATaskStoreThatPanics(t *testing.T) {
	log := new(harness.Log)
	srv := harness.NewServer(t, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Tasks:     &askback.Tasks{Store: panickingTasks{}},
		Logger:    slog.New(slog.NewTextHandler(log, nil)),
	}, harness.AddEcho)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.RunTasks(ctx) })
	defer all.Wait()
	defer stop()
	for _, f := range fronts {
		requests := f.identifies("nonesuch")
		requests["tools/call"] = `"name":"echo","task":{}`
		for method, params := range requests {
			if method != "tools/call" && !strings.HasPrefix(method, "tasks/") && method != "subscriptions/listen" {
				continue
			}
			t.Run(f.name+" "+method, func(t *testing.T) {
				got := f.dial(t, srv, nil)(method, params)
				if message, _ := harness.At(got, "error", "message").(string); !strings.HasPrefix(message, "internal error") || strings.Contains(message, "database") {
					t.Errorf("got %v, want an internal error that says nothing more", got)
				}
			})
		}
	}
	log.Has(t, "claiming failed")
	log.Has(t, "sweeping failed")
}

// A middleware of the operator's may call on with a context of its own: the handler's caller is the same.
func TestACallerBehindAMiddlewareWithItsOwnContext(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	m.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(_ context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(context.Background(), method, req)
		}
	})
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "who"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		return call.Principal(), nil
	})
	for _, f := range fronts {
		if got := f.dial(t, srv, &auth.TokenInfo{UserID: "alice"})("tools/call", `"name":"who"`); harness.Content(harness.At(got, "result").(map[string]any)) != "alice" {
			t.Errorf("%s: got %v, want alice", f.name, got)
		}
	}
}
