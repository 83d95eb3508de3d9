package httpfront_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// These tests check the limits that have owners.

// waitingTool is a server with a tool that waits for open, and counts those who do.
type waitingTool struct {
	*askback.Server
	open chan struct{}
	now  atomic.Int64
}

func newWaitingTool(t *testing.T, limits askback.Limits) *waitingTool {
	w := &waitingTool{open: make(chan struct{})}
	w.Server = harness.NewServer(t, &askback.Options{Principal: harness.UserHeader, Limits: limits},
		func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "wait"}, func(ctx context.Context, call *askback.Call,
				_ map[string]any) (string,
				error) {
				w.now.Add(1)
				defer w.now.Add(-1)
				select {
				case <-w.open:
					return "done", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
		})
	return w
}

// wait sends a call that waits, and returns its response once there is one.
func (w *waitingTool) wait(t *testing.T, h http.Handler, user, arguments string) <-chan *harness.Response {
	before, response := w.now.Load(), make(chan *harness.Response, 1)
	go func() { response <- as(user, arguments).Send(t, h) }()
	harness.Eventually(t, "call of "+user, func() bool { return w.now.Load() > before || len(response) > 0 })
	return response
}

func as(user, arguments string) harness.Request {
	return harness.Request{Target: "wait", Arguments: arguments, Header: http.Header{"X-User": {user}}}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }

func TestTooManyRequestsAreRefusedBeforeTheirBody(t *testing.T) {
	w := newWaitingTool(t, askback.Limits{Requests: askback.Share{Total: 4, PerPrincipal: 2, Anonymous: 1},
		Calls: askback.Share{Total: 4, PerPrincipal: 4}})
	h := w.HTTPHandler(nil)
	var admitted []<-chan *harness.Response
	for _, step := range []struct {
		user    string
		status  int
		message string
	}{
		{user: "alice"}, {user: "alice"}, {"alice", 429, "the caller is at its limit of 2 requests in progress"},
		{user: ""}, {"", 429, "anonymous callers together are at their limit of 1 requests in progress"},
		{user: "bob"}, {"carol", 503, "the server is at its limit of 4 requests in progress"},
	} {
		if step.status == 0 {
			admitted = append(admitted, w.wait(t, h, step.user, ""))
			continue
		}
		r := as(step.user, "")
		r.Context = func(r *http.Request) *http.Request { r.Body = io.NopCloser(unread{t}); return r }
		res := r.Send(t, h)
		if message := res.Refused(t, step.status, -32603); !strings.Contains(message, step.message) ||
			res.Header.Get("Retry-After") != "1" || strings.Contains(res.Raw, `"id"`) {
			t.Errorf("%s: got %s, Retry-After %q", step.user, res.Raw, res.Header.Get("Retry-After"))
		}
	}
	close(w.open)
	for _, response := range admitted {
		(<-response).Text(t)
	}
	for _, user := range []string{"alice", "", "carol"} {
		as(user, "").Send(t, h).Text(t)
	}
}

// A body takes its memory from the caller's share as it comes, as long as the request lasts, whether it tells its size
// or not. A small one takes none.
func TestBodiesShareMemory(t *testing.T) {
	const message = 1 << 16
	big := `{"x":"` + strings.Repeat("x", 40<<10) + `"}`
	w := newWaitingTool(t, askback.Limits{MessageBytes: message,
		BodyBytes: askback.Share{Total: 2*message + 1<<14, PerPrincipal: message, Anonymous: message}})
	h := w.HTTPHandler(nil)
	first := w.wait(t, h, "alice", big)
	for name, context := range map[string]func(*http.Request) *http.Request{
		"with a Content-Length": func(r *http.Request) *http.Request { return r },
		"in chunks":             func(r *http.Request) *http.Request { r.ContentLength = -1; return r },
	} {
		r := as("alice", big)
		r.Context = context
		expect.Contains(t, name, r.Send(t, h).Refused(t, 429, -32603), "65536 bytes of messages")
	}
	others := []<-chan *harness.Response{w.wait(t, h, "alice", "{}"), w.wait(t, h, "bob", big), w.wait(t, h, "carol", big)}
	if message := as("dave", big).Send(t, h).Refused(t, 503, -32603); !strings.Contains(message,
		"the server is at its limit") {
		t.Error(message)
	}
	close(w.open)
	for _, response := range append(others, first) {
		(<-response).Text(t)
	}
	as("alice", big).Send(t, h).Text(t)
}

// A body without a Content-Length is bounded, too.
func TestBodyOverTheLimitInChunks(t *testing.T) {
	h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{MessageBytes: 1 << 10}},
		harness.AddGreet).HTTPHandler(nil)
	chunked := func(r *http.Request) *http.Request { r.ContentLength = -1; return r }
	harness.Request{Target: "greet", Arguments: `{"place":"x"}`, Context: chunked}.Send(t, h).Asked(t, "login")
	harness.Request{Target: "greet", Arguments: `{"place":"` + strings.Repeat("x", 1<<11) + `"}`, Context: chunked}.Send(t,
		h).Refused(t, 413, -32600)
}

// A body may have as many bytes as the limit says, and not one more.
func TestBodiesOfTheLimitPass(t *testing.T) {
	const limit = 10_000 // no power of two, by which a body without a Content-Length grows
	h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{MessageBytes: limit}},
		harness.AddGreet).HTTPHandler(nil)
	l, _ := openLegacy(t, h, "")
	modern := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.HTTP(t)
	old := l.request(t.Context(), http.MethodPost, "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for name, r := range map[string]*http.Request{"2026-07-28": modern, "a session": old} {
		message, err := io.ReadAll(r.Body)
		expect.Check(t, err)
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

// pipes serves a handler on connections in memory, which keep the time of a synctest bubble. Nothing is buffered
// between the ends, so that a client who does not read blocks the server at once.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func servePipes(t *testing.T, h http.Handler) *pipes {
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.Serve(p)
	t.Cleanup(func() { close(p.closed); server.Close() })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(t *testing.T) net.Conn {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close() })
	p.accept <- there
	return here
}

// send writes a request with the first bytes of its body.
func send(t *testing.T, conn net.Conn, r *http.Request, bytes int) {
	t.Helper()
	r.Host = "localhost"
	body, err := io.ReadAll(r.Body)
	expect.Check(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "%s /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", r.Method, len(body))
	expect.Check(t, r.Header.Write(&b))
	fmt.Fprintf(&b, "\r\n%s", body[:min(bytes, len(body))])
	expect.Must(io.WriteString(conn, b.String()))(t)
}

func TestABodyHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := harness.NewServer(t, nil, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string,
				error) {
				select {
				case <-time.After(5 * time.Minute): // the deadline is that of the body alone
					return "done", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
		})
		p := servePipes(t, srv.HTTPHandler(nil))
		conn := p.dial(t)
		r := bufio.NewReader(conn)
		for range 2 { // one connection, twice
			send(t, conn, harness.Request{Target: "slow"}.HTTP(t), 1<<20)
			res, err := http.ReadResponse(r, nil)
			expect.Check(t, err)
			if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "done") {
				t.Errorf("got %s, %v", body, err)
			}
		}

		begun := time.Now()
		send(t, conn, harness.Request{Target: "slow"}.HTTP(t), 100)
		res, err := http.ReadResponse(r, nil)
		expect.Check(t, err)
		body, _ := io.ReadAll(res.Body)
		if took := time.Since(begun); res.StatusCode != 408 || !strings.Contains(string(body), "30s") ||
			took != 30*time.Second {
			t.Errorf("half a body: after %v %d %s", took, res.StatusCode, body)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("the connection is still there: %v", err)
		}
		conn.Close()
	})
}

// Whoever does not read a response holds its handler no longer than the deadline, whichever part of the server writes.
func TestReadersHaveADeadline(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, conn net.Conn, end chan error){
		"progress": func(t *testing.T, conn net.Conn, end chan error) {
			send(t, conn, harness.Request{Target: "report", Meta: `,"progressToken":1`}.HTTP(t), 1<<20)
		},
		"a large result": func(t *testing.T, conn net.Conn, end chan error) {
			send(t, conn, harness.Request{Target: "large"}.HTTP(t), 1<<20)
		},
		"the SDK's response": func(t *testing.T, conn net.Conn, end chan error) {
			send(t, conn, harness.Request{Method: "tools/list"}.HTTP(t), 1<<20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan error, 1)
				srv := harness.NewServer(t, nil, func(srv *askback.Server) {
					askback.AddTool(srv, &mcp.Tool{Name: "report"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string,
						error) {
						for i := range 1000 {
							if err := call.Progress(ctx, float64(i), 1000, "working"); err != nil {
								return "", err
							}
						}
						return "done", nil
					})
					askback.AddTool(srv, &mcp.Tool{Name: "large", Description: strings.Repeat("x", 1<<20)},
						func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
							return strings.Repeat("x", 10<<20), nil
						})
				})
				h := srv.HTTPHandler(nil)
				p := servePipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					end <- r.Context().Err()
				}))
				conn := p.dial(t)
				begun := time.Now()
				test(t, conn, end)
				<-end
				expect.Equal(t, "the handler was held for", time.Since(begun), 30*time.Second)
				conn.Close()
			})
		})
	}
}

// A client that reads, if slowly, gets a stream that lasts longer than the deadline, with pauses that do, too.
func TestStreamsOutliveTheDeadlineOfTheirParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := harness.NewServer(t, nil, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "report"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string,
				error) {
				for i := range 3 {
					if err := call.Progress(ctx, float64(i+1), 3, "working"); err != nil {
						return "", err
					}
					time.Sleep(10 * time.Minute)
				}
				return strings.Repeat("x", 1<<20) + "done", nil
			})
		})
		conn := servePipes(t, srv.HTTPHandler(nil)).dial(t)
		send(t, conn, harness.Request{Target: "report", Meta: `,"progressToken":1`}.HTTP(t), 1<<20)
		res, err := http.ReadResponse(bufio.NewReaderSize(slowly{conn}, 4<<10), nil)
		expect.Check(t, err)
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(body), "done") {
			t.Errorf("got %d bytes, %v", len(body), err)
		}
		conn.Close()
	})
}

// Over HTTP/2 a client that does not read a response ends its own stream, and not the connection. A stream that waits
// longer than the deadline between its parts goes on.
func TestReadersOverHTTP2HaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := harness.NewServer(t, nil, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "large"}, func(context.Context, *askback.Call, struct{}) (string, error) {
				return strings.Repeat("x", 10<<20) + "done", nil // more than a client takes in without reading
			})
			askback.AddTool(srv, &mcp.Tool{Name: "report"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string,
				error) {
				for i := range 3 {
					if err := call.Progress(ctx, float64(i+1), 3, "working"); err != nil {
						return "", err
					}
					time.Sleep(10 * time.Minute)
				}
				return "done", nil
			})
		})
		h := srv.HTTPHandler(nil)
		ended := make(chan time.Time, 1)
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("the request came over %s", r.Proto)
			}
			h.ServeHTTP(w, r)
			ended <- time.Now()
		}))
		server.Listener.Close()
		server.Listener, server.EnableHTTP2 = p, true
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.StartTLS()
		connections := 0
		transport := server.Client().Transport.(*http.Transport)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			connections++
			return p.dial(t), nil
		}
		defer func() { transport.CloseIdleConnections(); close(p.closed); server.Config.Close() }()
		send := func(r harness.Request) *http.Response {
			request := r.HTTP(t)
			request.RequestURI, request.URL.Scheme, request.URL.Host, request.Host = "", "https", "example.com", ""
			res, err := transport.RoundTrip(request.WithContext(t.Context()))
			expect.Check(t, err)
			return res
		}

		begun := time.Now()
		slow := send(harness.Request{Target: "large"})
		expect.Equal(t, "the handler was held for", (<-ended).Sub(begun), 30*time.Second)
		if body, err := io.ReadAll(slow.Body); err == nil {
			t.Errorf("the client got all %d bytes later", len(body))
		}
		slow.Body.Close()
		for _, r := range []harness.Request{{Target: "large"}, {Target: "report", Meta: `,"progressToken":1`}} {
			res := send(r)
			body, err := io.ReadAll(res.Body)
			if err != nil || !strings.Contains(string(body), "done") {
				t.Errorf("%s: %d bytes, %v", r.Target, len(body), err)
			}
			res.Body.Close()
			<-ended
		}
		expect.Equal(t, "the number", connections, 1)
	})
}

// A subscription to tasks whose client does not read it ends, too, and makes room for another one. So does a stream of
// events.
func TestASubscriptionThatIsNotReadEnds(t *testing.T) {
	for _, c := range []struct{ method, members, begins string }{
		{"subscriptions/listen", `"notifications":{"taskIds":["ID"]}`, "notifications/subscriptions/acknowledged"},
		{"subscriptions/listen", `"notifications":{"eventsListChanged":true}`, "notifications/subscriptions/acknowledged"},
		{"events/stream", `"name":"call.ended","arguments":{"taskId":"ID"}`, "notifications/events/active"},
	} {
		t.Run(c.method+" "+c.members, func(t *testing.T) { isNotRead(t, c.method, c.members, c.begins) })
	}
}

func isNotRead(t *testing.T, method, members, begins string) {
	synctest.Test(t, func(t *testing.T) {
		srv := harness.NewServer(t, &askback.Options{
			Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Events: new(askback.EventOptions),
			Limits: askback.Limits{Streams: askback.Share{Total: 1, PerPrincipal: 1, Anonymous: 1}},
		}, harness.AddEcho)
		h := srv.HTTPHandler(nil)
		created := harness.Request{Target: "echo", Capabilities: harness.WithExtension}.Send(t, h)
		var result struct{ Result struct{ TaskID string } }
		if err := json.Unmarshal([]byte(created.Raw), &result); err != nil || result.Result.TaskID == "" {
			t.Fatalf("no task: %s", created.Raw)
		}
		ended := make(chan time.Time, 1)
		p := servePipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			ended <- time.Now()
		}))
		listen := func() net.Conn {
			conn := p.dial(t)
			members := strings.Replace(members, "ID", result.Result.TaskID, 1)
			send(t, conn, harness.Request{Method: method, Header: http.Header{"Mcp-Name": nil},
				Body: harness.Message(1, method, members, harness.WithExtension)}.HTTP(t), 1<<20)
			return conn
		}
		begun := time.Now()
		silent := listen()
		expect.Equal(t, "the subscription was held for", (<-ended).Sub(begun), 30*time.Second)
		silent.Close()
		conn := listen()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		expect.Check(t, err)
		got := make([]byte, 1<<10)
		if n, err := io.ReadAtLeast(res.Body, got, 100); err != nil ||
			!strings.Contains(string(got), begins) {
			t.Errorf("the next subscription: %d %s, %v", res.StatusCode, got[:n], err)
		}
		conn.Close()
		<-ended
	})
}

// So does what net/http writes at the end of a stream, when its last part is read and the handler has returned.
func TestTheEndOfAStreamHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := harness.NewServer(t, nil, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "report"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string,
				error) {
				return "done", call.Progress(ctx, 1, 1, "working")
			})
		})
		conn := servePipes(t, srv.HTTPHandler(nil)).dial(t)
		send(t, conn, harness.Request{Target: "report", Meta: `,"progressToken":1`}.HTTP(t), 1<<20)
		var got []byte
		for part := make([]byte, 1<<10); !strings.Contains(string(got), "done"); {
			n, err := conn.Read(part)
			if err != nil {
				t.Fatalf("%v after %s", err, got)
			}
			got = append(got, part[:n]...)
		}
		time.Sleep(31 * time.Second)
		if rest, err := io.ReadAll(conn); len(rest) > 0 {
			t.Errorf("the server waited to write %q, %v", rest, err)
		}
	})
}

// slowly takes a second for each read.
type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Reader.Read(p)
}

// legacy is an HTTP client before 2026-07-28.
type legacy struct {
	t    *testing.T
	h    http.Handler
	user string
	id   string
}

// post sends a message in the session, and returns the status and the response.
func (l *legacy) post(version, body string) *httptest.ResponseRecorder {
	l.t.Helper()
	w := httptest.NewRecorder()
	l.h.ServeHTTP(w, l.request(l.t.Context(), http.MethodPost, version, body))
	return w
}

func (l *legacy) request(ctx context.Context, method, version, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	for name, value := range map[string]string{"X-User": l.user, "Content-Type": "application/json",
		"Mcp-Session-Id": l.id,
		"Accept":         "application/json, text/event-stream", "MCP-Protocol-Version": version} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r
}

// openLegacy opens a session and returns the error of the response, if there is one.
func openLegacy(t *testing.T, h http.Handler, user string) (*legacy, string) {
	t.Helper()
	l := &legacy{t: t, h: h, user: user}
	w := l.post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+harness.Initialize+`}}`)
	if strings.Contains(w.Body.String(), `"error"`) {
		return l, w.Body.String()
	}
	l.id = w.Header().Get("Mcp-Session-Id")
	l.post("2025-11-25", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return l, ""
}

// again is the session, or another one of the same caller if it has ended.
func (l *legacy) again(t *testing.T) *legacy {
	if l.alive() {
		return l
	}
	other, fault := openLegacy(t, l.h, l.user)
	if fault != "" {
		t.Fatal(fault)
	}
	return other
}

func (l *legacy) alive() bool {
	return l.post("2025-11-25", `{"jsonrpc":"2.0","id":"alive","method":"ping"}`).Code == http.StatusOK
}

// A session that is opened where there is no room takes the place of the one that has been silent for longest: of the
// same caller where that one's share is used up, and else of the caller who has most. Sessions in which a call works
// stay.
func TestSessionsAreShared(t *testing.T) {
	w := newWaitingTool(t, askback.Limits{Sessions: askback.Share{Total: 4, PerPrincipal: 2, Anonymous: 1}})
	h := w.HTTPHandler(nil)
	must := func(user string) *legacy {
		t.Helper()
		l, fault := openLegacy(t, h, user)
		if fault != "" {
			t.Fatalf("%s: %s", user, fault)
		}
		return l
	}
	work := func(l *legacy) {
		before := w.now.Load()
		go l.post("2025-11-25", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`)
		harness.Eventually(t, "call", func() bool { return w.now.Load() > before })
	}
	ended := func(what string, l *legacy) {
		t.Helper()
		harness.Eventually(t, "end of "+what, func() bool { return !l.alive() })
	}
	first, second := must("alice"), must("alice")
	first.alive() // so that the second one is silent for longer
	third := must("alice")
	ended("the second session", second)
	if !first.alive() || !third.alive() {
		t.Error("another session than the one that was silent for longest has ended")
	}

	// A stream that nothing comes on does not keep a session.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listening, stream := make(chan struct{}), harness.NewBegun()
	go func() {
		defer close(listening)
		h.ServeHTTP(stream, first.request(ctx, http.MethodGet, "2025-11-25", ""))
	}()
	harness.Eventually(t, "stream", stream.Began.Load)
	third.alive()
	fourth := must("alice")
	ended("the session with a stream", first)
	<-listening

	work(third)
	fifth := must("alice")
	ended("the session beside one that works", fourth)
	work(fifth)
	if _, fault := openLegacy(t, h, "alice"); !strings.Contains(fault, "the caller is at its limit of 2 sessions") {
		t.Errorf("a session beside two that work: %q", fault)
	}

	anonymous := must("")
	other := must("") // in its place
	ended("the anonymous session", anonymous)
	bob := must("bob")
	must("carol") // in the place of an idle one, which is bob's or the anonymous one
	harness.Eventually(t, "end of an idle session", func() bool { return !bob.alive() || !other.alive() })
	work(bob.again(t))
	if !third.alive() || !fifth.alive() {
		t.Error("a session that works was ended for another caller's")
	}
	close(w.open)
}

// A session that waits has no goroutine of ours, and one that has ended is forgotten, also where there is room for
// more.
func TestSessionsAreCheap(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: harness.NewRing(t)})
	expect.Check(t, err)
	h := srv.HTTPHandler(nil)
	open := func() *legacy {
		l, fault := openLegacy(t, h, "alice")
		if fault != "" {
			t.Fatal(fault)
		}
		return l
	}
	const n = 50
	before := runtime.NumGoroutine()
	for range n {
		open()
	}
	if each := float64(runtime.NumGoroutine()-before) / n; each > 1.1 { // the SDK's
		t.Errorf("%.1f goroutines each", each)
	}

	var ended []weak.Pointer[mcp.ServerSession]
	for range 2 * n {
		l := open()
		for session := range m.Sessions() {
			if session.ID() == l.id {
				ended = append(ended, weak.Make(session))
			}
		}
		h.ServeHTTP(httptest.NewRecorder(), l.request(t.Context(), http.MethodDelete, "2025-11-25", ""))
	}
	harness.Eventually(t, "end of what is held for ended sessions", func() bool {
		for range n {
			open()
		}
		runtime.GC()
		return !slices.ContainsFunc(ended, func(p weak.Pointer[mcp.ServerSession]) bool { return p.Value() != nil })
	})
}

func TestBatchesAreBounded(t *testing.T) {
	batch := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i+1)
		}
		return "[" + b.String()[1:] + "]"
	}
	srv := harness.NewServer(t, &askback.Options{Limits: askback.Limits{Batch: 3}}, harness.AddGreet)
	l, _ := openLegacy(t, srv.HTTPHandler(nil), "")
	if w := l.post("2025-03-26", batch(4)); w.Code != 400 || !strings.Contains(w.Body.String(), "3 messages") {
		t.Errorf("over HTTP: %d %s", w.Code, w.Body)
	}
	if w := l.post("2025-03-26", batch(3)); w.Code != 200 || strings.Count(w.Body.String(), "result") != 3 {
		t.Errorf("3 over HTTP: %d %s", w.Code, w.Body)
	}
	c := harness.Pipe(t, srv)
	c.Write(batch(4))
	if got := fmt.Sprint(<-c.Read); !strings.Contains(got, "3 messages") || !strings.Contains(got, "-32600") {
		t.Errorf("over standard input: %s", got)
	}
}

// Calls of one session are bounded, and so are those of all of a caller's sessions. The answers that
// calls wait for get through, and so do other callers.
func TestCallsOfSessionsAreBounded(t *testing.T) {
	w := newWaitingTool(t, askback.Limits{SessionCalls: 2, Streams: askback.Share{Total: 8, PerPrincipal: 3, Anonymous: 1},
		Requests: askback.Share{Total: 2, PerPrincipal: 1}})
	h := w.HTTPHandler(nil)
	ended := make(chan string, 10)
	wait := func(l *legacy, id int) {
		before := w.now.Load()
		go func() {
			ended <- l.post("2025-11-25", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`,
				id)).Body.String()
		}()
		harness.Eventually(t, "call", func() bool { return w.now.Load() > before || len(ended) > 0 })
	}
	one, _ := openLegacy(t, h, "alice")
	two, _ := openLegacy(t, h, "alice")
	wait(one, 1)
	wait(one, 2)
	wait(one, 3)
	expect.Contains(t, "the third call of a session", <-ended, "limit of 2 open requests of one session")
	wait(two, 1)
	wait(two, 2)
	if got := <-ended; !strings.Contains(got, "the caller is at its limit of 3 open streams and requests") {
		t.Errorf("the fourth call of a caller: %s", got)
	}
	if res := two.post("2025-11-25", `{"jsonrpc":"2.0","id":99,"result":{}}`); res.Code != 202 {
		t.Errorf("an answer: %d %s", res.Code, res.Body)
	}
	bob, _ := openLegacy(t, h, "bob")
	wait(bob, 1)
	close(w.open)
	for range 4 {
		expect.Contains(t, "a call that was admitted", <-ended, "done")
	}
}

// The parameters that the open requests of a caller's sessions keep are bounded. Small messages always have room, and
// so have other callers.
func TestParametersOfSessionsAreBounded(t *testing.T) {
	const large = 40 << 10
	w := newWaitingTool(t, askback.Limits{MessageBytes: 64 << 10,
		BodyBytes: askback.Share{Total: 512 << 10, PerPrincipal: 100 << 10, Anonymous: 100 << 10}})
	h := w.HTTPHandler(nil)
	ended := make(chan string, 10)
	wait := func(l *legacy, id, size int) {
		before := w.now.Load()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{"pad":%q}}}`,
			id, strings.Repeat("x", size))
		go func() { ended <- l.post("2025-11-25", body).Body.String() }()
		harness.Eventually(t, "call", func() bool { return w.now.Load() > before || len(ended) > 0 })
	}
	one, _ := openLegacy(t, h, "alice")
	two, _ := openLegacy(t, h, "alice")
	wait(one, 1, large)
	wait(two, 1, large)
	wait(two, 2, large)
	select {
	case got := <-ended:
		expect.Contains(t, "the third large call", got, "limit of 102400 bytes of open requests of sessions")
	default:
		t.Error("the third large call is not refused")
	}
	for id := range 3 { // more than is left
		wait(one, 3+id, 15<<10)
	}
	bob, _ := openLegacy(t, h, "bob")
	wait(bob, 1, large)
	close(w.open)
	for range 6 {
		expect.Contains(t, "a call that was admitted", <-ended, "done")
	}
}

func TestCallsOfAConnectionAreBounded(t *testing.T) {
	w := newWaitingTool(t, askback.Limits{SessionCalls: 2})
	c := harness.Pipe(t, w.Server)
	for id := range 3 {
		c.Request(id+1, "tools/call", `"name":"wait"`, harness.WithExtension)
	}
	refused := c.Until("a refusal", func(m map[string]any) bool { return m["error"] != nil })
	expect.Contains(t, "the third", fmt.Sprint(harness.At(refused, "error", "message")), "2 open requests")
	close(w.open)
	c.Until("a result", func(m map[string]any) bool { return m["result"] != nil })
	c.Until("a result", func(m map[string]any) bool { return m["result"] != nil })
}

// What stays open over HTTP counts as a stream, and not as a request in progress. A stream that is opened where there
// is no room takes the place of the oldest one: of the same caller, or of the one who has most.
func TestStreamsAreShared(t *testing.T) {
	w := newWaitingTool(t, askback.Limits{Requests: askback.Share{Total: 1, PerPrincipal: 1, Anonymous: 1},
		Streams: askback.Share{Total: 3, PerPrincipal: 2, Anonymous: 1}})
	h := w.HTTPHandler(nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listen := func(user string) chan *httptest.ResponseRecorder {
		r := harness.Request{Method: "subscriptions/listen", Header: http.Header{"X-User": {user}, "Mcp-Name": nil},
			Body: harness.Message(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`,
				harness.AllCapabilities)}
		got := make(chan *httptest.ResponseRecorder, 1)
		started := harness.NewBegun()
		go func() {
			h.ServeHTTP(started, r.HTTP(t).WithContext(ctx))
			got <- started.ResponseRecorder
		}()
		harness.Eventually(t, "subscription", func() bool { return started.Began.Load() || len(got) > 0 })
		return got
	}
	oldest := listen("alice")
	alice := listen("alice")
	third := listen("alice")
	<-oldest // gives way
	bob := listen("bob")
	carol := listen("carol")
	<-alice
	l, _ := openLegacy(t, h, "")
	get, read := harness.NewBegun(), make(chan struct{})
	go func() { h.ServeHTTP(get, l.request(ctx, http.MethodGet, "2025-11-25", "")); close(read) }()
	harness.Eventually(t, "stream of a session", get.Began.Load)
	close(w.open)
	as("alice", "").Send(t, h).Text(t)
	cancel()
	for _, open := range []chan *httptest.ResponseRecorder{third, bob, carol} {
		<-open
	}
	<-read
}

// Streams of events do not count as requests in progress, however many there are. Where there is no room for another
// one, the oldest of the caller who has most ends with its result, and everybody else goes on.
func TestStreamsOfEventsAreShared(t *testing.T) {
	t.Parallel()
	few := askback.Share{Total: 1, PerPrincipal: 1, Anonymous: 1}
	srv := harness.NewServer(t, &askback.Options{Principal: harness.UserHeader,
		Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Events: new(askback.EventOptions),
		Limits: askback.Limits{Requests: few, Streams: askback.Share{Total: 10, PerPrincipal: 4}}}, harness.AddGreet)
	h := srv.HTTPHandler(nil)
	ctx, cancel := context.WithCancel(t.Context())
	open := func(user string) <-chan string {
		r := harness.Request{Method: "events/stream", Header: http.Header{"X-User": {user}, "Mcp-Name": nil},
			Body: harness.Modern(1, "events/stream", `"name":"call.ended"`)}
		ended, begun := make(chan string, 1), harness.NewBegun()
		go func() {
			h.ServeHTTP(begun, r.HTTP(t).WithContext(ctx))
			ended <- begun.Body.String()
		}()
		harness.Eventually(t, "stream", func() bool { return begun.Began.Load() || len(ended) > 0 })
		return ended
	}
	var alice []<-chan string
	for range 4 {
		alice = append(alice, open("alice"))
	}
	served := func(user string) {
		t.Helper()
		r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`, Header: http.Header{"X-User": {user}}}
		if res := r.Send(t, h); !strings.Contains(res.Raw, "input_required") {
			t.Errorf("%s gets %s", user, res.Raw)
		}
	}
	served("alice")
	bob := open("bob")
	alice = append(alice, open("alice"))
	got := <-alice[0]
	if i := strings.LastIndex(got, "data: "); i < 0 || !strings.Contains(got[i:], `"resultType":"complete"`) ||
		!strings.Contains(got[i:], `"io.modelcontextprotocol/subscriptionId":1`) {
		t.Errorf("the stream that gave way has %q", got)
	}
	served("alice")
	served("bob")
	for _, still := range append(alice[1:], bob) {
		if len(still) > 0 {
			t.Errorf("another stream has ended: %s", <-still)
		}
	}
	cancel()
	for _, still := range append(alice[1:], bob) {
		if got := <-still; !strings.HasPrefix(got, "event: message\ndata: ") || strings.Contains(got, `"error"`) {
			t.Errorf("a stream has %q", got)
		}
	}
}

// Where pages have a name of their own that may lead here, the names of the server have to be said.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   askback.HTTPOptions
		remote bool // the server's address is not a loopback one
		host   string
		origin string
		status int
	}{
		{"no page", askback.HTTPOptions{}, true, "any.example.com", "", 200},
		{"a page under its own name", askback.HTTPOptions{}, true, "evil.example.com:8080", "http://evil.example.com:8080",
			403},
		{"a page of the server's address", askback.HTTPOptions{}, true, "192.168.1.7:8080", "http://192.168.1.7:8080", 200},
		{"a page of a forwarded port", askback.HTTPOptions{}, true, "localhost:8080", "http://localhost:8080", 200},
		{"a page from elsewhere", askback.HTTPOptions{}, true, "192.168.1.7:8080", "http://evil.example.com", 403},
		{"a trusted page", askback.HTTPOptions{TrustedOrigins: []string{"https://app.example.com"}}, true, "mcp.example.com",
			"https://app.example.com", 200},
		{"a trusted page of the server's own", askback.HTTPOptions{TrustedOrigins: []string{"https://mcp.example.com"}}, true,
			"mcp.example.com", "https://mcp.example.com", 200},
		{"an allowed host", askback.HTTPOptions{AllowedHosts: []string{"MCP.example.com"}}, true, "mcp.example.com:8443",
			"https://mcp.example.com:8443", 200},
		{"an allowed host and port", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com:8443"}}, true,
			"mcp.example.com:8443", "", 200},
		{"another port", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com:8443"}}, true, "mcp.example.com", "",
			403},
		{"another host", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com"}}, true, "evil.example.com", "", 403},
		{"another host, of a trusted page", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com"},
			TrustedOrigins: []string{"https://app.example.com"}}, true, "evil.example.com", "https://app.example.com", 403},
		{"an allowed host from elsewhere", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com"}}, true,
			"mcp.example.com", "https://evil.example.com", 403},
		{"an allowed host behind a local proxy", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com"}}, false,
			"mcp.example.com", "", 200},
		{"a local name beside an allowed host", askback.HTTPOptions{AllowedHosts: []string{"mcp.example.com"}}, false,
			"localhost:8080", "", 200},
		{"an address that is not local, on a local server", askback.HTTPOptions{}, false, "192.168.1.7", "", 403},
		{"no local protection, and a page",
			askback.HTTPOptions{Streamable: mcp.StreamableHTTPOptions{DisableLocalhostProtection: true}}, false,
			"evil.example.com", "http://evil.example.com", 403},
		{"no local protection, and no page",
			askback.HTTPOptions{Streamable: mcp.StreamableHTTPOptions{DisableLocalhostProtection: true}}, false,
			"mcp.example.com", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(&c.opts)
			addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
			if c.remote {
				addr.IP = net.IPv4(192, 168, 1, 7)
			}
			for _, r := range []harness.Request{{Target: "greet", Arguments: `{"place":"x"}`},
				{Method: "tools/list", Header: http.Header{"Mcp-Name": nil},
					Body: harness.Message(1, "tools/list", "", harness.AllCapabilities)}} {
				r.Context = func(r *http.Request) *http.Request {
					r.Host = c.host
					if c.origin != "" {
						r.Header.Set("Origin", c.origin)
					}
					return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
				}
				if res := r.Send(t, h); res.Status != c.status {
					t.Errorf("%s: status %d, want %d: %s", r.Method, res.Status, c.status, res.Raw)
				}
			}
		})
	}
	for _, host := range []string{"", "https://mcp.example.com", "*.example.com", "mcp.example.com/mcp"} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "allowed host") {
					t.Errorf("the allowed host %q: %v", host, v)
				}
			}()
			harness.NewServer(t, nil).HTTPHandler(&askback.HTTPOptions{AllowedHosts: []string{host}})
		}()
	}
}

// What a client sends is not repeated without limit: a progress token in notifications, a name or an ID in what the
// operator is told.
func TestWhatAClientChoosesIsShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	records, log := harness.Logs()
	var told strings.Builder
	srv := harness.NewServer(t, &askback.Options{
		Logger: records,
		Audit:  func(_ context.Context, e askback.AuditEvent) { fmt.Fprintf(&told, "%+v\n", e) },
		Observe: func(ctx context.Context, op *askback.Operation) (context.Context, func()) {
			fmt.Fprintf(&told, "%+v %s\n", op, op.Meta("traceparent"))
			return ctx, func() { fmt.Fprintf(&told, "%+v\n", op) }
		},
		Authorize: func(context.Context, askback.Access) error { return errors.New("no") },
	}, harness.AddGreet)
	h := srv.HTTPHandler(nil)
	for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
		r := harness.Request{Method: method, Target: long}
		expect.Contains(t, method, r.Send(t, h).Refused(t, 400, -32602), "limit of")
	}
	harness.Request{Target: "greet", Meta: `,"traceparent":"` + long + `"`}.Send(t, h).Refused(t, 403, -32600)
	named := harness.Request{Target: "greet"}
	named.Body = `{"jsonrpc":"2.0","id":"` + long + `","method":"tools/call","params":{"name":"greet",` +
		harness.Modern(1, "", "")[strings.Index(harness.Modern(1, "", ""), `"_meta"`):]
	named.Send(t, h).Refused(t, 403, -32600)
	l, _ := openLegacy(t, h, "")
	w := l.post("2025-11-25", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+long+`"}}`)
	if !strings.Contains(w.Body.String(), "limit of 1024 bytes") {
		t.Errorf("in a session: %.200s", w.Body)
	}
	if n := len(log.String()) + told.Len(); n == 0 || n > 64<<10 {
		t.Errorf("the operator is told %d bytes", n)
	}
}

func TestProgressTokensAreShort(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	done := func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return new(mcp.CallToolResult), nil, nil
	}
	mcp.AddTool(m, &mcp.Tool{Name: "native"}, done)
	srv, err := askback.New(m, &askback.Options{Keys: harness.NewRing(t)})
	expect.Check(t, err)
	harness.AddGreet(srv)
	h := srv.HTTPHandler(nil)
	l, _ := openLegacy(t, h, "")
	pipe := harness.Pipe(t, srv)
	id := 10
	for size, refused := range map[int]bool{1000: false, 2000: true, 1 << 20: true} {
		token := `"progressToken":"` + strings.Repeat("x", size) + `"`
		for _, tool := range []string{"greet", "native"} {
			arguments := map[string]string{"greet": `{"place":"x"}`, "native": `{}`}[tool]
			call := `"name":"` + tool + `","arguments":` + arguments
			id++
			for path, got := range map[string]string{
				"over HTTP": harness.Request{Target: tool, Arguments: arguments, Meta: "," + token}.Send(t, h).Raw,
				"in a session": l.postUntil(fmt.Sprintf(
					`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"_meta":{%s}}}`, id, call, token)),
				"over a pipe": fmt.Sprint(pipe.Call(id, "tools/call", call, harness.AllCapabilities+`,`+token)),
			} {
				if is := strings.Contains(got, "progressToken exceeds the limit of 1024 bytes"); is != refused {
					t.Errorf("%s, %s, %d bytes: %.300s", tool, path, size, got)
				}
			}
		}
	}
}

// postUntil sends a message, and returns the beginning of the response: its end, too, unless it waits for an answer.
func (l *legacy) postUntil(body string) string {
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	w, ended := harness.NewBegun(), make(chan struct{})
	go func() {
		defer close(ended)
		l.h.ServeHTTP(w, l.request(ctx, http.MethodPost, "2025-11-25", body))
	}()
	harness.Eventually(l.t, "response", w.Began.Load)
	cancel()
	<-ended
	return w.Body.String()
}
