//lint:file-ignore SA1019 the suite wants sampling, roots and logging, deprecated as they are

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// The forms that the suite wants the user to fill in.
type (
	nameForm struct {
		Name string `json:"name"`
	}
	colorForm struct {
		Color string `json:"color"`
	}
	contextForm struct {
		Context string `json:"context"`
	}
	contactForm struct {
		Username string `json:"username" jsonschema:"User's response"`
		Email    string `json:"email" jsonschema:"User's email address"`
	}
	defaultsForm struct {
		Name     string  `json:"name,omitempty" default:"John Doe"`
		Age      int     `json:"age,omitempty" default:"30"`
		Score    float64 `json:"score,omitempty" default:"95.5"`
		Status   string  `json:"status,omitempty" enum:"active|inactive|pending" default:"active"`
		Verified bool    `json:"verified,omitempty" default:"true"`
	}
)

// addAskingTools adds the tools that ask. The tools of the 2025-11-25 scenarios and of the 2026-07-28 scenarios differ
// only in what they ask.
func addAskingTools(s *askback.Server) {
	askback.AddTool(s, tool("test_input_required_result_elicitation", "Asks the user for a name"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			user, err := askback.Elicit[nameForm](call, "user_name", "What is your name?")
			return fmt.Sprintf("Hello, %s!", user.Name), err
		})
	askback.AddTool(s, tool("test_input_required_result_sampling", "Asks the client's model a question"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.Sample(call, "capital_question", prompt("What is the capital of France?", 100))
			return said(answer), err
		})
	askback.AddTool(s, tool("test_input_required_result_list_roots", "Asks the client for its roots"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			roots, err := askback.Roots(call, "client_roots")
			if err != nil {
				return nil, err
			}
			res := text("%d roots", len(roots))
			for _, root := range roots {
				res.Content = append(res.Content, &mcp.TextContent{Text: root.URI})
			}
			return res, nil
		})
	askback.AddTool(s, tool("test_input_required_result_request_state", "Keeps its own state, in the SDK's manual style"),
		func(_ context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			req := call.Request().(*mcp.CallToolRequest)
			return confirmManually(req.Params.RequestState, req.Params.InputResponses), nil
		})
	askback.AddTool(s, tool("test_input_required_result_multiple_inputs", "Asks user, model and client at once"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := begin(ctx, call); err != nil {
				return "", err
			}
			user, err1 := askback.Elicit[nameForm](call, "user_name", "What is your name?")
			greeting, err2 := askback.Sample(call, "greeting", prompt("Generate a greeting", 50))
			roots, err3 := askback.Roots(call, "client_roots")
			return fmt.Sprintf("%s, %s: %d roots", said(greeting), user.Name, len(roots)), errors.Join(err1, err2, err3)
		})
	askback.AddTool(s, tool("test_input_required_result_multi_round", "Asks twice, one question after the other"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := begin(ctx, call); err != nil {
				return "", err
			}
			user, err := askback.Elicit[nameForm](call, "step1", "Step 1: What is your name?")
			if err != nil {
				return "", err
			}
			favorite, err := askback.Elicit[colorForm](call, "step2", "Step 2: What is your favorite color?")
			return fmt.Sprintf("%s likes %s", user.Name, favorite.Color), err
		})
	askback.AddTool(s, tool("test_input_required_result_capabilities", "Asks only what the client can answer"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			var asked []error
			if call.Can(askback.CapabilityForm) {
				_, err := askback.Elicit[nameForm](call, "user_name", "What is your name?")
				asked = append(asked, err)
			}
			if call.Can(askback.CapabilitySampling) {
				_, err := askback.Sample(call, "greeting", prompt("Generate a greeting", 50))
				asked = append(asked, err)
			}
			if call.Can(askback.CapabilityRoots) {
				_, err := askback.Roots(call, "client_roots")
				asked = append(asked, err)
			}
			return fmt.Sprintf("The client answered %d questions", len(asked)), errors.Join(asked...)
		})
	askback.AddTool(s, tool("test_missing_capability", "Asks for sampling whether or not the client can"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.Sample(call, "greeting", prompt("Generate a greeting", 50))
			return said(answer), err
		})
	askback.AddTool(s, tool("test_streaming_elicitation", "Reports progress and then asks the user for a name"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := call.Progress(ctx, float64(call.Round()), 0, "asking"); err != nil {
				return "", err
			}
			user, err := askback.Elicit[nameForm](call, "user_name", "What is your name?")
			return fmt.Sprintf("Hello, %s!", user.Name), err
		})
	type samplingArgs struct {
		Prompt string `json:"prompt" jsonschema:"the prompt for the client's model"`
	}
	askback.AddTool(s, tool("test_sampling", "Asks the client's model"),
		func(ctx context.Context, call *askback.Call, in samplingArgs) (string, error) {
			answer, err := askback.Sample(call, "answer", prompt(in.Prompt, 100))
			return fmt.Sprintf("LLM response: %s", said(answer)), err
		})
	type elicitationArgs struct {
		Message string `json:"message" jsonschema:"the message for the user"`
	}
	askback.AddTool(s, tool("test_elicitation", "Asks the user"),
		func(ctx context.Context, call *askback.Call, in elicitationArgs) (string, error) {
			contact, err := askback.Elicit[contactForm](call, "contact", in.Message)
			return fmt.Sprintf("User response: %s, %s", contact.Username, contact.Email), err
		})
	askback.AddTool(s, tool("test_elicitation_sep1034_defaults", "Asks with a form that has defaults"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.Elicit[defaultsForm](call, "defaults", "Please check these values")
			return fmt.Sprintf("Elicitation completed: action=accept, content=%+v", answer), err
		})
	askback.AddTool(s, tool("test_elicitation_sep1330_enums", "Asks with a form that has every kind of choice"),
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.ElicitWith[map[string]any](call, "choices", askback.Question{
				Message: "Please choose",
				// By hand, because struct tags do not make the legacy enumNames.
				Schema: json.RawMessage(`{"type": "object", "properties": {
					"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
					"titledSingle": {"type": "string", "oneOf": [
						{"const": "value1", "title": "First Option"},
						{"const": "value2", "title": "Second Option"},
						{"const": "value3", "title": "Third Option"}]},
					"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
						"enumNames": ["Option One", "Option Two", "Option Three"]},
					"untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
					"titledMulti": {"type": "array", "items": {"anyOf": [
						{"const": "value1", "title": "First Choice"},
						{"const": "value2", "title": "Second Choice"},
						{"const": "value3", "title": "Third Choice"}]}}
				}}`),
			})
			return fmt.Sprintf("Elicitation completed: action=accept, content=%v", answer), err
		})
}

// begin records a step, which gives the first round a requestState on /bare too: the suite wants one from this tool.
func begin(ctx context.Context, call *askback.Call) error {
	return call.Do(ctx, "begin", func(context.Context) error { return nil })
}

func prompt(message string, maxTokens int64) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: message}}}},
		MaxTokens: maxTokens,
	}
}

func said(answer *mcp.CreateMessageWithToolsResult) string {
	if answer != nil {
		for _, content := range answer.Content {
			if t, ok := content.(*mcp.TextContent); ok {
				return t.Text
			}
		}
	}
	return "(no text)"
}
