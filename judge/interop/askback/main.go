// Askback as a peer of the matrices: its server has the tools of all of them, and its client makes the calls. The
// names of tools say which matrix they are of: t_ are those that ask, k_ tasks of 2025-11-25, x_ tasks of 2026-07-28,
// e_ events, which only the clients of others are sent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/judge/interop/program"
)

func main() {
	program.Main(program.Peer{
		HTTP: func(bool) (http.Handler, error) {
			srv, err := newServer()
			if err != nil {
				return nil, err
			}
			return srv.HTTPHandler(nil), nil
		},
		Stdio: func(ctx context.Context) error {
			srv, err := newServer()
			if err != nil {
				return err
			}
			return srv.Run(ctx, &mcp.StdioTransport{})
		},
		Call: call,
	})
}

// call makes the call of a scenario. What a task ends with is described in a line.
func call(ctx context.Context, target program.Target, scenario string) (string, any, error) {
	opts := &client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return program.Elicit(scenario), nil
		},
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (
			*mcp.CreateMessageWithToolsResult, error,
		) {
			return &mcp.CreateMessageWithToolsResult{
				Role: "assistant", Model: "fixed", Content: []mcp.Content{&mcp.TextContent{Text: "Paris"}},
			}, nil
		},
		Roots: func(context.Context) ([]*mcp.Root, error) {
			return []*mcp.Root{{URI: "file:///work", Name: "work"}}, nil
		},
	}
	if scenario == "k_refused" {
		opts.Tasks = client.TasksOff
	}
	transport, sessionOptions := target.Dial()
	if strings.HasPrefix(scenario, "k_") {
		sessionOptions.ProtocolVersion = program.Legacy
	}
	s, err := client.New(opts).Connect(ctx, transport, sessionOptions)
	if err != nil {
		return "", nil, err
	}
	defer s.Close()
	revision := s.SDK().InitializeResult().ProtocolVersion
	if strings.HasPrefix(scenario, "t_") {
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: scenario})
		return revision, res, err
	}
	text, err := outcome(ctx, s, scenario)
	return revision, &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
}

// outcome runs a scenario of tasks and describes its outcome in a line.
func outcome(ctx context.Context, s *client.Session, scenario string) (string, error) {
	switch scenario {
	case "k_required": // which is not asked to be a task
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: scenario})
		return text(res), err
	case "k_refused":
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "k_required"})
		if err == nil {
			return "not refused: " + text(res), nil
		}
		return code(err), nil
	case "k_list":
		return list(ctx, s)
	case "x_unknown":
		_, err := s.GetTask(ctx, "none")
		return code(err), nil
	}
	t, res, err := s.StartTask(ctx, &mcp.CallToolParams{Name: scenario}, time.Minute)
	if err != nil {
		return "", err
	}
	if t == nil {
		return "immediate, completed: " + text(res), nil
	}
	if scenario == "k_slow" || scenario == "x_slow" {
		return cancelTwice(ctx, s, t.ID, scenario == "k_slow")
	}
	res, err = s.WaitTask(ctx, t.ID)
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprintf("failed: %d %s", fault.Code, fault.Message), nil
	}
	now, err2 := s.GetTask(ctx, t.ID)
	if err := errors.Join(err, err2); err != nil {
		return "", err
	}
	if now.Status == "completed" && res.IsError {
		return "completed with isError: " + text(res), nil
	}
	return now.Status + ": " + text(res), nil
}

// cancelTwice cancels a task. In a session a second cancellation is an error; the extension has it ignored.
func cancelTwice(ctx context.Context, s *client.Session, id string, session bool) (string, error) {
	err1 := s.CancelTask(ctx, id)
	t, err2 := s.GetTask(ctx, id)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if session {
		return t.Status + ", again " + code(s.CancelTask(ctx, id)), nil
	}
	again, err := s.GetTask(ctx, id)
	if err != nil {
		return "", err
	}
	return t.Status + ", and read again: " + again.Status, nil
}

// list starts two tasks, and lists them.
func list(ctx context.Context, s *client.Session) (string, error) {
	var started, listed []string
	for range 2 {
		t, _, err := s.StartTask(ctx, &mcp.CallToolParams{Name: "k_ask"}, time.Minute)
		if err != nil || t == nil {
			return "", fmt.Errorf("no task is started: %w", err)
		}
		started = append(started, t.ID)
	}
	tasks, _, err := s.ListTasks(ctx, "")
	if err != nil {
		return "", err
	}
	for _, t := range tasks {
		listed = append(listed, t.ID)
	}
	slices.Sort(started)
	slices.Sort(listed)
	_, err = s.GetTask(ctx, "none")
	return fmt.Sprintf("all listed: %v, another %s", slices.Equal(started, listed), code(err)), nil
}

func code(err error) string {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprint(fault.Code)
	}
	return fmt.Sprintf("no JSON-RPC error: %v", err)
}

// text is the structured content of a result, or else its text.
func text(res *mcp.CallToolResult) string {
	if res.StructuredContent != nil {
		data, _ := json.Marshal(res.StructuredContent) // it was decoded
		return string(data)
	}
	if len(res.Content) > 0 {
		if content, ok := res.Content[0].(*mcp.TextContent); ok {
			return content.Text
		}
	}
	return ""
}
