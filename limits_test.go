package askback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
)

func TestLimitsNameThemselves(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits askback.Limits
		tool   askback.ToolHandler[struct{}, *mcp.CallToolResult]
	}{
		{"rounds per call", askback.Limits{Rounds: 3}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			return nil, call.Checkpoint(ctx, fmt.Sprint(call.Round()))
		}},
		{"questions per round", askback.Limits{Questions: 1}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			_, err1 := askback.Elicit[harness.Login](call, "a", "?")
			_, err2 := askback.Elicit[harness.Login](call, "b", "?")
			return nil, errors.Join(err1, err2)
		}},
		{"bytes of requestState", askback.Limits{StateBytes: 1000}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			_, err := askback.Do(ctx, call, "big", func(context.Context) (string, error) { return strings.Repeat("x", 2000), nil })
			if err != nil {
				return nil, err
			}
			return nil, call.Checkpoint(ctx, "c")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := harness.NewServer(t, &askback.Options{Limits: test.limits}, func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "t"}, test.tool)
			}).HTTPHandler(nil)
			r := harness.Request{Target: "t"}
			for range 10 {
				res := r.Send(t, h)
				if res.Error == nil {
					r.State = res.Asked(t)
					continue
				}
				if res.Refused(t, 200, -32603); !strings.Contains(res.Error.Message, test.name) {
					t.Errorf("message %q", res.Error.Message)
				}
				return
			}
			t.Error("no limit was reached")
		})
	}
}

// A body without a Content-Length is bounded, too.
func TestBodyOverTheLimitInChunks(t *testing.T) {
	h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{MessageBytes: 1 << 10}}, harness.AddGreet).HTTPHandler(nil)
	chunked := func(r *http.Request) *http.Request { r.ContentLength = -1; return r }
	harness.Request{Target: "greet", Arguments: `{"place":"x"}`, Context: chunked}.Send(t, h).Asked(t, "login")
	harness.Request{Target: "greet", Arguments: `{"place":"` + strings.Repeat("x", 1<<11) + `"}`, Context: chunked}.Send(t, h).Refused(t, 413, -32600)
}

// A body may have as many bytes as the limit says, and not one more.
func TestBodiesOfTheLimitPass(t *testing.T) {
	const limit = 10_000 // no power of two, by which a body without a Content-Length grows
	h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{MessageBytes: limit}}, harness.AddGreet).HTTPHandler(nil)
	l, _ := openSession(t, h, "")
	modern := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.HTTP(t)
	old := l.request(t.Context(), http.MethodPost, "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for name, r := range map[string]*http.Request{"2026-07-28": modern, "a session": old} {
		message, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, chunked := range []bool{false, true} {
			for more, want := range []int{http.StatusOK, http.StatusRequestEntityTooLarge} {
				body := string(message) + strings.Repeat(" ", limit+more-len(message))
				sent := r.Clone(t.Context())
				if sent.Body, sent.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body)); chunked {
					sent.ContentLength = -1
				}
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, sent); w.Code != want {
					t.Errorf("%s, %d bytes, chunked %v: status %d, want %d: %s", name, len(body), chunked, w.Code, want, w.Body)
				}
			}
		}
	}
}

// If the time of a call ends while its handler works, the error says so.
func TestCallsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{CallTTL: time.Minute}}, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
				time.Sleep(2 * time.Minute)
				return nil, call.Checkpoint(ctx, "c")
			})
		}).HTTPHandler(nil)
		if message := (harness.Request{Target: "slow"}).Send(t, h).Refused(t, 200, -32603); !strings.Contains(message, "60 seconds per call") {
			t.Errorf("message %q", message)
		}
	})
}
