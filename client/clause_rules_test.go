package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// Clauses of the specification and of the proposals before it that are about clients:
// docs/clauses.md says which.

// script answers each tools/call with the next result, and keeps all that was sent.
type script struct {
	mu   sync.Mutex
	sent []message
}

func (s *script) serve(t *testing.T, results ...string) *mcp.StreamableClientTransport {
	return wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, m)
		n := 0
		for _, was := range s.sent {
			if was.Method == "tools/call" {
				n++
			}
		}
		if m.Method == "tools/list" {
			respond(w, m, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`)
			return
		}
		respond(w, m, results[min(n, len(results))-1])
	})
}

func (s *script) all() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// A retry is a request of its own, with an id of its own, the same parameters, an answer
// under every key that was asked, and the last response's state to the letter: whatever it
// looks like, and none where there was none.
func TestARetryIsARequestOfItsOwn(t *testing.T) {
	const (
		ask     = `{"resultType":"input_required","inputRequests":{"a":` + formQuestion + `,"b":` + formQuestion + `}`
		looking = `{"round":1, "next" : "tools/list"} ab1.=?&<é\u2028>\u0000 %41\n`
	)
	var odd string
	if err := json.Unmarshal([]byte(`"`+strings.ReplaceAll(looking, `"`, `\"`)+`"`), &odd); err != nil {
		t.Fatal(err)
	}
	const none, empty = "none", ""
	// The last is JSON: a client that parsed it would write it in another way.
	states := []string{odd, none, strings.Repeat("A", 100<<10), `"quoted"`, none, empty, ` { "n" : 1.0, "a":"\u0061"}`}
	var results []string
	for i, state := range states {
		encoded, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 3: // no questions: there is only the state to bring back
			results = append(results, `{"resultType":"input_required","requestState":`+string(encoded)+`}`)
		case state == none:
			results = append(results, ask+`}`)
		default:
			results = append(results, ask+`,"requestState":`+string(encoded)+`}`)
		}
	}
	var s script
	session := connect(t, answers(), s.serve(t, append(results, done)...), "")
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"n": 1}})
	if got := said(t, res, err); got != "done" {
		t.Errorf("got %q", got)
	}
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
		if wanted := i > 0 && i != 4; wanted && (len(given) != 2 || given["a"] == nil || given["b"] == nil) || !wanted && given != nil {
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

// What a round asked and got is for its call only, whatever else is sent meanwhile.
func TestAnswersGoWithTheirCallOnly(t *testing.T) {
	var s script
	transport := s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`},"requestState":"mine"}`, done)
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
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"}); err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// A request is not sent again before all that was asked is answered.
func TestNoRetryBeforeAllIsAnswered(t *testing.T) {
	var s script
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if q.Key == "b" {
			return nil, client.ErrPark
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}
	session := connect(t, opts, s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`,"b":`+formQuestion+`},"requestState":"s"}`, done), "")
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if pending, ok := errors.AsType[*client.Pending](err); !ok || len(pending.Answers) != 1 || pending.State != "s" {
		t.Errorf("got %v", err)
	}
	if n := len(s.all()); n != 1 {
		t.Errorf("%d requests", n)
	}

	// Nor before the slowest handler is done; and each answer has its question's key.
	s = script{}
	first := make(chan struct{})
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if q.Key == "a" {
			close(first)
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		<-first
		time.Sleep(50 * time.Millisecond)
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	session = connect(t, opts, s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`,"b":`+formQuestion+`}}`, done), "")
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	if all := s.all(); len(all) != 2 || string(all[1].Params["inputResponses"]) != `{"a":{"action":"decline"},"b":{"action":"cancel"}}` {
		t.Errorf("sent %v", all)
	}
}

// A parked call brings back what there was, even where that is the empty string.
func TestAParkedCallKeepsItsState(t *testing.T) {
	for member, want := range map[string]string{``: ``, `,"requestState":""`: `""`, `,"requestState":"s"`: `"s"`} {
		var s script
		transport := s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`}`+member+`}`, done)
		opts := answers()
		opts.Form = park
		_, err := connect(t, opts, transport, "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		pending, ok := errors.AsType[*client.Pending](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		res, err := connect(t, patient(), transport, "").Resume(t.Context(), stored(t, pending))
		if err != nil || said(t, res.(*mcp.CallToolResult), nil) != "done" {
			t.Errorf("%q: %v, %v", member, res, err)
		}
		if sent := s.all(); len(sent) != 2 || string(sent[1].Params["requestState"]) != want {
			t.Errorf("%q: sent %s", member, sent[len(sent)-1].Params)
		}
	}
}

// A client that waits for a task that asks fetches the questions, in the dialect that has a
// request for it, and then answers or, if the host wants no more of it, cancels.
func TestWhoWillNotAnswerMayCancel(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call":   always(`{"task":` + draft("working") + `}`),
		"tasks/get":    always(draft("input_required")),
		"tasks/result": always(`{` + askWho + `,"requestState":"s"}`),
		"tasks/cancel": always(draft("cancelled")),
	})
	opts := patient()
	opts.Tasks = client.TasksSeeds
	opts.Form = park
	session := connect(t, opts, srv.transport(), "")
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	pending, ok := errors.AsType[*client.Pending](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if err := session.CancelTask(t.Context(), pending.TaskID); err != nil {
		t.Fatal(err)
	}
	sent := slices.DeleteFunc(srv.methods(), func(method string) bool { return method == "tasks/get" }) // as often as it likes
	if diff := cmp.Diff([]string{"tools/call", "tasks/result", "tasks/cancel"}, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}
