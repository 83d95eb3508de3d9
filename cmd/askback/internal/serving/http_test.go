package serving

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
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
	expect.Must(io.WriteString(client, request))(t)
	return client
}

const callRequest = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"

var atOnce = &drain.Options{Delay: -1, Grace: time.Minute, Logger: slog.New(slog.DiscardHandler)}

// A request that works for longer than any timeout is neither cut off nor cancelled.
func TestNoTimeoutForWork(t *testing.T) {
	t.Parallel()
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
		go func() { served <- HTTP(ctx, listener, handler, io.Discard, atOnce) }()
		client := listener.send(t, callRequest)
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		expect.Check(t, err)
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener := newPipes()
		served := make(chan error, 1)
		read := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		})
		go func() { served <- HTTP(ctx, listener, handler, io.Discard, atOnce) }()
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

// A client that waits for the result of a task when the server stops is told to ask again. The task goes on elsewhere.
func TestStopEndsWaitsForTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store task.MemoryStore
		h := newServer(t, &store).HTTPHandler(nil)
		id := begin(t, h)
		ctx, stop := context.WithCancel(t.Context())
		listener := newPipes()
		served := make(chan error, 1)
		go func() { served <- HTTP(ctx, listener, h, io.Discard, atOnce) }()
		body := harness.Message(1, "tasks/result", `"taskId":`+harness.Quote(id), `{}`)
		client := listener.send(t, fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tasks/result\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(body), body))
		defer client.Close()
		synctest.Wait()
		go stop()
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		expect.Check(t, err)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !res.Close {
			t.Errorf("%s, %v", res.Status, res.Header)
		}
		client.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
