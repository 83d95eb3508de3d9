package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/call"
)

// pipes is a listener whose connections are in memory, for tests with a clock of their own.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) send(t *testing.T, request string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.connections <- server
	if _, err := io.WriteString(client, request); err != nil {
		t.Fatal(err)
	}
	return client
}

const (
	callRequest   = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
	streamRequest = "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
	listenRequest = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Method: subscriptions/listen\r\nContent-Length: 2\r\n\r\n{}"
)

// stopping serves one request, which works for the given time unless it is cancelled, and tells how long the server
// took to stop after that began.
func stopping(t *testing.T, request string, work time.Duration) (took time.Duration, response, log string) {
	ctx, stop := context.WithCancel(t.Context())
	var logged bytes.Buffer
	listener := newPipes()
	served := make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(work):
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	go func() {
		served <- serveHTTP(ctx, listener, handler, io.Discard, slog.New(slog.NewTextHandler(&logged, nil)))
	}()
	client := listener.send(t, request)
	answer := make(chan string, 1)
	go func() {
		text := ""
		if res, err := http.ReadResponse(bufio.NewReader(client), nil); err == nil {
			body, _ := io.ReadAll(res.Body)
			text = string(body)
		}
		client.Close()
		answer <- text
	}()
	synctest.Wait()
	start := time.Now()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	return time.Since(start), <-answer, logged.String()
}

func TestStopFinishesRunningRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, response, log := stopping(t, callRequest, 5*time.Second)
		if response != "done" || took < 5*time.Second || took >= grace || strings.Contains(log, "cut off") {
			t.Errorf("response %q after %v\n%s", response, took, log)
		}
	})
}

func TestStopWaitsNoLongerThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, response, log := stopping(t, callRequest, time.Hour)
		if response != "" || took != grace || !strings.Contains(log, "cut off") {
			t.Errorf("response %q after %v\n%s", response, took, log)
		}
	})
}

// A stream of notifications has no end to wait for.
func TestStopEndsStreams(t *testing.T) {
	for _, request := range []string{streamRequest, listenRequest} {
		synctest.Test(t, func(t *testing.T) {
			took, _, log := stopping(t, request, time.Hour)
			if took >= grace || strings.Contains(log, "cut off") {
				t.Errorf("%q: stopped after %v\n%s", request, took, log)
			}
		})
	}
}

// A request that works for longer than any timeout is neither cut off nor cancelled.
func TestNoTimeoutForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener := newPipes()
		served := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-time.After(24 * time.Hour):
				io.WriteString(w, "done")
			case <-r.Context().Done():
			}
		})
		go func() { served <- serveHTTP(ctx, listener, handler, io.Discard, slog.New(slog.DiscardHandler)) }()
		client := listener.send(t, callRequest)
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != "done" {
			t.Errorf("body %q, error %v", body, err)
		}
		client.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A client that does not finish sending is cut off.
func TestTimeoutForBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener := newPipes()
		served := make(chan error, 1)
		read := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		})
		go func() { served <- serveHTTP(ctx, listener, handler, io.Discard, slog.New(slog.DiscardHandler)) }()
		client := listener.send(t, strings.TrimSuffix(callRequest, "}"))
		go io.Copy(io.Discard, client)
		start := time.Now()
		if err := <-read; err == nil || time.Since(start) > 5*time.Minute {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		client.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A request that waits ends with an error that clients repeat, and not like a request whose client went away.
func TestStopTellsThoseWhoWaitToComeBack(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	var cause error
	h := routes(stopping, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stop()
		<-r.Context().Done()
		cause = context.Cause(r.Context())
	}))
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Mcp-Method", "tasks/result")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if unavailable, ok := errors.AsType[*call.UnavailableError](cause); !ok || unavailable.RetryAfter <= 0 {
		t.Errorf("the cause is %v", cause)
	}
}
