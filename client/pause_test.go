package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// inBubble is a server over HTTP without sockets, so that a bubble's time stands still while it answers.
type inBubble func(w http.ResponseWriter, m message)

func (serve inBubble) RoundTrip(r *http.Request) (*http.Response, error) {
	var m message
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			return nil, err
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case "server/discover":
		respond(w, m, discovered)
	case "subscriptions/listen":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"none"}}`, m.ID, jsonrpc.CodeMethodNotFound)
	default:
		serve(w, m)
	}
	res := w.Result()
	res.Request = r
	return res, nil
}

// pauses returns the times between the requests of one method.
func pauses(
	t *testing.T, method string, answer inBubble, run func(ctx context.Context, s *client.Session) error,
) []time.Duration {
	var at []time.Time
	web := inBubble(func(w http.ResponseWriter, m message) {
		if m.Method == method {
			at = append(at, time.Now())
		}
		answer(w, m)
	})
	session := connect(t, answersSlowly(),
		&mcp.StreamableClientTransport{Endpoint: chosen, HTTPClient: &http.Client{Transport: web}}, "")
	if err := run(t.Context(), session); err == nil {
		t.Error("no error")
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	var between []time.Duration
	for i := range at[1:] {
		between = append(between, at[i+1].Sub(at[i]))
	}
	return between
}

func answersSlowly() client.Options {
	opts := answers()
	opts.Limits = client.Limits{FirstPause: 100 * time.Millisecond, MaxPause: 5 * time.Second}
	return opts
}

// A client that is told to come back, or that fails, comes back ever later, and not together with all others.
func TestPausesGrow(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		answer inBubble
		run    func(ctx context.Context, s *client.Session) error
		want   int
		least  float64 // of a pause, as a share of twice the one before
	}{
		"rounds without questions": {"tools/call", func(w http.ResponseWriter, m message) {
			respond(w, m, `{"resultType":"input_required","requestState":"s"}`)
		}, func(ctx context.Context, s *client.Session) error {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
			return err
		}, 31, 0.75},
		"a task that is out of reach": {"tasks/get", func(w http.ResponseWriter, m message) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, func(ctx context.Context, s *client.Session) error {
			_, err := s.WaitTask(ctx, "t")
			return err
		}, 10, 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := pauses(t, c.method, c.answer, c.run)
				if len(got) != c.want {
					t.Fatalf("%d pauses, want %d: %v", len(got), c.want, got)
				}
				within := func(d, least, most time.Duration) bool { return d >= least && d <= most }
				if first := got[0]; !within(first, 75*time.Millisecond, 125*time.Millisecond) {
					t.Errorf("the first pause is %v", first)
				}
				for i, d := range got[1:] {
					grown := float64(2 * got[i])
					if !within(d, time.Duration(min(grown*c.least, 3.75e9)), time.Duration(min(grown/c.least, 6.25e9))) {
						t.Errorf("%v follows %v", d, got[i])
					}
				}
				if last := got[len(got)-1]; !within(last, 3750*time.Millisecond, 6250*time.Millisecond) {
					t.Errorf("the last pause is %v", last)
				}
				same := 0
				for i, d := range got[1:] {
					if d == got[i] {
						same++
					}
				}
				if same > 1 {
					t.Errorf("the pauses are not jittered: %v", got)
				}
			})
		})
	}
}
