package askback_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// answerTo answers an inquiry, as howMany does.
func answerTo(message string) map[string]any {
	return map[string]any{"n": howMany(strings.TrimPrefix(message, "How many "))}
}

// atHand has all answers, and counts steps.
type atHand struct{ steps int }

func (w *atHand) ask(letters ...rune) (answers []int, err error) {
	for _, l := range letters {
		answers = append(answers, howMany(string(l)))
	}
	return answers, nil
}
func (w *atHand) step(name rune) (int, error) { w.steps++; return int(name), nil }
func (w *atHand) pause(rune, int) error       { return nil }

// inlined asks through a session.
type inlined struct {
	called
	req *mcp.CallToolRequest
}

var countSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)

func (w inlined) ask(letters ...rune) (answers []int, err error) {
	for _, l := range letters {
		res, err := w.req.Session.Elicit(w.ctx, &mcp.ElicitParams{Message: inquiry(l), RequestedSchema: countSchema})
		if err != nil {
			return nil, err
		}
		answers = append(answers, int(res.Content["n"].(float64)))
	}
	return answers, nil
}

func (w inlined) pause(rune, int) error { return nil }

// manually keeps its own state, and knows no steps.
type manually struct {
	Known map[string]int
	open  mcp.InputRequestMap
}

func (w *manually) ask(letters ...rune) (answers []int, err error) {
	for _, l := range letters {
		n, ok := w.Known[string(l)]
		if !ok {
			w.open[string(l)] = &mcp.ElicitParams{Message: inquiry(l), RequestedSchema: countSchema}
		}
		answers = append(answers, n)
	}
	if len(w.open) > 0 {
		return nil, errors.New("open")
	}
	return answers, nil
}
func (w *manually) step(name rune) (int, error) { return int(name), nil }
func (w *manually) pause(rune, int) error       { return nil }

func followManually(plan string, p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	w := &manually{Known: map[string]int{}, open: mcp.InputRequestMap{}}
	if p.RequestState != "" {
		if err := json.Unmarshal([]byte(p.RequestState), &w.Known); err != nil {
			return nil, err
		}
	}
	for key, response := range p.InputResponses {
		w.Known[key] = int(response.(*mcp.ElicitResult).Content["n"].(float64))
	}
	said, err := follow(plan, w)
	if err == nil {
		return text(said), nil
	}
	res := &mcp.CallToolResult{InputRequests: w.open}
	if len(w.Known) > 0 {
		state, err := json.Marshal(w.Known)
		if err != nil {
			return nil, err
		}
		res.RequestState = string(state)
	}
	return res, nil
}

// addFollowers adds a handler of every sort and style.
func addFollowers(srv *askback.Server, ran func(rune)) {
	tool := func(ctx context.Context, call *askback.Call, in planned) (string, error) {
		said, err := follow(in.Plan, called{ctx, call, ran, true})
		return said, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "tool"}, tool)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "task"}, &askback.TaskSupport{PollInterval: time.Millisecond}, tool)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "detaching"}, &askback.TaskSupport{AtDetach: true, PollInterval: time.Millisecond}, tool)
	askback.AddInlineTool(srv, &mcp.Tool{Name: "inline"}, func(ctx context.Context, req *mcp.CallToolRequest, in planned) (*mcp.CallToolResult, any, error) {
		said, err := follow(in.Plan, inlined{called{ctx, askback.CallFrom(ctx), ran, true}, req})
		return text(said), nil, err
	})
	askback.AddTool(srv, &mcp.Tool{Name: "manual"}, func(_ context.Context, call *askback.Call, in planned) (*mcp.CallToolResult, error) {
		res, err := followManually(in.Plan, call.Request().(*mcp.CallToolRequest).Params)
		return res, err
	})
	srv.AddPrompt(&mcp.Prompt{Name: "prompt"}, func(ctx context.Context, call *askback.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
		said, err := follow(arguments["plan"], called{ctx, call, ran, true})
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: said}}}}, err
	})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "plan", URITemplate: "plan:{hex}"}, func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
		plan, err := hex.DecodeString(strings.TrimPrefix(uri, "plan:00"))
		if err != nil {
			return nil, err
		}
		said, err := follow(string(plan), called{ctx, call, ran, true})
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: said}}}, err
	})
}

// The law of TestLawInEveryHome where everything meets: every sort and style of handler,
// with every combination of options, behind every form of the protocol over HTTP, in which
// requests come to one instance or another. Where none is repeated, each step runs once.
func TestLawOfAllTogether(t *testing.T) {
	var mu sync.Mutex
	ran := 0
	count := func(rune) { mu.Lock(); defer mu.Unlock(); ran++ }
	tasks := new(task.MemoryStore)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()

	type options struct {
		mode     state.Mode // "none" is no States
		overflow int
		guard    bool
		bare     bool
	}
	ring := newRing(t)
	pairs := map[options][]http.Handler{}
	instances := func(o options) []http.Handler {
		if pairs[o] != nil {
			return pairs[o]
		}
		opts := askback.Options{Keys: ring, Principal: userHeader, BareFirstRound: o.bare, Logger: slog.New(slog.DiscardHandler),
			Tasks: &askback.Tasks{Store: tasks, Settings: task.Settings{PerPrincipal: 1 << 20}}}
		if o.guard {
			opts.ReplayGuard = new(state.MemoryGuard)
		}
		if o.mode != "none" {
			opts.States = &state.Options{Store: new(state.MemoryStore), Mode: o.mode, Overflow: o.overflow}
		}
		for range 2 {
			m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
			mcp.AddTool(m, &mcp.Tool{Name: "sdk"}, func(_ context.Context, req *mcp.CallToolRequest, in planned) (*mcp.CallToolResult, any, error) {
				res, err := followManually(in.Plan, req.Params)
				return res, nil, err
			})
			srv, err := askback.New(m, &opts)
			if err != nil {
				t.Fatal(err)
			}
			addFollowers(srv, count)
			working.Go(func() { _ = srv.RunTasks(ctx) })
			pairs[o] = append(pairs[o], srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
		}
		return pairs[o]
	}

	var pair []http.Handler
	var user string
	var random *rand.Rand
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := pair[random.IntN(2)]
		if r.URL.Query().Get("draft") == "state" { // a session stays where it is
			h = pair[0]
		}
		r.Header.Set("X-User", user)
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	caller := client.New(&client.Options{
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: answerTo(q.Message)}, nil
		},
		Drafts: true,
		Limits: client.Limits{FirstPause: 1, MaxPause: 1},
	})

	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		o := options{
			mode:     rapid.SampledFrom([]state.Mode{"none", state.Dual, state.StatelessFirst, state.StatelessOnly}).Draw(rt, "mode"),
			overflow: rapid.SampledFrom([]int{0, 1, 300}).Draw(rt, "overflow"),
			guard:    rapid.Bool().Draw(rt, "guard"),
			bare:     rapid.Bool().Draw(rt, "bare"),
		}
		name := rapid.SampledFrom([]string{"tool", "task", "detaching", "inline", "manual", "sdk", "prompt", "resource"}).Draw(rt, "handler")
		if at := rapid.IntRange(0, len(plan)).Draw(rt, "detach at"); name == "detaching" {
			plan = plan[:at] + "!" + plan[at:]
		}
		form := rapid.SampledFrom([]string{"", "session", "mrtr-1", "mrtr-2", "state-1", "state-2"}).Draw(rt, "form")
		who := rapid.SampledFrom([]string{"", "alice"}).Draw(rt, "user")
		seed := rapid.Uint64().Draw(rt, "seed")
		repeats := !o.guard && rapid.Bool().Draw(rt, "repeats")
		mu.Lock()
		pair, user, ran, random = instances(o), who, 0, rand.New(rand.NewPCG(seed, 0))
		mu.Unlock()

		reference := new(atHand)
		want, _ := follow(plan, reference)
		steps := reference.steps
		if name == "manual" || name == "sdk" {
			steps = 0
		}

		var got string
		var err error
		switch form {
		case "", "session":
			url, version := web.URL, "2026-07-28"
			if form == "session" {
				url, version = web.URL+"?draft=state", "2025-11-25"
			}
			got, err = followAsClient(t.Context(), caller, url, version, name, plan)
		default:
			send := func(body string) map[string]any {
				mu.Lock()
				again := repeats && random.IntN(3) == 0
				mu.Unlock()
				if again { // the response is lost
					post(t, web.URL+"?draft="+form, body)
				}
				_, res := post(t, web.URL+"?draft="+form, body)
				return res
			}
			got = followAsDraft(t, send, name, plan)
		}
		mu.Lock()
		ran := ran
		mu.Unlock()
		if err != nil || got != want || ran != steps && !repeats {
			rt.Fatalf("plan %q of a %s in the form %q with %+v: got %q after %d steps (%v), want %q after %d", plan, name, form, o, got, ran, err, want, steps)
		}
	})
}

// followAsClient calls the handler of a plan, and returns what it said.
func followAsClient(ctx context.Context, c *client.Client, url, version, name, plan string) (string, error) {
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return "", err
	}
	defer session.Close()
	var result any
	switch name {
	case "prompt":
		result, err = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"plan": plan}})
	case "resource":
		result, err = session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "plan:00" + hex.EncodeToString([]byte(plan))})
	default:
		result, err = session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: planned{plan}})
	}
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(result)
	return said(encoded), err
}

// followAsDraft does that in the form of a draft.
func followAsDraft(t *testing.T, send func(body string) map[string]any, name, plan string) string {
	method, target := "tools/call", `"name":`+quote(name)+`,"arguments":{"plan":`+quote(plan)+`}`
	switch name {
	case "prompt":
		method = "prompts/get"
	case "resource":
		method, target = "resources/read", `"uri":"plan:00`+hex.EncodeToString([]byte(plan))+`"`
	}
	more := ""
	for range 100 {
		res := send(`{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `,"params":{` + target + `}` + more + `}`)
		back := map[string]any{}
		result, _ := res["result"].(map[string]any)
		dependent, _ := res["dependent_requests"].(map[string]any)
		switch {
		case dependent != nil:
			answers := []any{}
			for _, request := range dependent["requests"].([]any) {
				one := map[string]any{"result": accepted(request)}
				maps.Copy(one, stateOf(request, "state"))
				answers = append(answers, one)
			}
			responses := stateOf(dependent, "state")
			responses["responses"] = answers
			back["dependent_responses"] = responses
		case result["inputRequests"] != nil || result["requestState"] != nil:
			answers := map[string]any{}
			requests, _ := result["inputRequests"].(map[string]any)
			for key, request := range requests {
				answers[key] = accepted(request)
			}
			back = stateOf(result, "requestState")
			back["inputResponses"] = answers
		default:
			encoded, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			return said(encoded)
		}
		encoded, err := json.Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		more = "," + string(encoded[1:len(encoded)-1])
	}
	return "no end"
}

// stateOf is the state in a message, if it has one.
func stateOf(message any, name string) map[string]any {
	if state := member(message, name); state != nil {
		return map[string]any{name: state}
	}
	return map[string]any{}
}

func accepted(request any) map[string]any {
	message, _ := member(request, "params", "message").(string)
	return map[string]any{"action": "accept", "content": answerTo(message)}
}

// said is the one text in a result of any kind, or all of what is none.
func said(result []byte) string {
	if found := texts.FindSubmatch(result); found != nil {
		return string(found[1])
	}
	return string(result)
}

var texts = regexp.MustCompile(`"text":"([^"]*)"`)
