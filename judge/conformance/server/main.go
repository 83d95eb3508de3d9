// Command server is the MCP server that the official conformance suite drives; the README of the directory above
// tells how. Names, texts and schemas are the suite's. Everything that asks or answers is registered through Askback,
// so that Askback is judged; sdk.go has what stays on the SDK's server.
//
// It serves the same tools on two endpoints: /mcp with the zero Options, and /bare with BareFirstRound. The first
// line on standard output is the address in front of them, which -http with port 0 leaves to the system.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task/sqlite"
)

func main() {
	addr := flag.String("http", "127.0.0.1:0", "serve HTTP on this `address`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		slog.Error("conformance server", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string) error {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	var working sync.WaitGroup
	defer working.Wait()

	mux := http.NewServeMux()
	tasks := &askback.Tasks{Store: store, ListAnonymous: true}
	for path, opts := range map[string]*askback.Options{
		"/mcp":  {Tasks: tasks},
		"/bare": {Tasks: tasks, BareFirstRound: true},
	} {
		s, err := newServer(opts)
		if err != nil {
			return err
		}
		working.Go(func() { _ = s.RunTasks(ctx) }) // nil, with tasks configured
		mux.Handle(path, s.HTTPHandler(&askback.HTTPOptions{
			// Clients of 2025-11-25 may resume a stream that was closed on them.
			Streamable: mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)},
		}))
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func newServer(opts *askback.Options) (*askback.Server, error) {
	m := newSDKServer()
	s, err := askback.New(m, opts)
	if err != nil {
		return nil, err
	}
	addTools(s)
	addAskingTools(s)
	addTaskTools(s)
	addPrompts(s)
	addResources(s)
	return s, nil
}
