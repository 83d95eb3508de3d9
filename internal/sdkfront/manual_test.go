package sdkfront_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

func TestManualStyleIsSealed(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object"}`)
	for name, register := range map[string]func(*mcp.Server, *askback.Server){
		"on the SDK's server": func(m *mcp.Server, _ *askback.Server) {
			m.AddTool(&mcp.Tool{Name: "manual", InputSchema: schema}, manualTool)
		},
		"on Askback's": func(_ *mcp.Server, srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "manual", InputSchema: schema}, func(ctx context.Context, call *askback.Call,
				_ map[string]any) (*mcp.CallToolResult, error) {
				res, err := manualTool(ctx, call.Request().(*mcp.CallToolRequest))
				return res, err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
			srv, err := askback.New(m, nil)
			expect.Check(t, err)
			register(m, srv)
			h := srv.HTTPHandler(nil)
			answer := func(name string) string {
				return `{"login":{"action":"accept","content":{"name":"` + name + `"}},"other":{"action":"decline"}}`
			}
			r := harness.Request{Target: "manual", Arguments: `{"a":1}`}
			first := r.Send(t, h)
			r.State = first.Asked(t, "login")
			if strings.Contains(r.State, "one") || !strings.HasPrefix(r.State, "ab1.") {
				t.Errorf("the state is not sealed: %s", r.State)
			}
			if strings.Contains(first.Raw, `"content"`) || strings.Contains(first.Raw, "ttlMs") {
				t.Errorf("more than an input required result: %s", first.Raw)
			}
			r.Responses = answer("x")
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = answer("y")
			expect.Equal(t, "r.Send(t, h).Text(t)", r.Send(t, h).Text(t), "x+y")
			r.Responses = answer("shed")
			res := r.Send(t, h)
			if state := res.Asked(t); state == "" || !strings.Contains(res.Raw, `"inputRequests":{}`) {
				t.Errorf("state only: %s", res.Raw)
			}
			if got := (harness.Request{Target: "manual", Arguments: `{"a":1}`, State: res.Result.State}).Send(t,
				h).Text(t); got != "resumed" {
				t.Errorf("got %q", got)
			}
			// Forged, plain and foreign states never reach the handler.
			for _, state := range []string{"two:admin", "one"} {
				harness.Request{Target: "manual", State: state}.Send(t, h).Refused(t, 400, -32602)
			}
			harness.Request{Target: "manual", Arguments: `{"a":2}`, State: r.State}.Send(t, h).Refused(t, 400, -32602)
			harness.Request{Target: "manual", Capabilities: `{}`}.Send(t, h).Refused(t, 400, -32021)

			// A legacy client is asked in all rounds inside its session.
			here, there := mcp.NewInMemoryTransports()
			expect.Must(srv.Connect(t.Context(), there, nil))(t)
			var messages []string
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					messages = append(messages, req.Params.Message)
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "z"}}, nil
				},
			})
			session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			expect.Check(t, err)
			defer session.Close()
			legacy, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "manual"})
			expect.Check(t, err)
			if got := legacy.Content[0].(*mcp.TextContent).Text; got != "z+z" ||
				!cmp.Equal(messages, []string{"Who one?", "Who two:z?"}) {
				t.Errorf("legacy: got %q after %q", got, messages)
			}
		})
	}
}

func TestBareFirstRoundInTheManualStyle(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, &askback.Options{BareFirstRound: true}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "m"}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			p := call.Request().(*mcp.CallToolRequest).Params
			if r, ok := p.InputResponses["login"].(*mcp.ElicitResult); ok {
				return harness.Text(fmt.Sprint(r.Content["name"])), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"login": &mcp.ElicitParams{Message: "?"}}}, nil
		})
	}).HTTPHandler(nil)
	expect.Equal(t, "the first round has a state", (harness.Request{Target: "m"}).Send(t, h).Asked(t, "login"), "")
	if got := (harness.Request{Target: "m", Responses: harness.Octocat}).Send(t, h).Text(t); got != "octocat" {
		t.Errorf("got %q", got)
	}
}

// A result that an author returns to several calls is not modified.
func TestManualResultsAreNotWrittenTo(t *testing.T) {
	t.Parallel()
	shared := &mcp.CallToolResult{RequestState: "mine"}
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "shared", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState != "" {
				return harness.Text(req.Params.RequestState), nil
			}
			return shared, nil
		})
	srv, err := askback.New(m, nil)
	expect.Check(t, err)
	h := srv.HTTPHandler(nil)
	for range 2 {
		state := harness.Request{Target: "shared"}.Send(t, h).Asked(t)
		if got := (harness.Request{Target: "shared", State: state}).Send(t, h).Text(t); got != "mine" {
			t.Errorf("got %q", got)
		}
	}
	expect.Equal(t, "the author's result", shared.RequestState, "mine")
}

// An answer to a question of an earlier round does not answer a question of this one.
func TestManualAnswersCountForTheirRoundOnly(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "two", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			ask := func(key string) *mcp.CallToolResult {
				return &mcp.CallToolResult{RequestState: key,
					InputRequests: mcp.InputRequestMap{key: &mcp.ElicitParams{Message: "?"}}}
			}
			switch req.Params.RequestState {
			case "":
				return ask("a"), nil
			case "a":
				return ask("b"), nil
			}
			return harness.Text(fmt.Sprint(len(req.Params.InputResponses), req.Params.InputResponses["a"] != nil)), nil
		})
	srv, err := askback.New(m, nil)
	expect.Check(t, err)
	h := srv.HTTPHandler(nil)
	r := harness.Request{Target: "two"}
	r.State = r.Send(t, h).Asked(t, "a")
	r.Responses = `{"a":{"action":"accept"},"b":{"action":"accept"}}`
	r.State = r.Send(t, h).Asked(t, "b")
	expect.Equal(t, "r.Send(t, h).Text(t)", r.Send(t, h).Text(t), "1 false")
}

// Handlers in the manual style, of every method that may ask, keep to the limits and to what the client declared, and
// go on from a state that is sealed for them.
func TestManualStyleOfEveryMethodKeepsTheLimits(t *testing.T) {
	t.Parallel()
	const uri = "file:///manual"
	form := &mcp.ElicitParams{Message: "?"}
	for _, c := range []struct {
		says         string
		limits       askback.Limits
		requests     mcp.InputRequestMap
		capabilities string
		code         int    // of the second response; 0: it is complete
		message      string // part of it
	}{
		{"within the limits", askback.Limits{Rounds: 1, Questions: 2}, mcp.InputRequestMap{"a": form, "b": form}, "", 0, ""},
		{"too many questions", askback.Limits{Questions: 1}, mcp.InputRequestMap{"a": form, "b": form}, "", -32603,
			"limit of 1 questions per round"},
		{"a form, to a client that takes URLs only", askback.Limits{}, mcp.InputRequestMap{"a": form},
			`{"elicitation":{"url":{}}}`, -32021, ""},
		{"sampling with tools, to a client that has none", askback.Limits{},
			mcp.InputRequestMap{"a": &mcp.CreateMessageWithToolsParams{
				MaxTokens: 1, Messages: []*mcp.SamplingMessageV2{{Role: "user",
					Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}},
				Tools: []*mcp.Tool{{Name: "t", InputSchema: map[string]any{"type": "object"}}},
			}}, `{"sampling":{}}`, -32021, ""},
		{"a question that is none", askback.Limits{}, mcp.InputRequestMap{"a": nil}, "", -32603, ""},
	} {
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			t.Run(c.says+" "+method, func(t *testing.T) {
				m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
				m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}},
					func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						if req.Params.RequestState == "" {
							return &mcp.CallToolResult{RequestState: "plain", InputRequests: c.requests}, nil
						}
						return harness.Text(fmt.Sprint(req.Params.RequestState, len(req.Params.InputResponses))), nil
					})
				m.AddPrompt(&mcp.Prompt{Name: "manual"}, func(_ context.Context,
					req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
					if req.Params.RequestState == "" {
						return &mcp.GetPromptResult{RequestState: "plain", InputRequests: c.requests}, nil
					}
					return &mcp.GetPromptResult{Description: fmt.Sprint(req.Params.RequestState, len(req.Params.InputResponses))}, nil
				})
				m.AddResource(&mcp.Resource{Name: "manual", URI: uri},
					func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
						if req.Params.RequestState == "" {
							return &mcp.ReadResourceResult{RequestState: "plain", InputRequests: c.requests}, nil
						}
						text := fmt.Sprint(req.Params.RequestState, len(req.Params.InputResponses))
						return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, nil
					})
				srv, err := askback.New(m, &askback.Options{Limits: c.limits, Keys: harness.NewRing(t)})
				expect.Check(t, err)
				h := srv.HTTPHandler(nil)
				r := harness.Request{Method: method, Target: "manual", Capabilities: c.capabilities}
				if method == "resources/read" {
					r.Target = uri
				}
				first := r.Send(t, h)
				if c.code != 0 {
					if first.Error == nil || first.Error.Code != c.code || !strings.Contains(first.Error.Message, c.message) {
						t.Errorf("got %s", first.Raw)
					}
					return
				}
				r.State = first.Asked(t, "a", "b")
				if strings.Contains(r.State, "plain") {
					t.Errorf("the state is not sealed: %s", r.State)
				}
				r.Responses = `{"a":{"action":"decline"},"b":{"action":"decline"},"c":{"action":"decline"}}`
				if second := r.Send(t, h); second.Error != nil || !strings.Contains(second.Raw, "plain2") {
					t.Errorf("got %s", second.Raw)
				}
			})
		}
	}
}

func TestManualStyleHasALimitOfRounds(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "endless", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{RequestState: "again"}, nil
		})
	srv, err := askback.New(m, &askback.Options{Limits: askback.Limits{Rounds: 2}, Keys: harness.NewRing(t)})
	expect.Check(t, err)
	h := srv.HTTPHandler(nil)
	r := harness.Request{Target: "endless"}
	for range 2 {
		r.State = r.Send(t, h).Asked(t)
	}
	if res := r.Send(t, h); res.Error == nil || !strings.Contains(res.Error.Message, "limit of 2 rounds per call") {
		t.Errorf("got %s", res.Raw)
	}
}

// In a session an answer that does not fit does not reach a handler in the manual style, and the log says why.
func TestAManualAnswerThatDoesNotFitInASession(t *testing.T) {
	t.Parallel()
	logger, log, lines := harness.JSONLogs()
	pipe := harness.Pipe(t, harness.NewServer(t, &askback.Options{Logger: logger}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "manual"}, func(ctx context.Context, call *askback.Call,
			_ map[string]any) (*mcp.CallToolResult, error) {
			return manualTool(ctx, call.Request().(*mcp.CallToolRequest))
		})
	}))
	pipe.Write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
		harness.AllCapabilities +
		`,"clientInfo":{"name":"c","version":"1"}}}`)
	pipe.Response(1)
	pipe.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	pipe.Request(2, "tools/call", `"name":"manual","arguments":{}`, "")
	for _, name := range []string{`471147114711`, `"x"`} {
		question := pipe.Until("a question", func(m map[string]any) bool { return m["method"] != nil && m["id"] != nil })
		pipe.Answer(question, `{"action":"accept","content":{"name":`+name+`}}`)
	}
	expect.Contains(t, "fmt.Sprint(pipe.Response(2))", fmt.Sprint(pipe.Response(2)), "text:+x")
	refused := lines("askback: an answer does not fit")
	if len(refused) != 1 || refused[0]["key"] != "login" || refused[0]["reason"] != "name: must be a string" {
		t.Errorf("logged %v", refused)
	}
	harness.NoSecrets(t, log, "471147114711")
}

// A resource that was added to the SDK's server goes before a template of ours, and if it answers in the manual style
// its state is sealed like any other: it leaves on no front.
func TestAManualResourceUnderATemplateLeavesNoState(t *testing.T) {
	t.Parallel()
	const state = "its plain state"
	questions := mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Who?"}}
	contents := []*mcp.ResourceContents{{URI: "doc://exact", Text: "theirs"}}
	for name, result := range map[string]*mcp.ReadResourceResult{
		"questions and a state": {RequestState: state, InputRequests: questions},
		"questions":             {InputRequests: questions},
		"contents and a state":  {RequestState: state, Contents: contents},
	} {
		m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
		theirs := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return result, nil
		}
		m.AddResource(&mcp.Resource{URI: "doc://exact", Name: "exact"}, theirs)
		srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
		expect.Check(t, err)
		ours := func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "doc://exact", Text: "ours"}}}, nil
		}
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: "doc://{id}"}, ours)
		for _, f := range harness.Fronts {
			if f.Session && result.InputRequests != nil {
				continue // the SDK asks there itself
			}
			response := f.Dial(t, srv, nil)("resources/read", `"uri":"doc://exact"`)
			text, err := json.Marshal(response)
			expect.Check(t, err)
			if strings.Contains(string(text), state) {
				t.Errorf("%s, %s: the plain state leaves: %s", name, f.Name, text)
			}
			if kind := harness.At(response, "result", "resultType"); !f.Session && kind != "input_required" {
				t.Errorf("%s, %s: %s", name, f.Name, text)
			}
		}
	}
}

// manualTool is written in the SDK's manual style: its state is its own text.
func manualTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ask := func(state string) *mcp.CallToolResult {
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{
			"login": &mcp.ElicitParams{Message: "Who " + state + "?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
		}}
	}
	answer := ""
	if r, ok := req.Params.InputResponses["login"].(*mcp.ElicitResult); ok {
		answer = fmt.Sprint(r.Content["name"])
	}
	switch req.Params.RequestState {
	case "":
		return ask("one"), nil
	case "one":
		return ask("two:" + answer), nil
	case "shed":
		return harness.Text("resumed"), nil
	}
	if _, rest, ok := strings.Cut(req.Params.RequestState, "two:"); ok {
		if answer == "shed" {
			return &mcp.CallToolResult{RequestState: "shed"}, nil
		}
		return harness.Text(rest + "+" + answer), nil
	}
	return nil, fmt.Errorf("forged state %q", req.Params.RequestState)
}
