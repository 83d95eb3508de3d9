// Package serving runs a server over HTTP or standard input and output, until it has to stop.
package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/drain"
)

// Listen listens on the address of --addr. It explains errors that the user can correct.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return nil, cli.Usagef("--addr %q: want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8080", addr)
	}
	listener, err := drain.Listen(addr)
	unknown, isName := errors.AsType[*net.DNSError](err)
	switch {
	case isName && unknown.IsNotFound:
		return nil, cli.Usagef("--addr %q: %s is not an address, and no host with this name is known; want HOST:PORT, "+
			"such as 127.0.0.1:8080", addr, unknown.Name)
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s, another program does: stop it, "+
			"or choose another port with --addr (port 0 takes a free one)", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen on %s, this user is not allowed to: choose a port above 1023 with --addr", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen on %s, it is not an address of this machine: "+
			"choose another one with --addr, such as 127.0.0.1:8080", addr)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
}

// HTTP serves until ctx is done, and then until the running requests are finished: see [drain.Serve].
func HTTP(ctx context.Context, listener net.Listener, mcp http.Handler, stdout io.Writer, o *drain.Options) error {
	if addr, ok := listener.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
		o.Logger.Warn("other machines can reach this server, and it has no authentication: "+
			"put a proxy with authentication in front of it, "+
			"or listen on a loopback address", "addr", addr.String())
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp)
	if err := cli.Output(stdout, fmt.Sprintf("listening on http://%s/mcp\n", listener.Addr())); err != nil {
		return err
	}
	if err := drain.Serve(ctx, listener, NewHTTPServer(mux, o.Logger), o); err != nil {
		return err
	}
	o.Logger.Info("stopped")
	return nil
}

// NewHTTPServer returns a server with the limits of time that all of this command have.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute, // of header and body; responses may stream for as long as they take
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Endpoint returns the server's handler. A host that is not valid is the user's mistake here.
func Endpoint(srv *askback.Server, opts *askback.HTTPOptions) (h http.Handler, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = cli.Usagef("--allowed-host: %s", strings.TrimPrefix(fmt.Sprint(v), "askback: "))
		}
	}()
	return srv.HTTPHandler(opts), nil
}
