package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A server that could not answer at the start of the bridge is as it would be without that: its tools ask.
func TestAServerThatIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	behind := newBehind(t)
	var requests atomic.Int64
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= 3 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		behind.HTTPHandler(nil).ServeHTTP(w, r)
	}))
	f := newFront(t, web.URL, patient)
	res, err := host(t, f.url, "", able()).CallTool(t.Context(), &mcp.CallToolParams{
		Name: "order", Arguments: map[string]any{"item": "hat"},
	})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "red hat ordered" {
		t.Errorf("the tool answered %v, %v", res, err)
	}
}

// An era is a property of the server: sessions with one that is older begin without a probe, until it refuses to begin
// one. The call that finds this out runs in the new era.
func TestAServerChangesItsEra(t *testing.T) {
	past, modern := newScripted(t, "2025-11-25"), newScripted(t, "2026-07-28")
	var probes atomic.Int64
	var changed atomic.Bool
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			probes.Add(1)
		}
		switch {
		case !changed.Load():
			past.ServeHTTP(w, r)
		case bytes.Contains(body, []byte(`"initialize"`)) || r.Header.Get("Mcp-Session-Id") != "":
			http.Error(w, "no sessions here", http.StatusNotFound)
		default:
			modern.ServeHTTP(w, r)
		}
	}))
	f := newFront(t, web.URL)
	session := host(t, f.url, "", client.Options{})
	for range 2 {
		if got := told(t, session, "act"); got != "done" {
			t.Fatal(got)
		}
	}
	expect.Equal(t, "an older server was probed times", probes.Load(), 1)
	changed.Store(true)
	expect.Equal(t, "after the change", told(t, session, "act"), "done")
	if got := told(t, session, "look"); got != "done" || modern.effects != 2 {
		t.Errorf("after the change: %s, with %d effects", got, modern.effects)
	}
}

// A call may find out that its server has become an older one, whose questions belong to a session of the caller. If
// that cannot begin because the server has changed back, nothing was called.
func TestACallFindsAnOlderServer(t *testing.T) {
	for want, back := range map[string]bool{"done": false, "was not called": true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			modern, older := s.modern(nil, "asks"), s.older(nil, "asks")
			servers := []connected{modern, older, older} // one for each connection, and the last for all that follow
			if back {
				servers = []connected{modern, older, nil, modern} // one refuses sessions
			}
			var last *mcp.ServerSession
			f := s.open(nil, bridge.Server{Identity: "shop", Connect: func() (mcp.Transport, error) {
				here, there := mcp.NewInMemoryTransports()
				next := servers[0]
				servers = servers[min(1, len(servers)-1):] // lists that are read late may need one more
				if next == nil {
					conn, err := there.Connect(t.Context())
					conn.Close()
					return here, err
				}
				var err error
				last, err = next.Connect(context.Background(), there, nil)
				return here, err
			}})
			defer f.stop()
			h := s.host(f, "", client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"text": "yes"}}, nil
			}})
			defer h.Close()
			last.Close()
			synctest.Wait() // the bridge knows that the connection is gone, and has not made another one
			text, _ := call(t, h, "asks", load{N: 1})
			if !strings.Contains(text, want) || s.tookEffect(1) == 0 != back {
				t.Errorf("%d effects, and the result is %q, want %q", s.tookEffect(1), text, want)
			}
		})
	}
}

// A call that has begun by rounds cannot go on if its server has sessions afterwards: its tool is not called from the
// beginning. It is so for calls that are stored, and for those that their host carries.
func TestACallAtAServerThatBecomesOlder(t *testing.T) {
	park := func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, client.ErrPark }
	for _, tool := range []string{"asks", "asks_again"} {
		for where, opts := range map[string]client.Options{
			"stored": {Tasks: client.TasksOff}, "carried": {Tasks: client.TasksOff, Form: park},
		} {
			t.Run(tool+" "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					before := s.open(nil, s.behind("shop", "", s.modern(nil, tool)))
					h := s.host(before, "", opts)
					_, err := h.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: load{N: 1}})
					parked, isParked := errors.AsType[*client.PendingError](err)
					if isParked != (where == "carried") {
						t.Fatal(err)
					}
					h.Close()
					before.stop()

					next := s.open(nil, s.behind("shop", "", s.older(nil, tool)))
					defer next.stop()
					time.Sleep(time.Minute) // it knows what the server is
					h = s.host(next, "", client.Options{Tasks: client.TasksOff})
					defer h.Close()
					var text string
					if isParked {
						key := parked.Pending.Questions[0].Key
						parked.Pending.Answers = map[string]json.RawMessage{key: json.RawMessage(`{"action":"accept","content":{}}`)}
						res := expect.Must(h.Resume(t.Context(), parked.Pending))(t)
						text = res.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
					} else {
						name := next.answer(t, "ada", desk.Answer{Action: "accept"}).Name
						time.Sleep(time.Minute)
						text, _ = call(t, h, "askback_result", map[string]any{"name": name})
					}
					if !strings.Contains(text, "which began by rounds, cannot go on") || s.tookEffect(1) != 0 {
						t.Errorf("%d effects, and the result is %q", s.tookEffect(1), text)
					}
				})
			})
		}
	}
}

// A round that was on its way when the bridge stopped may have run, also if the server is an older one afterwards.
func TestARoundAtAServerThatBecomesOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		gate := &bridge.Approval{Tools: []string{"*"}}
		modern := s.modern(gate)
		slow := func(ctx context.Context, _ *askback.Call, _ load) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		askback.AddTool(modern, &mcp.Tool{Name: "slow"}, slow)
		before := s.open(gate, s.behind("shop", "", modern))
		h := s.host(before, "", client.Options{Tasks: client.TasksOff})
		call(t, h, "slow", load{N: 1})
		name := before.answer(t, "ada", desk.Answer{Action: "accept"}).Name
		time.Sleep(time.Second)
		h.Close()
		before.stop()
		next := s.open(gate, s.behind("shop", "", s.older(gate, "slow")))
		defer next.stop()
		h = s.host(next, "", client.Options{Tasks: client.TasksOff})
		defer h.Close()
		time.Sleep(5 * time.Minute)
		text, _ := call(t, h, "askback_result", map[string]any{"name": name})
		expect.Contains(t, "the result", text, "The tool may have run, and it was not called again")
	})
}

// A round whose tool turns into one that may not be sent again, while it runs, has an unknown outcome if its connection
// breaks.
func TestARoundOfAToolThatTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		srv := s.modern(nil)
		runs, broken := make(chan struct{}), make(chan struct{})
		add := func(idempotent bool) {
			askback.AddTool(srv, &mcp.Tool{Name: "slow", Annotations: &mcp.ToolAnnotations{IdempotentHint: idempotent}},
				func(context.Context, *askback.Call, load) (string, error) {
					close(runs)
					<-broken
					return "done", nil
				})
		}
		add(true)
		var behind []*mcp.ServerSession
		f := s.open(nil, bridge.Server{Identity: "shop", Connect: func() (mcp.Transport, error) {
			here, there := mcp.NewInMemoryTransports()
			session, err := srv.Connect(context.Background(), there, nil)
			behind = append(behind, session)
			return here, err
		}})
		defer f.stop()
		h := s.host(f, "", client.Options{Tasks: client.TasksOff})
		defer h.Close()
		told := calling(t, h, "slow", load{N: 1})
		<-runs
		add(false)
		time.Sleep(time.Minute) // the bridge reads the list again
		for _, session := range behind {
			go session.Close() // which waits for the handler
		}
		time.Sleep(time.Second)
		close(broken)
		expect.Contains(t, "the call ends with", <-told, "may have run")
	})
}
