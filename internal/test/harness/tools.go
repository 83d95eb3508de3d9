package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// Login is the form that [AddGreet] and [AddRounds] ask to fill in.
type Login struct {
	Name string `json:"name"`
}

// Greeting are the arguments of [AddGreet]'s tool.
type Greeting struct {
	Place string `json:"place"`
}

// AddGreet adds a tool that asks one question.
var AddGreet = AddTool("greet", func(_ context.Context, call *askback.Call, in Greeting) (string, error) {
	l, err := askback.Elicit[Login](call, "login", "Who are you?")
	return "Hello " + l.Name + " in " + in.Place, err
})

// Octocat answers the question of [AddGreet].
const Octocat = `{"login":{"action":"accept","content":{"name":"octocat"}}}`

// Sampling are the parameters of a question to the client's model.
func Sampling(prompt string) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: prompt}}}},
	}
}

// Counted counts how often the step of [AddRounds] ran.
var Counted atomic.Int64

// AddRounds adds a tool that asks in three rounds, runs a step between them, and reports progress.
var AddRounds = AddTool("rounds", func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
	who, err1 := askback.Elicit[Login](call, "login", "Who are you?")
	roots, err2 := askback.Roots(call, "roots")
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	n, err := askback.Do(ctx, call, "count", func(context.Context) (int64, error) { return Counted.Add(1), nil })
	if err != nil {
		return "", err
	}
	if err := call.Progress(ctx, 1, 2, "halfway"); err != nil {
		return "", err
	}
	model, err := askback.Sample(call, "model", Sampling("Hi "+who.Name))
	if err != nil {
		return "", err
	}
	second, err := askback.Elicit[Login](call, "second", "And who else?")
	return fmt.Sprint(who.Name, " ", roots[0].URI, " ", model.Content[0].(*mcp.TextContent).Text, " ", second.Name, " ",
		n), err
})

type echoInput struct {
	Input string `json:"input"`
}

// AddEcho adds the echo tool of the proposals, which is a task for a client that takes one.
var AddEcho = AddTask("echo", &askback.TaskSupport{PollInterval: 100 * time.Millisecond},
	func(ctx context.Context, call *askback.Call, in struct {
		Input string `json:"input,omitempty"`
	}) (string, error) {
		if in.Input == "" {
			answer, err := askback.Elicit[echoInput](call, "echo_input", "Please provide the input string to echo back")
			if err != nil {
				return "", err
			}
			in.Input = answer.Input
		}
		return "Echo: " + in.Input, nil
	})

// AddRequired adds a tool that is served as a task only.
var AddRequired = AddText("required", &askback.TaskSupport{Required: true},
	func(context.Context, *askback.Call) (string, error) { return "", nil })

// Color is the form that tests of tasks ask to fill in.
type Color struct {
	Color string `json:"color"`
}

// AddText adds a task tool whose handler returns a text.
func AddText(
	name string, support *askback.TaskSupport, run func(ctx context.Context, call *askback.Call) (string, error),
) func(*askback.Server) {
	return AddTask(name, support, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		return run(ctx, call)
	})
}

// Answering is a client of the Go SDK whose user and model answer everything; progress counts
// the notifications of progress.
func Answering(progress *atomic.Int64) *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			name := "first"
			if strings.Contains(req.Params.Message, "else") {
				name = "other"
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
		},
		CreateMessageWithToolsHandler: func(_ context.Context,
			req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m",
				Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	client.AddRoots(&mcp.Root{URI: "file:///src"})
	return client
}

// CountedTool returns a handler that counts its runs.
func CountedTool(ran *atomic.Int32) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ran.Add(1)
		return Text("ran"), nil
	}
}

// CountedPrompt returns a handler that counts its runs.
func CountedPrompt(ran *atomic.Int32) askback.PromptHandler {
	return func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
		ran.Add(1)
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
	}
}

// CountedResource returns a handler that counts its runs.
func CountedResource(ran *atomic.Int32) askback.ResourceHandler {
	return func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
		ran.Add(1)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}, nil
	}
}

// AddTool adds a tool.
func AddTool[In, Out any](name string, handler askback.ToolHandler[In, Out]) func(*askback.Server) {
	return func(s *askback.Server) { askback.AddTool(s, &mcp.Tool{Name: name}, handler) }
}

// AddTask adds a tool whose calls may become tasks.
func AddTask[In, Out any](
	name string, support *askback.TaskSupport, handler askback.ToolHandler[In, Out],
) func(*askback.Server) {
	return func(s *askback.Server) { askback.AddTaskTool(s, &mcp.Tool{Name: name}, support, handler) }
}
