package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type login struct {
	Name string `json:"name"`
}

type greeting struct {
	Place string `json:"place"`
}

// greet asks one question.
func greet(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "greet"}, func(ctx context.Context, call *askback.Call, in greeting) (string, error) {
		l, err := askback.Elicit[login](call, "login", "Who are you?")
		if err != nil {
			return "", err
		}
		return "Hello " + l.Name + " in " + in.Place, nil
	})
}

const octocat = `{"login":{"action":"accept","content":{"name":"octocat"}}}`

func sampling(prompt string) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: prompt}}}},
	}
}

func TestElicitation(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(nil)
	first := request{target: "greet", arguments: `{"place":"Oslo"}`}.send(t, h)
	state := first.asked(t, "login")
	want := `{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	if got := string(first.Result.Requests["login"]); got != want {
		t.Errorf("question:\n got %s\nwant %s", got, want)
	}
	second := request{target: "greet", arguments: `{"place":"Oslo"}`, responses: octocat, state: state}.send(t, h)
	if got := second.text(t); got != "Hello octocat in Oslo" {
		t.Errorf("got %q", got)
	}
	if second.Result.Meta[mcp.MetaKeyServerInfo] == nil || first.Result.Meta[mcp.MetaKeyServerInfo] == nil {
		t.Error("a result does not say which server sent it")
	}
}

// Arguments may be spelled anew in every round.
func TestArgumentsAreComparedByMeaning(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
				_, err := askback.Elicit[login](call, "login", "?")
				return "done", err
			})
	}).HTTPHandler(nil)
	state := request{target: "t", arguments: `{"a":1,"b":"é","n":9007199254740993}`}.send(t, h).asked(t, "login")
	same := request{target: "t", arguments: `{ "n":9007199254740993, "b":"\u00e9", "a":1.0 }`, responses: octocat, state: state}
	if got := same.send(t, h).text(t); got != "done" {
		t.Errorf("got %q", got)
	}
	other := request{target: "t", arguments: `{"a":1,"b":"é","n":9007199254740992}`, responses: octocat, state: state}
	other.send(t, h).refused(t, 400, -32602)
}

func TestAnswersThatDoNotFitAreAskedAgain(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(nil)
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
			r := request{target: "greet", arguments: `{"place":"Oslo"}`}
			r.state = r.send(t, h).asked(t, "login")
			r.responses = responses
			r.state = r.send(t, h).asked(t, "login")
			r.responses = octocat
			if got := r.send(t, h).text(t); got != "Hello octocat in Oslo" {
				t.Errorf("after asking again: %q", got)
			}
		})
	}
	// What comes besides an answer that fits is ignored, at every level.
	r := request{target: "greet", arguments: `{"place":"Oslo"}`}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = `{"other":{},"login":{"action":"accept","more":1,"content":{"name":"octocat","not_requested":{"name":"x"}}}}`
	if got := r.send(t, h).text(t); got != "Hello octocat in Oslo" {
		t.Errorf("with more than was asked for: %q", got)
	}
}

func TestDeclinedAndCancelled(t *testing.T) {
	h := newServer(t, nil, greet, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "lenient"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			_, err := askback.Elicit[login](call, "login", "Who are you?")
			if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
				// The decision is remembered over further rounds.
				if _, err := askback.Elicit[login](call, "again", "And now?"); err != nil {
					return "", err
				}
				return "went on after " + declined.Action, nil
			}
			return "", err
		})
	}).HTTPHandler(nil)
	for _, action := range []string{"decline", "cancel"} {
		r := request{target: "greet", arguments: `{"place":"Oslo"}`}
		r.state = r.send(t, h).asked(t, "login")
		r.responses = `{"login":{"action":"` + action + `"}}`
		if res := r.send(t, h); res.Result == nil || !res.Result.IsError || !strings.Contains(res.raw, "login") {
			t.Errorf("%s: want a tool error that names the question, got %s", action, res.raw)
		}

		r = request{target: "lenient"}
		r.state = r.send(t, h).asked(t, "login")
		r.responses = `{"login":{"action":"` + action + `"}}`
		r.state = r.send(t, h).asked(t, "again")
		r.responses = `{"again":{"action":"accept","content":{"name":"x"}}}`
		if got := r.send(t, h).text(t); got != "went on after "+action {
			t.Errorf("got %q", got)
		}
	}
}

func TestSeveralKindsInOneRound(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "all"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err1 := askback.Elicit[login](call, "login", "Who are you?")
			model, err2 := askback.Sample(call, "capital", sampling("What is the capital of France?"))
			roots, err3 := askback.Roots(call, "roots")
			err4 := askback.ElicitURL(call, "page", "Please sign in", "https://example.com/in")
			if err := errors.Join(err1, err2, err3, err4); err != nil {
				return "", err
			}
			return fmt.Sprint(who.Name, model.Content[0].(*mcp.TextContent).Text, roots[0].URI), nil
		})
	}).HTTPHandler(nil)
	r := request{target: "all"}
	r.state = r.send(t, h).asked(t, "login", "capital", "roots", "page")

	// Half of the answers: the other half is asked again, and none twice.
	r.responses = `{"login":{"action":"accept","content":{"name":"octocat"}},"roots":{"roots":[{"uri":"file:///home"}]},
		"capital":{"role":"assistant"},"page":{"action":"accept"}}`
	r.state = r.send(t, h).asked(t, "capital")
	r.responses = `{"capital":{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m","stopReason":"endTurn"}}`
	if got := r.send(t, h).text(t); got != "octocatParisfile:///home" {
		t.Errorf("got %q", got)
	}
}

// Independent asks made before their errors are looked at share a round.
func TestAsksThatAreOpenTogetherShareARound(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "two"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			_, err1 := askback.Elicit[login](call, "a", "?")
			_, err2 := askback.Elicit[login](call, "b", "?")
			return "done", errors.Join(err1, err2)
		})
	}).HTTPHandler(nil)
	request{target: "two"}.send(t, h).asked(t, "a", "b")
}

func TestStepsRunOnce(t *testing.T) {
	ran := map[string]int{}
	var keys []string
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "order"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			id, err := askback.Do(ctx, call, "reserve", func(context.Context) (int64, error) {
				ran["reserve"]++
				keys = append(keys, call.IdempotencyKey("pay"))
				return 9007199254740993, nil
			})
			if err != nil {
				return "", err
			}
			if _, err = askback.Elicit[login](call, "login", "Who pays?"); err != nil {
				return "", err
			}
			err = call.Do(ctx, "pay", func(context.Context) error {
				ran["pay"]++
				keys = append(keys, call.IdempotencyKey("pay"))
				return nil
			})
			if err != nil {
				return "", err
			}
			if _, err = askback.Elicit[login](call, "receipt", "Who gets the receipt?"); err != nil {
				return "", err
			}
			return fmt.Sprint(id), nil
		})
	}).HTTPHandler(nil)
	r := request{target: "order"}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = octocat
	lost := r
	r.state = r.send(t, h).asked(t, "receipt")
	lost.send(t, h).asked(t, "receipt") // the response was lost: the client sends the round again
	r.responses = `{"receipt":{"action":"accept","content":{"name":"x"}}}`
	if got := r.send(t, h).text(t); got != "9007199254740993" {
		t.Errorf("got %q", got)
	}
	// The repeated round has no record of the payment; its idempotency key is the same.
	if want := map[string]int{"reserve": 1, "pay": 2}; !cmp.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if len(keys) != 3 || keys[0] != keys[1] || keys[1] != keys[2] || keys[0] == "" {
		t.Errorf("idempotency keys %q", keys)
	}
}

func TestCheckpointHandsOver(t *testing.T) {
	ring := newRing(t)
	ran := 0
	tool := func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "index"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			n, err := askback.Do(ctx, call, "compute", func(context.Context) (int, error) { ran++; return 42, nil })
			if err != nil {
				return "", err
			}
			if err := call.Checkpoint(ctx, "computed"); err != nil {
				return "", err
			}
			return fmt.Sprint(n), nil
		})
	}
	a := newServer(t, &askback.Options{Keys: ring}, tool).HTTPHandler(nil)
	b := newServer(t, &askback.Options{Keys: ring}, tool).HTTPHandler(nil)
	res := request{target: "index"}.send(t, a)
	state := res.asked(t)
	if state == "" || strings.Contains(res.raw, "inputRequests") {
		t.Fatalf("want a state and no inputRequests, got %s", res.raw)
	}
	if got := (request{target: "index", state: state}).send(t, b).text(t); got != "42" || ran != 1 {
		t.Errorf("got %q after %d computations", got, ran)
	}
}

func TestPromptsAndResourcesAsk(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		srv.AddPrompt(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{{Name: "topic", Required: true}}},
			func(ctx context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				l, err := askback.Elicit[login](call, "login", "Who are you?")
				return &mcp.GetPromptResult{Description: args["topic"] + l.Name}, err
			})
		read := func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			if uri == "doc://missing" {
				return nil, mcp.ResourceNotFoundError(uri)
			}
			l, err := askback.Elicit[login](call, "login", "Who are you?")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: l.Name}}}, err
		}
		srv.AddResource(&mcp.Resource{Name: "r", URI: "doc://one", MIMEType: "text/plain"}, read)
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: "doc://{id}"}, read)
	}).HTTPHandler(nil)

	p := request{method: "prompts/get", target: "p", arguments: `{"topic":"Go "}`}
	p.state = p.send(t, h).asked(t, "login")
	p.responses = octocat
	if res := p.send(t, h); !strings.Contains(res.raw, `"description":"Go octocat"`) || !strings.Contains(res.raw, `"messages":[]`) {
		t.Errorf("prompt: %s", res.raw)
	}
	request{method: "prompts/get", target: "p"}.send(t, h).refused(t, 400, -32602)
	request{method: "prompts/get", target: "p", arguments: `{"topic":1}`}.send(t, h).refused(t, 400, -32602)
	request{method: "prompts/get", target: "none"}.send(t, h).refused(t, 400, -32602)

	for _, uri := range []string{"doc://one", "doc://two"} {
		r := request{method: "resources/read", target: uri}
		r.state = r.send(t, h).asked(t, "login")
		r.responses = octocat
		res := r.send(t, h)
		if !strings.Contains(res.raw, `"text":"octocat"`) || !strings.Contains(res.raw, `"uri":"`+uri+`"`) {
			t.Errorf("resource: %s", res.raw)
		}
		if !strings.Contains(res.raw, `"cacheScope":"private"`) {
			t.Errorf("what depends on an answer may be cached for others: %s", res.raw)
		}
	}
	res := request{method: "resources/read", target: "doc://missing"}.send(t, h)
	if res.refused(t, 400, -32602); !strings.Contains(res.raw, "doc://missing") {
		t.Errorf("missing resource: %s", res.raw)
	}
}

func TestBareFirstRound(t *testing.T) {
	twice := func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "twice"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			a, err := askback.Elicit[login](call, "a", "?")
			if err != nil {
				return "", err
			}
			b, err := askback.Elicit[login](call, "b", "?")
			return a.Name + b.Name, err
		})
	}
	h := newServer(t, &askback.Options{BareFirstRound: true}, twice).HTTPHandler(nil)
	if state := (request{target: "twice"}).send(t, h).asked(t, "a"); state != "" {
		t.Error("the first round has a state")
	}
	r := request{target: "twice", responses: `{"a":{"action":"accept","content":{"name":"x"}}}`}
	r.state = r.send(t, h).asked(t, "b")
	r.responses = `{"b":{"action":"accept","content":{"name":"y"}}}`
	if got := r.send(t, h).text(t); got != "xy" {
		t.Errorf("got %q", got)
	}
	// Without the option such an answer counts for nothing.
	strict := newServer(t, nil, twice).HTTPHandler(nil)
	request{target: "twice", responses: `{"a":{"action":"accept","content":{"name":"x"}}}`}.send(t, strict).asked(t, "a")
}

func TestProgressMakesAStream(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			for _, p := range []float64{1, 2, 2, 1, 3} {
				if err := call.Progress(ctx, p, 3, "working\n"); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	}).HTTPHandler(nil)
	if res := (request{target: "slow"}).send(t, h); res.header.Get("Content-Type") != "application/json" || res.text(t) != "done" {
		t.Errorf("without a token: %s", res.raw)
	}
	res := request{target: "slow", meta: `,"progressToken":"tok"`}.send(t, h)
	if got := res.header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	if res.header.Get("X-Accel-Buffering") != "no" {
		t.Error("proxies may buffer the stream")
	}
	if got := strings.Count(res.raw, "notifications/progress"); got != 3 {
		t.Errorf("%d notifications, want the 3 that grow: %s", got, res.raw)
	}
	if !strings.Contains(res.raw, `{"progressToken":"tok","progress":3,"total":3,"message":"working\n"}`) || res.text(t) != "done" {
		t.Errorf("got %s", res.raw)
	}
}

func TestStructuredOutput(t *testing.T) {
	type out struct {
		N int `json:"n"`
	}
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "s"}, func(ctx context.Context, call *askback.Call, _ struct{}) (out, error) {
			_, err := askback.Elicit[login](call, "login", "?")
			return out{7}, err
		})
	}).HTTPHandler(nil)
	r := request{target: "s"}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = octocat
	if res := r.send(t, h); !strings.Contains(res.raw, `"structuredContent":{"n":7}`) || res.text(t) != `{"n":7}` {
		t.Errorf("got %s", res.raw)
	}
}

func TestArgumentDefaultsAndExactNumbers(t *testing.T) {
	type in struct {
		Big  int64  `json:"big"`
		Mode string `json:"mode,omitempty"`
	}
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "d", InputSchema: json.RawMessage(`{"type":"object","properties":{"big":{"type":"integer"},"mode":{"type":"string","default":"fast"}}}`)},
			func(ctx context.Context, call *askback.Call, in in) (string, error) {
				return fmt.Sprint(in.Big, in.Mode), nil
			})
	}).HTTPHandler(nil)
	if got := (request{target: "d", arguments: `{"big":9007199254740993}`}).send(t, h).text(t); got != "9007199254740993fast" {
		t.Errorf("got %q", got)
	}
	// A name in another case is another member, and no way around the schema.
	if got := (request{target: "d", arguments: `{"BIG":1,"MODE":"slow"}`}).send(t, h).text(t); got != "0fast" {
		t.Errorf("got %q", got)
	}
}
