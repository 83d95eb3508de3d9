package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestFence(t *testing.T) {
	t.Parallel()
	var fences []int64
	nonces := make(map[string]bool)
	s := harness.NewTaskServer(t, nil, harness.AddText("t", nil,
		func(_ context.Context, call *askback.Call) (string, error) {
			fences = append(fences, call.Fence())
			if nonces[call.Nonce()] = true; (call.Nonce() == "") != (call.Fence() == 0) {
				t.Errorf("the claim %d has the nonce %q", call.Fence(), call.Nonce())
			}
			_, err := askback.Elicit[struct {
				Name string `json:"name"`
			}](call, "name", "Whose?")
			return "", err
		}))
	s.Result(harness.ProposalOnly, "tools/call", "t", `"name":"t"`)
	id := s.Start(harness.WithExtension, `"name":"t"`)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"name":{"action":"accept","content":{"name":"x"}}`)
	s.Get(harness.WithExtension, id, "completed")
	if fmt.Sprint(fences) != "[0 1 2]" || len(nonces) != 3 {
		t.Errorf("the fencing tokens are %v with %d nonces, want 0 outside of the task, and then one more and another "+
			"nonce for each claim", fences, len(nonces))
	}
}

// A database that has lost commits gives numbers of claims again. An outside system that was shown a lost number
// refuses all numbers up to it. The task continues until its number is higher, and then its call ends.
func TestAClaimThatAnOutsideSystemRefuses(t *testing.T) {
	synctest.Test(t, testAClaimThatAnOutsideSystemRefuses)
}

func testAClaimThatAnOutsideSystemRefuses(t *testing.T) {
	type shown struct {
		fence int64
		nonce string
	}
	last := shown{3, "of a claim that the database has lost"}
	var seen []shown
	var ended []string
	opts := &askback.Options{
		Tasks: &askback.Tasks{Settings: task.Settings{Lease: 200 * time.Millisecond}},
		Audit: func(_ context.Context, e askback.AuditEvent) {
			if e.Kind == askback.AuditEnded {
				ended = append(ended, e.Reason)
			}
		},
	}
	handler := func(ctx context.Context, call *askback.Call) (string, error) {
		err := call.Do(ctx, "publish", func(context.Context) error {
			now := shown{call.Fence(), call.Nonce()}
			seen = append(seen, now)
			if now.fence < last.fence || now.fence == last.fence && now.nonce != last.nonce {
				return fmt.Errorf("not the claim that was shown last: %w", task.ErrLeaseLost)
			}
			last = now
			return nil
		})
		return "published", err
	}
	s := harness.NewTaskServer(t, opts, harness.AddText("t", nil, handler))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	done := s.Get(harness.WithExtension, id, "completed")
	expect.Equal(t, "the result", harness.Content(harness.At(done, "result").(map[string]any)), "published")
	if last.fence < 4 {
		t.Errorf("it was published under claim %d, and 3 was shown before", last.fence)
	}
	for i, now := range seen {
		if i > 0 && (now.fence <= seen[i-1].fence || now.nonce == seen[i-1].nonce) || now.nonce == "" {
			t.Errorf("the claims that were shown are %v, want a higher number and another nonce each time", seen)
		}
	}
	s.Stop()
	expect.Equal(t, "the audit says that the call ended times", fmt.Sprint(ended), "[task completed]")
}

// waiting is a server with a task that does not end, in a bubble of synctest.
type waiting struct {
	http.Handler
	id string
}

func newWaiting(t *testing.T, store task.Store, sdk ...mcp.Middleware) *waiting {
	t.Helper()
	return newWaitingLogging(t, store, slog.New(slog.DiscardHandler), sdk...)
}

func newWaitingLogging(t *testing.T, store task.Store, log *slog.Logger, sdk ...mcp.Middleware) *waiting {
	t.Helper()
	m := mcp.NewServer(&mcp.Implementation{Name: "waiting", Version: "1"}, nil)
	m.AddReceivingMiddleware(sdk...) // if there is any, requests go through the SDK
	srv := expect.Must(askback.New(m, &askback.Options{Tasks: &askback.Tasks{Store: store}, Logger: log}))(t)
	harness.AddText("wait", nil, func(ctx context.Context, _ *askback.Call) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})(srv)
	w := &waiting{Handler: srv.HTTPHandler(nil)}
	created := w.send(t, context.Background(), "tools/call", `"name":"wait","task":{}`).body(t)
	w.id, _ = harness.At(created, "result", "task", "taskId").(string)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }() // it claims the task from the store
	t.Cleanup(func() { stop(); <-done })
	return w
}

type recorded struct{ *httptest.ResponseRecorder }

func (w *waiting) send(t *testing.T, ctx context.Context, method, params string) recorded {
	t.Helper()
	capabilities := harness.ProposalOnly
	if method == "subscriptions/listen" {
		capabilities = harness.WithExtension
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp",
		strings.NewReader(harness.Message(1, method, params, capabilities)))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer token",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if method == "tools/call" {
		r.Header.Set("Mcp-Name", "wait")
	}
	res := recorded{httptest.NewRecorder()}
	w.ServeHTTP(res, r)
	return res
}

func (r recorded) body(t *testing.T) map[string]any {
	t.Helper()
	body := r.Body.String()
	if at := strings.LastIndex(body, "data: "); at >= 0 {
		body = body[at+len("data: "):]
	}
	var message map[string]any
	if err := json.Unmarshal([]byte(body), &message); err != nil {
		t.Fatalf("%d %q: %v", r.Code, body, err)
	}
	return message
}

// A server that stops ends the requests that wait, with what clients repeat.
func TestAWaitEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	stopping := &fault.UnavailableError{Reason: "the server is stopping: send the request again",
		RetryAfter: 1500 * time.Millisecond}
	pass := func(next mcp.MethodHandler) mcp.MethodHandler { return next }
	for _, middleware := range [][]mcp.Middleware{nil, {pass}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWaiting(t, new(task.MemoryStore), middleware...)
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Minute, func() { cancel(stopping) })
			res := w.send(t, ctx, "tasks/result", `"taskId":"`+w.id+`"`)
			message, _ := harness.At(res.body(t), "error", "message").(string)
			if res.Code != 503 || res.Header().Get("Retry-After") != "2" ||
				message != "the server is stopping: send the request again" {
				t.Errorf("%d %v %s", res.Code, res.Header(), res.Body)
			}

			ctx, cancel = context.WithCancelCause(context.Background())
			time.AfterFunc(time.Minute, func() { cancel(stopping) })
			res = w.send(t, ctx, "subscriptions/listen", `"notifications":{"taskIds":["`+w.id+`"]}`)
			// the stream ends, and the client opens another
			if res.Code != 200 || strings.Contains(res.Body.String(), `"error"`) {
				t.Errorf("%d %s", res.Code, res.Body)
			}
		})
	}
}

// What waits does so for as long as the token of its caller, who is asked for another one then.
func TestAWaitEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for method, params := range map[string]string{
		"tasks/result":         `"taskId":"%s"`,
		"subscriptions/listen": `"notifications":{"taskIds":["%s"]}`,
	} {
		for _, others := range []string{"", `"toolsListChanged":true,`} {
			if others != "" && method == "tasks/result" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting(t, new(task.MemoryStore))
				begun := time.Now()
				w.Handler = auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
					return &auth.TokenInfo{UserID: "alice", Expiration: begun.Add(time.Minute)}, nil
				}, nil)(w.Handler)
				created := w.send(t, t.Context(), "tools/call", `"name":"wait","task":{}`).body(t)
				id, _ := harness.At(created, "result", "task", "taskId").(string)
				res := w.send(t, t.Context(), method, strings.Replace(fmt.Sprintf(params, id), "{", "{"+others, 1))
				expect.Equal(t, method+" ended after", time.Since(begun), time.Minute)
				message, _ := harness.At(res.body(t), "error", "message").(string)
				if want := "the caller's token has expired: send the request again"; message != want || method == "tasks/result" &&
					res.Code != 503 {
					t.Errorf("%s: %d %s", method, res.Code, res.Body)
				}
				time.Sleep(time.Second)
				if again := w.send(t, t.Context(), method, fmt.Sprintf(params, id)); again.Code != 401 {
					t.Errorf("%s again: %d", method, again.Code)
				}
			})
		}
	}
}

// While the database is silent a client is told to come back, in time. When it answers again, so does the server.
func TestASilentStore(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		store := &silentStore{Store: new(task.MemoryStore)}
		w := newWaiting(t, store)
		store.silent.Store(true)
		for method, params := range map[string]string{
			"tasks/get": `"taskId":"` + w.id + `"`, "tasks/cancel": `"taskId":"` + w.id + `"`, "tasks/result": `"taskId":"` +
				w.id + `"`,
		} {
			begun := time.Now()
			res := w.send(t, t.Context(), method, params)
			if took := time.Since(begun); took > 5*time.Second || res.Code != 503 || res.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: %d %v %s after %v", method, res.Code, res.Header(), res.Body, took)
			}
		}
		store.silent.Store(false)
		expect.Equal(t, "afterwards", w.send(t, t.Context(), "tasks/get", `"taskId":"`+w.id+`"`).Code, 200)
	})
}

// silentStore is a store whose database does not answer while silent is set.
type silentStore struct {
	task.Store
	silent atomic.Bool
}

func (s *silentStore) wait(ctx context.Context) error {
	if !s.silent.Load() {
		return nil
	}
	<-ctx.Done()
	return errors.Join(errors.New("no answer"), ctx.Err())
}

func (s *silentStore) Get(ctx context.Context, id string) (*task.Task, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, id)
}

func (s *silentStore) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, leases, lease)
}
