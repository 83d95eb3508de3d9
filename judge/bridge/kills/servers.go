package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/process"
)

// The kinds of servers that are killed. Those behind a gateway are reached through a proxy that keeps the answer to
// some calls for itself.
const (
	modern        = "modern"    // 2026-07-28 over HTTP
	modernProgram = "mprogram"  // the same over standard input and output
	modernGateway = "mgateway"  // the same behind a gateway
	older         = "older"     // 2025-11-25 over HTTP, with streams that end when they break
	resumable     = "resumable" // the same with streams that can be resumed
	olderProgram  = "oprogram"  // 2025-11-25 over standard input and output
	olderGateway  = "ogateway"  // 2025-11-25 over HTTP behind a gateway
)

var kinds = []string{modern, modernProgram, modernGateway, older, resumable, olderProgram, olderGateway}

func isProgram(kind string) bool { return kind == modernProgram || kind == olderProgram }

// servers are the servers behind the bridge, each a process of this program. Every process connects to the ledger,
// reports its effects there, and kills itself when it is told to: the bridge has started some of them.
type servers struct {
	log    string
	ledger net.Listener
	keys   string
	every  time.Duration

	mu      sync.Mutex
	effects map[string]int
	running map[string][]net.Conn // by kind
	web     map[string]*child.Process
	at      map[string]string // addresses
	proxies []*httptest.Server
	reading sync.WaitGroup
}

// startServers starts the servers at addresses of their own, and returns them with the bridge's file of servers.
func startServers(ctx context.Context, dir string, every time.Duration) (s *servers, file string, err error) {
	s = &servers{log: filepath.Join(dir, "servers.log"), keys: filepath.Join(dir, "server-keys"), every: every,
		effects: make(map[string]int), running: make(map[string][]net.Conn), web: make(map[string]*child.Process),
		at: make(map[string]string)}
	if s.ledger, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, "", err
	}
	s.reading.Go(s.accept)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := process.NewKeys(s.keys); err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	entries := make(map[string]any)
	for _, kind := range kinds {
		if isProgram(kind) {
			environment := make(map[string]string)
			for _, pair := range s.environment(kind) {
				name, value, _ := strings.Cut(pair, "=")
				environment[name] = value
			}
			entries[kind] = map[string]any{"command": self, "args": []string{}, "env": environment}
			continue
		}
		if s.at[kind], err = freeAddress(ctx); err != nil {
			return nil, "", err
		}
		if err := s.start(kind); err != nil {
			return nil, "", err
		}
		address := "http://" + s.at[kind]
		if kind == modernGateway || kind == olderGateway {
			address = s.gateway(address)
		}
		entries[kind] = map[string]any{"url": address}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		return nil, "", err
	}
	file = filepath.Join(dir, "servers.json")
	return s, file, os.WriteFile(file, data, 0o600)
}

// freeAddress returns an address at which a server can listen again and again.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *servers) environment(kind string) []string {
	return []string{kindVariable + "=" + kind, "KILLS_LEDGER=" + s.ledger.Addr().String(), "KILLS_KEYS=" + s.keys,
		"KILLS_ADDRESS=" + s.at[kind]}
}

func (s *servers) start(kind string) error {
	cmd, err := process.Self()
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), s.environment(kind)...)
	p, _, err := process.StartReady(cmd, s.log)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.web[kind] = p
	return nil
}

// accept reads what the servers report.
func (s *servers) accept() {
	for {
		conn, err := s.ledger.Accept()
		if err != nil {
			return
		}
		s.reading.Go(func() {
			defer conn.Close()
			kind := ""
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				what, text, _ := strings.Cut(lines.Text(), " ")
				s.mu.Lock()
				if what == "kind" {
					kind = text
					s.running[kind] = append(s.running[kind], conn)
				} else {
					s.effects[text]++
				}
				s.mu.Unlock()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running[kind] = slices.DeleteFunc(s.running[kind], func(c net.Conn) bool { return c == conn })
		})
	}
}

func (s *servers) counted(id, what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[id+" "+what]
}

// kill kills a server at a time, until ctx is done. One that the bridge has not started is started again after a
// moment.
func (s *servers) kill(ctx context.Context, random *rand.Rand, kills *atomic.Int64) error {
	for pause(ctx, time.Duration(random.Int64N(int64(s.every)))) {
		kind := kinds[random.IntN(len(kinds))]
		s.mu.Lock()
		running, p := s.running[kind], s.web[kind]
		if len(running) > 0 {
			_, _ = io.WriteString(running[random.IntN(len(running))], "die\n")
			kills.Add(1)
		}
		s.mu.Unlock()
		if p == nil || len(running) == 0 {
			continue
		}
		<-p.Dead
		pause(ctx, time.Duration(random.Int64N(int64(500*time.Millisecond))))
		if err := s.start(kind); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the servers, and returns when all that they have reported is counted.
func (s *servers) Close() {
	for _, p := range s.proxies {
		p.CloseClientConnections()
		p.Close()
	}
	s.ledger.Close()
	s.mu.Lock()
	for _, conns := range s.running {
		for _, conn := range conns {
			_, _ = io.WriteString(conn, "die\n")
		}
	}
	s.mu.Unlock()
	for _, p := range s.web {
		p.Kill()
	}
	s.reading.Wait()
}

// gateway starts a proxy that passes every request on. It answers some calls that ask nothing with a status of its own
// when they have run, or breaks their connection.
func (s *servers) gateway(to string) string {
	target, _ := url.Parse(to)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		quiet := bytes.Contains(body, []byte(`"asks":false`)) && !bytes.Contains(body, []byte(twice))
		if !quiet || rand.IntN(3) > 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		status := []int{500, 502, 503, 504, 408, 0}[rand.IntN(6)]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if rand.IntN(2) == 0 {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"upstream failed"}}`)
		}
	}))
	s.proxies = append(s.proxies, web)
	return web.URL
}
