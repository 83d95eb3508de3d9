package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// Clients that give up at the third round without a question finish calls of handlers that reach many checkpoints.
func TestPeersFinishCallsWithManyCheckpoints(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, asks bool) {
		checkpoints := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			for i := range 4 {
				if asks {
					if _, err := askback.Elicit[person](call, fmt.Sprint("person-", i), "Who?"); err != nil {
						return "", err
					}
				}
				if err := call.Checkpoint(ctx, fmt.Sprint("part-", i)); err != nil {
					return "", err
				}
			}
			return "done", nil
		}
		askback.AddTool(srv, &mcp.Tool{Name: name}, checkpoints)
	}
	add("in a row", false)
	add("between questions", true)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	for client, call := range map[string]func(tool string) (string, error){
		"Go SDK": func(tool string) (string, error) {
			c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
				},
			})
			session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
			if err != nil {
				return "", err
			}
			defer session.Close()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
			if err != nil {
				return "", err
			}
			return res.Content[0].(*mcp.TextContent).Text, nil
		},
		"mcp-go": func(tool string) (string, error) {
			over, err := transport.NewStreamableHTTP(web.URL)
			if err != nil {
				return "", err
			}
			c := mcpgo.NewClient(over, mcpgo.WithElicitationHandler(octocat{}))
			if err := c.Start(t.Context()); err != nil {
				return "", err
			}
			defer c.Close()
			if _, err := c.Initialize(t.Context(), mcpgotypes.InitializeRequest{}); err != nil {
				return "", err
			}
			var request mcpgotypes.CallToolRequest
			request.Params.Name = tool
			res, err := c.CallTool(t.Context(), request)
			if err != nil {
				return "", err
			}
			return mcpgotypes.GetTextFromContent(res.Content[0]), nil
		},
	} {
		for _, tool := range []string{"in a row", "between questions"} {
			t.Run(client+" "+tool, func(t *testing.T) {
				if got, err := call(tool); err != nil || !strings.Contains(got, "done") {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
	}
}

type octocat struct{}

func (octocat) Elicit(context.Context, mcpgotypes.ElicitationRequest) (*mcpgotypes.ElicitationResult, error) {
	return &mcpgotypes.ElicitationResult{ElicitationResponse: mcpgotypes.ElicitationResponse{
		Action: mcpgotypes.ElicitationResponseActionAccept, Content: map[string]any{"name": "octocat"},
	}}, nil
}
