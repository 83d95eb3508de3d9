package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

// exampleServer serves the tools of this package's tests.
func exampleServer() *httptest.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	register(srv)
	return httptest.NewServer(srv.HTTPHandler(nil))
}

// A host answers forms itself.
func Example() {
	server := exampleServer()
	defer server.Close()
	c := client.New(&client.Options{
		Form: func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			fmt.Printf("%s asks: %s\n", q.Server.Name, q.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"zip": "0150", "name": "octocat"}}, nil
		},
	})
	ctx := context.Background()
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "ask"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// example asks: Who are you?
	// Hello octocat
}

// A call waits for its answer on disk, and continues in another process.
func ExamplePending() {
	server := exampleServer()
	defer server.Close()
	ctx := context.Background()
	connect := func(form func(context.Context, *client.Question) (*mcp.ElicitResult, error)) *client.Session {
		session, err := client.New(&client.Options{Form: form}).Connect(ctx,
			&mcp.StreamableClientTransport{Endpoint: server.URL}, nil)
		if err != nil {
			log.Fatal(err)
		}
		return session
	}

	first := connect(func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return nil, client.ErrPark // there is no answer yet
	})
	_, err := first.CallTool(ctx, &mcp.CallToolParams{Name: "ask"})
	first.Close()
	parked, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		log.Fatal(err)
	}
	fmt.Println(parked)
	stored, err := json.Marshal(parked.Pending)
	if err != nil {
		log.Fatal(err)
	}

	var loaded client.Pending
	if err := json.Unmarshal(stored, &loaded); err != nil {
		log.Fatal(err)
	}
	second := connect(func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"zip": "0150", "name": "octocat"}}, nil
	})
	defer second.Close()
	res, err := second.Resume(ctx, &loaded)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text)
	// Output:
	// the call waits for answers to "who"
	// Hello octocat
}
