package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// registerManual adds the tool of main.go in the Go SDK's manual style, as the SDK's own example is written.
func registerManual(m *mcp.Server) {
	mcp.AddTool(m, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, req *mcp.CallToolRequest, in Bug) (*mcp.CallToolResult, any, error) {
			answer, ok := req.Params.InputResponses["resolution"].(*mcp.ElicitResult)
			if !ok { // the first round: ask
				return &mcp.CallToolResult{
					InputRequests: mcp.InputRequestMap{"resolution": &mcp.ElicitParams{
						Message:         "How was this bug resolved?",
						RequestedSchema: resolutionSchema,
					}},
					RequestState: "step=1", // what the server wants back in the next round
				}, nil, nil
			}
			resolution, _ := answer.Content["resolution"].(string)
			if answer.Action != "accept" {
				return nil, nil, errors.New("the user did not resolve the bug")
			}
			err := tracker.Close(ctx, in.ID, resolution)
			return text("Bug #%d closed as %s.", in.ID, resolution), nil, err
		})
}

var resolutionSchema = &jsonschema.Schema{
	Type: "object",
	Properties: map[string]*jsonschema.Schema{
		"resolution": {Type: "string", Enum: []any{"Fixed", "Won't Fix", "Duplicate"}},
	},
	Required: []string{"resolution"},
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}
