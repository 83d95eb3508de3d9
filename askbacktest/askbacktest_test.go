package askbacktest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/state"
)

type name struct {
	Name string `json:"name"`
}

func tool(handler askback.ToolHandler[map[string]any, string]) func(*askback.Server) {
	return func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "tool", InputSchema: map[string]any{"type": "object"}}, handler)
	}
}

// recorder is a testing.TB that only notes how a test failed.
type recorder struct {
	testing.TB
	failures, logs []string
}

type fatal struct{}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); panic(fatal{}) }

// failures runs a call and returns why its test failed.
func failures(t *testing.T, register func(*askback.Server), c askbacktest.Call) string {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (fatal{}) {
				panic(v)
			}
		}()
		askbacktest.Run(r, register, c)
	}()
	return strings.Join(r.failures, "\n")
}

func TestEveryKindOfAnswer(t *testing.T) {
	register := tool(func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		who, err1 := askback.Elicit[name](call, "who", "Who?")
		roots, err2 := askback.Roots(call, "roots")
		err3 := askback.ElicitURL(call, "page", "Sign in", "https://example.com")
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		if err := call.Checkpoint(ctx, "between"); err != nil {
			return "", err
		}
		model, err := askback.Sample(call, "model", &mcp.CreateMessageWithToolsParams{
			MaxTokens: 10, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: who.Name}}}},
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(who.Name, roots[0].URI, model.Content[0].(*mcp.TextContent).Text, call.Principal()), nil
	})
	res := askbacktest.Run(t, register, askbacktest.Call{
		Tool: "tool", Principal: "alice",
		Answers: map[string]askbacktest.Answer{
			"who":   askbacktest.InTurn(askbacktest.Accept(map[string]any{"name": 1}), askbacktest.Accept(name{"bob"})),
			"roots": askbacktest.Roots("file:///x"),
			"page":  askbacktest.Accept(nil),
			"model": askbacktest.Completion("hi"),
		},
	})
	if got := res.Text(); got != "bobfile:///xhialice" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([][]string{{"page", "roots", "who"}, {"who"}, {}, {"model"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestHandlersThatDependOnMoreThanAnswersFail(t *testing.T) {
	answers := map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"x"})}
	n := 0
	for _, test := range []struct {
		name    string
		handler askback.ToolHandler[map[string]any, string]
		want    string
	}{
		{"a question that changes", func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			n++
			_, err := askback.Elicit[name](call, "q", fmt.Sprint("attempt ", n))
			return "done", err
		}, "its outcome changed"},
		{"a result that changes", func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			n++
			_, err := askback.Elicit[name](call, "q", "?")
			return fmt.Sprint(n), err
		}, "its outcome changed"},
		{"a step that is not safe to repeat", func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			if _, err := askback.Elicit[name](call, "q", "?"); err != nil {
				return "", err
			}
			v, err := askback.Do(ctx, call, "count", func(context.Context) (int, error) { n++; return n, nil })
			return fmt.Sprint(v), err
		}, "sent a second time"},
		{"a question nobody answers", func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			_, err := askback.Elicit[name](call, "other", "?")
			return "", err
		}, `no answer for the question "other"`},
		{"an answer nobody asks for", func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			return "done", nil
		}, `"q" was never asked`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := failures(t, tool(test.handler), askbacktest.Call{Tool: "tool", Answers: answers})
			if !strings.Contains(got, test.want) {
				t.Errorf("failed with %q, want %q", got, test.want)
			}
		})
	}
}

func TestLosslessSendsNothingTwice(t *testing.T) {
	n := 0
	register := tool(func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		v, err := askback.Do(ctx, call, "count", func(context.Context) (int, error) { n++; return n, nil })
		if err != nil {
			return "", err
		}
		_, err = askback.Elicit[name](call, "q", "?")
		return fmt.Sprint(v), err
	})
	res := askbacktest.Run(t, register, askbacktest.Call{Tool: "tool", Lossless: true,
		Answers: map[string]askbacktest.Answer{"q": askbacktest.Decline()}})
	if n != 1 || !res.Tool.IsError {
		t.Errorf("the step ran %d times; result %q", n, res.Text())
	}
}

// With a store beside requestState, a second question under a key is sent under another one.
func TestQuestionsUnderOneKey(t *testing.T) {
	register := tool(func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		said := ""
		for _, what := range []string{"First", "Second"} {
			n, err := askback.Elicit[name](call, "name", what+" name?")
			if err != nil {
				return "", err
			}
			said += n.Name
		}
		return said, nil
	})
	res := askbacktest.Run(t, register, askbacktest.Call{
		Tool:    "tool",
		Answers: map[string]askbacktest.Answer{"name": askbacktest.Accept(name{"a"})},
		Options: askback.Options{States: &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}},
	})
	if res.Text() != "aa" {
		t.Errorf("got %q", res.Text())
	}
}

func TestPromptsResourcesAndErrors(t *testing.T) {
	register := func(srv *askback.Server) {
		srv.AddPrompt(&mcp.Prompt{Name: "p"}, func(ctx context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			who, err := askback.Elicit[name](call, "q", "?")
			return &mcp.GetPromptResult{Description: args["a"] + who.Name}, err
		})
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "r", URITemplate: "doc://{id}"}, func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			who, err := askback.Elicit[name](call, "q", "?")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: who.Name}}}, err
		})
	}
	answers := map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"x"})}
	p := askbacktest.Run(t, register, askbacktest.Call{Prompt: "p", Arguments: map[string]string{"a": "A"}, Answers: answers})
	if p.Prompt.Description != "Ax" {
		t.Errorf("prompt: %+v", p.Prompt)
	}
	r := askbacktest.Run(t, register, askbacktest.Call{Resource: "doc://%C3%BC", Answers: answers})
	if r.Resource.Contents[0].Text != "x" {
		t.Errorf("resource: %+v", r.Resource)
	}
	none := askbacktest.Run(t, register, askbacktest.Call{Prompt: "p", Cannot: askback.CapabilityForm})
	if none.Err == nil || none.Err.Code != -32021 {
		t.Errorf("without capabilities: %+v", none.Err)
	}
}
