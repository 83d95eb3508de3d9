package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

func TestWatchTellsOfOtherInstances(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := open(t, dsn), open(t, dsn)
	changed, stop := watch(t, a)
	defer stop()
	next := func(want string) {
		t.Helper()
		if got := soon(t, changed); got != task.Name(want) {
			t.Errorf("Watch told of %s, want %s", got, want)
		}
	}
	ctx := t.Context()
	for _, s := range []*postgres.Store{b, a} {
		told := next
		if s == a { // A made the change, and knows of it.
			told = func(string) {}
		}
		n := create(t, s, newTask())
		told(n.ID)
		expect.Check(t, s.Update(ctx, n, task.Update{Keep: true}))
		told(n.ID)
		// Of what is refused, and of what the worker alone does, it does not tell.
		n.Version = 99
		if err := s.Update(ctx, n, task.Update{Keep: true}); !errors.Is(err, task.ErrConflict) {
			t.Fatal(err)
		}
		expect.Check(t, s.Append(ctx, n.ID, n.Claim, 0, entry))
	}
	n := create(t, b, newTask())
	next(n.ID)
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.DSN(t))
	ended := make(chan error, 1)
	run := func(ctx context.Context) {
		ready := make(chan struct{})
		go func() { ended <- s.Watch(ctx, func() { close(ready) }, func(string, bool) {}) }()
		soon(t, ready)
	}

	ctx, cancel := context.WithCancel(t.Context())
	run(ctx)
	cancel()
	expect.Is(t, "with its context Watch ended", soon(t, ended), context.Canceled)

	run(t.Context())
	s.Close()
	expect.Fails(t, "with its store Watch ended", soon(t, ended), "closed")
}

// A pooler that lends a session for a transaction does not pass on what is for a session.
func TestWatchThroughAPooler(t *testing.T) {
	postgres.WatchTimes(t, 2*time.Second, time.Hour) // enough for a busy machine to connect
	p := newProxy(t, pgtest.DSN(t))
	p.deaf.Store(true)
	s := open(t, p.dsn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.Watch(ctx, func() { t.Error("ready was called") }, nil)
	expect.Fails(t, "the error", err, "session mode")
}

// A connection may be gone without a word.
func TestWatchTriesASilentConnection(t *testing.T) {
	postgres.WatchTimes(t, 2*time.Second, 20*time.Millisecond)
	dsn := pgtest.DSN(t)
	p := newProxy(t, dsn)
	s, other := open(t, p.dsn), open(t, dsn)
	ready, ended := make(chan struct{}), make(chan error, 1)
	changed := make(chan string, 1)
	go func() {
		ended <- s.Watch(t.Context(), func() { close(ready) }, func(id string, _ bool) { changed <- id })
	}()
	soon(t, ready)
	time.Sleep(100 * time.Millisecond) // some silence
	n := create(t, other, newTask())
	select {
	case id := <-changed:
		if id != task.Name(n.ID) {
			t.Errorf("after some silence Watch told of %s, want %s", id, n.ID)
		}
	case err := <-ended:
		t.Fatalf("some silence ended Watch: %v", err)
	}
	p.dead.Store(true)
	if err := soon(t, ended); err == nil {
		t.Error("Watch returned no error")
	}
}

// Neither does a connection that falls silent at the beginning keep a watch waiting.
func TestWatchBeginsOnASilentConnection(t *testing.T) {
	postgres.WatchTimes(t, 500*time.Millisecond, time.Hour)
	for _, at := range []string{"", "LISTEN", "SELECT pg_notify"} {
		p := newProxy(t, pgtest.DSN(t))
		s := open(t, p.dsn)
		p.deadAt.Store(at)
		p.dead.Store(at == "")
		ended := make(chan error, 1)
		go func() { ended <- s.Watch(t.Context(), func() { t.Errorf("silent at %q: ready was called", at) }, nil) }()
		if err := soon(t, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("silent at %q: Watch ended with %v", at, err)
		}
		s.Close()
	}
}

// A proxy is between a store and its server.
type proxy struct {
	dsn    string
	deaf   atomic.Bool  // notifications are lost
	dead   atomic.Bool  // all that the server says is lost
	deadAt atomic.Value // the text of a client at which the proxy is dead, if not empty
}

func newProxy(t *testing.T, dsn string) *proxy {
	p := new(proxy)
	p.dsn = relay(t, dsn, func(client, backend net.Conn) {
		io.Copy(backend, overheard{client, p})
	}, func(client, backend net.Conn) {
		p.answers(client, backend)
	})
	return p
}

// relay returns the URL of a relay to the database with the URL dsn. For each connection, requests and answers each run
// in a goroutine of their own, and then close the connection that they write to.
func relay(t *testing.T, dsn string, requests, answers func(client, backend net.Conn)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	expect.Check(t, err)
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.Check(t, err)
	t.Cleanup(func() { l.Close() })
	query := u.Query()
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = l.Addr().String(), query.Encode()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			backend, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				defer backend.Close()
				requests(client, backend)
			}()
			go func() {
				defer client.Close()
				answers(client, backend)
			}()
		}
	}()
	return u.String()
}

// overheard is what a client says.
type overheard struct {
	io.Reader
	proxy *proxy
}

func (o overheard) Read(b []byte) (int, error) {
	n, err := o.Reader.Read(b)
	if at, _ := o.proxy.deadAt.Load().(string); at != "" && bytes.Contains(b[:n], []byte(at)) {
		o.proxy.dead.Store(true)
	}
	return n, err
}

// answers passes on what the server says: a letter, a length, and what follows.
func (p *proxy) answers(client io.Writer, server io.Reader) {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if p.dead.Load() || p.deaf.Load() && head[0] == 'A' {
			continue
		}
		if _, err := client.Write(append(head, body...)); err != nil {
			return
		}
	}
}
