//lint:file-ignore SA1019 the suite wants sampling, roots and logging, deprecated as they are

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/interop/program"
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

// choices is a form with every kind of choice. It is written by hand, because struct tags do not make enumNames.
const choices = `{"type": "object", "properties": {
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
}}`

// addAskingTools adds the tools that ask. The tools of the 2025-11-25 scenarios and of the 2026-07-28 scenarios differ
// only in what they ask.
func addAskingTools(s *askback.Server) {
	for name, ask := range map[string]func(*askback.Call) (string, error){
		"test_input_required_result_elicitation": askName,
		"test_input_required_result_list_roots":  askRoots,
		"test_missing_capability":                askGreeting, // whether or not the client can answer
		"test_input_required_result_sampling": func(call *askback.Call) (string, error) {
			return program.Sample(call, "capital_question", "What is the capital of France?")
		},
		"test_elicitation_sep1034_defaults": func(call *askback.Call) (string, error) {
			answer, err := askback.Elicit[defaultsForm](call, "defaults", "Please check these values")
			return fmt.Sprintf("Elicitation completed: action=accept, content=%+v", answer), err
		},
		"test_elicitation_sep1330_enums": func(call *askback.Call) (string, error) {
			answer, err := askback.ElicitWith[map[string]any](call, "choices",
				askback.Question{Message: "Please choose", Schema: json.RawMessage(choices)})
			return fmt.Sprintf("Elicitation completed: action=accept, content=%v", answer), err
		},
	} {
		add(s, name, "Asks once", func(_ context.Context, call *askback.Call) (string, error) { return ask(call) })
	}
	add(s, "test_input_required_result_request_state", "Keeps its own state, in the SDK's manual style",
		func(_ context.Context, call *askback.Call) (*mcp.CallToolResult, error) {
			req := call.Request().(*mcp.CallToolRequest)
			return confirmManually(req.Params.RequestState, req.Params.InputResponses), nil
		})
	add(s, "test_input_required_result_multiple_inputs", "Asks user, model and client at once",
		func(ctx context.Context, call *askback.Call) (string, error) {
			if err := begin(ctx, call); err != nil {
				return "", err
			}
			name, err1 := askName(call)
			greeting, err2 := askGreeting(call)
			roots, err3 := askRoots(call)
			return fmt.Sprintf("%s %s %s", name, greeting, roots), errors.Join(err1, err2, err3)
		})
	add(s, "test_input_required_result_multi_round", "Asks twice, one question after the other",
		func(ctx context.Context, call *askback.Call) (string, error) {
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
	add(s, "test_input_required_result_capabilities", "Asks only what the client can answer",
		func(_ context.Context, call *askback.Call) (string, error) {
			var asked []error
			needs := []askback.Capability{askback.CapabilityForm, askback.CapabilitySampling, askback.CapabilityRoots}
			for i, ask := range []func(*askback.Call) (string, error){askName, askGreeting, askRoots} {
				if call.Can(needs[i]) {
					_, err := ask(call)
					asked = append(asked, err)
				}
			}
			return fmt.Sprintf("The client answered %d questions", len(asked)), errors.Join(asked...)
		})
	add(s, "test_streaming_elicitation", "Reports progress and then asks the user for a name",
		func(ctx context.Context, call *askback.Call) (string, error) {
			if err := call.Progress(ctx, float64(call.Round()), 0, "asking"); err != nil {
				return "", err
			}
			return askName(call)
		})
	type samplingArgs struct {
		Prompt string `json:"prompt" jsonschema:"the prompt for the client's model"`
	}
	askback.AddTool(s, tool("test_sampling", "Asks the client's model"),
		func(_ context.Context, call *askback.Call, in samplingArgs) (string, error) {
			answer, err := program.Sample(call, "answer", in.Prompt)
			return "LLM response: " + answer, err
		})
	type elicitationArgs struct {
		Message string `json:"message" jsonschema:"the message for the user"`
	}
	askback.AddTool(s, tool("test_elicitation", "Asks the user"),
		func(_ context.Context, call *askback.Call, in elicitationArgs) (string, error) {
			contact, err := askback.Elicit[contactForm](call, "contact", in.Message)
			return fmt.Sprintf("User response: %s, %s", contact.Username, contact.Email), err
		})
}

// begin records a step, which gives the first round a requestState on /bare too: the suite wants one from this tool.
func begin(ctx context.Context, call *askback.Call) error {
	return call.Do(ctx, "begin", func(context.Context) error { return nil })
}

func askName(call *askback.Call) (string, error) {
	user, err := askback.Elicit[nameForm](call, "user_name", "What is your name?")
	return fmt.Sprintf("Hello, %s!", user.Name), err
}

func askGreeting(call *askback.Call) (string, error) {
	return program.Sample(call, "greeting", "Generate a greeting")
}

func askRoots(call *askback.Call) (string, error) {
	roots, err := askback.Roots(call, "client_roots")
	text := fmt.Sprintf("%d roots:", len(roots))
	for _, root := range roots {
		text += " " + root.URI
	}
	return text, err
}
