package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// telling is a server whose task sets a polling interval of a minute, so that a client without
// notifications is late.
type telling struct {
	*tasks
	stream func(n int, w io.Writer, flush func(), m message, gone <-chan struct{})
}

func newTelling(t *testing.T) *telling {
	return &telling{tasks: serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(slowly(created("working", ""))),
		"tasks/get":  always(slowly(flat("working", ""))),
	})}
}

func (s *telling) serve(t *testing.T) *mcp.StreamableClientTransport {
	var n atomic.Int64
	return wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method != "subscriptions/listen" {
			s.answer(w, r, m)
			return
		}
		s.mu.Lock()
		s.requests, s.headers = append(s.requests, m), append(s.headers, r.Header)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		s.stream(int(n.Add(1)), w, w.(http.Flusher).Flush, m, r.Context().Done())
	})
}

func notify(w io.Writer, method, params string) {
	fmt.Fprintf(w, "id: 7\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":%s}\n\n", method, params)
}

func acknowledge(w io.Writer, m message) {
	notify(w, "notifications/subscriptions/acknowledged", fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/`+
		`subscriptionId":%s},"notifications":%s}`, m.ID, m.Params["notifications"]))
}

func slowly(task string) string { return strings.ReplaceAll(task, `Ms":1`, `Ms":60000`) }

func TestTaskTellsByItself(t *testing.T) {
	srv := &telling{tasks: serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(slowly(created("working", ""))),
		"tasks/get": inTurn(slowly(flat("working", `,"statusMessage":"seen"`)),
			slowly(flat("input_required", ","+askWho))),
		"tasks/update": always(`{}`),
	})}
	released := make(chan struct{})
	srv.stream = func(_ int, w io.Writer, flush func(), m message, gone <-chan struct{}) {
		expect.Equal(t, "what it listens to", string(m.Params["notifications"]), `{"taskIds":["tâche/1"]}`)
		acknowledge(w, m)
		flush()
		// Notifications about other tasks, and malformed ones.
		notify(w, "notifications/tasks", strings.ReplaceAll(slowly(flat("failed", `,"error":{"code":1,"message":"another `+
			`one"}`)), oddID, "foreign"))
		notify(w, "notifications/tasks", `{"taskId":7}`)
		notify(w, "notifications/message", `{"level":"info","data":"x"}`)
		fmt.Fprint(w,
			"data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\"}}\n\n"+
				"data: nonsense\n\n")
		notify(w, "notifications/tasks", slowly(flat("input_required", ","+askWho)))
		notify(w, "notifications/tasks", strings.ReplaceAll(slowly(flat("cancelled", "")), oddID, "foreign"))
		flush()
		<-released
		notify(w, "notifications/tasks", slowly(flat("completed", `,"result":`+done)))
		flush()
		<-gone
	}
	opts := patient()
	var seen []string
	opts.OnRound = func(_ context.Context, r *client.Round) error {
		seen = append(seen, r.Method)
		if r.Method == "tasks/update" {
			close(released)
		}
		return nil
	}
	ends(t, connect(t, opts, srv.serve(t), ""))
	expect.Equal(t, "observed at last", seen[len(seen)-1], "notifications/tasks")
	if looks, _ := srv.sent("tasks/get"); len(looks) > 2 { // when it subscribes, and after the answer
		t.Errorf("looked %d times", len(looks))
	}
}

// A stream that breaks is opened again, and then the status is requested.
func TestNewsThatBreakOff(t *testing.T) {
	t.Parallel()
	srv := newTelling(t)
	srv.stream = func(n int, w io.Writer, flush func(), m message, gone <-chan struct{}) {
		if n == 2 { // the server is away for a moment
			panic(http.ErrAbortHandler)
		}
		acknowledge(w, m)
		if n == 3 {
			notify(w, "notifications/tasks", slowly(flat("completed", `,"result":`+done)))
		}
	}
	ends(t, connect(t, patient(), srv.serve(t), ""))
	if resumed, _ := srv.sent(""); len(resumed) > 0 {
		t.Error("a stream is not resumed, but opened again")
	}
}

// A client with notifications does not request the status. A notification from before the last status
// is ignored.
func TestOldNews(t *testing.T) {
	t.Parallel()
	srv := &telling{tasks: serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get":  always(flat("working", `,"statusMessage":"now"`)),
	})}
	srv.stream = func(_ int, w io.Writer, flush func(), m message, gone <-chan struct{}) {
		acknowledge(w, m)
		flush()
		time.Sleep(100 * time.Millisecond)
		notify(w, "notifications/tasks", strings.ReplaceAll(flat("working", `,"statusMessage":"before"`), "10:40:00",
			"10:39:59"))
		flush()
		time.Sleep(200 * time.Millisecond)
		notify(w, "notifications/tasks", flat("completed", `,"result":`+done))
		flush()
		<-gone
	}
	opts := patient()
	seen := observed(&opts)
	ends(t, connect(t, opts, srv.serve(t), ""))
	if text := strings.Join(*seen, "\n"); strings.Contains(text, "before") {
		t.Errorf("observed:\n%s", text)
	}
	if looks, _ := srv.sent("tasks/get"); len(looks) > 50 { // the server says: every millisecond
		t.Errorf("looked %d times", len(looks))
	}
}

// The clocks of server instances may differ: an ended task has ended even if its time seems older.
func TestNewsByAnotherClock(t *testing.T) {
	srv := newTelling(t)
	srv.stream = func(_ int, w io.Writer, flush func(), m message, gone <-chan struct{}) {
		acknowledge(w, m)
		notify(w, "notifications/tasks", strings.ReplaceAll(slowly(flat("completed", `,"result":`+done)), "10:40:00",
			"10:39:58"))
		flush()
		<-gone
	}
	ends(t, connect(t, patient(), srv.serve(t), ""))
}

// Notifications count, even if the server does not answer requests.
func TestNewsWhileALookHangs(t *testing.T) {
	looked, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	srv := &telling{tasks: serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(slowly(created("working", ""))),
		"tasks/get": func(n int, _ message) string {
			if n == 1 {
				close(looked)
			}
			<-over
			return slowly(flat("working", ""))
		},
	})}
	srv.stream = func(_ int, w io.Writer, flush func(), m message, gone <-chan struct{}) {
		acknowledge(w, m)
		flush()
		<-looked
		notify(w, "notifications/tasks", slowly(flat("working", `,"statusMessage":"on it"`)))
		notify(w, "notifications/tasks", slowly(flat("completed", `,"result":`+done)))
		flush()
		<-gone
	}
	ends(t, connect(t, patient(), srv.serve(t), ""))
}

// Closing a session returns at once, and ends all waiting.
func TestCloseEndsTheWaiting(t *testing.T) {
	srv := newTelling(t)
	listening := make(chan struct{})
	srv.stream = func(_ int, w io.Writer, flush func(), m message, gone <-chan struct{}) {
		acknowledge(w, m)
		flush()
		close(listening)
		<-gone
	}
	session := connect(t, patient(), srv.serve(t), "")
	ctx := harness.InTime(t)
	end := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
		end <- err
	}()
	<-listening
	session.Close()
	err := <-end
	if waited, ok := waitEnded(err); !ok || waited.Pending.TaskID != oddID || !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
	if ctx.Err() != nil {
		t.Error("it took too long")
	}
}

// A server without notifications is polled, and not asked for a subscription again.
func TestServersThatTellNothing(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(w http.ResponseWriter, r *http.Request, m message){
		"no such method": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		},
		"no JSON-RPC": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNotFound)
		},
		"a page":  func(w http.ResponseWriter, _ *http.Request, m message) { w.Header().Set("Content-Type", "text/html") },
		"nothing": func(w http.ResponseWriter, _ *http.Request, m message) { w.WriteHeader(http.StatusAccepted) },
		"another's": func(w http.ResponseWriter, _ *http.Request, m message) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"x","result":{}}`)
		},
		"an empty page": func(w http.ResponseWriter, _ *http.Request, m message) {},
		"not this task": func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "text/event-stream")
			notify(w, "notifications/subscriptions/acknowledged", `{"notifications":{}}`)
			notify(w, "notifications/tasks", flat("completed", `,"result":{"content":[]}`))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"silence": func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"a large answer": func(w http.ResponseWriter, r *http.Request, m message) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"a":"`, m.ID)
			for range 5 << 10 {
				fmt.Fprint(w, kilobyte)
			}
			fmt.Fprint(w, `"}}`)
		},
		"a flood": func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "text/event-stream")
			acknowledge(w, m)
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, "data: ", kilobyte); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call": always(created("working", "")),
				"tasks/get": func(n int, _ message) string {
					if n%20 != 0 {
						return flat("working", "")
					}
					return flat("completed", `,"result":`+done)
				},
			})
			var listens atomic.Int64
			session := connect(t, patient(), wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
				if m.Method != "subscriptions/listen" {
					srv.answer(w, r, m)
					return
				}
				listens.Add(1)
				listen(w, r, m)
			}), "")
			ctx := harness.InTime(t)
			for range 2 {
				expect.Equal(t, "the result", textOf(expect.Must(session.CallTool(ctx, &mcp.CallToolParams{Name: "t"}))(t)), "done")
			}
			if n := listens.Load(); n != 1 && (name == "no such method" || name == "not this task") {
				t.Errorf("listened %d times", n)
			}
		})
	}
}

// scripted is a server on a connection of whole messages, where all share a channel.
func scripted(
	t *testing.T, serve func(ctx context.Context, req *jsonrpc.Request, write func(jsonrpc.Message)),
) mcp.Transport {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	conn := expect.Must(there.Connect(t.Context()))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); conn.Close(); all.Wait() })
	var mu sync.Mutex
	write := func(msg jsonrpc.Message) {
		mu.Lock()
		defer mu.Unlock()
		_ = conn.Write(ctx, msg)
	}
	all.Go(func() {
		for {
			msg, err := conn.Read(ctx)
			if err != nil {
				return
			}
			if req, ok := msg.(*jsonrpc.Request); ok {
				all.Go(func() { serve(ctx, req, write) })
			}
		}
	})
	return here
}

func TestTaskTellsByItselfOnASharedChannel(t *testing.T) {
	cancelled := make(chan string, 1)
	transport := scripted(t, func(ctx context.Context, req *jsonrpc.Request, write func(jsonrpc.Message)) {
		reply := func(result string) { write(&jsonrpc.Response{ID: req.ID, Result: json.RawMessage(result)}) }
		tell := func(method, params string, id any) {
			data := strings.Replace(params, "{", fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%v},`, id), 1)
			write(&jsonrpc.Request{Method: method, Params: json.RawMessage(data)})
		}
		switch req.Method {
		case "server/discover":
			reply(discovered)
		case "tools/call":
			reply(slowly(created("working", "")))
		case "tasks/get":
			reply(slowly(flat("working", "")))
		case "subscriptions/listen":
			id := req.ID.Raw()
			tell("notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["tâche/1"]}}`, id)
			tell("notifications/tasks", slowly(flat("failed", "")), 999)
			tell("notifications/tasks", slowly(flat("completed", `,"result":`+done)), id)
		case "notifications/cancelled":
			cancelled <- string(req.Params)
		}
	})
	ctx := harness.InTime(t)
	ends(t, connect(t, patient(), transport, ""))
	select {
	case <-cancelled:
	case <-ctx.Done():
		t.Error("the subscription was not ended")
	}
}
