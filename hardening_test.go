package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// who tells who calls and with what.
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

// No header of a session's request stands in for its body or its caller.
func TestHeadersCannotReplaceABody(t *testing.T) {
	srv := newServer(t, &askback.Options{Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("X-User"), nil
	}}, who)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	for _, name := range []string{"Askback-Exact-Params", "askback exact params"} {
		transport := &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: headers{map[string]string{
			"X-User": "alice", strings.ReplaceAll(name, " ", "-"): `{"name":"who","arguments":{"x":"header"}}`,
		}}}}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).
			Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who", Arguments: map[string]any{"x": "body"}})
		session.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Content[0].(*mcp.TextContent).Text; got != "alicemap[x:body]" {
			t.Errorf("header %q: got %q", name, got)
		}
	}
}

// A connection that says who the caller is keeps that through Connect.
func TestConnectKeepsTheCaller(t *testing.T) {
	srv := newServer(t, nil, who)
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), identified{there}, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who"})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != "alicemap[]" {
		t.Errorf("got %q", got)
	}
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

// A member in another case is another member, for Call.Request as well: what was bound is
// what the handler reads.
func TestRequestReadsExactNames(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "t", InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
				p := call.Request().(*mcp.CallToolRequest).Params
				return p.Name + string(p.Arguments), nil
			})
	}).HTTPHandler(nil)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"to":"bob"},"Arguments":{"to":"mallory"},"NAME":"other",
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if got := (request{target: "t", body: body}).send(t, h).text(t); got != `t{"to":"bob"}` {
		t.Errorf("got %q", got)
	}
}

func TestDefaultsKeepDigitsAndCostLittle(t *testing.T) {
	type in struct {
		O struct {
			ID int64 `json:"id"`
		} `json:"o"`
	}
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "d", InputSchema: json.RawMessage(`{"type":"object","properties":{"o":{"type":"object"},"mode":{"type":"string","default":"fast"}}}`)},
			func(ctx context.Context, call *askback.Call, in in) (string, error) {
				return fmt.Sprint(in.O.ID), nil
			})
	}).HTTPHandler(nil)
	if got := (request{target: "d", arguments: `{"o":{"id":9007199254740993}}`}).send(t, h).text(t); got != "9007199254740993" {
		t.Errorf("got %q", got)
	}
	var many strings.Builder
	many.WriteString(`{"o":{}`)
	for i := range 50_000 {
		fmt.Fprintf(&many, `,"m%d":1`, i)
	}
	many.WriteByte('}')
	done := make(chan string, 1)
	go func() { done <- request{target: "d", arguments: many.String()}.send(t, h).text(t) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second): // the square of the members would take minutes
		t.Fatal("many members take too long")
	}
}

func TestAnyFieldsAreSchemas(t *testing.T) {
	type in struct {
		V any            `json:"v"`
		M map[string]any `json:"m"`
	}
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "any"}, func(ctx context.Context, call *askback.Call, in in) (string, error) {
			return fmt.Sprint(in.V), nil
		})
	}).HTTPHandler(nil)
	if got := (request{target: "any", arguments: `{"v":"x","m":{}}`}).send(t, h).text(t); got != "x" {
		t.Errorf("got %q", got)
	}
}

func TestBareFirstRoundInTheManualStyle(t *testing.T) {
	h := newServer(t, &askback.Options{BareFirstRound: true}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "m"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			p := call.Request().(*mcp.CallToolRequest).Params
			if r, ok := p.InputResponses["login"].(*mcp.ElicitResult); ok {
				return text(fmt.Sprint(r.Content["name"])), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"login": &mcp.ElicitParams{Message: "?"}}}, nil
		})
	}).HTTPHandler(nil)
	if state := (request{target: "m"}).send(t, h).asked(t, "login"); state != "" {
		t.Error("the first round has a state")
	}
	if got := (request{target: "m", responses: octocat}).send(t, h).text(t); got != "octocat" {
		t.Errorf("got %q", got)
	}
}

func TestForeignPagesAreRefusedWhateverTheMethod(t *testing.T) {
	h := newServer(t, nil).HTTPHandler(nil)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		r := httptest.NewRequest(method, "http://localhost/mcp", nil)
		r.Header.Set("Origin", "https://evil.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
}

// An author may return the same result to many, and an error that is none.
func TestManualResultsAreNotWrittenTo(t *testing.T) {
	shared := &mcp.CallToolResult{RequestState: "mine"}
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "shared", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState != "" {
			return text(req.Params.RequestState), nil
		}
		return shared, nil
	})
	srv, err := askback.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := srv.HTTPHandler(nil)
	for range 2 {
		state := request{target: "shared"}.send(t, h).asked(t)
		if got := (request{target: "shared", state: state}).send(t, h).text(t); got != "mine" {
			t.Errorf("got %q", got)
		}
	}
	if shared.RequestState != "mine" {
		t.Errorf("the author's result became %q", shared.RequestState)
	}
}

func TestErrorsThatCannotBeSent(t *testing.T) {
	register := func(srv *askback.Server) {
		for name, fault := range map[string]*jsonrpc.Error{
			"data": {Code: 7, Message: "x", Data: json.RawMessage("no JSON")}, "nil": nil,
		} {
			askback.AddTool(srv, &mcp.Tool{Name: name}, func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
				return nil, fault
			})
		}
	}
	h := newServer(t, nil, register).HTTPHandler(nil)
	request{target: "data"}.send(t, h).refused(t, 200, 7)
	request{target: "nil"}.send(t, h).refused(t, 200, -32603)

	here, there := mcp.NewInMemoryTransports()
	if _, err := newServer(t, nil, register).Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nil"})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != -32603 {
		t.Errorf("nil error over the SDK: %v", err)
	}
}

// An answer to a question of an earlier round is no answer to this one.
func TestManualAnswersCountForTheirRoundOnly(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "two", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ask := func(key string) *mcp.CallToolResult {
			return &mcp.CallToolResult{RequestState: key, InputRequests: mcp.InputRequestMap{key: &mcp.ElicitParams{Message: "?"}}}
		}
		switch req.Params.RequestState {
		case "":
			return ask("a"), nil
		case "a":
			return ask("b"), nil
		}
		return text(fmt.Sprint(len(req.Params.InputResponses), req.Params.InputResponses["a"] != nil)), nil
	})
	srv, err := askback.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := srv.HTTPHandler(nil)
	r := request{target: "two"}
	r.state = r.send(t, h).asked(t, "a")
	r.responses = `{"a":{"action":"accept"},"b":{"action":"accept"}}`
	r.state = r.send(t, h).asked(t, "b")
	if got := r.send(t, h).text(t); got != "1 false" {
		t.Errorf("got %q", got)
	}
}

// A call whose time ran out while its handler worked says so.
func TestCallsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newServer(t, &askback.Options{Limits: askback.Limits{CallTTL: time.Minute}}, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
				time.Sleep(2 * time.Minute)
				return nil, call.Checkpoint(ctx, "c")
			})
		}).HTTPHandler(nil)
		if message := (request{target: "slow"}).send(t, h).refused(t, 200, -32603); !strings.Contains(message, "60 seconds per call") {
			t.Errorf("message %q", message)
		}
	})
}

// Nothing is sent for a request whose client went away.
func TestNothingIsSentForACancelledRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "gone"}, func(context.Context, *askback.Call, struct{}) (string, error) {
			cancel()
			return "too late", nil
		})
	}).HTTPHandler(nil)
	res := request{target: "gone", ctx: func(r *http.Request) *http.Request { return r.WithContext(ctx) }}.send(t, h)
	if res.raw != "" {
		t.Errorf("sent %s", res.raw)
	}
}
