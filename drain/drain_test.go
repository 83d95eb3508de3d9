package drain_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// pipes is a listener whose connections are in memory, for tests with a clock of their own.
type pipes struct {
	connections chan net.Conn
	once        sync.Once
	closed      chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// instance is a server under test.
type instance struct {
	listener *pipes
	stop     context.CancelFunc
	stopped  chan struct{} // closed when Serve has returned
	err      error         // what it returned
	log      *harness.Log
}

func start(t *testing.T, handler http.HandlerFunc, o drain.Options) *instance {
	i := &instance{listener: &pipes{connections: make(chan net.Conn), closed: make(chan struct{})},
		stopped: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	i.stop = cancel
	o.Logger, i.log = harness.Logs()
	go func() {
		defer close(i.stopped)
		i.err = drain.Serve(ctx, i.listener,
			&http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn)}, &o)
	}()
	return i
}

// ended waits for the end of the server, and reports how long it took.
func (i *instance) ended(t *testing.T) time.Duration {
	t.Helper()
	from := time.Now()
	<-i.stopped
	if i.err != nil {
		t.Error(i.err)
	}
	return time.Since(from)
}

// client is one connection to an instance.
type client struct {
	net.Conn
	in *bufio.Reader
}

var errClosed = errors.New("the listener is closed")

func (i *instance) dial() (*client, error) {
	here, there := net.Pipe()
	select {
	case i.listener.connections <- there:
		return &client{here, bufio.NewReader(here)}, nil
	case <-i.listener.closed:
		return nil, errClosed
	}
}

// response is what a test looks at.
type response struct {
	status     int
	body       string
	closes     bool // the connection
	retryAfter string
	err        error
}

func (c *client) send(request string) (r response) {
	if _, r.err = io.WriteString(c, request); r.err != nil {
		return r
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return response{err: err}
	}
	body, err := io.ReadAll(res.Body)
	return response{res.StatusCode, string(body), res.Close, res.Header.Get("Retry-After"), err}
}

func (i *instance) get(path string) response {
	c, err := i.dial()
	if err != nil {
		return response{err: err}
	}
	defer c.Close()
	return c.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

const (
	call   = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
	stream = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
	listen = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Method: subscriptions/listen\r\nContent-Length: 2\r\n\r\n{}"
	await  = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Method: tasks/result\r\nContent-Length: 2\r\n\r\n{}"
	follow = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Method: events/stream\r\nContent-Length: 2\r\n\r\n{}"
	file   = "GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// working is a handler that works for some time, or until it is cancelled. If begun, it writes something before.
func working(d time.Duration, begun bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if begun {
			w.(http.Flusher).Flush()
		}
		select {
		case <-time.After(d):
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	}
}

// The steps of a stop, as a client and a load balancer see them.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, working(0, false), drain.Options{Delay: 5 * time.Second})
		kept, err := i.dial()
		expect.Check(t, err)
		slow := start(t, working(20*time.Second, false), drain.Options{Delay: 5 * time.Second})
		running, err := slow.dial()
		expect.Check(t, err)
		answered := make(chan response, 1)
		go func() { answered <- running.send(call) }()
		synctest.Wait()

		look := func(when string, path string, want response) {
			t.Helper()
			if got := i.get(path); got != want {
				t.Errorf("%s: %s: %+v, want %+v", when, path, got, want)
			}
		}
		look("serving", "/healthz", response{status: 200, body: "ok\n"})
		look("serving", "/readyz", response{status: 200, body: "ok\n"})
		look("serving", "/file", response{status: 200, body: "done"})
		expect.Equal(t, "on a kept connection", kept.send(call), (response{status: 200, body: "done"}))

		i.stop()
		slow.stop()
		begin := time.Now()
		synctest.Wait()
		look("unready", "/healthz", response{status: 200, body: "ok\n"})
		look("unready", "/readyz", response{status: 503, body: "stopping\n", closes: true})
		look("unready", "/file", response{status: 200, body: "done", closes: true})
		if got := kept.send(call); got != (response{status: 200, body: "done", closes: true}) {
			t.Errorf("on a connection kept since before: %+v", got)
		}
		time.Sleep(4900 * time.Millisecond)
		look("at the end of the delay", "/file", response{status: 200, body: "done", closes: true})

		i.ended(t)
		if took := time.Since(begin); took > 5100*time.Millisecond {
			t.Errorf("it stopped after %v, want the delay, because nothing ran", took)
		}
		if got := i.get("/file"); got.err != errClosed {
			t.Errorf("stopped: %+v", got)
		}
		time.Sleep(2800 * time.Millisecond)
		if c, err := slow.dial(); err != nil {
			t.Errorf("the listener closed while a request ran, before 3 seconds had passed: %v", err)
		} else {
			c.Close()
		}
		time.Sleep(300 * time.Millisecond)
		if _, err := slow.dial(); err != errClosed {
			t.Errorf("3 seconds after the delay: %v", err)
		}
		slow.ended(t)
		if got := <-answered; got != (response{status: 200, body: "done", closes: true}) {
			t.Errorf("a request that ran when the server stopped: %+v", got)
		}
		if took := time.Since(begin); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("with a request of 20 seconds it stopped after %v", took)
		}
	})
}

// A load balancer that does not notice that an instance stops, and sends nothing elsewhere: every request that gets a
// connection is served, the listener closes within its bound, and at once if requests leave a gap.
func TestRequestsThatKeepComing(t *testing.T) {
	const delay, every = 5 * time.Second, 100 * time.Millisecond
	for _, test := range []struct {
		name     string
		work     time.Duration
		min, max time.Duration // when the listener closes
	}{
		{"with gaps", 90 * time.Millisecond, delay, delay + 2*every},
		{"without gaps", 250 * time.Millisecond, delay + 3*time.Second, delay + 3*time.Second + every},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := start(t, working(test.work, false), drain.Options{Delay: delay, Grace: 30 * time.Second})
				i.stop()
				begin := time.Now()
				var all sync.WaitGroup
				for {
					c, err := i.dial()
					if err != nil {
						break
					}
					all.Go(func() {
						defer c.Close()
						if got := c.send(call); got != (response{status: 200, body: "done", closes: true}) {
							t.Errorf("%+v", got)
						}
					})
					time.Sleep(every)
				}
				if took := time.Since(begin); took < test.min || took > test.max {
					t.Errorf("the listener closed after %v, want %v to %v", took, test.min, test.max)
				}
				i.ended(t)
				all.Wait()
				if took := time.Since(begin); took > test.max+test.work+time.Second {
					t.Errorf("it stopped after %v", took)
				}
			})
		})
	}
}

// What becomes of a request that runs when the server stops, and how long the server takes.
func TestRunningRequests(t *testing.T) {
	const delay, grace = 5 * time.Second, 30 * time.Second
	again := response{503, "this server is stopping: send the request again\n", true, "1", nil}
	for _, test := range []struct {
		name     string
		request  string
		work     time.Duration
		begun    bool
		delay    time.Duration
		want     response
		min, max time.Duration
		cut      bool
	}{
		{"a short one", call, time.Second, false, delay, response{status: 200, body: "done", closes: true}, delay,
			delay + 2*time.Second, false},
		{"a long one", call, 25 * time.Second, false, delay, response{status: 200, body: "done", closes: true},
			25 * time.Second, 26 * time.Second, false},
		{"one that never ends", call, time.Hour, false, delay, response{err: io.ErrUnexpectedEOF}, delay + grace,
			delay + grace, true},
		{"a file", file, 25 * time.Second, false, delay, response{status: 200, body: "done", closes: true}, 25 * time.Second,
			26 * time.Second, false},
		{"a stream", stream, time.Hour, true, delay, response{status: 200}, delay, delay + 2*time.Second, false},
		{"a subscription", listen, time.Hour, true, delay, response{status: 200}, delay, delay + 2*time.Second, false},
		{"a stream of events", follow, time.Hour, true, delay, response{status: 200}, delay, delay + 2*time.Second, false},
		{"one that waits for a task", await, time.Hour, false, delay, again, delay, delay + 2*time.Second, false},
		{"one that waited for a task", await, time.Second, false, delay, response{status: 200, body: "done", closes: true},
			delay, delay + 2*time.Second, false},
		{"no delay", call, 3 * time.Second, false, -1, response{status: 200, body: "done", closes: true}, 3 * time.Second,
			4 * time.Second, false},
		{"nothing to wait for", call, 0, false, -1, response{status: 200, body: "done"}, 0, time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := start(t, working(test.work, test.begun), drain.Options{Delay: test.delay, Grace: grace})
				c, err := i.dial()
				expect.Check(t, err)
				answered := make(chan response, 1)
				go func() { answered <- c.send(test.request); c.Close() }()
				synctest.Wait()
				i.stop()
				if took := i.ended(t); took < test.min || took > test.max {
					t.Errorf("stopped after %v, want %v to %v", took, test.min, test.max)
				}
				got := <-answered
				if (got.err != nil) != (test.want.err != nil) {
					t.Errorf("error %v, want %v", got.err, test.want.err)
				}
				if got.err, test.want.err = nil, nil; got != test.want {
					t.Errorf("%+v, want %+v", got, test.want)
				}
				if cut := strings.Contains(i.log.String(), "cut off"); cut != test.cut {
					t.Errorf("log:\n%s", i.log.String())
				}
			})
		})
	}
}

// A connection from before the stop whose first request comes after it: the request is served, unless it takes too
// long.
func TestFirstRequestComesLate(t *testing.T) {
	for _, test := range []struct {
		late time.Duration
		want response
	}{
		{900 * time.Millisecond, response{status: 200, body: "done", closes: true}},
		{2 * time.Second, response{err: io.ErrUnexpectedEOF}},
	} {
		synctest.Test(t, func(t *testing.T) {
			i := start(t, working(0, false), drain.Options{Delay: -1})
			c, err := i.dial()
			expect.Check(t, err)
			i.stop()
			time.Sleep(test.late)
			if got := c.send(call); got != test.want {
				t.Errorf("after %v: %+v, want %+v", test.late, got, test.want)
			}
			c.Close()
			if took := i.ended(t); took > time.Second {
				t.Errorf("it stopped %v later", took)
			}
		})
	}
}

// A handler that leaves the header to the server closes its connection, too.
func TestResponsesWithoutHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, func(http.ResponseWriter, *http.Request) {}, drain.Options{})
		i.stop()
		synctest.Wait()
		if got := i.get("/file"); got != (response{status: 200, closes: true}) {
			t.Errorf("%+v", got)
		}
		i.ended(t)
	})
}

// An idle connection stays open for the whole delay: a request may be under way on it.
func TestIdleConnectionsStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, working(0, false), drain.Options{})
		c, err := i.dial()
		expect.Check(t, err)
		c.send(call)
		i.stop()
		time.Sleep(4900 * time.Millisecond)
		expect.Equal(t, "c.send(call)", c.send(call), (response{status: 200, body: "done", closes: true}))
		i.ended(t)
	})
}

// A server that fails by itself is an error, whenever it does.
func TestListenerFails(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			i := start(t, working(0, false), drain.Options{})
			if stopped {
				i.stop()
			}
			synctest.Wait()
			i.listener.Close()
			<-i.stopped
			if !errors.Is(i.err, net.ErrClosed) || !strings.Contains(i.err.Error(), "127.0.0.1:1") {
				t.Errorf("stopped: %v: %v", stopped, i.err)
			}
			i.stop()
		})
	}
}

func TestReadiness(t *testing.T) {
	away := errors.New("dial tcp 10.1.2.3: refused")
	for _, test := range []struct {
		name  string
		check func(ctx context.Context) error
		want  int
		log   string
	}{
		{"ready", func(context.Context) error { return nil }, 200, ""},
		{"not ready", func(context.Context) error { return away }, 503, "10.1.2.3"},
		{"silent", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 503, "in time"},
		{"deaf", func(context.Context) error { time.Sleep(time.Hour); return nil }, 503, "in time"},
		{"broken", func(context.Context) error { panic("a defect") }, 503, "a defect"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls, at atomic.Int32
				i := start(t, working(0, false), drain.Options{Delay: -1, Ready: func(ctx context.Context) error {
					calls.Add(1)
					at.Add(1)
					defer at.Add(-1)
					return test.check(ctx)
				}})
				begin := time.Now()
				for range 10 {
					got := i.get("/readyz")
					if got.status != test.want || strings.Contains(got.body, "10.1.2.3") {
						t.Fatalf("%+v, want %d, and the reason in the log only", got, test.want)
					}
				}
				if took := time.Since(begin); took > 2*time.Second || calls.Load() != 1 {
					t.Errorf("ten probes took %v and %d checks, want one check", took, calls.Load())
				}
				for range 3 {
					time.Sleep(1100 * time.Millisecond)
					i.get("/readyz")
					if n := at.Load(); n > 1 {
						t.Errorf("%d checks at once", n)
					}
				}
				if got := i.get("/healthz"); got.status != 200 {
					t.Errorf("the process lives: %+v", got)
				}
				i.stop()
				i.ended(t)
				log, reports := i.log.String(), 0
				if test.want == http.StatusServiceUnavailable {
					reports = 1
				}
				if strings.Count(log, `msg="not ready"`) != reports || !strings.Contains(log, test.log) {
					t.Errorf("log:\n%s", log)
				}
				time.Sleep(time.Hour) // until the deaf check ends
			})
		})
	}
}

// Readiness comes back with what it depends on.
func TestReadyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		i := start(t, working(0, false), drain.Options{Delay: -1, Ready: func(context.Context) error {
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}})
		for _, want := range []int{503, 200} {
			if got := i.get("/readyz"); got.status != want {
				t.Errorf("%+v, want %d", got, want)
			}
			away.Store(false)
			time.Sleep(time.Second)
		}
		i.stop()
		i.ended(t)
		expect.Contains(t, "the log", i.log.String(), "ready again")
	})
}

func TestGraceMustNotBeNegative(t *testing.T) {
	if err := drain.Serve(t.Context(), nil, new(http.Server), &drain.Options{Grace: -1}); err == nil {
		t.Error("accepted")
	}
}

// HTTP/2 has no header to close a connection: the client is told to open another one.
func TestTLS(t *testing.T) {
	authority := httptest.NewTLSServer(nil)
	defer authority.Close()
	client := authority.Client()
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.Check(t, err)
	logger, _ := harness.Logs()
	server := &http.Server{Handler: working(0, false), TLSConfig: &tls.Config{Certificates: authority.TLS.Certificates}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- drain.Serve(ctx, listener, server, &drain.Options{Delay: time.Hour, Logger: logger}) }()

	connections := make(map[string]bool)
	get := func(path string) int {
		t.Helper()
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			connections[c.Conn.LocalAddr().String()] = true
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet,
			"https://"+listener.Addr().String()+path, nil)
		expect.Check(t, err)
		res, err := client.Do(req)
		expect.Check(t, err)
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.ProtoMajor != 2 {
			t.Errorf("%s: %s, %v", path, res.Proto, err)
		}
		return res.StatusCode
	}
	for range 3 {
		expect.Equal(t, "status", get("/file"), 200)
	}
	expect.Equal(t, "three requests took", len(connections), 1)
	stop()
	harness.Eventually(t, "a server that is not ready", func() bool { return get("/readyz") == 503 })
	harness.Eventually(t, "another connection", func() bool { return get("/file") == 200 && len(connections) > 1 })
	server.Close()
	<-served
}
