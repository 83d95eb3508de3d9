package tasks_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// eventStream is a stream of events as its client has it.
type eventStream struct {
	*harness.Conversation
	t     *testing.T
	abort func()        // as a client ends it
	ended chan struct{} // is closed when the server has ended it
}

const streamID = 7

// openStream opens a stream over HTTP, or over a pipe, with these members of params.
func openStream(t *testing.T, srv *askback.Server, pipe bool, token *auth.TokenInfo, members string) *eventStream {
	t.Helper()
	return openFor(t, srv, pipe, token, "events/stream", members)
}

// openFor is [openStream] for a request of any method.
func openFor(t *testing.T, srv *askback.Server, pipe bool, token *auth.TokenInfo, method, members string) *eventStream {
	t.Helper()
	s := &eventStream{t: t, ended: make(chan struct{})}
	message := harness.Modern(streamID, method, members)
	if pipe {
		s.Conversation = harness.Pipe(t, srv)
		s.abort = func() {
			s.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, streamID))
		}
		s.Write(message)
		return s
	}
	s.Conversation = harness.NewConversation(t)
	ctx, cancel := context.WithCancel(context.Background())
	s.abort = cancel
	in, out := io.Pipe()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(message))
	for _, header := range []string{"Content-Type: application/json", "Accept: application/json, text/event-stream",
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method} {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	var both sync.WaitGroup
	both.Go(func() {
		h := srv.HTTPHandler(nil)
		if token != nil {
			r.Header.Set("Authorization", "Bearer token")
			h = auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
				return token, nil
			}, nil)(h)
		}
		h.ServeHTTP(&streamWriter{header: make(http.Header), Writer: out}, r)
		out.Close()
		close(s.ended)
	})
	both.Go(func() { s.Scan(in, "data: ") })
	t.Cleanup(func() { cancel(); both.Wait() })
	return s
}

// streamWriter is a response whose body is read while it is written.
type streamWriter struct {
	header http.Header
	io.Writer
}

func (w *streamWriter) Header() http.Header { return w.header }
func (w *streamWriter) WriteHeader(int)     {}
func (w *streamWriter) Flush()              {}

// next returns the parameters of the next notification, which has this name and the ID of the request.
func (s *eventStream) next(name string) map[string]any {
	s.t.Helper()
	m := s.Until("notification", func(map[string]any) bool { return true })
	params, _ := m["params"].(map[string]any)
	if m["method"] != "notifications/events/"+name ||
		harness.At(params, "_meta", "io.modelcontextprotocol/subscriptionId") != float64(streamID) {
		s.t.Fatalf("there came %v, want %s", m, name)
	}
	if cursor, _ := params["cursor"].(string); cursor == "" && name != "error" && name != "terminated" {
		s.t.Fatalf("%s has no cursor: %v", name, m)
	}
	return params
}

// events returns the IDs of the tasks whose events come next.
func (s *eventStream) events(n int) (ids []string, last map[string]any) {
	s.t.Helper()
	for range n {
		last = s.next("event")
		ids = append(ids, harness.At(last, "data", "taskId").(string))
	}
	return ids, last
}

// end wants the result that ends a stream, and nothing after it.
func (s *eventStream) end() {
	s.t.Helper()
	res := s.Until("result", func(map[string]any) bool { return true })
	if res["id"] != float64(streamID) || harness.At(res, "result", "resultType") != "complete" ||
		harness.At(res, "result", "_meta", "io.modelcontextprotocol/subscriptionId") != float64(streamID) {
		s.t.Errorf("the stream ends with %v", res)
	}
	s.silent()
}

// silent wants nothing to come for an hour.
func (s *eventStream) silent() {
	s.t.Helper()
	select {
	case m, ok := <-s.Read:
		if ok {
			s.t.Errorf("there comes %v", m)
		}
	case <-time.After(time.Hour):
	}
}

// A stream confirms itself, tells at once what happens, and that it lives, through everything that requests pass. It
// ends when its client wants that.
func TestAStreamOfEvents(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(*mcp.Server, *askback.Server){
		"past the SDK":       func(*mcp.Server, *askback.Server) {},
		"through middleware": func(_ *mcp.Server, srv *askback.Server) { srv.AddReceivingMiddleware(harness.PassOn) },
		"through the SDK":    func(m *mcp.Server, _ *askback.Server) { m.AddReceivingMiddleware(harness.PassOn) },
	} {
		for _, pipe := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", over a pipe: ", pipe), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					opts := withEvents()
					opts.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
					m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
					srv := harness.NewServerOn(t, m, opts)
					harness.AddText("quick", &askback.TaskSupport{Required: true}, asksColors())(srv)
					pass(m, srv)
					harness.RunTasks(t, srv)
					ask := harness.Fronts[0].Dial(t, srv, nil)
					call := func() any { return harness.At(ask("tools/call", `"name":"quick"`), "result", "taskId") }

					s := openStream(t, srv, pipe, nil, `"name":"call.ended","arguments":{"tool":"quick"}`)
					harness.Want(t, "it begins with", s.next("active"), false, "truncated")
					leads := func(from map[string]any) {
						t.Helper()
						page := pollEvents(t, ask, `"name":"call.ended","cursor":%q`, from["cursor"])
						if len(page["events"].([]any)) > 0 || page["truncated"] != false {
							t.Errorf("the cursor of %v leads to %v", from, page)
						}
					}
					called := time.Now()
					id := call()
					e := s.next("event")
					if e["name"] != "call.ended" || harness.At(e, "data", "taskId") != id || e["eventId"] == "" ||
						time.Since(called) > time.Second {
						t.Errorf("after %v it was told %v of %v", time.Since(called), e, id)
					}
					leads(e)
					for range 3 {
						leads(s.next("heartbeat"))
					}
					if time.Since(called) > 90*time.Second {
						t.Errorf("three heartbeats took %v", time.Since(called))
					}
					s.abort()
					synctest.Wait()
					if !pipe { // who has ended it cannot be told from here, and may still read it
						s.end()
						return
					}
					call()
					s.silent()
				})
			})
		}
	}
}

// logStreamServer is [logServer] with a log that can fail, and streams.
func logStreamServer(t *testing.T, opts *askback.Options) (*askback.Server, *failingLog) {
	t.Helper()
	log := &failingLog{MemoryStore: new(task.MemoryStore)}
	opts.Events, opts.Tasks = &askback.EventOptions{}, &askback.Tasks{Store: log}
	if opts.Principal == nil {
		opts.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	}
	return harness.NewServer(t, opts), log
}

// failingLog is a store that cannot be read while it fails.
type failingLog struct {
	*task.MemoryStore
	fails atomic.Bool
}

func (l *failingLog) Events(ctx context.Context, q task.EventQuery) (*task.EventPage, error) {
	if l.fails.Load() {
		return nil, errors.New("the database is away")
	}
	return l.MemoryStore.Events(ctx, q)
}

// A client that comes back gets what it has missed, in order and as old as it wants, and is told if there may be more.
func TestAStreamGoesOnFromACursor(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, log := logStreamServer(t, new(askback.Options))
		open := func(members string, args ...any) *eventStream {
			t.Helper()
			return openStream(t, srv, false, nil, `"name":"call.ended",`+fmt.Sprintf(members, args...))
		}
		s := open(`"cursor":null`)
		start := s.next("active")["cursor"]
		var all []string
		for range 250 { // more than one page
			all = append(all, end(t, log.MemoryStore, time.Hour))
		}
		got, _ := s.events(250) // nobody tells of what another instance has written
		expect.Same(t, "the events", got, all)
		s.abort()
		s = open(`"cursor":%q`, start)
		if active := s.next("active"); active["cursor"] != start || active["truncated"] != false {
			t.Errorf("it begins again with %v", active)
		}
		got, half := s.events(120)
		more, last := s.events(130)
		if got = append(got, more...); !slices.Equal(got, all) {
			t.Errorf("there came %d events again, want %d in order", len(got), len(all))
		}
		s.abort()
		s = open(`"cursor":%q`, half["cursor"])
		s.next("active")
		if got, _ := s.events(130); !slices.Equal(got, all[120:]) {
			t.Errorf("from the cursor of an event there came %d events, want %d in order", len(got), 130)
		}
		s.abort()

		// The log has another event where the cursor is: it has lost commits.
		other := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "2.%d.ANOTHER", time.Now().UnixMilli()))
		s = open(`"cursor":%q`, other)
		begins := s.next("active")
		if got, _ := s.events(250); begins["truncated"] != true || !slices.Equal(got, all) {
			t.Errorf("after a loss it begins with %v, and there came %d events", begins, len(got))
		}
		s.abort()
		s = open(`"cursor":%q`, begins["cursor"])
		harness.Want(t, "from there on it begins with", s.next("active"), false, "truncated")
		s.abort()
		s = open(`"cursor":%q`, last["cursor"])
		s.next("active")
		s.next("heartbeat")
		s.abort()

		time.Sleep(time.Minute)
		young := end(t, log.MemoryStore, 2*time.Hour)
		s = open(`"cursor":%q,"maxAgeMs":1000`, start)
		harness.Want(t, "without the old ones it begins with", s.next("active"), true, "truncated")
		for { // each page whose events are too old says so
			m := s.Until("notification", func(map[string]any) bool { return true })
			if m["method"] == "notifications/events/active" {
				continue
			}
			if id := harness.At(m, "params", "data", "taskId"); id != young {
				t.Errorf("there came %v, want %s", m, young)
			}
			break
		}
		late := end(t, log.MemoryStore, 2*time.Hour) // is a few seconds old when it is seen
		if got, _ := s.events(1); got[0] != late {
			t.Errorf("there came %v, want %s", got, late)
		}
		s.abort()

		// What was deleted unseen leaves a gap: at the beginning, and amid a stream.
		time.Sleep(90 * time.Minute)
		if n, err := log.Purge(t.Context(), 0, 1000); n != 250 || err != nil {
			t.Fatal(n, err)
		}
		s = open(`"cursor":%q`, start)
		harness.Want(t, "after a gap it begins with", s.next("active"), true, "truncated")
		if got, _ := s.events(2); !slices.Equal(got, []string{young, late}) {
			t.Errorf("after a gap there came %v", got)
		}
		s.next("heartbeat")
		synctest.Wait()
		end(t, log.MemoryStore, time.Millisecond)
		if n, err := log.Purge(t.Context(), 0, 9); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		gap := s.next("active")
		expect.Equal(t, "amid the stream a gap is told by", gap["truncated"], true)
		next := end(t, log.MemoryStore, 2*time.Hour)
		if got, _ := s.events(1); got[0] != next {
			t.Errorf("after the gap there came %v, want %s", got, next)
		}
		s.abort()
		s = open(`"cursor":%q`, gap["cursor"])
		harness.Want(t, "the cursor of the gap leads to", s.next("active"), false, "truncated")
		if got, _ := s.events(1); got[0] != next {
			t.Errorf("from the gap on there came %v, want %s", got, next)
		}
	})
}

// A stream ends with its reason when its caller may no longer have it, and outlasts a store or an operator who cannot
// tell now.
func TestHowAStreamEnds(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		var may atomic.Pointer[error]
		may.Store(new(error))
		opts := &askback.Options{Authorize: func(context.Context, askback.Access) error { return *may.Load() }}
		srv, log := logStreamServer(t, opts)
		s := openStream(t, srv, false, nil, `"name":"call.ended"`)
		s.next("active")
		log.fails.Store(true)
		first := end(t, log.MemoryStore, time.Hour)
		expect.Equal(t, "a store that is away has the code", harness.At(s.next("error"), "error", "code"), -32603.0)
		log.fails.Store(false)
		harness.Want(t, "after that there comes", s.skip("error", "heartbeat"), first, "params", "data", "taskId")

		undecided := fmt.Errorf("the directory is away: %w", askback.ErrUndecided)
		may.Store(&undecided)
		s.next("heartbeat")
		s.next("error")
		end(t, log.MemoryStore, time.Hour)
		s.next("error") // nothing is given to somebody who perhaps may not have it
		refused := errors.New("no longer")
		may.Store(&refused)
		got := s.skip("error", "heartbeat")
		if got["method"] != "notifications/events/terminated" || harness.At(got, "params", "error", "code") != -32024.0 {
			t.Errorf("without access there comes %v", got)
		}
		s.end()
	})
}

// A stream ends with what it was opened for: the task that an anonymous caller named, or the token of its caller. One
// that is refused is none.
func TestWhatAStreamNeeds(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, log := logStreamServer(t, &askback.Options{Principal: byToken})
		n := &task.Task{ID: "one", Method: "tools/call", Target: "deploy", Status: task.Completed, Events: true}
		expect.Check(t, log.Insert(t.Context(), n, time.Minute, nil, task.Update{Due: -1}, task.Quota{}))
		s := openStream(t, srv, true, nil, `"name":"call.ended","arguments":{"taskId":"one"}`)
		s.next("active")
		time.Sleep(2 * time.Minute)
		if n, err := log.Purge(t.Context(), 0, 9); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		gone := s.skip("heartbeat")
		if gone["method"] != "notifications/events/terminated" || harness.At(gone, "params", "error", "code") != -32024.0 {
			t.Errorf("without the task there comes %v", gone)
		}
		s.end()

		token := &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(time.Minute)}
		s = openStream(t, srv, false, token, `"name":"call.ended"`)
		s.next("active")
		s.next("heartbeat")
		s.next("heartbeat")
		if time.Until(token.Expiration) < 0 {
			t.Fatal("the token has expired already")
		}
		harness.Want(t, "without a token there comes", s.skip("heartbeat"), "complete", "result", "resultType")
		<-s.ended
	})
}

// One connection has so many streams, and all its other requests beside them. A stream that is cancelled makes room.
func TestTheStreamsOfAConnection(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, log := logStreamServer(t, &askback.Options{Limits: askback.Limits{SessionCalls: 1}})
		c := harness.Pipe(t, srv)
		open := func(id int) {
			t.Helper()
			c.Request(id, "events/stream", `"name":"call.ended"`, harness.WithExtension)
			active := c.Until(harness.Notification("notifications/events/active", ""))
			if harness.At(active, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != float64(id) {
				t.Errorf("stream %d begins with %v", id, active)
			}
		}
		for id := range 16 {
			open(id)
		}
		for _, id := range []int{3, 16} {
			refused := c.Call(id, "events/stream", `"name":"call.ended"`, harness.WithExtension)
			if harness.At(refused, "error", "code") != -32600.0 {
				t.Errorf("stream %d: %v", id, refused)
			}
		}
		if page := c.Call(99, "events/poll", `"name":"call.ended"`, harness.WithExtension); page["result"] == nil {
			t.Errorf("beside streams a poll gets %v", page)
		}
		c.Write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		synctest.Wait()
		open(16)
		end(t, log.MemoryStore, time.Hour)
		told := make(map[any]int)
		for range 16 {
			e := c.Until(harness.Notification("notifications/events/event", ""))
			told[harness.At(e, "params", "_meta", "io.modelcontextprotocol/subscriptionId")]++
		}
		if len(told) != 16 || told[5.0] > 0 {
			t.Errorf("told were %v", told)
		}
		begun := time.Now()
		if err := c.End(); err != nil || time.Since(begun) > time.Second {
			t.Errorf("the end of the input took %v, %v", time.Since(begun), err)
		}
	})
}

// Somebody whom a question is for by several names is asked once, also if the stream breaks off after that.
func TestAStreamOfSomebodyInSeveralGroups(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		opts := withEvents()
		opts.Principal = byToken
		opts.Events.Groups = func(context.Context, string) ([]string, error) { return []string{"ops", "release"}, nil }
		srv, _ := deskServer(t, opts, harness.AddTask("ship", nil,
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				return "shipped", askback.Approve(call, "ok", askback.Question{Message: "Ship it?",
					For: []string{askback.User("bob"), askback.Group("release"), askback.Group("ops")}})
			}))
		bob := &auth.TokenInfo{UserID: "bob", Expiration: time.Now().Add(time.Hour)}
		s := openStream(t, srv, false, bob, `"name":"question.asked"`)
		s.next("active")
		harness.Fronts[0].Dial(t, srv, &auth.TokenInfo{UserID: "alice"})("tools/call", `"name":"ship"`)
		called := time.Now()
		e := s.next("event")
		if time.Since(called) > time.Second {
			t.Errorf("bob is told after %v", time.Since(called))
		}
		s.next("heartbeat")
		s.abort()
		s = openStream(t, srv, false, bob, fmt.Sprintf(`"name":"question.asked","cursor":%q`, e["cursor"]))
		s.next("active")
		s.next("heartbeat")
	})
}

// What an author emits comes at once on the streams of those who may have it.
func TestAStreamOfAnAuthorsEvents(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, srv, emit := emitter(t, withEvents())
		open := func(name string) *eventStream {
			token := &auth.TokenInfo{UserID: name, Expiration: time.Now().Add(24 * time.Hour)}
			s := openStream(t, srv, false, token, `"name":"incident.created","arguments":{"above":1}`)
			s.next("active")
			return s
		}
		alice, mallory := open("alice"), open("mallory")
		emitted := time.Now()
		for _, e := range []incident{{"shop", 1}, {"secret", 2}, {"shop", 2}} {
			expect.Check(t, emit(fmt.Sprint(e.Service, e.Level), e))
		}
		if e := alice.next("event"); e["eventId"] != "shop2" || time.Since(emitted) > time.Second {
			t.Errorf("after %v alice is told %v", time.Since(emitted), e)
		}
		alice.next("heartbeat")
		mallory.next("heartbeat")
	})
}

// A stream is as its author has the type now: with another match, as long as the arguments fit, and then no more.
func TestATypeThatIsReplacedUnderAStream(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		_, srv, emit := emitter(t, withEvents())
		s := openStream(t, srv, false, &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(24 * time.Hour)},
			`"name":"incident.created","arguments":{"above":1}`)
		s.next("active")
		askback.AddEvent(srv, &askback.EventType{Name: "incident.created"},
			func(_ context.Context, principal string, args struct {
				incidents
				Service string `json:"service,omitempty"`
			}, i incident) (bool, error) {
				return i.Service == "secret" && i.Level > args.Above, nil
			})
		for _, e := range []incident{{"shop", 2}, {"secret", 1}, {"secret", 2}} {
			expect.Check(t, emit(fmt.Sprint(e.Service, e.Level), e))
		}
		harness.Want(t, "there comes", s.skip("heartbeat"), "secret2", "params", "eventId")
		retype[incident](srv, "incident.created", "")
		ended := s.skip("heartbeat")
		if harness.At(ended, "params", "error", "code") != -32026.0 ||
			harness.At(ended, "params", "error", "data", "reason") != "schema_changed" {
			t.Errorf("it ends with %v", ended)
		}
		s.end()
	})
}

// skip returns the next message whose name is none of these.
func (s *eventStream) skip(names ...string) map[string]any {
	s.t.Helper()
	defer func() { s.Kept = nil }()
	return s.Until("another notification", func(m map[string]any) bool {
		method, _ := m["method"].(string)
		return !slices.Contains(names, strings.TrimPrefix(method, "notifications/events/"))
	})
}
