package httpfront_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/wire"
)

// late is a server whose handlers fail after an effect.
type late struct {
	http.Handler
	effects atomic.Int64
}

// newLate makes the server. Requests pass middleware of the SDK's server, and then of ours, unless it is nil.
func newLate(t *testing.T, before, around mcp.Middleware) *late {
	l := new(late)
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	if before != nil {
		m.AddReceivingMiddleware(before)
	}
	object := json.RawMessage(`{"type":"object"}`)
	m.AddTool(&mcp.Tool{Name: "foreign", InputSchema: object}, func(_ context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.effects.Add(1)
		var in struct{ Code int64 }
		_ = json.Unmarshal(req.Params.Arguments, &in)
		return nil, wire.Errorf(in.Code, "too late")
	})
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler),
		Limits: askback.Limits{StateBytes: 4 << 10}})
	expect.Check(t, err)
	if around != nil {
		srv.AddReceivingMiddleware(around)
	}
	l.register(srv)
	l.Handler = srv.HTTPHandler(nil)
	return l
}

func (l *late) register(srv *askback.Server) {
	type in struct {
		Code int64 `json:"code,omitempty"`
	}
	tools := map[string]askback.ToolHandler[in, string]{
		"fault": func(_ context.Context, _ *askback.Call, in in) (string, error) {
			l.effects.Add(1)
			return "", fmt.Errorf("after the effect: %w", wire.Errorf(in.Code, "too late"))
		},
		"panic": func(context.Context, *askback.Call, in) (string, error) {
			l.effects.Add(1)
			panic("a defect")
		},
		"large": func(ctx context.Context, call *askback.Call, _ in) (string, error) {
			if err := l.step(ctx, call, strings.Repeat("x", 8<<10)); err != nil {
				return "", err
			}
			return "", askback.Approve(call, "sure", askback.Question{Message: "Sure?"})
		},
		"undeclared": func(_ context.Context, call *askback.Call, _ in) (string, error) {
			_, err := askback.Roots(call, "roots")
			return "", err
		},
		"undeclared after a step": func(ctx context.Context, call *askback.Call, _ in) (string, error) {
			err := l.step(ctx, call, "")
			_, ask := askback.Roots(call, "roots")
			return "", errors.Join(err, ask)
		},
		"undeclared after a step that failed": func(ctx context.Context, call *askback.Call, _ in) (string, error) {
			_, _ = askback.Do(ctx, call, "effect", func(context.Context) (string, error) {
				l.effects.Add(1)
				return "", errors.New("the connection broke")
			})
			_, err := askback.Roots(call, "roots")
			return "", err
		},
		"undeclared in the second round": func(ctx context.Context, call *askback.Call, _ in) (string, error) {
			if err := l.step(ctx, call, ""); err != nil {
				return "", err
			}
			if err := askback.Approve(call, "sure", askback.Question{Message: "Sure?"}); err != nil {
				return "", err
			}
			_, err := askback.Roots(call, "roots")
			return "", err
		},
	}
	for name, h := range tools {
		askback.AddTool(srv, &mcp.Tool{Name: name}, h)
	}
	srv.AddPrompt(&mcp.Prompt{Name: "prompt", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}},
		func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
			l.effects.Add(1)
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "too late")
		})
}

// step has an effect, and records a text.
func (l *late) step(ctx context.Context, call *askback.Call, text string) error {
	_, err := askback.Do(ctx, call, "effect", func(context.Context) (string, error) {
		l.effects.Add(1)
		return text, nil
	})
	return err
}

// passing is middleware that changes nothing.
func passing(next mcp.MethodHandler) mcp.MethodHandler { return next }

// A status of 4xx says that nothing ran: clients tell people so, or send the request again. So no error has one once
// the author's function has run, on any path to it. Errors from before keep theirs.
func TestNoStatusSaysThatNothingRanAfterAnEffect(t *testing.T) {
	t.Parallel()
	const form = `{"elicitation":{"form":{}}}`
	code := func(code int) string { return fmt.Sprintf(`{"code":%d}`, code) }
	for path, l := range map[string]*late{
		"direct": newLate(t, nil, nil), "middleware": newLate(t, nil, passing), "the SDK": newLate(t, passing, nil),
		"both": newLate(t, passing, passing),
	} {
		for _, c := range []struct {
			name    string
			request harness.Request
			effects int64
			status  int
			code    int
		}{
			{"invalid params", harness.Request{Target: "fault", Arguments: code(-32602)}, 1, 200, -32602},
			{"invalid request", harness.Request{Target: "fault", Arguments: code(-32600)}, 1, 200, -32600},
			{"parse error", harness.Request{Target: "fault", Arguments: code(-32700)}, 1, 200, -32700},
			{"header mismatch", harness.Request{Target: "fault", Arguments: code(-32020)}, 1, 200, -32020},
			{"version", harness.Request{Target: "fault", Arguments: code(-32022)}, 1, 200, -32022},
			{"no method", harness.Request{Target: "fault", Arguments: code(-32601)}, 1, 200, -32601},
			{"a state that is too large", harness.Request{Target: "large"}, 1, 200, -32603},
			{"a panic", harness.Request{Target: "panic"}, 1, 200, -32603},
			{"undeclared", harness.Request{Target: "undeclared", Capabilities: form}, 0, 400, -32021},
			{"undeclared after a step", harness.Request{Target: "undeclared after a step", Capabilities: form}, 1, 200, -32021},
			{"undeclared after a step that failed",
				harness.Request{Target: "undeclared after a step that failed", Capabilities: form}, 1, 200, -32021},
			{"a prompt", harness.Request{Method: "prompts/get", Target: "prompt", Arguments: `{"who":"x"}`}, 1, 200, -32602},
			{"a prompt without its argument", harness.Request{Method: "prompts/get", Target: "prompt"}, 0, 400, -32602},
			{"a state that is refused", harness.Request{Target: "fault", State: "x"}, 0, 400, -32602},
			{"a tool of the SDK's", harness.Request{Target: "foreign", Arguments: code(-32602)}, 1, 200, -32602},
			{"a tool of the SDK's without a method", harness.Request{Target: "foreign", Arguments: code(-32601)}, 1, 200,
				-32601},
			{"an unknown tool", harness.Request{Target: "none"}, 0, 400, -32602},
			{"an unknown prompt", harness.Request{Method: "prompts/get", Target: "none"}, 0, 400, -32602},
			{"an unknown resource", harness.Request{Method: "resources/read", Target: "x://none"}, 0, 400, -32602},
		} {
			t.Run(path+"/"+c.name, func(t *testing.T) {
				l.effects.Store(0)
				c.request.Send(t, l).Refused(t, c.status, c.code)
				expect.Equal(t, "effects", l.effects.Load(), c.effects)
			})
		}
		t.Run(path+"/the step of an earlier round", func(t *testing.T) {
			l.effects.Store(0)
			r := harness.Request{Target: "undeclared in the second round", Capabilities: form}
			r.State = r.Send(t, l).Asked(t, "sure")
			r.Responses = `{"sure":{"action":"accept","content":{}}}`
			r.Send(t, l).Refused(t, 400, -32021)
			expect.Equal(t, "effects", l.effects.Load(), 1)
		})
	}
}

// What middleware says before the handler keeps its status, and what it says afterwards does not.
func TestTheStatusOfMiddlewaresErrors(t *testing.T) {
	t.Parallel()
	crowded := &fault.CrowdedError{UnavailableError: &fault.UnavailableError{Reason: "full", RetryAfter: time.Second}}
	for name, c := range map[string]struct {
		err           error
		code          int
		before, after int // the statuses
	}{
		"invalid params": {wire.Errorf(jsonrpc.CodeInvalidParams, "no"), -32602, 400, 200},
		"no room":        {crowded, -32603, 429, 503},
		"away":           {crowded.UnavailableError, -32603, 503, 503},
	} {
		var runs bool
		l := newLate(t, nil, func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if runs {
					_, _ = next(ctx, method, req)
				}
				return nil, c.err
			}
		})
		r := harness.Request{Target: "panic"}
		t.Run(name, func(t *testing.T) {
			r.Send(t, l).Refused(t, c.before, c.code)
			runs = true
			r.Send(t, l).Refused(t, c.after, c.code)
			expect.Equal(t, "effects", l.effects.Load(), 1)
		})
	}
}
