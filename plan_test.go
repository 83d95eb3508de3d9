package askback_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A plan is a random handler, as text in the call's arguments: a letter asks that question, a
// capital asks it together with its neighbour, a digit is a step, a dot is a checkpoint, and a
// question mark continues only if the last answer was even.
func plans() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for i := range rapid.IntRange(0, 8).Draw(t, "length") {
			switch op := rapid.SampledFrom([]string{"ask", "together", "step", "checkpoint", "branch"}).Draw(t, "op"); op {
			case "ask":
				b.WriteByte(byte(rapid.IntRange('a', 'e').Draw(t, "key")))
			case "together":
				b.WriteByte(byte(rapid.IntRange('A', 'D').Draw(t, "key")))
			case "step":
				fmt.Fprint(&b, i) // a name of its own
			case "checkpoint":
				b.WriteByte('.')
			case "branch":
				b.WriteByte('?')
			}
		}
		return b.String()
	})
}

type planned struct {
	Plan string `json:"plan"`
}

type count struct {
	N int `json:"n"`
}

func inquiry(letter rune) string { return fmt.Sprintf("How many %c?", letter) }

// howMany returns the client's answer, which depends only on the question.
func howMany(key string) int { return int(key[0]) * 7 % 10 }

// answerTo answers an inquiry, as howMany does.
func answerTo(message string) map[string]any {
	return map[string]any{"n": howMany(strings.TrimPrefix(message, "How many "))}
}

// world is the environment in which a plan is executed.
type world interface {
	ask(letters ...rune) ([]int, error)
	step(name rune) (int, error)
	pause(mark rune, at int) error // a checkpoint or a Detach
}

// follow executes a plan: see plans.
func follow(plan string, w world) (string, error) {
	trace, last := "went ", 0
	for i, op := range plan {
		switch {
		case op >= 'A' && op <= 'Z' || op >= 'a' && op <= 'z':
			letters := []rune{op}
			if op < 'a' {
				letters = []rune{op + 32, op + 33}
			}
			answers, err := w.ask(letters...)
			if err != nil {
				return "", err
			}
			last = 0
			for _, n := range answers {
				last += n
			}
			trace += fmt.Sprint(string(op), last, " ")
		case op >= '0' && op <= '9':
			n, err := w.step(op)
			if err != nil {
				return "", err
			}
			trace += fmt.Sprint("#", n, " ")
		case op == '.' || op == '!':
			if err := w.pause(op, i); err != nil {
				return "", err
			}
		case op == '?' && last%2 == 1:
			return trace + "stopped", nil
		}
	}
	return trace, nil
}

// atHand is a world that has all answers and counts steps.
type atHand struct{ steps int }

func (w *atHand) ask(letters ...rune) (answers []int, err error) {
	for _, l := range letters {
		answers = append(answers, howMany(string(l)))
	}
	return answers, nil
}

func (w *atHand) step(name rune) (int, error) { w.steps++; return int(name), nil }

func (w *atHand) pause(rune, int) error { return nil }

// atOnce executes a plan once with all answers available. It returns the result and the number of
// steps, which must be the same in every home of the journal.
func atOnce(plan string) (result string, steps int) {
	w := new(atHand)
	result, _ = follow(plan, w)
	return result, w.steps
}

// called is a round of a call.
type called struct {
	ctx   context.Context
	call  *askback.Call
	ran   func(step rune)
	share bool         // the first question and the last, which are never asked together, have one key
	kept  map[rune]int // answers, by letter: a handler asks each question once
}

func calledOnce(ctx context.Context, call *askback.Call, ran func(rune), share bool) called {
	return called{ctx, call, ran, share, make(map[rune]int)}
}

func (w called) ask(letters ...rune) ([]int, error) {
	answers := make([]int, len(letters))
	errs := make([]error, len(letters))
	for i, l := range letters {
		known := false
		if answers[i], known = w.kept[l]; known {
			continue
		}
		key := string(l)
		if w.share && l == 'e' {
			key = "a"
		}
		var answer count
		answer, errs[i] = askback.Elicit[count](w.call, key, inquiry(l))
		if answers[i] = answer.N; errs[i] == nil {
			w.kept[l] = answer.N
		}
	}
	return answers, errors.Join(errs...)
}

func (w called) step(name rune) (int, error) {
	return askback.Do(w.ctx, w.call, string(name),
		func(context.Context) (int, error) { w.ran(name); return int(name), nil })
}

func (w called) pause(mark rune, at int) error {
	if mark == '!' {
		return w.call.Detach()
	}
	return w.call.Checkpoint(w.ctx, fmt.Sprint(at))
}

// executes returns a handler that executes plans. It calls step for each step that runs. In a plan
// for a task an exclamation mark is a Detach.
func executes(step func(call *askback.Call, name rune)) askback.ToolHandler[planned, string] {
	return func(ctx context.Context, call *askback.Call, in planned) (string, error) {
		said, err := follow(in.Plan, calledOnce(ctx, call, func(name rune) { step(call, name) }, false))
		return said, err
	}
}

// lawful is a handler that executes plans and counts the steps that ran.
func lawful(ran *atomic.Int64) func(*askback.Server) {
	return func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(*askback.Call, rune) { ran.Add(1) }))
	}
}

// inlined is a handler that asks through a session.
type inlined struct {
	called
	req *mcp.CallToolRequest
}

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

var countSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)

// manually is a handler with its own state and without steps.
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

func (w *manually) pause(rune, int) error { return nil }

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
		return harness.Text(said), nil
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

// addFollowers adds a handler of every kind and style.
func addFollowers(srv *askback.Server, ran func(rune)) {
	tool := func(ctx context.Context, call *askback.Call, in planned) (string, error) {
		said, err := follow(in.Plan, calledOnce(ctx, call, ran, true))
		return said, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "tool"}, tool)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "task"}, &askback.TaskSupport{PollInterval: time.Millisecond}, tool)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "detaching"},
		&askback.TaskSupport{AtDetach: true, PollInterval: time.Millisecond}, tool)
	askback.AddInlineTool(srv, &mcp.Tool{Name: "inline"},
		func(ctx context.Context, req *mcp.CallToolRequest, in planned) (*mcp.CallToolResult, any, error) {
			said, err := follow(in.Plan, inlined{calledOnce(ctx, askback.CallFrom(ctx), ran, true), req})
			return harness.Text(said), nil, err
		})
	askback.AddTool(srv, &mcp.Tool{Name: "manual"},
		func(_ context.Context, call *askback.Call, in planned) (*mcp.CallToolResult, error) {
			res, err := followManually(in.Plan, call.Request().(*mcp.CallToolRequest).Params)
			return res, err
		})
	srv.AddPrompt(&mcp.Prompt{Name: "prompt"},
		func(ctx context.Context, call *askback.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
			said, err := follow(arguments["plan"], calledOnce(ctx, call, ran, true))
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: said}}}}, err
		})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "plan", URITemplate: "plan:{hex}"},
		func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			plan, err := hex.DecodeString(strings.TrimPrefix(uri, "plan:00"))
			if err != nil {
				return nil, err
			}
			said, err := follow(string(plan), calledOnce(ctx, call, ran, true))
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: said}}}, err
		})
}

// followAsClient calls the handler of a plan, and returns the text of its result.
func followAsClient(ctx context.Context, c *client.Client, url, version, name, plan string) (string, error) {
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
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

// followAsDraft does the same in the form of a draft.
func followAsDraft(t *testing.T, send func(body string) map[string]any, name, plan string) string {
	method, target := "tools/call", `"name":`+harness.Quote(name)+`,"arguments":{"plan":`+harness.Quote(plan)+`}`
	switch name {
	case "prompt":
		method = "prompts/get"
	case "resource":
		method, target = "resources/read", `"uri":"plan:00`+hex.EncodeToString([]byte(plan))+`"`
	}
	more := ""
	for range 100 {
		res := send(`{"jsonrpc":"2.0","id":1,"method":` + harness.Quote(method) + `,"params":{` + target + `}` + more + `}`)
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

// stateOf returns the state in a message, if it has one.
func stateOf(message any, name string) map[string]any {
	if state := harness.Member(message, name); state != nil {
		return map[string]any{name: state}
	}
	return map[string]any{}
}

func accepted(request any) map[string]any {
	message, _ := harness.Member(request, "params", "message").(string)
	return map[string]any{"action": "accept", "content": answerTo(message)}
}

// said returns the one text in a result of any kind, or the whole of another message.
func said(result []byte) string {
	if found := texts.FindSubmatch(result); found != nil {
		return string(found[1])
	}
	return string(result)
}

var texts = regexp.MustCompile(`"text":"([^"]*)"`)

// planResult runs a plan in rounds, every answer at once.
func planResult(t *testing.T, s *harness.TaskServer, arguments string) any {
	t.Helper()
	params := `"name":"plan",` + arguments
	res := s.Result(harness.ProposalOnly, "tools/call", "plan", params)
	for res["resultType"] == "input_required" {
		more := ""
		if requests, ok := res["inputRequests"].(map[string]any); ok {
			more = `,"inputResponses":` + planAnswers(requests, giveAll)
		}
		res = s.Result(harness.ProposalOnly, "tools/call",
			"plan", params+more+`,"requestState":"`+res["requestState"].(string)+`"`)
	}
	return res["content"].([]any)[0].(map[string]any)["text"]
}

// planAnswer is the answer to a question of a plan: it is missing, valid, or one that does not fit.
type planAnswer int

const (
	leave planAnswer = iota
	give
	giveWrong
)

func giveAll() planAnswer { return give }

// mistakes makes each wrong answer another one: the same twice in a row would end its call.
var mistakes atomic.Int64

// planAnswers answers the questions of a plan.
func planAnswers[V any](requests map[string]V, how func() planAnswer) string {
	given := map[string]any{}
	for key := range requests {
		switch how() {
		case give:
			given[key] = map[string]any{"action": "accept", "content": count{howMany(key)}}
		case giveWrong:
			given[key] = map[string]any{"action": "accept", "content": map[string]any{"n": fmt.Sprint("many ", mistakes.Add(1))}}
		}
	}
	data, _ := json.Marshal(given) // strings and numbers
	return string(data)
}

// planClient is a client whose user answers the questions of plans.
func planClient(opts *client.Options) *client.Client {
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: answerTo(q.Message)}, nil
	}
	opts.Limits = client.Limits{FirstPause: 1, MaxPause: 1}
	return client.New(opts)
}
