package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
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
	number int // from 1
	port   string
	http.Handler

	cmd    *exec.Cmd
	stdout *os.File
	stdin  io.Closer    // stays open: at its end the server stops
	stderr bytes.Buffer // complete once dead is closed
	dead   chan struct{}
}

func (s *fleetServer) pid() int { return s.cmd.Process.Pid }

func (s *fleetServer) alive() bool {
	select {
	case <-s.dead:
		return false
	default:
		return true
	}
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
		s, err := startServer(ctx, i+1, program, args)
		if err != nil {
			return nil, err
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

func startServer(ctx context.Context, number int, program string, args []string) (_ *fleetServer, err error) {
	s := &fleetServer{number: number, dead: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, program, args...)
	s.cmd.Stderr = &s.stderr
	var theirs *os.File
	if s.stdout, theirs, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("starting server %d: %w", number, err)
	}
	defer theirs.Close()
	s.cmd.Stdout = theirs
	if s.stdin, err = s.cmd.StdinPipe(); err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.stdout.Close()
		return nil, fmt.Errorf("starting server %d: %w", number, err)
	}
	go func() {
		_ = s.cmd.Wait() // it is usually killed
		close(s.dead)
	}()
	return s, nil
}

// ready waits until the server has printed the address at which it listens.
func (s *fleetServer) ready(ctx context.Context) error {
	defer s.stdout.Close()
	late := time.AfterFunc(readyTime, func() { _ = s.cmd.Process.Kill() })
	line, err := bufio.NewReader(s.stdout).ReadString('\n')
	if late := !late.Stop(); late || err != nil {
		<-s.dead
		switch said := bytes.TrimSpace(s.stderr.Bytes()); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case late:
			return fmt.Errorf("server %d was not ready within %v: %s", s.number, readyTime, said)
		default:
			return fmt.Errorf("server %d ended before it was ready: %s", s.number, said)
		}
	}
	at, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
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
		if s.alive() {
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

// kill kills a server, with SIGKILL where there are signals, and waits for its end. It spares the last server alive.
func (f *fleet) kill(s *fleetServer) (killed bool, err error) {
	others := 0
	for _, other := range f.servers {
		if other != s && other.alive() {
			others++
		}
	}
	if others == 0 {
		return false, nil
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, fmt.Errorf("killing server %d: %w", s.number, err)
	}
	<-s.dead
	return true, nil
}

// stop kills all servers and waits for their end.
func (f *fleet) stop() {
	f.cancel()
	if f.proxy != nil {
		f.proxy.Close()
	}
	for _, s := range f.servers {
		<-s.dead
	}
}
