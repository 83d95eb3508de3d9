package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

// The tool is called, asks, is answered, and acts.
func Example() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	defer log.SetOutput(os.Stderr)
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	register(srv)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	ctx := context.Background()
	c := client.New(&client.Options{Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		fmt.Println(q.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"resolution": "Fixed"}}, nil
	}})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// How was this bug resolved?
	// bug 7 is closed as Fixed
	// Bug #7 closed as Fixed.
}
