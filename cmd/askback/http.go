package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/call"
)

// grace is the time that running requests and tasks have to finish when the server stops.
const grace = 10 * time.Second

// listen listens on the address of --addr. It explains errors that the user can correct.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("--addr %q: want HOST:PORT, such as 127.0.0.1:8080", addr)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s, another program does: stop it, or choose another port with --addr (port 0 takes a free one)", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen on %s, this user is not allowed to: choose a port above 1023 with --addr", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen on %s, it is not an address of this machine: choose another one with --addr, such as 127.0.0.1:8080", addr)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
}

// serveHTTP serves until ctx is done, and then until the running requests are finished.
func serveHTTP(ctx context.Context, listener net.Listener, mcp http.Handler, stdout io.Writer, log *slog.Logger) error {
	if addr, ok := listener.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
		log.Warn("other machines can reach this server, and it has no authentication: put a proxy with authentication in front of it, "+
			"or listen on a loopback address", "addr", addr.String())
	}
	server := &http.Server{
		Handler:           routes(ctx, mcp),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute, // of header and body; responses may stream for as long as they take
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if err := output(stdout, fmt.Sprintf("listening on http://%s/mcp\n", listener.Addr())); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving http://%s/mcp: %w", listener.Addr(), err)
	case <-ctx.Done():
	}

	log.Info("stopping: finishing the requests that are running", "limit", grace)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		log.Warn("the requests that did not finish in time were cut off", "limit", grace)
		server.Close()
	}
	<-served
	log.Info("stopped")
	return nil
}

// routes serves the MCP endpoint, and a health check for load balancers. Open-ended requests end when stopping is done.
func routes(stopping context.Context, mcp http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n") // an error means that the client is gone
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if isOpenEnded(r) {
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			defer context.AfterFunc(stopping, func() {
				cancel(&call.UnavailableError{Reason: "the server is stopping: send the request again", RetryAfter: time.Second})
			})()
			r = r.WithContext(ctx)
		}
		mcp.ServeHTTP(w, r)
	})
	return mux
}

// isOpenEnded reports whether a request has no end of its own to wait for. These are the streams of notifications, and
// the wait for a task's result, which the client repeats.
func isOpenEnded(r *http.Request) bool {
	method := r.Header.Get("Mcp-Method")
	return r.Method == http.MethodGet || method == "subscriptions/listen" || method == "tasks/result"
}
