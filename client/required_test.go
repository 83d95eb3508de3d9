package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// login is a tool that refuses calls until its user has logged in.
func login(done *atomic.Bool, calls *atomic.Int32, url string) mcp.ToolHandlerFor[struct{}, any] {
	return func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		calls.Add(1)
		if done.Load() {
			return text("done"), nil, nil
		}
		return nil, nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{
			{Mode: "url", Message: "Log in", URL: url, ElicitationID: "one"}})
	}
}

// A call that needs a page is sent again after its user has opened it. A server that is not done yet does not make the
// user open it again.
func TestACallNeedsAPage(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{
		"accept": "done", "decline": "URL elicitation required", "park": "URL elicitation required",
	} {
		var done atomic.Bool
		var calls, asked atomic.Int32
		opts := client.Options{Limits: client.Limits{FirstPause: time.Millisecond, MaxPause: time.Millisecond}}
		opts.URL = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			if asked.Add(1); q.URL != "https://login.example/" || q.Key != "one" {
				t.Errorf("asked %+v", q)
			}
			if action == "park" {
				return nil, client.ErrPark
			}
			return &mcp.ElicitResult{Action: action}, nil
		}
		opts.OnRound = func(_ context.Context, r *client.Round) error { done.Store(r.Number == 2); return nil }
		s := other(t, opts, login(&done, &calls, "https://login.example/"))
		res, err := called(t, s, "t")
		got := ""
		if err == nil {
			got = textOf(res)
		} else {
			got = err.Error()
		}
		if !strings.Contains(strings.ToLower(got), strings.ToLower(want)) || asked.Load() != 1 {
			t.Errorf("%s: %q, asked %d times, called %d times", action, got, asked.Load(), calls.Load())
		}
	}
}

// The server says that it is done with a page while its user is still asked. What it says of another page ends nothing.
func TestAServerIsDoneWithAPage(t *testing.T) {
	t.Parallel()
	var done atomic.Bool
	var calls atomic.Int32
	m := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "t"}, login(&done, &calls, "https://login.example/"))
	here, there := mcp.NewInMemoryTransports()
	session := expect.Must(m.Connect(t.Context(), there, nil))(t)
	opts := client.Options{URL: func(ctx context.Context, _ *client.Question) (*mcp.ElicitResult, error) {
		for _, id := range []string{"two", "one"} {
			if ctx.Err() != nil {
				t.Error("another page ends the question")
			}
			done.Store(id == "one")
			if err := session.NotifyElicitationComplete(ctx, &mcp.ElicitationCompleteParams{ElicitationID: id}); err != nil {
				t.Error(err)
			}
			if err := session.Ping(ctx, nil); err != nil && id == "two" { // it has arrived
				t.Error(err)
			}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	res, err := called(t, connect(t, opts, here, "2025-11-25"), "t")
	if err != nil || textOf(res) != "done" || calls.Load() != 2 {
		t.Errorf("%v, %v, after %d calls", res, err, calls.Load())
	}
}

// A page that cannot be shown, or that never becomes enough, leaves the server's error.
func TestPagesThatACallDoesNotOpen(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int32{
		"javascript:alert(1)": 1, "file:///etc/passwd": 1, "": 1, "https://login.example/": 4,
	} {
		var done atomic.Bool
		var calls, asked atomic.Int32
		opts := client.Options{Limits: client.Limits{FirstPause: time.Millisecond, MaxPause: time.Millisecond, Rounds: 4}}
		opts.URL = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			asked.Add(1)
			return &mcp.ElicitResult{Action: "accept"}, nil
		}
		_, err := called(t, other(t, opts, login(&done, &calls, url)), "t")
		if !isRequired(err) || calls.Load() != want || asked.Load() != min(want-1, 1) {
			t.Errorf("%s: %v, called %d times, asked %d times", url, err, calls.Load(), asked.Load())
		}
	}
}

func isRequired(err error) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && fault.Code == mcp.CodeURLElicitationRequired
}

func FuzzRequired(f *testing.F) {
	f.Add([]byte(`{"elicitations":[{"mode":"url","message":"?","url":"https://a.example/","elicitationId":"1"}]}`))
	f.Add([]byte(`{"elicitations":[{"mode":"url","url":1e999},null,[]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, q := range client.ReadRequired(data) {
			if q.Key == "" || !strings.HasPrefix(strings.ToLower(q.URL), "http") {
				t.Errorf("%q asks %+v", data, q)
			}
		}
	})
}
