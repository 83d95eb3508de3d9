package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

func TestElicitation(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	first := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}.Send(t, h)
	state := first.Asked(t, "login")
	want := `{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?",` +
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	expect.Equal(t, "question", string(first.Result.Requests["login"]), want)
	second := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`, Responses: harness.Octocat,
		State: state}.Send(t, h)
	expect.Equal(t, "the result", second.Text(t), "Hello octocat in Oslo")
	if second.Result.Meta[mcp.MetaKeyServerInfo] == nil || first.Result.Meta[mcp.MetaKeyServerInfo] == nil {
		t.Error("a result does not say which server sent it")
	}
}

// A form has its fields in the order that the schema can tell.
func TestOrderOfFields(t *testing.T) {
	text := &jsonschema.Schema{Type: "string"}
	for name, c := range map[string]struct {
		schema any
		order  string
	}{
		"document": {json.RawMessage(
			`{"type":"object","properties":{"to":{"type":"string"},"at":{"type":"string"}}}`), "to at"},
		"schema": {&jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"at": text, "to": text},
			PropertyOrder: []string{"to", "at"}}, "to at"},
		"map": {map[string]any{"type": "object", "properties": map[string]any{"to": map[string]any{"type": "string"},
			"at": map[string]any{"type": "string"}}}, "at to"},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.NewServer(t, nil, harness.AddTool("ride",
				func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					q := askback.Question{Message: "Where?", Schema: c.schema}
					_, err := askback.ElicitWith[map[string]any](call, "q", q)
					return "", err
				})).HTTPHandler(nil)
			asked := harness.Request{Target: "ride"}.Send(t, h)
			asked.Asked(t, "q")
			found := regexp.MustCompile(`"(to|at)":`).FindAllStringSubmatch(string(asked.Result.Requests["q"]), -1)
			var order []string
			for _, f := range found {
				order = append(order, f[1])
			}
			expect.Equal(t, "the fields", strings.Join(order, " "), c.order)
		})
	}
}

func TestElicitWith(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string",` +
		`"default":"x"}},"required":["n"]}`)
	type small struct {
		N int8   `json:"n"`
		S string `json:"s"`
	}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "map"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			answer, err := askback.ElicitWith[map[string]any](call, "q", askback.Question{Message: "How many?", Schema: schema})
			return fmt.Sprint(answer), err
		})
		askback.AddTool(srv, &mcp.Tool{Name: "struct"},
			func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				answer, err := askback.ElicitWith[small](call, "q", askback.Question{Message: "How many?", Schema: schema})
				return fmt.Sprint(answer), err
			})
	}).HTTPHandler(nil)
	for tool, want := range map[string]string{"map": "map[n:7 s:x]", "struct": "{7 x}"} {
		r := harness.Request{Target: tool}
		first := r.Send(t, h)
		r.State = first.Asked(t, "q")
		question := `{"method":"elicitation/create","params":{"mode":"form","message":"How many?","requestedSchema":` +
			string(schema) + `}}`
		if diff := cmp.Diff(question, string(first.Result.Requests["q"])); diff != "" {
			t.Errorf("the question of %s (-want +got):\n%s", tool, diff)
		}
		r.Responses = `{"q":{"action":"accept","content":{"n":"7"}}}`
		r.State = r.Send(t, h).Asked(t, "q")
		if tool == "struct" { // its fields cannot hold every number that the schema allows
			r.Responses = `{"q":{"action":"accept","content":{"n":300}}}`
			r.State = r.Send(t, h).Asked(t, "q")
		}
		declined := r
		declined.Responses = `{"q":{"action":"cancel"}}`
		if res := declined.Send(t, h); res.Result == nil || !res.Result.IsError || !strings.Contains(res.Raw, "dismissed") {
			t.Errorf("%s, dismissed: %s", tool, res.Raw)
		}
		r.Responses = `{"q":{"action":"accept","content":{"n":7}}}`
		expect.Equal(t, tool, r.Send(t, h).Text(t), want)
	}
}

// Without a schema the form is that of the type, the same that Elicit sends. A type that is no form needs a schema.
func TestElicitWithTheFormOfAType(t *testing.T) {
	ask := func(elicit func(call *askback.Call) (harness.Login, error)) askback.ToolHandler[struct{}, string] {
		return func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err := elicit(call)
			return who.Name, err
		}
	}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "elicit"}, ask(func(call *askback.Call) (harness.Login, error) {
			return askback.Elicit[harness.Login](call, "q", "Who?")
		}))
		askback.AddTool(srv, &mcp.Tool{Name: "with"}, ask(func(call *askback.Call) (harness.Login, error) {
			return askback.ElicitWith[harness.Login](call, "q", askback.Question{Message: "Who?", Within: time.Hour})
		}))
		askback.AddTool(srv, &mcp.Tool{Name: "pointer"}, ask(func(call *askback.Call) (harness.Login, error) {
			who, err := askback.ElicitWith[*harness.Login](call, "q", askback.Question{Message: "Who?"})
			if err != nil {
				return harness.Login{}, err
			}
			return *who, nil
		}))
		askback.AddTool(srv, &mcp.Tool{Name: "map"}, ask(func(call *askback.Call) (harness.Login, error) {
			_, err := askback.ElicitWith[map[string]any](call, "q", askback.Question{Message: "Who?"})
			return harness.Login{}, err
		}))
	}).HTTPHandler(nil)
	asked := make(map[string]string)
	for _, tool := range []string{"elicit", "with", "pointer"} {
		r := harness.Request{Target: tool}
		first := r.Send(t, h)
		r.State, asked[tool] = first.Asked(t, "q"), string(first.Result.Requests["q"])
		r.Responses = `{"q":{"action":"accept","content":{"name":"ada"}}}`
		if got := r.Send(t, h).Text(t); got != "ada" || asked[tool] != asked["elicit"] {
			t.Errorf("%s: got %q for %s, want the question of Elicit, %s", tool, got, asked[tool], asked["elicit"])
		}
	}
	expect.Contains(t, "a map without a schema", (harness.Request{Target: "map"}).Send(t, h).Text(t),
		"set Question.Schema")
}

func TestSeveralKindsInOneRound(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddTool("all",
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err1 := askback.Elicit[harness.Login](call, "login", "Who are you?")
			model, err2 := askback.Sample(call, "capital", harness.Sampling("What is the capital of France?"))
			roots, err3 := askback.Roots(call, "roots")
			err4 := askback.ElicitURL(call, "page", "Please sign in", "https://example.com/in")
			if err := errors.Join(err1, err2, err3, err4); err != nil {
				return "", err
			}
			return fmt.Sprint(who.Name, model.Content[0].(*mcp.TextContent).Text, roots[0].URI), nil
		})).HTTPHandler(nil)
	r := harness.Request{Target: "all"}
	r.State = r.Send(t, h).Asked(t, "login", "capital", "roots", "page")

	// With half of the answers, only the other half is asked again.
	r.Responses = `{"login":{"action":"accept","content":{"name":"octocat"}},"roots":{"roots":[{"uri":"file:///home"}]},
		"page":{"action":"accept"}}`
	r.State = r.Send(t, h).Asked(t, "capital")
	r.Responses = `{"capital":{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m",` +
		`"stopReason":"endTurn"}}`
	expect.Equal(t, "the result", r.Send(t, h).Text(t), "octocatParisfile:///home")
}

func TestAnswersThatDoNotFitAreAskedAgain(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	for name, responses := range map[string]string{
		"missing":         `{}`,
		"none at all":     ``,
		"unasked for":     `{"other":{"action":"accept","content":{"name":"x"}}}`,
		"empty":           `{"login":{}}`,
		"unknown action":  `{"login":{"action":"maybe"}}`,
		"no content":      `{"login":{"action":"accept"}}`,
		"wrong type":      `{"login":{"action":"accept","content":{"name":42}}}`,
		"wrong case":      `{"login":{"action":"accept","content":{"Name":"octocat"}}}`,
		"of another kind": `{"login":{"roots":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = responses
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = harness.Octocat
			expect.Equal(t, "after asking again", r.Send(t, h).Text(t), "Hello octocat in Oslo")
		})
	}
	// Additional members beside a valid answer are ignored, at every level.
	r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = `{"other":{},"login":{"action":"accept","more":1,"content":{"name":"octocat",` +
		`"not_requested":{"name":"x"}}}}`
	expect.Equal(t, "with more than was asked for", r.Send(t, h).Text(t), "Hello octocat in Oslo")
}

// The specification does not have the first draft's wrapper around each answer.
func TestAnswersInAWrapperAreAskedAgain(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = `{"login":{"result":{"action":"accept","content":{"name":"octocat"}}}}`
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = harness.Octocat
	expect.Equal(t, "the result", r.Send(t, h).Text(t), "Hello octocat in Oslo")
}

func TestDeclinedAndCancelled(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet, harness.AddTool("lenient",
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			_, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
				// The decision is remembered over further rounds.
				if _, err := askback.Elicit[harness.Login](call, "again", "And now?"); err != nil {
					return "", err
				}
				return "went on after " + declined.Action, nil
			}
			return "", err
		})).HTTPHandler(nil)
	for _, action := range []string{"decline", "cancel"} {
		r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
		r.State = r.Send(t, h).Asked(t, "login")
		r.Responses = `{"login":{"action":"` + action + `"}}`
		if res := r.Send(t, h); res.Result == nil || !res.Result.IsError || !strings.Contains(res.Raw, "login") {
			t.Errorf("%s: want a tool error that names the question, got %s", action, res.Raw)
		}

		r = harness.Request{Target: "lenient"}
		r.State = r.Send(t, h).Asked(t, "login")
		r.Responses = `{"login":{"action":"` + action + `"}}`
		r.State = r.Send(t, h).Asked(t, "again")
		r.Responses = `{"again":{"action":"accept","content":{"name":"x"}}}`
		expect.Equal(t, "the result", r.Send(t, h).Text(t), "went on after "+action)
	}
}

// Asks that are made before their errors are checked share a round. A declined one does not end
// the call while another is open.
func TestADeclinedQuestionWaitsForTheOthers(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddTool("two",
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			_, err1 := askback.Elicit[harness.Login](call, "a", "?")
			_, err2 := askback.Elicit[harness.Login](call, "b", "?")
			return "done", errors.Join(err1, err2)
		})).HTTPHandler(nil)
	r := harness.Request{Target: "two"}
	r.State = r.Send(t, h).Asked(t, "a", "b")
	r.Responses = `{"a":{"action":"decline"}}`
	r.State = r.Send(t, h).Asked(t, "b")
	r.Responses = `{"b":{"action":"accept","content":{"name":"x"}}}`
	res := r.Send(t, h)
	if res.Result == nil || !res.Result.IsError || res.Text(t) != `the user declined to answer the question "a"` {
		t.Errorf("got %s", res.Raw)
	}
}

// An open question suspends the call, unless the handler joins its error with one that
// ends the call.
func TestErrorsThatAreJoinedWithAnOpenQuestion(t *testing.T) {
	question := func(call *askback.Call, key string) error {
		_, err := askback.Elicit[harness.Login](call, key, "Who are you?")
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
			// The error becomes a protocol error, like that of a limit of the library.
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
				_, err := askback.ElicitWith[map[string]any](call,
					"bad", askback.Question{Message: "?", Schema: map[string]any{"type": "array"}})
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
			text: `question \"bad\": the URL must be well-formed and absolute`,
		},
		{
			name: "sampling without parameters",
			err:  func(call *askback.Call) error { _, err := askback.Sample(call, "bad", nil); return err },
			text: `question \"bad\": sampling needs at least one message`,
		},
		{
			name: "another question under the same key",
			err: func(call *askback.Call) error {
				_, err := askback.Elicit[harness.Login](call, "login", "And who else?")
				return err
			},
			text: `two different questions with the key \"login\"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := harness.NewServer(t, &askback.Options{Limits: test.limits}, func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "open first"},
					func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
						return "", errors.Join(question(call, "login"), test.err(call))
					})
				askback.AddTool(srv, &mcp.Tool{Name: "open last"},
					func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
						open, err := question(call, "login"), test.err(call)
						return "", fmt.Errorf("asking: %w", errors.Join(err, open))
					})
				askback.AddTool(srv, &mcp.Tool{Name: "caught"},
					func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
						open := question(call, "login")
						_ = test.err(call)
						return "", open
					})
			}).HTTPHandler(nil)
			for _, tool := range []string{"open first", "open last"} {
				res := harness.Request{Target: tool, Capabilities: `{"elicitation":{"form":{},"url":{}},"sampling":{}}`}.Send(t, h)
				if test.code != 0 {
					res.Refused(t, test.status, test.code)
				} else if res.Result == nil || !res.Result.IsError {
					t.Fatalf("%s: want a tool error, got %s", tool, res.Raw)
				}
				expect.Contains(t, tool, res.Raw, test.text)
			}
			if res := (harness.Request{Target: "caught"}).Send(t, h); res.Result == nil || res.Result.Requests["login"] == nil {
				t.Errorf("the handler goes on without it: %s", res.Raw)
			}
		})
	}
}

func TestCapabilitiesGateQuestions(t *testing.T) {
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		for name, ask := range map[string]askback.ToolHandler[struct{}, any]{
			"form": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return askback.Elicit[harness.Login](call, "q", "?")
			},
			"url": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return nil, askback.ElicitURL(call, "q", "?", "https://example.com")
			},
			"model": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return askback.Sample(call, "q", harness.Sampling("?"))
			},
			"tools": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				p := harness.Sampling("?")
				p.Tools = []*mcp.Tool{{Name: "x", InputSchema: map[string]any{"type": "object"}}}
				return askback.Sample(call, "q", p)
			},
			"roots": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return askback.Roots(call, "q")
			},
		} {
			askback.AddTool(srv, &mcp.Tool{Name: name}, ask)
		}
	})
	h := srv.HTTPHandler(nil)
	inSession := func(tool, capabilities string) map[string]any {
		c := harness.Pipe(t, srv)
		c.Call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":`+capabilities+
			`,"clientInfo":{"name":"c","version":"1"}`, "")
		c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.Request(2, "tools/call", `"name":"`+tool+`"`, "")
		m := c.Until("question or response", func(m map[string]any) bool { return m["id"] != nil })
		if m["method"] != nil { // the call ends before its connection does, which would wait for it
			c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"error":{"code":-1,"message":"not now"}}`, m["id"]))
			c.Response(2)
		}
		return m
	}
	for _, test := range []struct{ tool, enough, lacking string }{
		{"form", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"form", `{"elicitation":{"form":{}}}`, `{"sampling":{"tools":{}},"roots":{}}`},
		{"url", `{"elicitation":{"url":{}}}`, `{"elicitation":{}}`},
		{"model", `{"sampling":{}}`, `{"elicitation":{}}`},
		{"tools", `{"sampling":{"tools":{}}}`, `{"sampling":{}}`},
		{"roots", `{"roots":{}}`, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`},
	} {
		harness.Request{Target: test.tool, Capabilities: test.enough}.Send(t, h).Asked(t, "q")
		harness.Request{Target: test.tool, Capabilities: test.lacking}.Send(t, h).Refused(t, 400, -32021)
		if got := inSession(test.tool, test.enough); got["method"] == nil {
			t.Errorf("a session with %s: %s got %v, want a question", test.enough, test.tool, got)
		}
		if got := inSession(test.tool, test.lacking); harness.At(got, "error", "code") != -32021.0 {
			t.Errorf("a session with %s: %s got %v, want -32021", test.lacking, test.tool, got)
		}
	}
}

// logins asks for these logins in one round.
func logins(keys ...string) func(*askback.Server) {
	return harness.AddTool("logins", func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		answers := make([]harness.Login, len(keys))
		errs := make([]error, len(keys))
		for i, key := range keys {
			answers[i], errs[i] = askback.Elicit[harness.Login](call, key, "Your "+key+"?")
		}
		return fmt.Sprint(answers), errors.Join(errs...)
	})
}

// The proposals' rolling upgrade: the new version asks only for what is missing, and a call
// that returns to the old version keeps its answers, too.
func TestAnUpgradeAsksNobodyTwice(t *testing.T) {
	keys := &askback.Options{Keys: harness.NewRing(t)}
	old := harness.NewServer(t, keys, logins("github_login", "google_login")).HTTPHandler(nil)
	upgraded := harness.NewServer(t, keys, logins("github_login", "microsoft_login")).HTTPHandler(nil)
	r := harness.Request{Target: "logins"}
	r.State = r.Send(t, old).Asked(t, "github_login", "google_login")
	r.Responses = `{"github_login":{"action":"accept","content":{"name":"octocat"}},"google_login":{"action":"accept",` +
		`"content":{"name":"g"}}}`
	r.State = r.Send(t, upgraded).Asked(t, "microsoft_login")
	r.Responses = `{"microsoft_login":{"action":"accept","content":{"name":"m"}}}`
	expect.Equal(t, "the new version", r.Send(t, upgraded).Text(t), "[{octocat} {m}]")
	expect.Equal(t, "the old version", r.Send(t, old).Text(t), "[{octocat} {g}]")
}

// Any answers of a client are accepted or asked for again.
func FuzzAnswers(f *testing.F) {
	h := harness.NewServer(f, nil, harness.AddRounds).HTTPHandler(nil)
	first := harness.Request{Target: "rounds"}
	first.State = first.Send(f, h).Asked(f, "login", "roots")
	f.Add(`{"action":"accept","content":{"name":"x"}}`, `{"roots":[{"uri":"file:///x"}]}`,
		`{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`)
	f.Add(`{"action":"decline"}`, `{"roots":null}`, `{"content":[{"type":"tool_use"}]}`)
	f.Fuzz(func(t *testing.T, login, roots, model string) {
		r := first
		r.Responses = `{"login":` + login + `,"roots":` + roots + `}`
		res := r.Send(t, h)
		if res.Result != nil && res.Result.Requests["model"] != nil {
			r.State, r.Responses = res.Result.State, `{"model":`+model+`}`
			res = r.Send(t, h)
		}
		if res.Status >= 500 || res.Result == nil && res.Error == nil || res.Error != nil && res.Error.Code == -32603 {
			t.Fatalf("status %d: %s", res.Status, res.Raw)
		}
	})
}
