package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// These tests check what follows from answers that do not fit, wherever the journal of their call is.

// asker adds tools that ask one question each.
func asker(srv *askback.Server) {
	add := func(name string, ask func(call *askback.Call) error) {
		harness.AddText(name, nil, func(_ context.Context, call *askback.Call) (string, error) {
			return "done", ask(call)
		})(srv)
	}
	add("form", func(call *askback.Call) error {
		_, err := askback.Elicit[harness.Login](call, "q", "Who?")
		return err
	})
	add("sampling", func(call *askback.Call) error {
		_, err := askback.Sample(call, "q", harness.Sampling("Hi"))
		return err
	})
	add("roots", func(call *askback.Call) error {
		_, err := askback.Roots(call, "q")
		return err
	})
	add("swallows", func(call *askback.Call) error { // what an ask returns decides nothing
		_, _ = askback.Roots(call, "q")
		return nil
	})
	add("of a type", func(call *askback.Call) error { // the form allows more than the type
		schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
		_, err := askback.ElicitWith[struct {
			N int8 `json:"n"`
		}](call, "q", askback.Question{Message: "How many?", Schema: schema})
		return err
	})
}

const can = `"elicitation":{},"sampling":{},"roots":{}`

// homes answers the question of a tool with each of the answers, for as long as it is asked, and returns the code and
// message of the error that ends the call, or what it says.
var homes = map[string]func(t *testing.T, tool string, answers []string) string{
	"carried": func(t *testing.T, tool string, answers []string) string {
		h := harness.NewServer(t, nil, asker).HTTPHandler(nil)
		r := harness.Request{Target: tool, Capabilities: "{" + can + "}"}
		res := r.Send(t, h)
		for _, answer := range answers {
			if !strings.Contains(res.Raw, "input_required") {
				break
			}
			r.State, r.Responses = res.Result.State, `{"q":`+answer+`}`
			res = r.Send(t, h)
		}
		var message map[string]any
		expect.Check(t, json.Unmarshal([]byte(res.Raw), &message))
		return outcomeOf(message)
	},
	"held": func(t *testing.T, tool string, answers []string) string {
		c := harness.Pipe(t, harness.NewServer(t, nil, asker))
		c.Call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{`+can+
			`},"clientInfo":{"name":"c","version":"1"}`, "")
		c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.Request(2, "tools/call", `"name":"`+tool+`","arguments":{}`, "")
		for {
			m := c.Until("a question or the result", func(map[string]any) bool { return true })
			switch {
			case m["method"] == nil:
				return outcomeOf(m)
			case m["id"] == nil:
			case len(answers) == 0:
				c.Answer(m, `{"action":"decline"}`) // ends the call
				c.Response(2)
				return "asked again"
			default:
				c.Answer(m, answers[0])
				answers = answers[1:]
			}
		}
	},
	"stored": func(t *testing.T, tool string, answers []string) string {
		extension := `{` + can + `,"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		s := harness.NewTaskServer(t, nil, asker)
		id := s.Start(extension, `"name":"`+tool+`"`)
		for {
			now := s.Result(extension, "tasks/get", id, `"taskId":"`+id+`"`)
			switch now["status"] {
			case "completed", "failed":
				return outcomeOf(now)
			case "input_required":
				if len(answers) == 0 {
					return "asked again"
				}
				for key := range now["inputRequests"].(map[string]any) {
					s.Result(extension, "tasks/update", id, harness.Answered(id, harness.Quote(key)+":"+answers[0]))
				}
				answers = answers[1:]
			}
		}
	},
}

func outcomeOf(message map[string]any) string {
	if fault, ok := message["error"].(map[string]any); ok {
		return fmt.Sprint(fault["code"], " ", fault["message"])
	}
	result, _ := message["result"].(map[string]any)
	if result["resultType"] == "input_required" {
		return "asked again"
	}
	return fmt.Sprint(harness.Content(result))
}

func TestAnswersThatDoNotFit(t *testing.T) {
	const (
		good  = `{"action":"accept","content":{"name":"Ann"}}`
		empty = `{"action":"accept"}`
		other = `{"action":"accept","content":{"name":7}}`
		final = `-32602 invalid params: the answer to the question "q" does not fit, and to ask again would not help: `
	)
	for name, test := range map[string]struct {
		tool    string
		answers []string
		want    string // the beginning
	}{
		"a form once":              {"form", []string{empty}, "asked again"},
		"a form, then fit":         {"form", []string{empty, good}, "done"},
		"a form, two mistakes":     {"form", []string{empty, other, empty, other}, "asked again"},
		"a form, the same twice":   {"form", []string{empty, empty, good}, final},
		"a form, a mistake kept":   {"form", []string{other, empty, empty, good}, final},
		"a form without an action": {"form", []string{`{}`, `{}`}, final},
		"a form of a type":         {"of a type", []string{`{"action":"accept","content":{"n":300}}`}, "asked again"},
		"a form of a type, twice": {"of a type", []string{
			`{"action":"accept","content":{"n":300}}`, `{"action":"accept","content":{"n":300}}`}, final},
		"tools that were not offered": {"sampling",
			[]string{`{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"hammer","input":{}}]}`},
			final + "the sampling result uses tools, but none were offered"},
		"no model": {"sampling",
			[]string{`{"role":"assistant","content":{"type":"text","text":"x"},"model":""}`}, final + "a sampling result needs"},
		"a root that is no file": {"roots", []string{`{"roots":[{"uri":"https://example.com"}]}`},
			final + "a root needs a file URI"},
		"an ask whose error nobody reads": {"swallows", []string{`{"roots":[{"uri":"https://example.com"}]}`},
			final + "a root needs a file URI"},
	} {
		for home, run := range homes {
			t.Run(home+"/"+name, func(t *testing.T) {
				if got := run(t, test.tool, test.answers); !strings.HasPrefix(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		}
	}
}

// The error of the limit of rounds tells why the call came that far.
func TestTheLimitOfRoundsTellsTheLastReason(t *testing.T) {
	var answers []string
	for i := range 40 {
		answers = append(answers, fmt.Sprintf(`{"action":"accept","content":{"name":%d}}`, i))
	}
	const want = `-32603 the limit of 32 rounds per call is reached; the last answer to the question "q" does not fit: `
	for home, run := range homes {
		t.Run(home, func(t *testing.T) {
			if got := run(t, "form", answers); !strings.HasPrefix(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
