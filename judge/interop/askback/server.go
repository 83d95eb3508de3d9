package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/interop/program"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

type person struct {
	Name string `json:"name"`
}

type input struct {
	Input string `json:"input"`
}

func newServer() (*askback.Server, error) {
	m := mcp.NewServer(&mcp.Implementation{Name: "askback", Version: "1.0.0"}, nil)
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return nil, err
	}
	receiver := httptest.NewTLSServer(nil) // any such server has the certificate of the receivers of events
	receiver.Close()
	srv, err := askback.New(m, &askback.Options{
		Keys: keys, Desk: &askback.DeskOptions{Wait: time.Minute},
		Events: &askback.EventOptions{Webhooks: &askback.WebhookOptions{UncheckedTransport: receiver.Client().Transport}},
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil // only clients of events have one
		},
		Tasks: &askback.Tasks{
			Store: new(task.MemoryStore), ListAnonymous: true,
			Settings: task.Settings{PollInterval: 50 * time.Millisecond},
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	addAskingTools(srv)
	addTaskTools(srv)
	go func() { _ = srv.RunTasks(context.Background()) }() // nil, with tasks configured; it ends with the process
	return srv, nil
}

// handler is a tool without arguments that returns a text.
type handler = func(ctx context.Context, call *askback.Call) (string, error)

func addAskingTools(srv *askback.Server) {
	tool := func(name string, run handler) {
		askback.AddTool(srv, &mcp.Tool{Name: name},
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) { return run(ctx, call) })
	}
	tool("x_now", func(context.Context, *askback.Call) (string, error) { return "now", nil })
	tool("t_elicit", func(_ context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "What is your name?")
		return fmt.Sprintf("Hello, %s.", p.Name), err
	})
	tool("t_sample", func(_ context.Context, call *askback.Call) (string, error) {
		capital, err := program.Sample(call, "capital", "What is the capital of France?")
		return "The model says: " + capital, err
	})
	tool("t_roots", func(_ context.Context, call *askback.Call) (string, error) {
		root, err := firstRoot(call)
		return "Roots: " + root, err
	})
	tool("t_three", func(_ context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "What is your name?")
		return withCapitalAndRoot(call, p.Name, err)
	})
	tool("t_rounds", func(_ context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "What is your name?")
		if err != nil {
			return "", err
		}
		city, err := program.Sample(call, "city", "Where does "+p.Name+" live?")
		if err != nil {
			return "", err
		}
		signer, err := askback.Elicit[person](call, "signer", fmt.Sprintf("%s of %s: who signs?", p.Name, city))
		return fmt.Sprintf("%s of %s, signed %s", p.Name, city, signer.Name), err
	})
	tool("t_state", func(ctx context.Context, call *askback.Call) (string, error) {
		return "served the second time", call.Checkpoint(ctx, "busy")
	})
	tool("t_decline", func(_ context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "Delete everything? Sign with your name.")
		if declined, ok := errors.AsType[*askback.DeclinedError](err); ok && declined.Action == "decline" {
			return "Nothing was deleted.", nil
		}
		return "Deleted for " + p.Name, err
	})
	for name, asks := range map[string]bool{"t_checkpoints": false, "t_between": true} {
		tool(name, func(ctx context.Context, call *askback.Call) (string, error) {
			for i := range 4 {
				if asks {
					if _, err := askback.Elicit[person](call, fmt.Sprint("person-", i), "Who?"); err != nil {
						return "", err
					}
				}
				if err := call.Checkpoint(ctx, fmt.Sprint("part-", i)); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	}
}

func addTaskTools(srv *askback.Server) {
	tool := func(support *askback.TaskSupport, run handler, names ...string) {
		for _, name := range names {
			askback.AddTaskTool(srv, &mcp.Tool{Name: name}, support,
				func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) { return run(ctx, call) })
		}
	}
	tool(&askback.TaskSupport{Always: true}, func(context.Context, *askback.Call) (string, error) { return "done", nil },
		"e_job", "e_other")
	ask := func(call *askback.Call, key string) (string, error) {
		answer, err := askback.Elicit[input](call, key, "What shall be echoed?")
		return answer.Input, err
	}
	echo := func(_ context.Context, call *askback.Call) (string, error) {
		answer, err := ask(call, "input")
		return "Echo: " + answer, err
	}
	tool(nil, echo, "k_ask", "x_ask")
	tool(&askback.TaskSupport{Required: true}, echo, "k_required")
	tool(nil, func(_ context.Context, call *askback.Call) (string, error) {
		name, err := ask(call, "input")
		return withCapitalAndRoot(call, name, err)
	}, "x_three")
	tool(nil, func(_ context.Context, call *askback.Call) (string, error) {
		first, err := ask(call, "first")
		if err != nil {
			return "", err
		}
		second, err := ask(call, "second")
		return first + ", " + second, err
	}, "x_rounds")
	type number struct {
		N int `json:"n"`
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "x_structured"}, nil,
		func(context.Context, *askback.Call, struct{}) (number, error) { return number{1}, nil })
	tool(nil, func(context.Context, *askback.Call) (string, error) {
		return "", errors.New("the job broke")
	}, "k_fail", "x_fail")
	tool(nil, func(context.Context, *askback.Call) (string, error) {
		return "", &jsonrpc.Error{Code: -32050, Message: "the job broke"}
	}, "x_fault")
	tool(nil, func(ctx context.Context, _ *askback.Call) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, "k_slow", "x_slow")
}

// withCapitalAndRoot asks the model and the client in the round in which the user was asked for a name.
func withCapitalAndRoot(call *askback.Call, name string, asked error) (string, error) {
	capital, err1 := program.Sample(call, "capital", "What is the capital of France?")
	root, err2 := firstRoot(call)
	return fmt.Sprintf("%s, %s, %s", name, capital, root), errors.Join(asked, err1, err2)
}

func firstRoot(call *askback.Call) (string, error) {
	roots, err := askback.Roots(call, "roots")
	if len(roots) == 0 {
		return "", err
	}
	return roots[0].URI, err
}
