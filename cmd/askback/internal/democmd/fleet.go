package democmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/child"
)

// readyTime is how long a server of the fleet may take until it listens.
const readyTime = 30 * time.Second

// fleet is a number of servers behind a round-robin proxy, each in a process of its own.
type fleet struct {
	servers []*fleetServer
	proxy   *http.Server
	addr    string // of the proxy
	cancel  context.CancelFunc

	mu   sync.Mutex
	turn int          // the index of the next server, modulo their number
	last *fleetServer // the server of the last tool call
}

// fleetServer is one process.
type fleetServer struct {
	*child.Process
	http.Handler

	number int // from 1
	port   string
	stderr bytes.Buffer // complete once the process is dead
}

// startFleet starts n servers, each the program with the arguments, and the proxy. No server outlives this process: the
// end of ctx kills it, and it stops by itself when its standard input ends.
func startFleet(ctx context.Context, n int, program string, args ...string) (_ *fleet, err error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{cancel: cancel}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	for i := range n {
		s := &fleetServer{number: i + 1}
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Stderr = &s.stderr
		if s.Process, err = child.Start(cmd); err != nil {
			return nil, fmt.Errorf("starting server %d: %w", s.number, err)
		}
		f.servers = append(f.servers, s)
	}
	for _, s := range f.servers {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
	}
	// The first request is server/discover. It goes to the last server, so that the first tool call goes to the first.
	f.turn = n - 1
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	f.addr = listener.Addr().String()
	f.proxy = &http.Server{Handler: f, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = f.proxy.Serve(listener) }() // until stop
	return f, nil
}

// ready waits until the server has printed the address at which it listens.
func (s *fleetServer) ready(ctx context.Context) error {
	line, err := s.Wait(readyTime)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("server %d: %w: %s", s.number, err, bytes.TrimSpace(s.stderr.Bytes()))
	}
	at, err := url.Parse(strings.TrimPrefix(line, "listening on "))
	if err != nil {
		return fmt.Errorf("server %d listens on an unknown address: %w", s.number, err)
	}
	s.port = at.Port()
	s.Handler = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			// This also sets the Host header, which the server checks against DNS rebinding.
			r.SetURL(&url.URL{Scheme: at.Scheme, Host: at.Host})
		},
		ErrorLog: log.New(io.Discard, "", 0), // the client gets a 502
	}
	return nil
}

// ServeHTTP passes a request on to the next server that is alive.
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := f.next(r.Header.Get("Mcp-Method") == "tools/call")
	if s == nil {
		http.Error(w, "no server is alive", http.StatusServiceUnavailable)
		return
	}
	s.ServeHTTP(w, r)
}

func (f *fleet) next(toolCall bool) *fleetServer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range f.servers {
		s := f.servers[f.turn%len(f.servers)]
		f.turn++
		if s.Alive() {
			if toolCall {
				f.last = s
			}
			return s
		}
	}
	return nil
}

// served returns the server of the last tool call, or nil.
func (f *fleet) served() *fleetServer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// kill kills a server, and spares the last one alive.
func (f *fleet) kill(s *fleetServer) (killed bool) {
	for _, other := range f.servers {
		if other != s && other.Alive() {
			s.Kill()
			return true
		}
	}
	return false
}

// stop kills all servers and waits for their end.
func (f *fleet) stop() {
	f.cancel()
	if f.proxy != nil {
		f.proxy.Close()
	}
	for _, s := range f.servers {
		<-s.Dead
	}
}
