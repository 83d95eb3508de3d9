package drafts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A stream may last as long as its session: nothing that is answered may stay until it ends,
// whether the client echoes the state or does not know it.
func TestNothingStaysOfAnsweredQuestions(t *testing.T) {
	edge := &Edge{Depth: 64, HasSession: func(string) bool { return true }}
	answer := func(body string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Mcp-Session-Id", "s")
		if w := httptest.NewRecorder(); edge.Serve(w, r, []byte(body), true, nil) {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	stream := httptest.NewRequest(http.MethodGet, "/mcp", nil)
	stream.Header.Set("Mcp-Session-Id", "s")
	w := httptest.NewRecorder()
	edge.InSession(w, stream, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for id, echo := range []string{`,"state":"x"`, ``} {
			fmt.Fprintf(w,
				"data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"roots/list\",\"params\":{\"_meta\":{%q:\"x\"}}}\n\n", id,
				MetaState)
			expect.Equal(t, "open", len(edge.open.states), 1)
			answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d%s,"result":{"roots":[]}}`, id, echo))
			if n := len(edge.open.states); n != 0 {
				t.Errorf("%d open after the answer with %q", n, echo)
			}
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"roots/list\",\"params\":{\"_meta\":{%q:\"x\"}}}\n\n",
			MetaState)
	}))
	if n := len(edge.open.states); n != 0 || strings.Count(w.Body.String(), `"state":"x"`) != 3 {
		t.Errorf("%d open at the end of %s", n, w.Body)
	}
}

// The state of a question stands in its _meta where the server behind the edge puts it, and beside its params where
// the proposal has it.
func TestQuestionsInASessionCarryTheirState(t *testing.T) {
	for name, test := range map[string]struct{ message, want string }{
		"a question": {
			`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"io.github.askback-mcp/state":"x"}}}`,
			`{"jsonrpc":"2.0","id":7,"method":"roots/list","state":"x","params":{}}`},
		"further members": {`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?",` +
			`"_meta":{"mine":1,"io.github.askback-mcp/state":"x"},"n":1e400}}`,
			`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","state":"x","params":{"message":"?","_meta":{"mine":1},` +
				`"n":1e400}}`},
		"no state":  {`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"mine":1}}}`, ""},
		"no params": {`{"jsonrpc":"2.0","id":7,"method":"ping"}`, ""},
		"an empty state": {
			`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"io.github.askback-mcp/state":""}}}`, ""},
		"a state elsewhere": {
			`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"message":"io.github.askback-mcp/state"}}`, ""},
		"a response": {`{"jsonrpc":"2.0","id":7,"result":{"_meta":{"io.github.askback-mcp/state":"x"}},` +
			`"params":{"_meta":{"io.github.askback-mcp/state":"x"}}}`, ""},
	} {
		for kind, around := range map[string][2]string{"application/json": {},
			"text/event-stream": {"id: 1\ndata: ", "\n\n"}} {
			var open []string
			edge := &Edge{Depth: 16}
			r, w := httptest.NewRequest(http.MethodPost, "/mcp", nil), httptest.NewRecorder()
			r.Header.Set("Mcp-Session-Id", "s")
			edge.InSession(w, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write([]byte(around[0] + test.message + around[1]))
				for key, state := range edge.open.states {
					open = append(open, key+" "+state.state)
				}
			}))
			got := strings.TrimSuffix(strings.TrimPrefix(w.Body.String(), around[0]), around[1])
			if test.want == "" {
				if got != test.message || len(open) != 0 {
					t.Errorf("%s: %s became %s, with %q open", name, test.message, got, open)
				}
				continue
			}
			sameJSON(t, test.want, got)
			if kind == "text/event-stream" &&
				(len(open) != 1 || !strings.HasPrefix(open[0], "s\x00") || !strings.HasSuffix(open[0], " x")) {
				t.Errorf("%s: %q is open", name, open)
			}
		}
	}
}

// While a question is open here, its state has to come back as it was, and the question stays open until then.
func TestAnEchoInItsSession(t *testing.T) {
	held := map[string]string{"Mcp-Session-Id": "held"}
	echo := func(state string) string { return `{"jsonrpc":"2.0","id":7,"state":` + state + `,"result":{}}` }
	edge := &Edge{}
	for _, test := range []struct {
		name, body string
		header     map[string]string
		refused    bool
		open       int // after it
	}{
		{"another state", echo(`"right "`), held, true, 1},
		{"no string", echo(`["right"]`), held, true, 1},
		{"null", echo(`null`), held, true, 1},
		{"an error with another state", `{"jsonrpc":"2.0","id":7,"state":"","error":{"code":1,"message":"no"}}`, held,
			true, 1},
		{"another question", `{"jsonrpc":"2.0","id":"7","state":"right","result":{}}`, held, true, 1},
		{"another session", echo(`"right"`), map[string]string{"Mcp-Session-Id": "other"}, true, 1},
		{"no session", echo(`"right"`), nil, true, 1},
		{"the state", echo(`"\u0072ight"`), held, false, 0},
	} {
		if len(edge.open.states) == 0 {
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Header.Set("Mcp-Session-Id", "held")
			edge.open.put(openKey(r, []byte("7")), "right", map[string]bool{})
		}
		x := exchange{edge: edge, header: test.header, body: test.body}
		if served := x.serve(t); served != test.refused || len(x.requests) != 0 || len(edge.open.states) != test.open {
			t.Errorf("%s: served %v, %d requests, %d open: %s", test.name, served, len(x.requests), len(edge.open.states),
				x.answer.Body)
		}
		if test.refused && (x.answer.Code != 400 || !strings.Contains(x.answer.Body.String(), "Invalid or expired "+
			"requestState")) {
			t.Errorf("%s: status %d, %s", test.name, x.answer.Code, x.answer.Body)
		}
	}
}

// sessionCall is the call that the echoes of these tests belong to.
func sessionCall(session string) *Call {
	return &Call{Session: session, ID: []byte(`9`), Method: "tools/call", Capabilities: []byte(`{"elicitation":{}}`),
		Params: []byte(`{"name":"x","arguments":{"n":1e400},"_meta":{"progressToken":1},"task":{}}`)}
}

// An echo whose session is not held here goes on from its state.
func TestAnEchoGoesOnFromItsState(t *testing.T) {
	const (
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
		asksMore = `{"jsonrpc":"2.0","id":9,"result":{"resultType":"input_required",` +
			`"inputRequests":{"b":{"method":"roots/list","params":{"n":1}},"c":{"method":"roots/list","params":{}}},` +
			`"requestState":"next"}}`
		goesOn   = `{"jsonrpc":"2.0","id":9,"result":{"resultType":"input_required","requestState":"later"}}`
		complete = `{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","content":[],"task":{"status":"working"},` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`
		failed = `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"no"}}`
	)
	round := func(name, members string) received {
		return received{Version: "2026-07-28", Method: "tools/call", Name: name,
			Body: decoded(t,
				`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"x","arguments":{"n":1e400},`+members+meta+`}}`)}
	}
	first := round("x", `"inputResponses":{"a":{"action":"accept"}},"requestState":"sealed",`)
	state := text(t, envelope{State: "sealed", Keys: []string{"a"}, Call: sessionCall("gone")})
	const result = `"result":{"action":"accept"}`
	const done = `{"jsonrpc":"2.0","id":9,"result":{"content":[],"task":{"status":"working"}}}`
	for name, test := range map[string]struct {
		state, answer string
		header        map[string]string
		responses     []string
		want          string
		sent          []received
	}{
		"to its end": {state, result, nil, []string{complete}, done, []received{first}},
		"in a new session": {state, result, map[string]string{"Mcp-Session-Id": "held"}, []string{complete}, done,
			[]received{first}},
		"to an error": {state, result, nil, []string{failed}, failed, []received{first}},
		"over a checkpoint": {state, result, nil, []string{goesOn, complete}, done,
			[]received{first, round("x", `"requestState":"later",`)}},
		"in another session that is held here": {
			text(t, envelope{State: "sealed", Keys: []string{"a"}, Call: sessionCall("held")}), result,
			map[string]string{"Mcp-Session-Id": "other"}, []string{complete}, done, []received{first}},
		"in its session, which is not held here any more": {state, result, map[string]string{"Mcp-Session-Id": "gone"},
			[]string{complete}, done, []received{first}},
		"with a client's error": {state, `"error":{"code":1,"message":"no"}`, nil, nil,
			`{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"asking the client \"a\": it answered with an error"}}`,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange{body: `{"jsonrpc":"2.0","id":7,"state":` + test.state + `,` + test.answer + `}`, header: test.header,
				responses: test.responses}
			status := 200
			if name == "to an error" {
				status = 400
			}
			if !x.serve(t) || x.answer.Code != status || x.answer.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("status %d, %v: %s", x.answer.Code, x.answer.Header(), x.answer.Body)
			}
			sameJSON(t, test.want, x.answer.Body.String())
			expect.Diff(t, "sent", test.sent, x.requests)
		})
	}

	// To the next question: one of several, with a state of its own that goes on in the same way.
	x := exchange{body: `{"jsonrpc":"2.0","id":7,"state":` + state + `,` + result + `}`, responses: []string{asksMore}}
	if !x.serve(t) {
		t.Fatal("passed on")
	}
	question := decoded(t, x.answer.Body.String()).(map[string]any)
	next, _ := question["state"].(string)
	id, _ := question["id"].(string)
	if !strings.HasPrefix(id, "askback-") || next == "" {
		t.Fatalf("the next question: %s", x.answer.Body)
	}
	delete(question, "id")
	delete(question, "state")
	if diff := cmp.Diff(decoded(t, `{"jsonrpc":"2.0","method":"roots/list","params":{"n":1}}`),
		any(question)); diff != "" {
		t.Errorf("the next question (-want +got):\n%s", diff)
	}
	y := exchange{body: `{"jsonrpc":"2.0","id":"` + id + `","state":"` + next + `","result":{"roots":[]}}`,
		responses: []string{complete}}
	if !y.serve(t) {
		t.Fatal("passed on")
	}
	if diff := cmp.Diff([]received{round("x", `"inputResponses":{"b":{"roots":[]}},"requestState":"next",`)},
		y.requests); diff != "" {
		t.Errorf("the round after (-want +got):\n%s", diff)
	}
	if again := (exchange{body: x.body, responses: x.responses}); !again.serve(t) ||
		strings.Contains(again.answer.Body.String(), id) {
		t.Errorf("two questions have the id %s", id)
	}
}

// What the server behind the edge answers with a stream is told by its last event.
func TestAnEchoAnsweredWithAStream(t *testing.T) {
	ratified := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, message := range []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
			`{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","content":[]}}`} {
			data := []byte("event: message\ndata: " + message + "\n\n")
			_, _ = w.Write(data)
			clear(data) // it is the writer's again
		}
	}
	edge := &Edge{Depth: 16, HasSession: notHeld}
	w := httptest.NewRecorder()
	body := `{"jsonrpc":"2.0","id":7,"state":` +
		text(t, envelope{State: "s", Keys: []string{"a"}, Call: sessionCall("")}) + `,"result":{}}`
	if !edge.Serve(w, httptest.NewRequest(http.MethodPost, "/mcp", nil), []byte(body), true, ratified) {
		t.Fatal("passed on")
	}
	sameJSON(t, `{"jsonrpc":"2.0","id":9,"result":{"content":[]}}`, w.Body.String())
}

// The next message of an echo that is refused because of a limit says when to send it again.
func TestAnEchoAtALimit(t *testing.T) {
	ratified := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"full"}}`))
	}
	edge := &Edge{Depth: 16, HasSession: notHeld}
	w := httptest.NewRecorder()
	state := text(t, envelope{State: "s", Keys: []string{"a"}, Call: sessionCall("")})
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	served := edge.Serve(w, r, []byte(`{"jsonrpc":"2.0","id":7,"state":`+state+`,"result":{}}`), true, ratified)
	if !served || w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
}

// A caller who does not own a session leaves its open questions as they are.
func TestOnlyItsOwnerAnswersInASession(t *testing.T) {
	edge := new(Edge)
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Mcp-Session-Id", "held")
	edge.open.put(openKey(r, []byte("7")), "right", map[string]bool{})
	answer := func(state string, owner bool) exchange {
		return exchange{edge: edge, foreign: !owner, header: map[string]string{"Mcp-Session-Id": "held"},
			body: `{"jsonrpc":"2.0","id":7,` + state + `"result":{}}`}
	}
	for _, state := range []string{``, `"state":"right",`, `"state":"wrong",`} {
		x := answer(state, false)
		if x.serve(t) || len(edge.open.states) != 1 {
			t.Errorf("%s: %d open, %s", state, len(edge.open.states), x.answer.Body)
		}
	}
	x := answer(`"state":"right",`, true)
	if x.serve(t) || len(edge.open.states) != 0 {
		t.Errorf("the owner: %d open, %s", len(edge.open.states), x.answer.Body)
	}
}

// A late echo, or one that comes twice, is the session's where that is held here.
func TestALateEchoIsItsSessions(t *testing.T) {
	x := exchange{header: map[string]string{"Mcp-Session-Id": "held"},
		body: `{"jsonrpc":"2.0","id":7,"state":` +
			text(t, envelope{State: "s", Keys: []string{"a"}, Call: sessionCall("held")}) + `,"result":{}}`}
	if x.serve(t) {
		t.Errorf("served: %v, %s", x.requests, x.answer.Body)
	}
}

// What is around a sealed state is a client's to change: whatever it makes of it is refused, or its own request.
func TestEchoesThatAreRefused(t *testing.T) {
	edit := func(change func(*envelope)) string {
		e := envelope{State: "s", Keys: []string{"a"}, Call: sessionCall("gone")}
		change(&e)
		return text(t, e)
	}
	for name, state := range map[string]string{
		"a number":              `7`,
		"null":                  `null`,
		"an object":             `{"s":"s"}`,
		"empty":                 `""`,
		"another alphabet":      `"!"`,
		"no JSON":               encoded(`{`),
		"a member twice":        encoded(`{"s":"a","s":"b"}`),
		"another type":          encoded(`{"k":"a"}`),
		"nested deep":           encoded(`{"x":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`),
		"nested very deep":      encoded(strings.Repeat(`{"c":`, 10_000) + "1" + strings.Repeat("}", 10_000)),
		"of dependent requests": edit(func(e *envelope) { e.Call = nil }),
		"no requestState":       edit(func(e *envelope) { e.State = "" }),
		"no key":                edit(func(e *envelope) { e.Keys = nil }),
		"two keys":              edit(func(e *envelope) { e.Keys = []string{"a", "b"} }),
		"another method":        edit(func(e *envelope) { e.Call.Method = "tools/list" }),
		"a task's method":       edit(func(e *envelope) { e.Call.Method = "tasks/result" }),
		"no id":                 edit(func(e *envelope) { e.Call.ID = nil }),
		"an id that is none":    edit(func(e *envelope) { e.Call.ID = []byte(`{}`) }),
		"a call nested deep": edit(func(e *envelope) {
			e.Call.Params = []byte(`{"name":"x","arguments":{"a":` + strings.Repeat("[", 17) + strings.Repeat("]", 17) + `}}`)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange{body: `{"jsonrpc":"2.0","id":7,"state":` + state + `,"result":{}}`}
			if !x.serve(t) || len(x.requests) != 0 || x.answer.Code != 400 {
				t.Fatalf("%v, status %d: %s", x.requests, x.answer.Code, x.answer.Body)
			}
			sameJSON(t, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid or expired requestState"}}`,
				x.answer.Body.String())
		})
	}
}

func TestStateful(t *testing.T) {
	for url, want := range map[string]bool{"/mcp": false, "/mcp?draft=state": true, "/mcp?draft=state-1": false,
		"/mcp?draft=": false} {
		expect.Equal(t, url, Stateful(httptest.NewRequest(http.MethodPost, url, nil)), want)
	}
}
