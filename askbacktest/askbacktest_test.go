package askbacktest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/internal/test/expect"
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
			MaxTokens: 10,
			Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: who.Name}}}},
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
	expect.Equal(t, "res.Text()", res.Text(), "bobfile:///xhialice")
	expect.Diff(t, "asked", [][]string{{"page", "roots", "who"}, {"who"}, {}, {"model"}}, res.Asked)
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
		{"a step that is not safe to repeat",
			func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
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
			expect.Contains(t, "failed", got, test.want)
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
	expect.Equal(t, "res.Text()", res.Text(), "aa")
}

func TestPromptsResourcesAndErrors(t *testing.T) {
	register := func(srv *askback.Server) {
		srv.AddPrompt(&mcp.Prompt{Name: "p"},
			func(ctx context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				who, err := askback.Elicit[name](call, "q", "?")
				return &mcp.GetPromptResult{Description: args["a"] + who.Name}, err
			})
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "r", URITemplate: "doc://{id}"},
			func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
				who, err := askback.Elicit[name](call, "q", "?")
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: who.Name}}}, err
			})
	}
	answers := map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"x"})}
	p := askbacktest.Run(t, register, askbacktest.Call{Prompt: "p", Arguments: map[string]string{"a": "A"},
		Answers: answers})
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

type adult struct {
	Age int `json:"age" minimum:"18"`
}

// An answer that does not fit fails the test in the first round that asks its question, before any other check. The
// message has the key, the field and the rule.
func TestAnswersThatDoNotFitAreToldFirst(t *testing.T) {
	ageOf := func(key func() string) handler {
		return func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[adult](call, key(), "How old are you?")
			return "done", err
		}
	}
	age := func() string { return "age" }
	runs := 0
	for _, test := range []struct {
		name    string
		handler handler
		answers []askbacktest.Answer
		options askback.Options
		want    string
		most    int // runs of the handler
	}{
		{"a rule", ageOf(age), []askbacktest.Answer{askbacktest.Accept(adult{17})}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: age: must be at least 18: ` +
				`correct Call.Answers["age"]; ` +
				`the user would be asked again`, 1},
		{"two answers of which the second is right", ageOf(age),
			[]askbacktest.Answer{askbacktest.Accept(adult{17}), askbacktest.Accept(adult{18})}, askback.Options{}, "", 1000},
		{"two answers that do not fit", ageOf(age),
			[]askbacktest.Answer{askbacktest.Accept(adult{17}), askbacktest.Accept(adult{16})}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: age: must be at least 18: `, 200},
		{"no content", ageOf(age), []askbacktest.Answer{askbacktest.Accept(nil)}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: age: is required: `, 1},
		{"another kind of answer", ageOf(age), []askbacktest.Answer{askbacktest.Roots("file:///x")}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: an elicitation result needs the action `, 1},
		{"roots", func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.Roots(call, "age")
			return "done", err
		}, []askbacktest.Answer{askbacktest.Roots("https://example.com")}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: a root needs a file URI: `, 1},
		{"beside a question that changes", func(_ context.Context, call *askback.Call) (string, error) {
			_, err1 := askback.Elicit[adult](call, "age", "How old are you?")
			_, err2 := askback.Elicit[name](call, "q", fmt.Sprint("Question ", runs))
			return "done", errors.Join(err1, err2)
		}, []askbacktest.Answer{askbacktest.Accept(adult{17})}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: `, 1},
		{"what only the server can tell", func(_ context.Context, call *askback.Call) (string, error) {
			type small struct {
				Age int8 `json:"age"`
			}
			_, err := askback.ElicitWith[small](call, "age", askback.Question{Message: "?", Schema: map[string]any{
				"type": "object", "properties": map[string]any{"age": map[string]any{"type": "integer"}}}})
			return "done", err
		}, []askbacktest.Answer{askbacktest.Accept(adult{300})}, askback.Options{},
			`askbacktest: the answer to the question "age" does not fit: ` +
				`the form allows it, but the server cannot hold it, `, 200},
		{"a form for a client that shows less", ageOf(age), []askbacktest.Answer{askbacktest.Accept(adult{18})},
			askback.Options{PlainForms: func(*mcp.Implementation) bool { return true }}, "", 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs = 0
			got := failures(t, register(func(ctx context.Context, call *askback.Call) (string, error) {
				runs++
				return test.handler(ctx, call)
			}), askbacktest.Call{Tool: "tool", Options: test.options, Answers: map[string]askbacktest.Answer{
				"age": askbacktest.InTurn(test.answers...),
			}})
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) || runs > test.most {
				t.Errorf("after %d runs it failed with %q, want %q after %d at most", runs, got, test.want, test.most)
			}
		})
	}
}

// What a step returns, and the call's ID, may be in a question, although another request gets another value.
func TestQuestionsWithANonce(t *testing.T) {
	fromStep := func(ctx context.Context, call *askback.Call) (string, error) {
		return askback.Do(ctx, call, "nonce", func(context.Context) (string, error) { return rand.Text(), nil })
	}
	fromID := func(_ context.Context, call *askback.Call) (string, error) { return call.ID(), nil }
	fromKey := func(_ context.Context, call *askback.Call) (string, error) { return call.IdempotencyKey("login"), nil }
	answers := map[string]askbacktest.Answer{"q": askbacktest.Accept(nil)}
	first := func(nonce handler) handler {
		return func(ctx context.Context, call *askback.Call) (string, error) {
			value, err := nonce(ctx, call)
			if err != nil {
				return "", err
			}
			return "done", askback.ElicitURL(call, "q", "Sign in.", "https://example.com/?ref="+value)
		}
	}
	later := func(nonce handler) handler {
		return func(ctx context.Context, call *askback.Call) (string, error) {
			if err := askback.ElicitURL(call, "before", "Sign in.", "https://example.com/"); err != nil {
				return "", err
			}
			return first(nonce)(ctx, call)
		}
	}
	for _, test := range []struct {
		name  string
		nonce handler
		want  string
	}{
		{"from a step", fromStep, ""},
		{"the ID", fromID, ""},
		{"an idempotency key", fromKey, ""},
		{"from nowhere", func(context.Context, *askback.Call) (string, error) { return rand.Text(), nil },
			`question "q": url: "…`}, // where the two begin to differ
		{"read after a step that counts", func(ctx context.Context, call *askback.Call) (string, error) {
			err := call.Do(ctx, "count", func(context.Context) error { counted++; return nil })
			return fmt.Sprint(counted), err
		}, "set Call.Lossless."},
	} {
		for round, h := range map[string]handler{"first": first(test.nonce), "later": later(test.nonce)} {
			t.Run(test.name+", "+round, func(t *testing.T) {
				all := maps.Clone(answers)
				if round == "later" {
					all["before"] = askbacktest.Accept(nil)
				}
				got := failures(t, register(h), askbacktest.Call{Tool: "tool", Answers: all})
				if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
					t.Errorf("failed with %q, want %q", got, test.want)
				}
			})
		}
	}
}

var counted int
