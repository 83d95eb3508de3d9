// Askback as a peer of the matrix: its server, and its client.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/judge/interop/program"
)

func main() {
	program.Main(program.Peer{
		HTTP: func() (http.Handler, http.Handler, error) {
			srv, err := newServer()
			if err != nil {
				return nil, nil, err
			}
			return srv.HTTPHandler(nil), nil, nil
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

func call(ctx context.Context, target program.Target, tool string) (any, error) {
	c := client.New(&client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return program.Elicit(tool), nil
		},
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{
				Role: "assistant", Model: "fixed", Content: []mcp.Content{&mcp.TextContent{Text: "Paris"}},
			}, nil
		},
		Roots: func(context.Context) ([]*mcp.Root, error) {
			return []*mcp.Root{{URI: "file:///work", Name: "work"}}, nil
		},
	})
	transport, opts := target.Dial()
	session, err := c.Connect(ctx, transport, opts)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	return session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
}

type person struct {
	Name string `json:"name"`
}

func newServer() (*askback.Server, error) {
	m := mcp.NewServer(&mcp.Implementation{Name: "askback", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, nil)
	if err != nil {
		return nil, err
	}
	tool := func(name string, run func(ctx context.Context, call *askback.Call) (string, error)) {
		askback.AddTool(srv, &mcp.Tool{Name: name}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			return run(ctx, call)
		})
	}
	tool("t_elicit", func(ctx context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "What is your name?")
		return fmt.Sprintf("Hello, %s.", p.Name), err
	})
	tool("t_sample", func(ctx context.Context, call *askback.Call) (string, error) {
		capital, err := askback.Sample(call, "capital", prompt("What is the capital of France?"))
		return "The model says: " + said(capital), err
	})
	tool("t_roots", func(ctx context.Context, call *askback.Call) (string, error) {
		roots, err := askback.Roots(call, "roots")
		return "Roots: " + first(roots), err
	})
	tool("t_three", func(ctx context.Context, call *askback.Call) (string, error) {
		p, err1 := askback.Elicit[person](call, "person", "What is your name?")
		capital, err2 := askback.Sample(call, "capital", prompt("What is the capital of France?"))
		roots, err3 := askback.Roots(call, "roots")
		return fmt.Sprintf("%s, %s, %s", p.Name, said(capital), first(roots)), errors.Join(err1, err2, err3)
	})
	tool("t_rounds", func(ctx context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "What is your name?")
		if err != nil {
			return "", err
		}
		city, err := askback.Sample(call, "city", prompt("Where does "+p.Name+" live?"))
		if err != nil {
			return "", err
		}
		signer, err := askback.Elicit[person](call, "signer", fmt.Sprintf("%s of %s: who signs?", p.Name, said(city)))
		return fmt.Sprintf("%s of %s, signed %s", p.Name, said(city), signer.Name), err
	})
	tool("t_state", func(ctx context.Context, call *askback.Call) (string, error) {
		return "served the second time", call.Checkpoint(ctx, "busy")
	})
	tool("t_decline", func(ctx context.Context, call *askback.Call) (string, error) {
		p, err := askback.Elicit[person](call, "person", "Delete everything? Sign with your name.")
		if declined, ok := errors.AsType[*askback.DeclinedError](err); ok && declined.Action == "decline" {
			return "Nothing was deleted.", nil
		}
		return "Deleted for " + p.Name, err
	})
	return srv, nil
}

func prompt(text string) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: text}}}},
	}
}

// said is the text of a model's answer.
func said(res *mcp.CreateMessageWithToolsResult) string {
	if res == nil || len(res.Content) == 0 {
		return ""
	}
	if text, ok := res.Content[0].(*mcp.TextContent); ok {
		return text.Text
	}
	return ""
}

func first(roots []*mcp.Root) string {
	if len(roots) == 0 {
		return ""
	}
	return roots[0].URI
}
