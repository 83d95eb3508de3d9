package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/seal"
)

// kindVariable names the kind of the server that this process is to be.
const kindVariable = "KILLS_KIND"

// reporter is the connection of a server to the ledger. What is written to it arrives also if the server is killed.
type reporter struct{ net.Conn }

// serve runs a server of a kind until it is killed.
func serve(ctx context.Context, kind string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", os.Getenv("KILLS_LEDGER"))
	if err != nil {
		return err
	}
	ledger := &reporter{conn}
	fmt.Fprintf(conn, "kind %s\n", kind)
	go func() {
		_, _ = bufio.NewReader(conn).ReadString('\n') // or the judge has ended
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
	if strings.HasPrefix(kind, "m") {
		return ledger.serveModern(ctx, kind)
	}
	return ledger.serveOlder(ctx, kind)
}

// effect does what cannot be undone, which takes some time around it.
func (r *reporter) effect(ctx context.Context, id, what string) error {
	pause(ctx, time.Duration(rand.Int64N(int64(300*time.Millisecond))))
	_, err := fmt.Fprintf(r, "effect %s %s\n", id, what)
	pause(ctx, time.Duration(rand.Int64N(int64(300*time.Millisecond))))
	return err
}

func (r *reporter) serveModern(ctx context.Context, kind string) error {
	data, err := os.ReadFile(os.Getenv("KILLS_KEYS"))
	if err != nil {
		return err
	}
	keys, err := seal.ParseRing(string(data))
	if err != nil {
		return err
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: kind, Version: "1"}, nil),
		&askback.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for _, tool := range tools() {
		askback.AddTool(srv, tool, counting(tool.Name, r.effect))
	}
	if isProgram(kind) {
		return srv.Run(ctx, &mcp.StdioTransport{})
	}
	return listenAt(ctx, srv.HTTPHandler(nil))
}

func (r *reporter) serveOlder(ctx context.Context, kind string) error {
	m := mcp.NewServer(&mcp.Implementation{Name: kind, Version: "1"},
		&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	for _, tool := range tools() {
		mcp.AddTool(m, tool, func(
			ctx context.Context, req *mcp.CallToolRequest, in arguments,
		) (*mcp.CallToolResult, any, error) {
			text, err := r.runOlder(ctx, req, tool.Name, in)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	if isProgram(kind) {
		return m.Run(ctx, &mcp.StdioTransport{})
	}
	opts := new(mcp.StreamableHTTPOptions)
	if kind == resumable {
		opts.EventStore = mcp.NewMemoryEventStore(nil)
	}
	return listenAt(ctx, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, opts))
}

// runOlder is the handler of a tool that asks inside its call.
func (r *reporter) runOlder(ctx context.Context, req *mcp.CallToolRequest, name string, in arguments) (string, error) {
	ask := func(question string) error {
		_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.ID + question,
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		return err
	}
	if in.Asks || name == twice {
		if err := ask(": go on?"); err != nil {
			return "", err
		}
	}
	if name == twice {
		if err := r.effect(ctx, in.ID, "middle"); err != nil {
			return "", err
		}
		if err := ask(": and on?"); err != nil {
			return "", err
		}
	}
	return "done " + in.ID, r.effect(ctx, in.ID, "end")
}

// listenAt serves at the address that this process is given, and says so.
func listenAt(ctx context.Context, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", os.Getenv("KILLS_ADDRESS"))
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the judge
		listener.Close()
	}()
	return (&http.Server{Handler: handler, ReadHeaderTimeout: process.Patience}).Serve(listener)
}
