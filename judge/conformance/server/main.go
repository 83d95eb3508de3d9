// Command server is the MCP server that the official conformance suite drives; the README of the directory above
// tells how. Names, texts and schemas are the suite's. Everything that asks or answers is registered through Askback,
// so that Askback is judged; sdk.go has what stays on the SDK's server.
//
// It serves the same tools on two endpoints: /mcp with the zero Options, and /bare with BareFirstRound. The first
// line on standard output is the address in front of them. It ends with its standard input.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
)

func main() {
	ctx, mux := context.Background(), http.NewServeMux()
	tasks := &askback.Tasks{Store: new(task.MemoryStore), ListAnonymous: true}
	for path, opts := range map[string]*askback.Options{
		"/mcp":  {Tasks: tasks},
		"/bare": {Tasks: tasks, BareFirstRound: true},
	} {
		s, err := newServer(opts)
		if err != nil {
			log.Fatal(err)
		}
		go func() { _ = s.RunTasks(ctx) }() // nil, with tasks configured
		mux.Handle(path, s.HTTPHandler(&askback.HTTPOptions{
			// Clients of 2025-11-25 may resume a stream that was closed on them.
			Streamable: mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)},
		}))
	}
	if err := process.Serve(ctx, &http.Server{ReadHeaderTimeout: 10 * time.Second}, mux); err != nil {
		log.Fatal(err)
	}
}

func newServer(opts *askback.Options) (*askback.Server, error) {
	s, err := askback.New(newSDKServer(), opts)
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
