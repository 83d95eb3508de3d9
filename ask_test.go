package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// An open question suspends the call, unless the handler joins its error with one that
// ends the call.
func TestErrorsThatAreJoinedWithAnOpenQuestion(t *testing.T) {
	question := func(call *askback.Call, key string) error {
		_, err := askback.Elicit[login](call, key, "Who are you?")
		return err
	}
	for _, test := range []struct {
		name         string
		err          func(call *askback.Call) error
		limits       askback.Limits
		status, code int    // of an error of the protocol; zero for a tool error
		text         string // in the error
	}{
		{
			name:   "a capability that the client lacks",
			err:    func(call *askback.Call) error { _, err := askback.Roots(call, "roots"); return err },
			status: 400, code: -32021, text: "roots",
		},
		{
			name: "a capability that the author names",
			err: func(*askback.Call) error {
				return &askback.CapabilityError{Key: "x", Need: askback.CapabilityURL}
			},
			status: 400, code: -32021, text: "elicitation.url",
		},
		{
			name:   "a limit",
			err:    func(call *askback.Call) error { return question(call, "other") },
			limits: askback.Limits{Questions: 1},
			status: 200, code: -32603, text: "questions per round",
		},
		{
			name: "a limit that the author names",
			err:  func(*askback.Call) error { return &askback.LimitError{Limit: "cats", Max: 9} },
			// It becomes the protocol's error as a limit of the library does.
			status: 200, code: -32603, text: "the limit of 9 cats",
		},
		{
			name:   "an error of the protocol",
			err:    func(*askback.Call) error { return &jsonrpc.Error{Code: -32001, Message: "closed"} },
			status: 200, code: -32001, text: "closed",
		},
		{
			name: "a form that cannot be",
			err: func(call *askback.Call) error {
				_, err := askback.Elicit[struct{ Nested struct{} }](call, "bad", "?")
				return err
			},
			text: `question \"bad\": form: field`,
		},
		{
			name: "a schema that cannot be",
			err: func(call *askback.Call) error {
				_, err := askback.ElicitWith[map[string]any](call, "bad", askback.Question{Message: "?", Schema: map[string]any{"type": "array"}})
				return err
			},
			text: `question \"bad\": form: `,
		},
		{
			name: "no schema",
			err: func(call *askback.Call) error {
				_, err := askback.ElicitWith[map[string]any](call, "bad", askback.Question{Message: "?"})
				return err
			},
			text: `question \"bad\": form: `,
		},
		{
			name: "a schema that cannot be encoded",
			err: func(call *askback.Call) error {
				_, err := askback.ElicitWith[map[string]any](call, "bad", askback.Question{Message: "?", Schema: func() {}})
				return err
			},
			text: `question \"bad\": the schema: json: unsupported type`,
		},
		{
			name: "a URL that cannot be",
			err:  func(call *askback.Call) error { return askback.ElicitURL(call, "bad", "?", "/relative") },
			text: `question \"bad\": the URL must be absolute`,
		},
		{
			name: "sampling without parameters",
			err:  func(call *askback.Call) error { _, err := askback.Sample(call, "bad", nil); return err },
			text: `question \"bad\": sampling needs at least one message`,
		},
		{
			name: "another question under the same key",
			err: func(call *askback.Call) error {
				_, err := askback.Elicit[login](call, "login", "And who else?")
				return err
			},
			text: `two different questions with the key \"login\"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newServer(t, &askback.Options{Limits: test.limits}, func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "open first"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					return "", errors.Join(question(call, "login"), test.err(call))
				})
				askback.AddTool(srv, &mcp.Tool{Name: "open last"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					open, err := question(call, "login"), test.err(call)
					return "", fmt.Errorf("asking: %w", errors.Join(err, open))
				})
				askback.AddTool(srv, &mcp.Tool{Name: "caught"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					open := question(call, "login")
					_ = test.err(call)
					return "", open
				})
			}).HTTPHandler(nil)
			for _, tool := range []string{"open first", "open last"} {
				res := request{target: tool, capabilities: `{"elicitation":{"form":{},"url":{}},"sampling":{}}`}.send(t, h)
				if test.code != 0 {
					res.refused(t, test.status, test.code)
				} else if res.Result == nil || !res.Result.IsError {
					t.Fatalf("%s: want a tool error, got %s", tool, res.raw)
				}
				if !strings.Contains(res.raw, test.text) {
					t.Errorf("%s: want %q in %s", tool, test.text, res.raw)
				}
			}
			if res := (request{target: "caught"}).send(t, h); res.Result == nil || res.Result.Requests["login"] == nil {
				t.Errorf("the handler goes on without it: %s", res.raw)
			}
		})
	}
}

// A question that was declined does not end the call while another one is open.
func TestADeclinedQuestionWaitsForTheOthers(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "two"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			_, err1 := askback.Elicit[login](call, "a", "?")
			_, err2 := askback.Elicit[login](call, "b", "?")
			return "done", errors.Join(err1, err2)
		})
	}).HTTPHandler(nil)
	r := request{target: "two"}
	r.state = r.send(t, h).asked(t, "a", "b")
	r.responses = `{"a":{"action":"decline"}}`
	r.state = r.send(t, h).asked(t, "b")
	r.responses = `{"b":{"action":"accept","content":{"name":"x"}}}`
	res := r.send(t, h)
	if res.Result == nil || !res.Result.IsError || res.text(t) != `the user declined to answer the question "a"` {
		t.Errorf("got %s", res.raw)
	}
}

func TestElicitWith(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","default":"x"}},"required":["n"]}`)
	type small struct {
		N int8   `json:"n"`
		S string `json:"s"`
	}
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "map"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.ElicitWith[map[string]any](call, "q", askback.Question{Message: "How many?", Schema: schema})
			return fmt.Sprint(answer), err
		})
		askback.AddTool(srv, &mcp.Tool{Name: "struct"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.ElicitWith[small](call, "q", askback.Question{Message: "How many?", Schema: schema})
			return fmt.Sprint(answer), err
		})
	}).HTTPHandler(nil)
	for tool, want := range map[string]string{"map": "map[n:7 s:x]", "struct": "{7 x}"} {
		r := request{target: tool}
		first := r.send(t, h)
		r.state = first.asked(t, "q")
		question := `{"method":"elicitation/create","params":{"mode":"form","message":"How many?","requestedSchema":` + string(schema) + `}}`
		if diff := cmp.Diff(question, string(first.Result.Requests["q"])); diff != "" {
			t.Errorf("the question of %s (-want +got):\n%s", tool, diff)
		}
		r.responses = `{"q":{"action":"accept","content":{"n":"7"}}}`
		r.state = r.send(t, h).asked(t, "q")
		if tool == "struct" { // which does not hold every number that the schema allows
			r.responses = `{"q":{"action":"accept","content":{"n":300}}}`
			r.state = r.send(t, h).asked(t, "q")
		}
		declined := r
		declined.responses = `{"q":{"action":"cancel"}}`
		if res := declined.send(t, h); res.Result == nil || !res.Result.IsError || !strings.Contains(res.raw, "dismissed") {
			t.Errorf("%s, dismissed: %s", tool, res.raw)
		}
		r.responses = `{"q":{"action":"accept","content":{"n":7}}}`
		if got := r.send(t, h).text(t); got != want {
			t.Errorf("%s: got %q, want %q", tool, got, want)
		}
	}
}

// What was answered is found after the request has ended, and nothing new is asked.
func TestAsksOfARequestThatHasEnded(t *testing.T) {
	var hangUp context.CancelFunc
	var known, unknown error
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "late"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			if hangUp != nil {
				hangUp()
			}
			_, known = askback.Elicit[login](call, "login", "Who are you?")
			if known == nil {
				_, unknown = askback.Elicit[login](call, "other", "And who else?")
			}
			return "", errors.Join(known, unknown)
		})
	}).HTTPHandler(nil)
	r := request{target: "late"}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = octocat
	r.ctx = func(req *http.Request) *http.Request {
		ctx, cancel := context.WithCancel(req.Context())
		hangUp = cancel
		return req.WithContext(ctx)
	}
	r.send(t, h)
	if known != nil || !errors.Is(unknown, context.Canceled) {
		t.Errorf("the answered question: %v; the new one: %v", known, unknown)
	}
}

// A question inside a step is an error that tells its author the way out, and the client is
// not asked.
func TestAStepCannotAsk(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "with a result"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err := askback.Do(ctx, call, "step", func(context.Context) (login, error) {
				return askback.Elicit[login](call, "login", "Who are you?")
			})
			return fmt.Sprint(who), err
		})
		askback.AddTool(srv, &mcp.Tool{Name: "without a result"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			return "", call.Do(ctx, "step", func(context.Context) error {
				_, err := askback.Roots(call, "roots")
				return err
			})
		})
		askback.AddTool(srv, &mcp.Tool{Name: "answered before"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if _, err := askback.Elicit[login](call, "login", "Who are you?"); err != nil {
				return "", err
			}
			return "", call.Do(ctx, "step", func(context.Context) error {
				_, err := askback.Elicit[login](call, "login", "Who are you?")
				return err
			})
		})
	}).HTTPHandler(nil)
	const want = "a step cannot ask: ask before it, outside of the function that Do gets"
	for _, tool := range []string{"with a result", "without a result", "answered before"} {
		r := request{target: tool}
		if tool == "answered before" {
			r.state = r.send(t, h).asked(t, "login")
			r.responses = octocat
		}
		if res := r.send(t, h); !strings.HasSuffix(res.text(t), want) || !res.Result.IsError {
			t.Errorf("%s: got %s", tool, res.raw)
		}
	}
}

func TestStepsWithoutAResult(t *testing.T) {
	ran := map[string]int{}
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "t"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := call.Do(ctx, "before", func(context.Context) error { ran["before"]++; return nil }); err != nil {
				return "", err
			}
			fails := call.Do(ctx, "fails", func(context.Context) error { ran["fails"]++; return errors.New("no luck") })
			if fails == nil || fails.Error() != "no luck" {
				return "", fmt.Errorf("a step that fails: %v", fails)
			}
			_, asked := askback.Elicit[login](call, "login", "Who are you?")
			after := call.Do(ctx, "after", func(context.Context) error { ran["after"]++; return nil })
			if asked != nil && !errors.Is(after, askback.ErrInputRequired) {
				return "", fmt.Errorf("a step past an open question: %v", after)
			}
			if twice := call.Do(ctx, "before", func(context.Context) error { ran["twice"]++; return nil }); twice == nil {
				return "", errors.New("two steps have one name")
			}
			return "done", errors.Join(asked, after)
		})
	}).HTTPHandler(nil)
	r := request{target: "t"}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = octocat
	if got := r.send(t, h).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(map[string]int{"before": 1, "fails": 2, "after": 1}, ran); diff != "" {
		t.Errorf("how often the steps ran (-want +got):\n%s", diff)
	}
}
