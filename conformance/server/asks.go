//lint:file-ignore SA1019 the suite wants sampling, roots and logging, deprecated as they are

package main

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// The forms that the suite asks for.
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

// addAskingTools adds the tools that ask. Those of the 2025-11-25 scenarios and those
// of the 2026-07-28 ones differ in nothing but what they ask.
func addAskingTools(s *askback.Server) {
	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_elicitation", Description: "Asks the user for a name"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			user, err := askback.Elicit[nameForm](ctx, call, "user_name", "What is your name?")
			if err != nil {
				return nil, nil, err
			}
			return text("Hello, %s!", user.Name), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_sampling", Description: "Asks the client's model a question"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := askback.Sample(ctx, call, "capital_question", prompt("What is the capital of France?", 100))
			if err != nil {
				return nil, nil, err
			}
			return text("%s", said(answer)), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_list_roots", Description: "Asks the client for its roots"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			roots, err := askback.Roots(ctx, call, "client_roots")
			if err != nil {
				return nil, nil, err
			}
			res := text("%d roots", len(roots))
			for _, root := range roots {
				res.Content = append(res.Content, &mcp.TextContent{Text: root.URI})
			}
			return res, nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_request_state", Description: "Keeps its own state, in the SDK's manual style"},
		func(_ context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			req := call.Request().(*mcp.CallToolRequest)
			return confirmManually(req.Params.RequestState, req.Params.InputResponses), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_multiple_inputs", Description: "Asks user, model and client at once"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			if err := begin(ctx, call); err != nil {
				return nil, nil, err
			}
			var (
				user     nameForm
				greeting *mcp.CreateMessageWithToolsResult
				roots    []*mcp.Root
			)
			err := call.Ask(ctx,
				askback.AskForm("user_name", "What is your name?", &user),
				askback.AskSample("greeting", prompt("Generate a greeting", 50), &greeting),
				askback.AskRoots("client_roots", &roots))
			if err != nil {
				return nil, nil, err
			}
			return text("%s, %s: %d roots", said(greeting), user.Name, len(roots)), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_multi_round", Description: "Asks twice, one question after the other"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			if err := begin(ctx, call); err != nil {
				return nil, nil, err
			}
			user, err := askback.Elicit[nameForm](ctx, call, "step1", "Step 1: What is your name?")
			if err != nil {
				return nil, nil, err
			}
			favorite, err := askback.Elicit[colorForm](ctx, call, "step2", "Step 2: What is your favorite color?")
			if err != nil {
				return nil, nil, err
			}
			return text("%s likes %s", user.Name, favorite.Color), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_input_required_result_capabilities", Description: "Asks only what the client can answer"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			var (
				user     nameForm
				greeting *mcp.CreateMessageWithToolsResult
				roots    []*mcp.Root
				asks     []askback.Ask
			)
			if call.Can(askback.KindForm) {
				asks = append(asks, askback.AskForm("user_name", "What is your name?", &user))
			}
			if call.Can(askback.KindSampling) {
				asks = append(asks, askback.AskSample("greeting", prompt("Generate a greeting", 50), &greeting))
			}
			if call.Can(askback.KindRoots) {
				asks = append(asks, askback.AskRoots("client_roots", &roots))
			}
			if err := call.Ask(ctx, asks...); err != nil {
				return nil, nil, err
			}
			return text("The client answered %d questions", len(asks)), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_missing_capability", Description: "Asks for sampling whether or not the client can"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := askback.Sample(ctx, call, "greeting", prompt("Generate a greeting", 50))
			if err != nil {
				return nil, nil, err
			}
			return text("%s", said(answer)), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_streaming_elicitation", Description: "Reports progress and then asks the user for a name"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			if err := call.Progress(ctx, float64(call.Round()), 0, "asking"); err != nil {
				return nil, nil, err
			}
			user, err := askback.Elicit[nameForm](ctx, call, "user_name", "What is your name?")
			if err != nil {
				return nil, nil, err
			}
			return text("Hello, %s!", user.Name), nil, nil
		})

	type samplingArgs struct {
		Prompt string `json:"prompt" jsonschema:"the prompt for the client's model"`
	}
	askback.AddTool(s, &mcp.Tool{Name: "test_sampling", Description: "Asks the client's model"},
		func(ctx context.Context, call *askback.Call, in samplingArgs) (*mcp.CallToolResult, any, error) {
			answer, err := askback.Sample(ctx, call, "answer", prompt(in.Prompt, 100))
			if err != nil {
				return nil, nil, err
			}
			return text("LLM response: %s", said(answer)), nil, nil
		})

	type elicitationArgs struct {
		Message string `json:"message" jsonschema:"the message for the user"`
	}
	askback.AddTool(s, &mcp.Tool{Name: "test_elicitation", Description: "Asks the user"},
		func(ctx context.Context, call *askback.Call, in elicitationArgs) (*mcp.CallToolResult, any, error) {
			contact, err := askback.Elicit[contactForm](ctx, call, "contact", in.Message)
			if err != nil {
				return nil, nil, err
			}
			return text("User response: %s, %s", contact.Username, contact.Email), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_elicitation_sep1034_defaults", Description: "Asks with a form that has defaults"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := askback.Elicit[defaultsForm](ctx, call, "defaults", "Please check these values")
			if err != nil {
				return nil, nil, err
			}
			return text("Elicitation completed: action=accept, content=%+v", answer), nil, nil
		})

	askback.AddTool(s, &mcp.Tool{Name: "test_elicitation_sep1330_enums", Description: "Asks with a form that has every kind of choice"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			var answer map[string]any
			err := call.Ask(ctx, askback.AskFormWith("choices", &mcp.ElicitParams{
				Message: "Please choose",
				// By hand, because struct tags do not make the legacy enumNames.
				RequestedSchema: json.RawMessage(`{"type": "object", "properties": {
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
			}, &answer))
			if err != nil {
				return nil, nil, err
			}
			return text("Elicitation completed: action=accept, content=%v", answer), nil, nil
		})
}

// begin records a step, which gives the first round a requestState on /bare too: the
// suite wants one from this tool.
func begin(ctx context.Context, call *askback.Call) error {
	_, err := askback.Do(ctx, call, "begin", func(context.Context) (bool, error) { return true, nil })
	return err
}

func prompt(message string, maxTokens int64) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: message}}}},
		MaxTokens: maxTokens,
	}
}

func said(answer *mcp.CreateMessageWithToolsResult) string {
	for _, content := range answer.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return "(no text)"
}
