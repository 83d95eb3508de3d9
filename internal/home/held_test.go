package home_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// inSession connects a client of 2025-11-25 to a server, and returns the session, and a function that counts the
// questions with a deadline of their own among what was sent. The answers are sent as they are, where the SDK's client
// refuses to send one that does not fit.
func inSession(t *testing.T, answer func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)) (
	session *mcp.ServerSession, timed func() int64,
) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "c"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}, Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		CreateMessageWithToolsHandler: func(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (
			*mcp.CreateMessageWithToolsResult, error,
		) {
			said := &mcp.TextContent{Text: fmt.Sprint(r.Params.Meta[wire.MetaKey], " with ", len(r.Params.Tools), " tools")}
			return &mcp.CreateMessageWithToolsResult{Model: "m", Role: "assistant", Content: []mcp.Content{said}}, nil
		},
	})
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if q, ok := req.GetParams().(*mcp.ElicitParams); ok {
				return answer(ctx, q)
			}
			return next(ctx, method, req)
		}
	})
	client.AddRoots(&mcp.Root{URI: "file:///src", Name: "src"})
	here, there := mcp.NewInMemoryTransports()
	server := mcp.NewServer(&mcp.Implementation{Name: "s"}, nil)
	var own atomic.Int64
	server.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if home.Timed(ctx) {
				own.Add(1)
			}
			result, err := next(ctx, method, req)
			if err == nil {
				result = home.Answered(ctx, result)
			}
			return result, err
		}
	})
	session, err := server.Connect(t.Context(), there, nil)
	expect.Check(t, err)
	conn, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	expect.Check(t, err)
	t.Cleanup(func() { conn.Close(); _ = session.Wait() })
	return session, own.Load
}

// hold serves a call of a handler in a session, as its client asks for it, and returns the text of its result, or its
// error. After a minute somebody sets the clock back by an hour.
func hold(t *testing.T, engine *call.Engine, c *home.Carrier, session *mcp.ServerSession, r *call.Request, h handler,
) string {
	t.Helper()
	r.Params, r.InSession = &wire.Params{Target: "x"}, true
	r.Can = wire.Form | wire.URL | wire.Roots | wire.Sampling | wire.SamplingTools
	r.Handler = &call.Handler{
		Method: wire.CallTool,
		Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) { return h(ctx, c) },
	}
	engine.Limits, engine.Log = bound.Limits{Rounds: 5, Questions: 5, CallTTL: time.Hour}, slog.New(slog.DiscardHandler)
	c.Log = engine.Log
	start := time.Now()
	ctx := clock.WithOff(t.Context(), func() time.Duration {
		if time.Since(start) > time.Minute {
			return -time.Hour
		}
		return 0
	})
	out, err := engine.Serve(ctx, r, c.Held(r, session))
	switch {
	case err != nil:
		return err.Error()
	case out.Encoded != nil:
		return string(out.Encoded)
	}
	return out.Result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
}

// A held call asks the client of its session there and then, until each answer fits.
func TestHeld(t *testing.T) {
	form := expect.Must(question.FormOf("Who?", reflect.TypeFor[name]()))(t)
	url := expect.Must(question.URL("Log in.", "https://example.com/login"))(t)
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
			session, _ := inSession(t, func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				asked = append(asked, q)
				if len(asked) > len(test.answers) || test.answers[len(asked)-1] == nil {
					return nil, errors.New("out of order")
				}
				return test.answers[len(asked)-1], nil
			})
			var id string
			got := hold(t, new(call.Engine), new(home.Carrier), session, new(call.Request),
				func(_ context.Context, c *call.Call) (mcp.Result, error) {
					id = c.ID()
					record, err := c.Ask("q", test.question)
					return text(string(record)), err
				})
			if !strings.HasPrefix(got, test.want) || len(asked) != len(test.answers) {
				t.Fatalf("got %s after %d questions, want %s after %d", got, len(asked), test.want, len(test.answers))
			}
			for i, q := range asked {
				if explained := strings.Contains(q.Message, "does not fit: name: must be a string"); explained != (i > 0) {
					t.Errorf("question %d is %q", i+1, q.Message)
				}
				expect.Equal(t, "the question has the key", q.Meta[wire.MetaKey], "q")
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

// The requests for samples keep their kind, and each says which question it is.
func TestHeldSamples(t *testing.T) {
	session, _ := inSession(t, nil)
	messages := func(text string) []*mcp.SamplingMessage {
		return []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}
	}
	more := []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}}
	tool := &mcp.Tool{Name: "t", InputSchema: map[string]any{"type": "object"}}
	for want, params := range map[string]mcp.InputRequest{
		`"q with 0 tools"`: &mcp.CreateMessageParams{MaxTokens: 9, Messages: messages("hi")},
		`"q with 1 tools"`: &mcp.CreateMessageWithToolsParams{MaxTokens: 9, Messages: more, Tools: []*mcp.Tool{tool}},
	} {
		got := hold(t, new(call.Engine), new(home.Carrier), session, new(call.Request),
			func(_ context.Context, c *call.Call) (mcp.Result, error) {
				q, err := question.Sample(params)
				if err != nil {
					return nil, err
				}
				record, err := c.Ask("q", q)
				return text(string(record)), err
			})
		expect.Contains(t, "the sample", got, want)
	}
}

// A request gets further members of _meta without being changed, because its handler may ask it again.
func TestWithMeta(t *testing.T) {
	for _, request := range []mcp.InputRequest{
		new(mcp.ElicitParams), new(mcp.CreateMessageParams), new(mcp.CreateMessageWithToolsParams), new(mcp.ListRootsParams),
	} {
		own := mcp.Meta{"own": 1}
		request.(mcp.Params).SetMeta(own)
		got := home.WithMeta(request, mcp.Meta{"own": 2, "more": 3}).(mcp.Params).GetMeta()
		if got["own"] != 1 || got["more"] != 3 || len(own) != 1 || len(request.(mcp.Params).GetMeta()) != 1 {
			t.Errorf("%T has %v, and then %v", request, own, got)
		}
	}
}

// A question in a session waits until its deadline, and is withdrawn then. What others were answered counts.
func TestHeldDeadlines(t *testing.T) {
	ada := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}
	for _, c := range []struct {
		says  string
		after time.Duration // of the answer to the first question; the second takes two minutes
		took  time.Duration
		want  string
	}{
		{"in time", 3*time.Hour - time.Millisecond, 3*time.Hour - time.Millisecond, `"Ada" and Ada`},
		{"late", 3*time.Hour + time.Millisecond, 3 * time.Hour, "nobody in 3h0m0s and Ada"},
	} {
		synctest.Test(t, func(t *testing.T) {
			withdrawn := 0
			session, timed := inSession(t, func(ctx context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				after := 2 * time.Minute
				if q.Meta[wire.MetaKey] == "first" {
					after = c.after
				}
				answer := time.After(after)
				select {
				case <-answer:
				case <-ctx.Done():
					withdrawn++
					<-answer // and answers all the same
				}
				return ada, nil
			})
			start := time.Now()
			got := hold(t, new(call.Engine), new(home.Carrier), session, new(call.Request),
				func(_ context.Context, c *call.Call) (mcp.Result, error) {
					first, open1 := askWithin(c, "first", 3*time.Hour)
					second, open2 := ask(c, "second", "What?")
					return text(first + " and " + second), cmp.Or(open1, open2)
				})
			if took := time.Since(start); got != c.want || took != c.took {
				t.Errorf("%s: %s after %v, want %s after %v", c.says, got, took, c.want, c.took)
			}
			synctest.Wait()
			if late := c.says == "late"; (withdrawn == 1) != late || timed() != 1 {
				t.Errorf("%s: %d of %d questions with a deadline were withdrawn", c.says, withdrawn, timed())
			}
			time.Sleep(time.Minute)
		})
	}
}

// A client that asked for progress is told that its user is awaited, until the user answers; another is told nothing.
func TestHeldCallsBeat(t *testing.T) {
	for _, wants := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			session, _ := inSession(t, func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				time.Sleep(22 * time.Second)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
			})
			var told []string
			r := new(call.Request)
			if wants {
				r.Progress = func(_ context.Context, progress, total float64, message string) error {
					told = append(told, fmt.Sprint(progress, " of ", total, ": ", message))
					return errors.New("lost") // which ends nothing
				}
			}
			got := hold(t, new(call.Engine), new(home.Carrier), session, r,
				func(ctx context.Context, c *call.Call) (mcp.Result, error) {
					if c.Round == 1 {
						_ = c.Progress(ctx, 100, 0, "began")
					}
					who, err := ask(c, "who", "Who?")
					return text(who), err
				})
			time.Sleep(time.Minute)
			synctest.Wait()
			var want []string
			if wants {
				want = []string{"100 of 0: began"}
				for _, seconds := range []int{5, 10, 15, 20} {
					want = append(want, fmt.Sprint(100+seconds, " of 0: Waiting for your answer."))
				}
			}
			if got != "Ada" || !slices.Equal(told, want) {
				t.Errorf("%s, after %q", got, told)
			}
		})
	}
}

// A question that the client refuses to ask goes to the desk of its caller, where there is one.
func TestHeldQuestionsFallBack(t *testing.T) {
	refuse := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return nil, &jsonrpc.Error{Code: -32601, Message: "no such method"}
	}
	who := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		who, err := ask(c, "who", "Who?")
		return text(who), err
	}
	session, _ := inSession(t, refuse)
	desk := &home.Carrier{Desk: true, Tasks: new(takes)}
	engine := &call.Engine{Desk: &call.Desk{Fallback: true}}
	expect.Equal(t, "at a desk", hold(t, engine, desk, session, &call.Request{Principal: "alice"}, who), "a task")
	const failed = `asking the client "who": `
	if got := hold(t, engine, desk, session, new(call.Request), who); !strings.HasPrefix(got, failed) {
		t.Errorf("of an anonymous caller: %s", got)
	}
}

// A handler in the manual style never gets an answer that does not fit its question: it would take it for one.
func TestHeldManualAnswers(t *testing.T) {
	answers := []any{1, "Ada"}
	session, _ := inSession(t, func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		next := answers[0]
		answers = answers[1:]
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": next}}, nil
	})
	form := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
	runs := 0
	r := &call.Request{As: func(m call.Manual) mcp.Request { return call.View(wire.CallTool, []byte(`{}`), nil, nil, m) }}
	got := hold(t, new(call.Engine), new(home.Carrier), session, r,
		func(_ context.Context, c *call.Call) (mcp.Result, error) {
			runs++
			p := c.View().(*mcp.CallToolRequest).Params
			if answer, ok := p.InputResponses["who"].(*mcp.ElicitResult); ok {
				return text(fmt.Sprint(answer.Content["name"])), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
				"who": &mcp.ElicitParams{Message: "Who?", RequestedSchema: form},
			}}, nil
		})
	if got != "Ada" || runs != 3 {
		t.Errorf("%s after %d runs", got, runs)
	}
}
