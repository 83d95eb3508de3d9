package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A retry is a new request with a new ID, the same parameters, an answer under every key that was
// asked, and exactly the state of the last response, or none if that had none.
func TestARetryIsARequestOfItsOwn(t *testing.T) {
	const (
		ask     = `{"resultType":"input_required","inputRequests":{"a":` + formQuestion + `,"b":` + formQuestion + `}`
		looking = `{"round":1, "next" : "tools/list"} ab1.=?&<é\u2028>\u0000 %41\n`
	)
	var odd string
	expect.Check(t, json.Unmarshal([]byte(`"`+strings.ReplaceAll(looking, `"`, `\"`)+`"`), &odd))
	const none, empty = "none", ""
	// The last state is JSON: a client that parsed it would write it differently.
	states := []string{odd, none, strings.Repeat("A", 100<<10), `"quoted"`, none, empty, ` { "n" : 1.0, "a":"\u0061"}`}
	var results []string
	for i, state := range states {
		encoded := expect.Must(json.Marshal(state))(t)
		switch {
		case i == 3: // no questions: the client returns only the state
			results = append(results, `{"resultType":"input_required","requestState":`+string(encoded)+`}`)
		case state == none:
			results = append(results, ask+`}`)
		default:
			results = append(results, ask+`,"requestState":`+string(encoded)+`}`)
		}
	}
	var s script
	session := connect(t, answers(), s.serve(t, append(results, done)...), "")
	expect.Equal(t, "the result", textOf(expect.Must(session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "t", Arguments: map[string]any{"n": 1}}))(t)), "done")
	calls := s.all()
	if len(calls) != len(states)+1 {
		t.Fatalf("%d requests for %d rounds", len(calls), len(states)+1)
	}
	ids := map[string]bool{}
	for i, m := range calls {
		if ids[string(m.ID)] {
			t.Errorf("round %d: the id %s was used before", i+1, m.ID)
		}
		ids[string(m.ID)] = true
		if m.Method != "tools/call" || string(m.Params["name"]) != `"t"` || string(m.Params["arguments"]) != `{"n":1}` {
			t.Errorf("round %d is another request: %s %s", i+1, m.Method, m.Params)
		}
		var given map[string]any
		_ = json.Unmarshal(m.Params["inputResponses"], &given)
		if wanted := i > 0 && i != 4; wanted && (len(given) != 2 || given["a"] == nil || given["b"] == nil) || !wanted &&
			given != nil {
			t.Errorf("round %d: answers %s", i+1, m.Params["inputResponses"])
		}
		raw, had := m.Params["requestState"]
		if i == 0 || states[i-1] == none {
			if had {
				t.Errorf("round %d: a state where there was none: %s", i+1, raw)
			}
			continue
		}
		var state string
		if err := json.Unmarshal(raw, &state); err != nil || state != states[i-1] {
			t.Errorf("round %d: the state came back as %.100s", i+1, raw)
		}
	}
}

// The questions and answers of a round belong to its call only, even if other requests are sent meanwhile.
func TestAnswersGoWithTheirCallOnly(t *testing.T) {
	var s script
	transport := s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`},"requestState":"mine"}`,
		done)
	opts := answers()
	var session *client.Session
	opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if _, err := session.SDK().ListTools(ctx, nil); err != nil {
			t.Error(err)
		}
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"}); err != nil { // the same one
			t.Error(err)
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session = connect(t, opts, transport, "")
	expect.Must(called(t, session, "t"))(t)
	var got []string
	for _, m := range s.all() {
		line := m.Method
		for _, member := range []string{"inputResponses", "requestState"} {
			if m.Params[member] != nil {
				line += " " + string(m.Params[member])
			}
		}
		got = append(got, line)
	}
	want := []string{"tools/call", "tools/list", "tools/call", `tools/call {"a":{"action":"decline"}} "mine"`}
	expect.Diff(t, "sent", want, got)
}

func TestParallelCallsAreKeptApart(t *testing.T) {
	opts := answers()
	var n atomic.Int64
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": fmt.Sprint("n", n.Add(1)), "zip": "1"}},
			nil
	}
	for name, transport := range map[string]mcp.Transport{"http": web(t, newServer(t, askback.Options{})),
		"memory": memory(t, newServer(t, askback.Options{}))} {
		session := connect(t, opts, transport, "")
		got := make(chan string)
		const calls = 16
		for i := range calls {
			go func() {
				res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"i": i}})
				if err != nil {
					got <- err.Error()
					return
				}
				got <- textOf(res)
			}()
		}
		seen := map[string]bool{}
		for range calls {
			answer := <-got
			if !strings.HasPrefix(answer, "Hello n") || seen[answer] {
				t.Errorf("%s: %q", name, answer)
			}
			seen[answer] = true
		}
	}
}

// The SDK answers a read from its cache for as long as the server's ttlMs allows.
func TestResourceFromCache(t *testing.T) {
	reads := 0
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		reads++
		respond(w, m, `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","contents":[{"uri":"doc://a",`+
			`"text":"a"}]}`)
	}), "")
	for range 2 {
		res := expect.Must(session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a"}))(t)
		if len(res.Contents) != 1 || !strings.HasPrefix(res.Contents[0].Text, "a") {
			t.Errorf("got %v", res.Contents)
		}
	}
	expect.Equal(t, "the server was asked times", reads, 1)
}

// Some arguments are also sent in headers, as the list of tools says. A session that has not requested
// the list, such as one that resumes a call, requests it.
func TestHeadersOfToolNeverListed(t *testing.T) {
	srv := newServer(t, askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "regional", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
			who, err := askback.Elicit[person](call, "who", "Who are you?")
			return fmt.Sprint(who.Name, " in ", in["region"]), err
		})
	opts := answers()
	opts.Form = park
	pending := parkedBy(t, expect.Err(connect(t, opts, web(t, srv), "").CallTool(t.Context(),
		&mcp.CallToolParams{Name: "regional", Arguments: map[string]any{"region": "Tromsø"}})))
	res := expect.Must(connect(t, answers(), web(t, srv), "").Resume(t.Context(), pending))(t)
	expect.Equal(t, "the result", textOf(res), "octocat in Tromsø")
}

// Before it becomes a task, a call is parked like any other, and still asks for a task when it is resumed.
func TestCallIsParkedBeforeItIsATask(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": func(_ int, m message) string {
			if m.Params["inputResponses"] == nil {
				return `{"resultType":"input_required","inputRequests":{"q":` + formQuestion + `},"requestState":"s"}`
			}
			return `{"task":` + draft("working") + `}`
		},
		"tasks/get":    always(draft("completed")),
		"tasks/result": always(done),
	})
	opts := patient()
	opts.Tasks = client.TasksProposal
	opts.Form = park
	transport := srv.transport()
	_, _, err := connect(t, opts, transport, "").StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, time.Minute)
	pending, ok := parked(err)
	if !ok || pending.TaskID != "" {
		t.Fatal(err)
	}
	expect.Equal(t, "resumed",
		textOf(expect.Must(connect(t, patient(), transport, "").Resume(t.Context(), stored(t, pending)))(t)), "done")
	sent, _ := srv.sent("tools/call")
	if want := `{"arguments":{},"inputResponses":{"q":{"action":"accept","content":{}}},"name":"t","requestState":"s",` +
		`"task":{"ttl":60000}}`; sent[1] != want {
		t.Errorf("got %s\nwant %s", sent[1], want)
	}
}

// Only calls of tools become tasks.
func TestOnlyToolsBecomeTasks(t *testing.T) {
	task := always(created("working", ""))
	session := connect(t, patient(), serveTasks(t, map[string]func(int, message) string{"prompts/get": task, "resources/" +
		"read": task}).transport(), "")
	if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"}); !isProtocol(err) {
		t.Errorf("a prompt: %v", err)
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a"}); !isProtocol(err) {
		t.Errorf("a resource: %v", err)
	}
}
