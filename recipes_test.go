package askback_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
)

// This is the code of docs/recipes.md that moves from inline elicitation. The same tool before it leaves mcp-go is in
// judge/interop/mcpgo/inline_test.go.

// airline is a booking system. Requests with the same key are the same request.
var airline = &airlines{done: make(map[string]bool)}

type airlines struct {
	mu   sync.Mutex
	done map[string]bool
}

func (a *airlines) do(what, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[what+" "+key] = true
}

// counts returns how often each action was taken.
func (a *airlines) counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := make(map[string]int)
	for done := range a.done {
		what, _, _ := strings.Cut(done, " ")
		counts[what]++
	}
	clear(a.done)
	return counts
}

func (a *airlines) Hold(_ context.Context, to, key string) (Seat, error) {
	a.do("hold", key)
	return Seat{Number: "12A", Price: 42}, nil
}

func (a *airlines) Release(_ context.Context, seat Seat, key string) error {
	a.do("release", key)
	return nil
}

func (a *airlines) Pay(_ context.Context, seat Seat, key string) error {
	a.do("pay", key)
	return nil
}

// fresh returns a new key each time.
func fresh() string {
	n++
	return fmt.Sprint(n)
}

var n int

type Trip struct {
	To string `json:"to"`
}

type Seat struct {
	Number string
	Price  int
}

func say(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

var confirmSchema = &jsonschema.Schema{
	Type:       "object",
	Properties: map[string]*jsonschema.Schema{"confirm": {Type: "boolean"}},
	Required:   []string{"confirm"},
}

func bookInline(ctx context.Context, req *mcp.CallToolRequest, in Trip) (*mcp.CallToolResult, any, error) {
	seat, err := airline.Hold(ctx, in.To, fresh())
	if err != nil {
		return nil, nil, err
	}
	res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
		Message:         fmt.Sprintf("Seat %s to %s costs %d. Book it?", seat.Number, in.To, seat.Price),
		RequestedSchema: confirmSchema,
	})
	if err != nil {
		return nil, nil, err
	}
	if res.Action != "accept" || res.Content["confirm"] != true {
		return say("Not booked."), nil, airline.Release(ctx, seat, fresh())
	}
	if err := airline.Pay(ctx, seat, fresh()); err != nil {
		return nil, nil, err
	}
	return say("Seat %s to %s is yours.", seat.Number, in.To), nil, nil
}

func serveBefore() http.Handler {
	m := mcp.NewServer(&mcp.Implementation{Name: "airline", Version: "1.0.0"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "book"}, bookInline)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
}

func serve(keys *seal.Ring) (http.Handler, error) {
	m := mcp.NewServer(&mcp.Implementation{Name: "airline", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: keys})
	if err != nil {
		return nil, err
	}
	askback.AddInlineTool(srv, &mcp.Tool{Name: "book"}, bookInline)
	return srv.HTTPHandler(nil), nil
}

func bookInSteps(ctx context.Context, req *mcp.CallToolRequest, in Trip) (*mcp.CallToolResult, any, error) {
	call := askback.CallFrom(ctx)
	seat, err := askback.Do(ctx, call, "hold", func(ctx context.Context) (Seat, error) {
		return airline.Hold(ctx, in.To, call.IdempotencyKey("hold"))
	})
	if err != nil {
		return nil, nil, err
	}
	res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
		Message:         fmt.Sprintf("Seat %s to %s costs %d. Book it?", seat.Number, in.To, seat.Price),
		RequestedSchema: confirmSchema,
	})
	if err != nil {
		return nil, nil, err
	}
	if res.Action != "accept" || res.Content["confirm"] != true {
		return say("Not booked."), nil, airline.Release(ctx, seat, call.IdempotencyKey("release"))
	}
	if err := airline.Pay(ctx, seat, call.IdempotencyKey("pay")); err != nil {
		return nil, nil, err
	}
	return say("Seat %s to %s is yours.", seat.Number, in.To), nil, nil
}

type Confirmation struct {
	Confirm bool `json:"confirm"`
}

func book(ctx context.Context, call *askback.Call, in Trip) (string, error) {
	seat, err := askback.Do(ctx, call, "hold", func(ctx context.Context) (Seat, error) {
		return airline.Hold(ctx, in.To, call.IdempotencyKey("hold"))
	})
	if err != nil {
		return "", err
	}
	message := fmt.Sprintf("Seat %s to %s costs %d. Book it?", seat.Number, in.To, seat.Price)
	answer, err := askback.Elicit[Confirmation](call, "confirm", message)
	if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
		err = nil // which leaves answer as it is: not confirmed
	}
	if err != nil {
		return "", err
	}
	if !answer.Confirm {
		err := call.Do(ctx, "release", func(ctx context.Context) error {
			return airline.Release(ctx, seat, call.IdempotencyKey("release"))
		})
		return "Not booked.", err
	}
	err = call.Do(ctx, "pay", func(ctx context.Context) error {
		return airline.Pay(ctx, seat, call.IdempotencyKey("pay"))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Seat %s to %s is yours.", seat.Number, in.To), nil
}

func register(srv *askback.Server) {
	askback.AddInlineTool(srv, &mcp.Tool{Name: "book_in_steps"}, bookInSteps)
	askback.AddTool(srv, &mcp.Tool{Name: "book"}, book)
}

func TestBook(t *testing.T) {
	res := askbacktest.Run(t, register, askbacktest.Call{
		Tool:      "book",
		Arguments: Trip{To: "Oslo"},
		Answers: map[string]askbacktest.Answer{
			"confirm": askbacktest.Accept(Confirmation{true}),
		},
	})
	if res.Text() != "Seat 12A to Oslo is yours." {
		t.Error(res.Text())
	}
}

func TestBookInSteps(t *testing.T) {
	res := askbacktest.Run(t, register, askbacktest.Call{
		Tool:      "book_in_steps",
		Arguments: Trip{To: "Oslo"},
		Answers: map[string]askbacktest.Answer{
			"Seat 12A to Oslo costs 42. Book it?": askbacktest.Accept(Confirmation{true}),
		},
	})
	if res.Text() != "Seat 12A to Oslo is yours." {
		t.Error(res.Text())
	}
}

// As docs/recipes.md says, the unchanged one repeats in every round what comes before
// its question, and the others do it once.
func TestMigrated(t *testing.T) {
	srv := harness.NewServer(t, nil, register, func(srv *askback.Server) {
		askback.AddInlineTool(srv, &mcp.Tool{Name: "book_inline"}, bookInline)
	})
	h := srv.HTTPHandler(nil)
	for _, test := range []struct {
		tool, answer, want string
		done               map[string]int
	}{
		{"book_inline", `{"action":"accept","content":{"confirm":true}}`, "yours", map[string]int{"hold": 2, "pay": 1}},
		{"book_in_steps", `{"action":"accept","content":{"confirm":true}}`, "yours", map[string]int{"hold": 1, "pay": 1}},
		{"book", `{"action":"accept","content":{"confirm":true}}`, "yours", map[string]int{"hold": 1, "pay": 1}},
		{"book_in_steps", `{"action":"decline"}`, "Not booked", map[string]int{"hold": 1, "release": 1}},
		{"book", `{"action":"decline"}`, "Not booked", map[string]int{"hold": 1, "release": 1}},
	} {
		airline.counts()
		req := harness.Request{Target: test.tool, Arguments: `{"to":"Oslo"}`}
		first := req.Send(t, h)
		for key := range first.Result.Requests {
			req.Responses = `{"` + key + `":` + test.answer + `}`
		}
		req.State = first.Result.State
		expect.Contains(t, test.tool, req.Send(t, h).Text(t), test.want)
		if done := airline.counts(); !maps.Equal(done, test.done) {
			t.Errorf("%s with %s: did %v, want %v", test.tool, test.answer, done, test.done)
		}
	}
}

// As docs/recipes.md says of sessions, the SDK's server asks in sessions only, and Askback's asks both kinds
// of clients.
func TestServingBeforeAndAfter(t *testing.T) {
	after := expect.Must(serve(harness.NewRing(t)))(t)
	m := mcp.NewServer(&mcp.Implementation{Name: "airline", Version: "1.0.0"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "book"}, bookInline)
	stateless := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m },
		&mcp.StreamableHTTPOptions{Stateless: true})
	for _, test := range []struct {
		version string
		handler http.Handler
		want    string
	}{
		{"2025-11-25", serveBefore(), "yours"},
		{"2026-07-28", serveBefore(), "yours"}, // in a session: the client falls back
		{"2026-07-28", stateless, "cannot be sent while serving a request on protocol version 2026-07-28"},
		{"2025-11-25", after, "yours"},
		{"2026-07-28", after, "yours"},
	} {
		web := httptest.NewServer(test.handler)
		c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return accept(map[string]any{"confirm": true}), nil
			},
		})
		session := expect.Must(c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL},
			&mcp.ClientSessionOptions{ProtocolVersion: test.version}))(t)
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: Trip{To: "Oslo"}})
		expect.Contains(t, test.version, fmt.Sprint(outcome(res), err), test.want)
		session.Close()
		web.Close()
	}
}
