package httpfront_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

func refusedCaller(t *testing.T, f harness.Front, response map[string]any) {
	t.Helper()
	if harness.At(response, "error", "code") != -32600.0 || harness.At(response, "error",
		"message") != "the caller could not be identified" {
		t.Errorf("got %v, want the refusal of a caller who could not be identified", response)
	}
}

// A verified token without a user does not make its bearer the anonymous caller, who could continue others' calls.
func TestATokenThatNamesNobodyIsRefused(t *testing.T) {
	for name, principal := range map[string]func(context.Context, *mcp.RequestExtra) (string, error){
		"by its UserID":         nil,
		"by Options.Principal ": func(context.Context, *mcp.RequestExtra) (string, error) { return "", nil },
	} {
		t.Run(name, func(t *testing.T) {
			log := new(harness.Log)
			srv := harness.Everything(t, askback.Options{Principal: principal, Logger: slog.New(slog.NewTextHandler(log, nil))})
			harness.EachRequest(t, srv, &auth.TokenInfo{}, refusedCaller)
			for _, advice := range []string{"UserID of TokenInfo", "Options.Principal", "Options.AnonymousTokens"} {
				log.Has(t, advice)
			}
		})
	}
}

// panicking is a guard and a store of states.
type panicking struct{}

func (panicking) Use(context.Context, string, time.Time) (bool, error) { panic("no guard") }
func (panicking) PutState(context.Context, string, string, []byte, time.Time) error {
	panic("no store")
}
func (panicking) SwapState(context.Context, string, string, []byte, []byte, time.Time) (bool, error) {
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
	base := askback.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Keys: harness.NewRing(t),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }}
	r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}
	sealed := r.Send(t, harness.NewServer(t, &base, harness.AddGreet).HTTPHandler(nil)).Asked(t, "login")
	answers := `"name":"greet","arguments":{"place":"x"},` +
		`"inputResponses":{"login":{"action":"accept","content":{"name":"octocat"}}}`
	for _, tt := range []struct {
		name    string
		options func(o *askback.Options)
		params  string
		want    string // a part of the response
		log     string
	}{
		{"guard", func(o *askback.Options) { o.ReplayGuard = bad }, answers + `,"requestState":"` + sealed + `"`,
			"internal error", "no guard"},
		{"Audit", func(o *askback.Options) {
			o.Audit = func(context.Context, askback.AuditEvent) { panic("no metric") }
		},
			answers + `,"requestState":"x"`, "Invalid or expired requestState", "Options.Audit"},
		{"store", func(o *askback.Options) { o.States = &state.Options{Store: bad, Mode: state.Dual} },
			answers + `,"requestState":"` + sealed + `"`, "octocat", "no store"},
		{"store, without a state", func(o *askback.Options) {
			o.States = &state.Options{Store: bad,
				Mode: state.StatelessFirst}
		},
			answers, "input_required", "no store"},
		{"overflowing store", func(o *askback.Options) { o.States = &state.Options{Store: bad, Overflow: 10} },
			`"name":"greet","arguments":{"place":"x"}`, "internal error", "no store"},
		{"Audit, with a store", func(o *askback.Options) {
			o.States = &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}
			o.Audit = func(context.Context, askback.AuditEvent) { panic("no metric") }
		}, answers + `,"requestState":"` + sealed + `"`, "octocat", "Options.Audit"},
	} {
		for _, f := range harness.Fronts {
			if f.Session {
				continue // no state is read here
			}
			t.Run(tt.name+" "+f.Name, func(t *testing.T) {
				opts := base
				tt.options(&opts)
				got := f.Dial(t, harness.NewServer(t, &opts, harness.AddGreet), nil)("tools/call", tt.params)
				if !strings.Contains(fmt.Sprint(got), tt.want) {
					t.Errorf("got %v, want %s", got, tt.want)
				}
				log.Has(t, tt.log)
			})
		}
	}
}

// panickingTasks is a store of tasks whose methods panic.
type panickingTasks struct{ task.Store }

func (panickingTasks) Create(context.Context, *task.Task, time.Duration, time.Duration, []byte, [][]byte,
	task.Quota) error {
	panic("no database")
}
func (panickingTasks) Get(context.Context, string) (*task.Task, error) { panic("no database") }
func (panickingTasks) Claim(context.Context, string, []task.Load, time.Duration, int) ([]*task.Claimed, error) {
	panic("no database")
}
func (panickingTasks) Expired(context.Context, int) ([]string, error) { panic("no database") }
func (panickingTasks) List(context.Context, string, string, time.Time, string, int) ([]*task.Task, error) {
	panic("no database")
}

// forgetful is a store of tasks that cannot read them.
type forgetful struct{ task.Store }

func (forgetful) Get(context.Context, string) (*task.Task, error) { panic("no database") }

// A session gets notifications about its tasks, for which the tasks are read.
func TestAnnouncingFromATaskStoreThatPanics(t *testing.T) {
	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: forgetful{new(task.MemoryStore)}}},
		harness.AddEcho)
	for _, f := range harness.Fronts {
		if !f.Session {
			continue
		}
		ask := f.Dial(t, srv, nil)
		if got := ask("tools/call", `"name":"echo","task":{}`); harness.At(got, "result", "task", "taskId") == nil {
			t.Errorf("%s: got %v, want a task", f.Name, got)
		}
		if got := ask("tasks/get", `"taskId":"x"`); harness.At(got, "error", "code") != -32603.0 {
			t.Errorf("%s: got %v", f.Name, got)
		}
	}
}

// Requests, workers and waiting callers use the store of the tasks.
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
	for _, f := range harness.Fronts {
		requests := f.Identifies("nonesuch")
		requests["tools/call"] = `"name":"echo","task":{}`
		for method, params := range requests {
			if method != "tools/call" && !strings.HasPrefix(method, "tasks/") && method != "subscriptions/listen" {
				continue
			}
			t.Run(f.Name+" "+method, func(t *testing.T) {
				got := f.Dial(t, srv, nil)(method, params)
				if message, _ := harness.At(got, "error", "message").(string); !strings.HasPrefix(message, "internal error") ||
					strings.Contains(message, "database") {
					t.Errorf("got %v, want an internal error that says nothing more", got)
				}
			})
		}
	}
	log.Has(t, "claiming failed")
	log.Has(t, "sweeping failed")
}

// Middleware may call the next handler with another context. The handler's caller stays the same.
func TestACallerBehindAMiddlewareWithItsOwnContext(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	m.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(_ context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(context.Background(), method, req)
		}
	})
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	askback.AddTool(srv, &mcp.Tool{Name: "who"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		return call.Principal(), nil
	})
	for _, f := range harness.Fronts {
		if got := f.Dial(t, srv, &auth.TokenInfo{UserID: "alice"})("tools/call",
			`"name":"who"`); harness.Content(harness.At(got, "result").(map[string]any)) != "alice" {
			t.Errorf("%s: got %v, want alice", f.Name, got)
		}
	}
}

// who adds a tool that returns its caller and its arguments.
func who(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "who", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
			return fmt.Sprint(call.Principal(), in), nil
		})
}

// headers adds headers to the requests of a client.
type headers struct{ set map[string]string }

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h.set {
		r.Header[name] = []string{value}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestPrincipalComesFromTheToken(t *testing.T) {
	var got []string
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "who"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string,
			error) {
			got = append(got, call.Principal())
			return "", nil
		})
	}).HTTPHandler(nil)
	verify := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "user-" + token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	harness.Request{Target: "who"}.Send(t, h)
	harness.Request{Target: "who", Header: http.Header{"Authorization": {"Bearer 7"}}}.Send(t,
		auth.RequireBearerToken(verify, nil)(h))
	if len(got) != 2 || got[0] != "" || got[1] != "user-7" {
		t.Errorf("principals %q", got)
	}
}

// A header of a session's request replaces neither its body nor its caller.
func TestHeadersCannotReplaceABody(t *testing.T) {
	srv := harness.NewServer(t, &askback.Options{Principal: func(_ context.Context, extra *mcp.RequestExtra) (string,
		error) {
		return extra.Header.Get("X-User"), nil
	}}, who)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	for _, name := range []string{"Askback-Exact-Params", "askback exact params"} {
		transport := &mcp.StreamableClientTransport{Endpoint: web.URL,
			HTTPClient: &http.Client{Transport: headers{map[string]string{
				"X-User": "alice", strings.ReplaceAll(name, " ", "-"): `{"name":"who","arguments":{"x":"header"}}`,
			}}}}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).
			Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		expect.Check(t, err)
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who", Arguments: map[string]any{"x": "body"}})
		session.Close()
		expect.Check(t, err)
		if got := res.Content[0].(*mcp.TextContent).Text; got != "alicemap[x:body]" {
			t.Errorf("header %q: got %q", name, got)
		}
	}
}

// A connection that names its caller still does so after Connect.
func TestConnectKeepsTheCaller(t *testing.T) {
	srv := harness.NewServer(t, nil, who)
	here, there := mcp.NewInMemoryTransports()
	expect.Must(srv.Connect(t.Context(), identified{there}, nil))(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
	expect.Check(t, err)
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who"})
	expect.Check(t, err)
	expect.Equal(t, "res.Content[0].(*mcp.TextContent).Text", res.Content[0].(*mcp.TextContent).Text, "alicemap[]")
}

type identified struct{ mcp.Transport }

func (i identified) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := i.Transport.Connect(ctx)
	return identifiedConnection{conn}, err
}

type identifiedConnection struct{ mcp.Connection }

func (c identifiedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if req, ok := msg.(*jsonrpc.Request); ok {
		req.Extra = &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "alice"}}
	}
	return msg, err
}
