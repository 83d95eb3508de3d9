// Askback as a peer of the matrix of the tasks extension: a server that makes tasks of calls, and a client that prints
// their outcome in one line. Both speak 2026-07-28.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/judge/interop/program"
	"github.com/askback-mcp/askback/task"
)

func main() {
	program.Main(program.Peer{
		HTTP: func() (http.Handler, http.Handler, error) {
			srv, err := newServer()
			if err != nil {
				return nil, nil, err
			}
			go func() { _ = srv.RunTasks(context.Background()) }() // nil, with tasks configured; the process is killed
			return srv.HTTPHandler(nil), nil, nil
		},
		Stdio: func(context.Context) error { return errors.New("this peer serves HTTP only") },
		Call:  call,
	})
}

type input struct {
	Input string `json:"input"`
}

func newServer() (*askback.Server, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "askback", Version: "1.0.0"}, nil), &askback.Options{
		Tasks:  &askback.Tasks{Store: new(task.MemoryStore), Settings: task.Settings{PollInterval: 50 * time.Millisecond}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	tool := func(name string, run func(ctx context.Context, call *askback.Call) (string, error)) {
		handler := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			return run(ctx, call)
		}
		askback.AddTaskTool(srv, &mcp.Tool{Name: name}, nil, handler)
	}
	ask := func(call *askback.Call, key string) (string, error) {
		answer, err := askback.Elicit[input](call, key, "What shall be echoed?")
		return answer.Input, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "x_now"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		return "now", nil
	})
	tool("x_ask", func(_ context.Context, call *askback.Call) (string, error) {
		answer, err := ask(call, "input")
		return "Echo: " + answer, err
	})
	tool("x_three", func(_ context.Context, call *askback.Call) (string, error) {
		name, err1 := ask(call, "input")
		capital, err2 := askback.Sample(call, "capital", &mcp.CreateMessageWithToolsParams{
			MaxTokens: 100,
			Messages: []*mcp.SamplingMessageV2{{Role: "user",
				Content: []mcp.Content{&mcp.TextContent{Text: "The capital of France?"}}}},
		})
		roots, err3 := askback.Roots(call, "roots")
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		said, ok := capital.Content[0].(*mcp.TextContent)
		if !ok {
			return "", fmt.Errorf("the model answered with %T", capital.Content[0])
		}
		return fmt.Sprintf("%s, %s, %s", name, said.Text, roots[0].URI), nil
	})
	tool("x_rounds", func(_ context.Context, call *askback.Call) (string, error) {
		first, err := ask(call, "first")
		if err != nil {
			return "", err
		}
		second, err := ask(call, "second")
		return first + ", " + second, err
	})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "x_structured"}, nil, func(context.Context, *askback.Call, struct{}) (struct {
		N int `json:"n"`
	}, error) {
		return struct {
			N int `json:"n"`
		}{1}, nil
	})
	tool("x_fail", func(context.Context, *askback.Call) (string, error) { return "", errors.New("the job broke") })
	tool("x_fault", func(context.Context, *askback.Call) (string, error) {
		return "", &jsonrpc.Error{Code: -32050, Message: "the job broke"}
	})
	tool("x_slow", func(ctx context.Context, _ *askback.Call) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	return srv, nil
}

func call(ctx context.Context, target program.Target, scenario string) (any, error) {
	transport, opts := target.Dial()
	session, err := client.New(&client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"input": "octocat"}}, nil
		},
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{
				Role: "assistant", Model: "fixed", Content: []mcp.Content{&mcp.TextContent{Text: "Paris"}},
			}, nil
		},
		Roots: func(context.Context) ([]*mcp.Root, error) {
			return []*mcp.Root{{URI: "file:///work", Name: "work"}}, nil
		},
	}).Connect(ctx, transport, opts)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	line, err := outcome(ctx, session, scenario)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: line}}}, err
}

// outcome runs a scenario and describes its outcome in a line.
func outcome(ctx context.Context, s *client.Session, scenario string) (string, error) {
	if scenario == "x_unknown" {
		_, err := s.GetTask(ctx, "none")
		if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return fmt.Sprint(fault.Code), nil
		}
		return fmt.Sprintf("no JSON-RPC error: %v", err), nil
	}
	t, res, err := s.StartTask(ctx, &mcp.CallToolParams{Name: scenario}, time.Minute)
	switch {
	case err != nil:
		return "", err
	case t == nil:
		return "immediate, " + completed(res), nil
	case scenario == "x_slow":
		if err := s.CancelTask(ctx, t.ID); err != nil {
			return "", err
		}
		first, err := s.GetTask(ctx, t.ID)
		if err != nil {
			return "", err
		}
		again, err := s.GetTask(ctx, t.ID)
		if err != nil {
			return "", err
		}
		return first.Status + ", and read again: " + again.Status, nil
	}
	res, err = s.WaitTask(ctx, t.ID)
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprintf("failed: %d %s", fault.Code, fault.Message), nil
	}
	if err != nil {
		return "", err
	}
	return completed(res), nil
}

func completed(res *mcp.CallToolResult) string {
	line := "completed: "
	if res.IsError {
		line = "completed with isError: "
	}
	if res.StructuredContent != nil {
		data, err := json.Marshal(res.StructuredContent)
		if err != nil {
			return err.Error()
		}
		return line + string(data)
	}
	if len(res.Content) > 0 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			return line + text.Text
		}
	}
	return line
}
