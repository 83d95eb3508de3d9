package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/seal"
)

// plainProxies says how the instances of each fleet behind a plain proxy stop, by name. The proxy has no health checks
// and never tries a second instance, so calls fail in any case, and the two fleets are compared.
var plainProxies = map[string]string{"plain": "drain", "plain, Shutdown": "shutdown"}

// startPlain starts the proxy, which takes the instances in turn.
func (f *fleet) startPlain(addresses []string) error {
	listener, err := net.Listen("tcp", addresses[0])
	if err != nil {
		return err
	}
	var turn atomic.Uint64
	instances := addresses[1:]
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			n := turn.Add(1) % uint64(len(instances))
			r.SetURL(&url.URL{Scheme: "http", Host: instances[n]})
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 16},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	f.plain = &http.Server{Handler: proxy, ReadHeaderTimeout: process.Patience}
	go f.plain.Serve(listener)
	return f.waitForProxy()
}

// serve runs an instance behind a plain proxy, with the tools that the clients call. It prints its address when it
// listens, and ends at the end of its standard input.
func serve(addr, keys, stop string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the fleet has gone
	}()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	ring, err := seal.File(keys).Load(ctx)
	if err != nil {
		return err
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "fleet", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: ring, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	addTools(srv)
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(nil))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	var listener net.Listener
	if stop == "drain" {
		listener, err = drain.Listen(addr)
	} else {
		listener, err = net.Listen("tcp", addr)
	}
	if err != nil {
		return err
	}
	fmt.Println(addr)
	if stop == "drain" {
		return drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready})
	}
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	<-ctx.Done()
	bounded, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = server.Shutdown(bounded)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// addTools adds a quick tool, and one that works for two seconds, as askback serve has them.
func addTools(srv *askback.Server) {
	type login struct {
		Name string `json:"name"`
	}
	askback.AddTool(srv, &mcp.Tool{Name: "get_weather"},
		func(_ context.Context, call *askback.Call, in struct {
			Location string `json:"location"`
		}) (string, error) {
			_, err := askback.Elicit[login](call, "github_login", "What is your GitHub login?")
			return "The weather in " + in.Location, err
		})
	type network struct {
		Network  string `json:"network"`
		Hostname string `json:"hostname"`
	}
	askback.AddTool(srv, &mcp.Tool{Name: "provision_vm"},
		func(ctx context.Context, call *askback.Call, _ struct {
			Name    string `json:"name"`
			DiskMiB int    `json:"diskMiB"`
		}) (string, error) {
			answer, err := askback.Elicit[network](call, "network", "Which network?")
			if err != nil {
				return "", err
			}
			select {
			case <-time.After(2 * time.Second):
				return answer.Hostname, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
}
