package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// plays are the scenarios by the suite's names. The scenarios of authorization are in auth.go.
var plays = map[string]func(context.Context, *scenario) error{
	"initialize": connected(listTools),
	"tools_call": connected(
		callListed("add_numbers", map[string]any{"a": 5, "b": 3}, "The sum of 5 and 3 is 8")),
	"request-metadata":                 connected(listTools),
	"json-schema-ref-no-deref":         connected(listTools),
	"json-schema-2020-12-preservation": connected(echoSchema),
	// The client leaves every field of the form to its default. The server asks inside a session of 2025-11-25.
	"elicitation-sep1034-client-defaults": connected(callListed("test_client_elicitation_defaults", nil,
		`Elicitation completed: {"age":30,"name":"John Doe","score":95.5,"status":"active","verified":true}`,
		`Elicitation completed: {"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}`)),
	"sse-retry": connected(func(ctx context.Context, session *client.Session) error { // the stream ends before the result
		return call(ctx, session, "test_reconnection", nil, "Reconnection test completed successfully")
	}),
	"sep-2322-client-request-state": goThroughRounds,
	"http-standard-headers":         connected(useEverything),
	"http-custom-headers":           makeListedCalls,
	"http-invalid-tool-headers":     connected(callListed("", map[string]any{"region": "us-west1"}, "Tool call received")),
}

// connected plays a scenario in a session whose client accepts every form.
func connected(play func(context.Context, *client.Session) error) func(context.Context, *scenario) error {
	return func(ctx context.Context, s *scenario) error {
		session, err := s.connect(ctx, accept, nil)
		if err != nil {
			return err
		}
		defer session.Close()
		return play(ctx, session)
	}
}

func listTools(ctx context.Context, session *client.Session) error {
	_, err := session.SDK().ListTools(ctx, nil)
	return err
}

// echoSchema sends a tool's schema back as it was listed.
func echoSchema(ctx context.Context, session *client.Session) error {
	for tool, err := range session.SDK().Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if tool.Name == "json_schema_2020_12_tool" {
			return call(ctx, session, "json_schema_echo", map[string]any{"schema": tool.InputSchema}, "echoed")
		}
	}
	return errors.New("no tool has the schema to send back")
}

// goThroughRounds goes through calls that ask, and calls another tool in between: in the
// middle of a round, where answers and state are at hand that belong to the first call.
func goThroughRounds(ctx context.Context, s *scenario) error {
	var session *client.Session
	asked := 0
	session, err := s.connect(ctx, func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		asked++
		if err := call(ctx, session, "test_mrtr_unrelated", nil, "unrelated-ok"); err != nil {
			return nil, err
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}}, nil
	}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, c := range []struct{ tool, want string }{
		{"test_mrtr_echo_state", "echo-state-ok"},
		{"test_mrtr_unrelated", "unrelated-ok"},
		{"test_mrtr_no_state", "no-state-ok"},
		{"test_mrtr_no_result_type", "no-result-type-test-ok"},
	} {
		if err := call(ctx, session, c.tool, nil, c.want); err != nil {
			return err
		}
	}
	if asked != 2 {
		return fmt.Errorf("%d questions were asked, want 2", asked)
	}
	return nil
}

// useEverything makes a request of every kind that the suite wants headers on.
func useEverything(ctx context.Context, session *client.Session) error {
	if err := callListed("", nil, "Headers test completed")(ctx, session); err != nil {
		return err
	}
	for resource, err := range session.SDK().Resources(ctx, nil) {
		if err == nil {
			_, err = session.ReadResource(ctx, &mcp.ReadResourceParams{URI: resource.URI})
		}
		if err != nil {
			return err
		}
	}
	for prompt, err := range session.SDK().Prompts(ctx, nil) {
		if err == nil {
			_, err = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: prompt.Name})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeListedCalls makes the calls that the suite wants, and whose arguments go into headers.
func makeListedCalls(ctx context.Context, s *scenario) error {
	var settings struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if err := s.decodeContext(&settings); err != nil {
		return err
	}
	return connected(func(ctx context.Context, session *client.Session) error {
		err := listTools(ctx, session) // the headers are named in schemas
		for _, c := range settings.ToolCalls {
			if err == nil {
				err = call(ctx, session, c.Name, c.Arguments, "Custom headers test completed")
			}
		}
		return err
	})(ctx, s)
}

// callListed calls a tool that the server must list, or all that it lists if name is empty. Tools whose headers are not
// valid must not be listed.
func callListed(name string, arguments any, want ...string) func(context.Context, *client.Session) error {
	return func(ctx context.Context, session *client.Session) error {
		called := false
		for tool, err := range session.SDK().Tools(ctx, nil) {
			if err == nil && (name == "" || name == tool.Name) {
				called, err = true, call(ctx, session, tool.Name, arguments, want...)
			}
			if err != nil {
				return err
			}
		}
		if !called {
			return fmt.Errorf("the tool %q is not listed", name)
		}
		return nil
	}
}

// call calls a tool, and checks that the result is one of the wanted texts.
func call(ctx context.Context, session *client.Session, name string, arguments any, want ...string) error {
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return fmt.Errorf("calling %s: %w", name, err)
	}
	var got string
	if len(res.Content) == 1 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			got = text.Text
		}
	}
	if res.IsError || !slices.Contains(want, got) {
		data, err := json.Marshal(res)
		return errors.Join(fmt.Errorf("calling %s: the result is %s, want %q", name, data, want), err)
	}
	return nil
}
