package askback_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// A handler that was written for mcp.AddTool serves both clients that are asked inside their
// session and clients that come back in rounds.
func ExampleAddInlineTool() {
	type City struct {
		Name string `json:"name"`
	}
	schema, err := jsonschema.For[City](nil)
	if err != nil {
		log.Fatal(err)
	}
	weather := func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which city?", RequestedSchema: schema})
		if err != nil {
			return nil, nil, err
		}
		if res.Action != "accept" {
			return nil, nil, fmt.Errorf("no city: %s", res.Action)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: fmt.Sprintf("Rain in %s.", res.Content["name"])},
		}}, nil, nil
	}

	m := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddInlineTool(srv, &mcp.Tool{Name: "weather", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, weather)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				fmt.Println(version, "asked:", req.Params.Message)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Oslo"}}, nil
			},
		})
		session, err := client.Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: web.URL},
			&mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			log.Fatal(err)
		}
		res, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "weather", Arguments: struct{}{}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Content[0].(*mcp.TextContent).Text)
		session.Close()
	}
	// Output:
	// 2025-11-25 asked: Which city?
	// Rain in Oslo.
	// 2026-07-28 asked: Which city?
	// Rain in Oslo.
}
