//lint:file-ignore SA1019 the suite wants sampling, roots and logging, deprecated as they are

package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newSDKServer returns the SDK's server with what stays there: completion,
// subscriptions, logging, and a tool in the manual style that knows nothing of Askback.
func newSDKServer() *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "askback-conformance", Version: "1.0.0"}, &mcp.ServerOptions{
		CompletionHandler:  complete,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for name, messages := range map[string][]string{
		"test_tool_with_logging": {"Tool execution started", "Tool processing data", "Tool execution completed"},
		"test_logging_tool":      {"test_logging_tool runs"},
	} {
		mcp.AddTool(m, &mcp.Tool{Name: name, Description: "Logs, for clients that want to see it"},
			func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				for _, message := range messages {
					err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: message})
					if err = errors.Join(err, pause(ctx)); err != nil {
						return nil, nil, err
					}
				}
				return text("Messages logged: %d", len(messages)), nil, nil
			})
	}
	mcp.AddTool(m, tool("test_input_required_result_tampered_state", "Keeps its own state, on the SDK's server"),
		func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return confirmManually(req.Params.RequestState, req.Params.InputResponses), nil, nil
		})
	return m
}

// confirmManually is one round of a handler in the SDK's manual style.
func confirmManually(state string, responses mcp.InputResponseMap) *mcp.CallToolResult {
	const waiting = "waiting for the confirmation"
	if answer, ok := responses["confirm"].(*mcp.ElicitResult); ok && state == waiting {
		return text("state-ok: %s", answer.Action)
	}
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
			Message: "Please confirm",
			RequestedSchema: json.RawMessage(
				`{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}`),
		}},
		RequestState: waiting,
	}
}

func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	for _, word := range []string{"paris", "park", "party", "testValue1"} {
		if strings.HasPrefix(word, req.Params.Argument.Value) {
			values = append(values, word)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}
