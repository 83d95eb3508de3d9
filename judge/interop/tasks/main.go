// Askback as a peer of the matrix of tasks: a server whose tools are tasks, and a client
// that prints their outcome in one line. Both speak 2025-11-25.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/judge/interop/program"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

func main() {
	program.Main(program.Peer{
		HTTP: func() (http.Handler, http.Handler, error) {
			srv, _, err := newServer(context.Background())
			if err != nil {
				return nil, nil, err
			}
			return srv.HTTPHandler(nil), nil, nil
		},
		Stdio: func(ctx context.Context) error {
			srv, end, err := newServer(ctx)
			if err != nil {
				return err
			}
			defer end()
			return srv.Run(ctx, &mcp.StdioTransport{})
		},
		Call: call,
	})
}

// newServer returns a server with a store of its own, which runs its tasks until end.
func newServer(ctx context.Context) (srv *askback.Server, end func(), err error) {
	dir, err := os.MkdirTemp("", "tasks")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
	if err != nil {
		return nil, nil, err
	}
	srv, err = askback.New(mcp.NewServer(&mcp.Implementation{Name: "askback", Version: "1.0.0"}, nil), &askback.Options{
		Tasks:  &askback.Tasks{Store: store, ListAnonymous: true, Settings: task.Settings{PollInterval: 50 * time.Millisecond}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, nil, err
	}
	tool := func(name string, support *askback.TaskSupport, run func(ctx context.Context, call *askback.Call) (string, error)) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: name}, support, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			return run(ctx, call)
		})
	}
	ask := func(ctx context.Context, call *askback.Call) (string, error) {
		answer, err := askback.Elicit[struct {
			Input string `json:"input"`
		}](call, "input", "What shall be echoed?")
		return "Echo: " + answer.Input, err
	}
	tool("k_ask", nil, ask)
	tool("k_required", &askback.TaskSupport{Required: true}, ask)
	tool("k_fail", nil, func(context.Context, *askback.Call) (string, error) {
		return "", errors.New("the job broke")
	})
	tool("k_slow", nil, func(ctx context.Context, _ *askback.Call) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	running, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { _ = srv.RunTasks(running) }) // nil, with tasks configured
	return srv, func() {
		stop()
		working.Wait()
		_ = store.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func call(ctx context.Context, target program.Target, scenario string) (any, error) {
	opts := &client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"input": "octocat"}}, nil
		},
	}
	if scenario == "k_refused" {
		opts.Tasks = client.TasksOff
	}
	transport, _ := target.Dial()
	session, err := client.New(opts).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: program.Legacy})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	text, err := outcome(ctx, session, scenario)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
}

// outcome runs a scenario and describes its outcome in a line.
func outcome(ctx context.Context, s *client.Session, scenario string) (string, error) {
	switch scenario {
	case "k_ask", "k_fail", "k_slow":
		t, err := start(ctx, s, scenario)
		if err != nil {
			return "", err
		}
		var end string
		if scenario == "k_slow" {
			if err := s.CancelTask(ctx, t.ID); err != nil {
				return "", err
			}
			end = ", again " + code(s.CancelTask(ctx, t.ID))
		} else {
			res, err := s.WaitTask(ctx, t.ID)
			if err != nil {
				return "", err
			}
			end = ": " + text(res)
		}
		if t, err = s.GetTask(ctx, t.ID); err != nil {
			return "", err
		}
		return t.Status + end, nil
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
		var started, listed []string
		for range 2 {
			t, err := start(ctx, s, "k_ask")
			if err != nil {
				return "", err
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
	return "", fmt.Errorf("unknown scenario %q", scenario)
}

func start(ctx context.Context, s *client.Session, tool string) (*client.Task, error) {
	t, res, err := s.StartTask(ctx, &mcp.CallToolParams{Name: tool}, time.Minute)
	if err == nil && t == nil {
		err = fmt.Errorf("no task but a result: %s", text(res))
	}
	return t, err
}

func code(err error) string {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprint(fault.Code)
	}
	return fmt.Sprintf("no JSON-RPC error: %v", err)
}

func text(res *mcp.CallToolResult) string {
	if res != nil && len(res.Content) > 0 {
		if content, ok := res.Content[0].(*mcp.TextContent); ok {
			return content.Text
		}
	}
	return ""
}
