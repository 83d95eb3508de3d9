package slack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/slack"
	"github.com/askback-mcp/askback/slack/slacktest"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// outage is the way to Slack, which takes connections and requests and does not answer, until it is over.
type outage struct {
	slack    http.Handler
	over     atomic.Bool
	requests atomic.Int32
	open     sync.WaitGroup
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	o.requests.Add(1)
	if o.over.Load() {
		w := httptest.NewRecorder()
		o.slack.ServeHTTP(w, r)
		return w.Result(), nil
	}
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		o.open.Go(func() { _, _ = io.Copy(io.Discard, far) })
		return near, nil
	}
	return (&http.Transport{DisableKeepAlives: true, DialContext: dial}).RoundTrip(r)
}

// receiver takes notices at once. It has when each came, by its ID.
type receiver struct {
	mu    sync.Mutex
	began time.Time
	told  map[string]time.Duration
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := req.Header.Get("webhook-id"); r.told[id] == 0 {
		r.told[id] = time.Since(r.began)
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: req}, nil
}

// count returns how many notices came within a time.
func (r *receiver) count(within time.Duration) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, after := range r.told {
		if after <= within {
			n++
		}
	}
	return n
}

// While Slack takes requests and does not answer, a webhook of the same instance gets its notices, and the instance
// ends when it is told to. When Slack answers again, it gets each question once.
func TestASilentSlackHoldsNobodyUp(t *testing.T) {
	for name, notify := range map[string]func(ctx context.Context, hook, talk func(context.Context) error) error{
		"at the same time": func(ctx context.Context, hook, talk func(context.Context) error) error {
			var all sync.WaitGroup
			errs := make([]error, 2)
			all.Go(func() { errs[0] = talk(ctx) })
			all.Go(func() { errs[1] = hook(ctx) })
			all.Wait()
			return errors.Join(errs...)
		},
		"Slack first": func(ctx context.Context, hook, talk func(context.Context) error) error {
			return errors.Join(talk(ctx), hook(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outlast(t, notify) })
		})
	}
}

func outlast(t *testing.T, notify func(ctx context.Context, hook, talk func(context.Context) error) error) {
	real := slacktest.New(slacktest.Options{Token: token, SigningSecret: secret, Channels: []string{channel}})
	way := &outage{slack: real}
	taken := &receiver{began: time.Now(), told: make(map[string]time.Duration)}
	app, err := slack.New(slack.Options{Token: token, SigningSecret: secret, API: "http://slack/api/",
		Client: &http.Client{Transport: way}})
	expect.Check(t, err)
	store := new(task.MemoryStore)
	people, err := desk.Open(store, nil)
	expect.Check(t, err)
	talk, err := chat.Open(people, app, chat.Options{Name: "slack", Store: new(state.MemoryStore), Person: person,
		Channel: func(*desk.Question) string { return channel }, Log: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	hook, err := webhook.New("http://hook/", "whsec_"+strings.Repeat("AAAA", 8),
		&webhook.Options{Client: &http.Client{Transport: taken}})
	expect.Check(t, err)
	srv := harness.NewServer(t, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Tasks:     &askback.Tasks{Store: store},
		Desk: &askback.DeskOptions{Notify: func(ctx context.Context, n desk.Notice) error {
			return notify(ctx, func(ctx context.Context) error { return hook.Send(ctx, n) },
				func(ctx context.Context) error { return talk.Notify(ctx, n) })
		}},
	}, register)
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, run := range []func(context.Context) error{srv.RunTasks, talk.Run} {
			running.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // somebody listens
		return func() { cancel(); running.Wait() }
	}
	stop, handler := start(), srv.HTTPHandler(nil)
	call := func(to string) {
		members := `"name":"pay","arguments":{"to":"` + to + `"}`
		r := harness.Request{Method: "tools/call", Target: "pay", Header: http.Header{},
			Body: harness.Message(1, "tools/call", members, harness.WithExtension)}
		if res := r.Send(t, handler); !strings.Contains(res.Raw, "taskId") {
			t.Fatalf("%d %s", res.Status, res.Raw)
		}
	}
	const calls, soon = 100, 15 * time.Second // one request to Slack takes 10 seconds
	for i := range calls {
		call(fmt.Sprint("alice ", i))
	}
	time.Sleep(10 * time.Minute)
	if n := taken.count(soon); n != calls {
		t.Errorf("the webhook has %d notices of %d after %v, and %d in the end", n, calls, soon, taken.count(time.Hour))
	}
	call("late")
	time.Sleep(soon)
	expect.Equal(t, "the webhook has no notice of a later question", taken.count(time.Hour), calls+1)
	if n := way.requests.Load(); n > 2*calls {
		t.Errorf("Slack got %d requests while it did not answer", n)
	}
	told := time.Now()
	stop()
	if took := time.Since(told); took > 3*time.Second {
		t.Errorf("the instance took %v to end", took)
	}
	way.open.Wait()
	way.over.Store(true)
	defer start()()
	time.Sleep(time.Hour)
	expect.Equal(t, "the channel", len(real.Messages()), calls+1)
}
