// Package drain serves HTTP on one of several instances behind a load balancer, and stops it without failing a request.
// It also answers the load balancer's probes.
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	context.AfterFunc(ctx, stop) // a second signal ends the process at once
//
//	listener, err := drain.Listen(":8080")
//	if err != nil {
//		return err
//	}
//	mux := http.NewServeMux()
//	mux.Handle("/mcp", srv.HTTPHandler(nil))
//	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
//
//	work, ctx := errgroup.WithContext(ctx)             // golang.org/x/sync/errgroup
//	work.Go(func() error { return srv.RunTasks(ctx) }) // gives its leases back when ctx is done
//	work.Go(func() error {
//		return drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready})
//	})
//	return work.Wait() // only now close the store of the tasks
//
// docs/production.md says how long to wait, and has configurations of proxies that work with it.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/ending"
)

// Options configure [Serve]. The zero value is ready to use.
type Options struct {
	// Delay is the time for which the server still serves after ctx is done, so that load balancers notice that it is no
	// longer ready. It must be longer than they take, and than they keep an idle connection. Zero means 5 seconds, a
	// negative value no delay.
	Delay time.Duration

	// Grace is the time in which the server must finish its requests after the delay. Zero means 30 seconds. A supervisor
	// that kills the process must wait for longer than Delay and Grace together.
	Grace time.Duration

	// Ready returns an error while the instance cannot serve, for example because its database is away:
	// askback.Server.Ready does. It is called at most once a second, and has a second to answer. Nil means that the
	// instance is ready until it stops.
	Ready func(ctx context.Context) error

	// Logger receives what happens when the server stops, and why it is not ready. Nil means slog.Default().
	Logger *slog.Logger
}

const (
	defaultDelay = 5 * time.Second
	defaultGrace = 30 * time.Second

	// gapTime is the time for which the listener stays open after the delay, for a moment in which no request runs.
	gapTime = 3 * time.Second

	// firstTime is the time for a connection's first request after the listener has closed.
	firstTime = time.Second

	// retryAfter is the pause in seconds that a client is asked to make when its wait for a task was ended.
	retryAfter = "1"
)

// Serve serves until ctx is done, and then stops in these steps:
//
//  1. GET /readyz turns from 200 to 503. Requests are served as before, but each response closes its connection.
//  2. After the delay, the listener closes at the first moment in which no request runs, or 3 seconds later. Until then
//     requests are served. So a process that is started in place of this one can listen soon.
//  3. Connections that the kernel has accepted by then are served, too; see [Listen]. Requests without an end of their
//     own end: streams of notifications, and those that wait for a task, which get 503 with Retry-After. What is still
//     running at the end of the grace period is cut off.
//
// Every request that arrives is served, because not every load balancer sends a refused request elsewhere. A request
// that finds no connection has not begun, so every load balancer can send it elsewhere.
//
// GET /healthz is 200 until the listener closes. Neither path reaches the handler. If server.TLSConfig is set, it must
// have the certificate, and the connections are TLS. Serve wraps server.Handler, server.ConnContext and
// server.ConnState. It closes the listener. It returns the listener's error, or nil if the server stopped because ctx
// was done.
func Serve(ctx context.Context, listener net.Listener, server *http.Server, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Delay == 0 {
		o.Delay = defaultDelay
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Delay = max(o.Delay, 0); o.Grace < 0 {
		return fmt.Errorf("drain: a grace period of %v: want a positive one, or zero for %v", o.Grace, defaultGrace)
	}
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	next := server.Handler
	if next == nil {
		next = http.DefaultServeMux
	}
	d := newDrainer(next, &readiness{check: o.Ready, log: log})
	d.follow(server)

	last := newLastCall(listener)
	listener = last
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(listener, "", "")
		} else {
			served <- server.Serve(listener)
		}
	}()
	failed := func(err error) error {
		d.end()
		server.Close()
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	select {
	case err := <-served:
		return failed(err)
	case <-ctx.Done():
	}

	d.stopping.Store(true)
	if o.Delay > 0 {
		log.InfoContext(ctx, "stopping: no longer ready, but serving until load balancers have noticed", "delay", o.Delay)
		select {
		case err := <-served:
			return failed(err)
		case <-time.After(o.Delay):
		}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
	defer cancel()
	d.await(bounded, min(o.Delay, gapTime), func() bool { return d.running == 0 })
	log.InfoContext(ctx, "stopping: finishing the requests that are running", "limit", o.Grace)
	last.call()
	select {
	case <-served:
	case <-time.After(min(lastTime, o.Grace)): // its Accept waits for something else
		listener.Close()
		<-served
	}
	d.end()
	// From Shutdown on, the server drops what arrives on its connections, even if it was sent before.
	d.await(bounded, firstTime, func() bool { return d.running == 0 && len(d.silent) == 0 })
	d.await(bounded, o.Grace, func() bool { return d.running == 0 })
	if err := server.Shutdown(bounded); err != nil {
		log.WarnContext(ctx, "the requests that did not finish in time were cut off", "limit", o.Grace)
		server.Close()
	}
	return nil
}

// drainer is the handler around the server's own. It counts the requests that end by themselves.
type drainer struct {
	next   http.Handler
	ready  *readiness
	ending context.Context // done when requests without an end of their own end
	end    context.CancelFunc

	stopping atomic.Bool

	mu      sync.Mutex
	running int
	silent  map[net.Conn]struct{} // without a request until now
	fewer   chan struct{}         // receives when one of them may have become zero
}

func newDrainer(next http.Handler, ready *readiness) *drainer {
	d := &drainer{next: next, ready: ready, silent: make(map[net.Conn]struct{}), fewer: make(chan struct{}, 1)}
	d.ending, d.end = context.WithCancel(context.Background())
	return d
}

// connection is the key of a request's connection in its context.
type connection struct{}

// follow makes d the handler of a server, and lets it know of the connections.
func (d *drainer) follow(server *http.Server) {
	server.Handler = d
	withConn, changed := server.ConnContext, server.ConnState
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if withConn != nil {
			ctx = withConn(ctx, c)
		}
		return context.WithValue(ctx, connection{}, c)
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			d.mu.Lock()
			d.silent[c] = struct{}{}
			d.mu.Unlock()
		case http.StateClosed, http.StateHijacked:
			d.count(c, 0)
		}
		if changed != nil {
			changed(c, state)
		}
	}
}

// count counts a request that begins (1) or ends (-1) on a connection, or the end of the connection (0).
func (d *drainer) count(c net.Conn, requests int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running += requests
	delete(d.silent, c)
	select {
	case d.fewer <- struct{}{}:
	default:
	}
}

// await waits until done returns true, but no longer than limit. It calls done under the lock.
func (d *drainer) await(ctx context.Context, limit time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		d.mu.Lock()
		is := done()
		d.mu.Unlock()
		if is {
			return
		}
		select {
		case <-d.fewer:
		case <-ctx.Done():
			return
		}
	}
}

func (d *drainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connection{}).(net.Conn)
	if isOpenEnded(r) {
		d.count(conn, 0)
	} else {
		d.count(conn, 1)
		defer d.count(conn, -1)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch r.URL.Path {
		case "/healthz":
			answer(w, http.StatusOK, "ok")
			return
		case "/readyz":
			d.serveReady(w)
			return
		}
	}
	closing := &closingWriter{ResponseWriter: w, drainer: d}
	if !isOpenEnded(r) {
		d.next.ServeHTTP(closing, r.WithContext(ending.With(r.Context(), d.ending)))
		closing.begin() // a handler may leave the header to the server
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(d.ending, cancel)()
	d.next.ServeHTTP(closing, r.WithContext(ctx))
	if !closing.begun && d.ending.Err() != nil && r.Context().Err() == nil {
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", retryAfter)
		answer(w, http.StatusServiceUnavailable, "this server is stopping: send the request again")
		return
	}
	closing.begin()
}

// isOpenEnded reports whether a request has no end of its own to wait for. These are the streams of notifications, and
// the wait for a task's result, which the client repeats. In a session before 2026-07-28 that wait has no header to
// tell it by, and ends through the context of the session.
func isOpenEnded(r *http.Request) bool {
	method := r.Header.Get("Mcp-Method")
	return method == "subscriptions/listen" || method == "tasks/result" || method == "events/stream" ||
		r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

func (d *drainer) serveReady(w http.ResponseWriter) {
	if d.stopping.Load() {
		w.Header().Set("Connection", "close")
		answer(w, http.StatusServiceUnavailable, "stopping")
		return
	}
	if !d.ready.ok() {
		answer(w, http.StatusServiceUnavailable, "not ready: the server's log says why")
		return
	}
	answer(w, http.StatusOK, "ok")
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // an error means that the client is gone
}

// closingWriter closes the connection of a response whose header is written while the server stops. The server's own
// SetKeepAlivesEnabled would also close idle connections, on which a request may be under way.
type closingWriter struct {
	http.ResponseWriter
	drainer *drainer
	begun   bool
}

func (w *closingWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.drainer.stopping.Load() {
		w.Header().Set("Connection", "close")
	}
}

func (w *closingWriter) WriteHeader(status int) {
	if status >= http.StatusOK { // an informational header is followed by another one
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *closingWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *closingWriter) Flush() { _ = w.FlushError() }

// FlushError implements the flush of [http.ResponseController].
func (w *closingWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap gives [http.ResponseController] the deadlines of the connection.
func (w *closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const (
	checkTime = time.Second // How long a check may take.
	checkAge  = time.Second // How old a result may be.
)

// readiness remembers the result of a check for a moment, so that probes cannot load the database.
type readiness struct {
	check func(ctx context.Context) error
	log   *slog.Logger

	mu      sync.Mutex
	at      time.Time
	err     error
	pending chan error // Receives the result of a check that has not returned.
}

func (r *readiness) ok() bool {
	if r.check == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < checkAge {
		return r.err == nil
	}
	before := r.err
	r.err = r.run()
	r.at = time.Now()
	switch {
	case r.err != nil && before == nil:
		r.log.Error("not ready", "error", r.err)
	case r.err == nil && before != nil:
		r.log.Info("ready again")
	}
	return r.err == nil
}

var errNoAnswer = errors.New("the check of readiness did not answer in time")

// run runs the check, even one that ignores its context. There is never more than one.
func (r *readiness) run() error {
	if r.pending != nil {
		select {
		case <-r.pending: // it answered too late
		default:
			return errNoAnswer
		}
	}
	result := make(chan error, 1)
	r.pending = result
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	go func() {
		defer cancel()
		err := errors.New("the check of readiness panicked or ended its goroutine")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the check of readiness panicked: %v", p)
			}
			result <- err
		}()
		err = r.check(ctx)
	}()
	limit := time.NewTimer(checkTime)
	defer limit.Stop()
	select {
	case err := <-result:
		r.pending = nil
		return err
	case <-limit.C:
		return errNoAnswer
	}
}
