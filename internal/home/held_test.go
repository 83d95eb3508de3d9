package home_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/wire"
)

// A held call asks the client of its session there and then, until each answer fits.
func TestHeld(t *testing.T) {
	form, err := question.FormOf("Who?", reflect.TypeFor[name]())
	if err != nil {
		t.Fatal(err)
	}
	url, err := question.URL("Log in.", "https://example.com/login")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(name any) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}
	}
	for _, test := range []struct {
		name     string
		question *question.Question
		answers  []*mcp.ElicitResult // in turn; nil: an error of the client
		want     string              // the recorded answer, or the error
	}{
		{"form", form, []*mcp.ElicitResult{answer("octocat")}, `{"action":"accept","content":{"name":"octocat"}}`},
		{"declined", form, []*mcp.ElicitResult{{Action: "decline"}}, `{"action":"decline"}`},
		{"unfit, then fit", form, []*mcp.ElicitResult{answer(1), answer("octocat")},
			`{"action":"accept","content":{"name":"octocat"}}`},
		{"error of the client", form, []*mcp.ElicitResult{nil}, `asking the client "q": `},
		{"URL", url, []*mcp.ElicitResult{{Action: "accept"}}, `{"action":"accept"}`},
		{"roots", question.Roots(), nil, `{"roots":[{"name":"src","uri":"file:///src"}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked []*mcp.ElicitParams
			client := mcp.NewClient(&mcp.Implementation{Name: "c"}, &mcp.ClientOptions{
				Capabilities: &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}, Elicitation: &mcp.ElicitationCapabilities{
					Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
				}},
			})
			// In place of the SDK's handler, which refuses to send an answer that does not fit.
			client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					q, ok := req.GetParams().(*mcp.ElicitParams)
					if !ok {
						return next(ctx, method, req)
					}
					asked = append(asked, q)
					if len(asked) > len(test.answers) || test.answers[len(asked)-1] == nil {
						return nil, errors.New("out of order")
					}
					return test.answers[len(asked)-1], nil
				}
			})
			client.AddRoots(&mcp.Root{URI: "file:///src", Name: "src"})
			here, there := mcp.NewInMemoryTransports()
			server := mcp.NewServer(&mcp.Implementation{Name: "s"}, nil)
			server.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					result, err := next(ctx, method, req)
					if err == nil {
						result = home.Answered(ctx, result)
					}
					return result, err
				}
			})
			session, err := server.Connect(t.Context(), there, nil)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var id string
			r := &call.Request{Params: new(wire.Params), Can: wire.Form | wire.URL | wire.Roots, InSession: true}
			r.Handler = &call.Handler{Method: wire.CallTool,
				Invoke: func(_ context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
					id = c.ID()
					record, err := c.Ask("q", test.question)
					return text(string(record)), err
				}}
			engine := &call.Engine{Limits: bound.Limits{Rounds: 5, Questions: 5, CallTTL: time.Hour},
				Log: slog.New(slog.DiscardHandler)}
			out, err := engine.Serve(t.Context(), r, new(home.Carrier).Held(r, session))
			got := fmt.Sprint(err)
			if err == nil {
				got = out.Result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
			}
			if !strings.HasPrefix(got, test.want) || len(asked) != len(test.answers) {
				t.Fatalf("got %s after %d questions, want %s after %d", got, len(asked), test.want, len(test.answers))
			}
			for i, q := range asked {
				if explained := strings.Contains(q.Message, "does not fit: name: must be a string"); explained != (i > 0) {
					t.Errorf("question %d is %q", i+1, q.Message)
				}
				if q.Meta[wire.MetaKey] != "q" {
					t.Errorf("the question has the key %v", q.Meta[wire.MetaKey])
				}
				if q.Mode == "url" && q.ElicitationID != id+"/q" {
					t.Errorf("the elicitation ID is %q, want %q", q.ElicitationID, id+"/q")
				}
			}
		})
	}
	// A call whose time is over asks nobody.
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	h := new(home.Carrier).Held(&call.Request{Params: new(wire.Params)}, nil)
	if _, again, err := h.Suspend(ctx, nil, nil); again || !errors.Is(err, over) {
		t.Errorf("got %v, %v after the call's end", again, err)
	}
}
