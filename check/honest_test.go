package check

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A turn is one request to a tool of a small server.
type turn struct {
	w         http.ResponseWriter
	r         *http.Request
	tool      string
	arguments map[string]any
	state     *string
	answer    *answer // to the question "colour", if there is one
	principal string
}

type answer struct {
	Action  string
	Content map[string]any
}

// A refusal is an error of JSON-RPC.
type refusal struct{ message string }

// small serves the tools "paint" and "print", which ask for a colour. The function returns a result or a refusal.
func small(call func(turn) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name           string
				Arguments      map[string]any
				RequestState   *string
				InputResponses map[string]*answer
				Meta           struct {
					Able struct{ Elicitation map[string]any } `json:"io.modelcontextprotocol/clientCapabilities"`
				} `json:"_meta"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var result any
		switch m.Method {
		case "server/discover":
			result = map[string]any{"supportedVersions": []string{"2026-07-28"}, "capabilities": map[string]any{}}
		case "tools/list":
			var tools []any
			for _, name := range []string{"paint", "print"} {
				tools = append(tools, map[string]any{"name": name, "annotations": map[string]any{"readOnlyHint": true},
					"inputSchema": json.RawMessage(`{"type":"object","required":["wall"],"properties":{"wall":{"type":"string"}}}`)})
			}
			// The cursor leads to this page for ever.
			result = map[string]any{"tools": tools, "nextCursor": "again"}
		case "tools/call":
			result = call(turn{w, r, m.Params.Name, m.Params.Arguments, m.Params.RequestState,
				m.Params.InputResponses["colour"], r.Header.Get("Authorization")})
		default:
			result = refusal{"there is no such method"}
		}
		asks, _ := result.(map[string]any)
		if asks["inputRequests"] != nil && m.Params.Meta.Able.Elicitation["form"] == nil {
			result = refusal{"the client cannot be asked"}
		}
		response := map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}
		if refused, ok := result.(refusal); ok {
			delete(response, "result")
			response["error"] = map[string]any{"code": -32602, "message": refused.message}
		}
		text, err := json.Marshal(response)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "text/event-stream") // also errors come in streams, with the status 200
		_, _ = fmt.Fprintf(w, ": hello\n\nretry: 5\nid: 7\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":"+
			"\"notifications/message\",\"params\":{}}\n\nevent: message\ndata: %s\n\n", text)
	})
}

func says(format string, args ...any) map[string]any {
	return map[string]any{"resultType": "complete", "content": []any{
		map[string]any{"type": "text", "text": fmt.Sprintf(format, args...)}}}
}

func wrong(format string, args ...any) map[string]any {
	result := says(format, args...)
	result["isError"] = true
	return result
}

const (
	colours   = `{"type":"object","required":["name"],"properties":{"name":{"type":"string","enum":["red","blue"]}}}`
	anyColour = `{"type":"object","required":["name"],"properties":{"name":{"type":"string","maxLength":20}}}`
	pattern   = `{"type":"object","required":["name"],"properties":{"name":{"type":"string","pattern":"^#[0-9a-f]{6}$"}}}`
)

func asking(schema, state, format string, args ...any) map[string]any {
	result := map[string]any{"resultType": "input_required", "inputRequests": map[string]any{"colour": map[string]any{
		"method": "elicitation/create", "params": map[string]any{"mode": "form", "message": fmt.Sprintf(format, args...),
			"requestedSchema": json.RawMessage(schema)}}}}
	if state != "" {
		result["requestState"] = state
	}
	return result
}

var b64 = base64.RawURLEncoding.EncodeToString

// A workshop signs states that anybody can read, and binds them to the request.
type workshop struct{ key [32]byte }

func newWorkshop() *workshop {
	k := new(workshop)
	_, _ = rand.Read(k.key[:]) // it never fails
	return k
}

func (k *workshop) sum(text string) string {
	h := hmac.New(sha256.New, k.key[:])
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

func (k *workshop) state(t turn) string {
	text := fmt.Sprintf(`{"tool":%q,"wall":%q,"for":%q}`, t.tool, t.arguments["wall"], k.sum(t.principal)[:12])
	return b64([]byte(text)) + "." + k.sum(text)
}

// takes reports whether a state is one that the workshop has made for this request.
func (k *workshop) takes(t turn) bool { return t.state != nil && *t.state == k.state(t) }

// colour is the accepted colour, if it fits.
func (t turn) colour() (name string, accepted, fits bool) {
	if t.answer == nil || t.answer.Action != "accept" {
		return "", false, false
	}
	name, fits = t.answer.Content["name"].(string)
	return name, true, fits && len(name) <= 20
}

func declined(t turn) bool {
	return t.answer != nil && (t.answer.Action == "decline" || t.answer.Action == "cancel")
}

// honestServers are correct servers that are written in other ways than ours.
func honestServers() map[string]func() func(turn) any {
	// common is what all of them do; the functions say what is different.
	type words struct {
		ask, again, done, no func(turn, string) any
		bad                  func(turn) any
		schema               string
		state                func(*workshop, turn) string
		takes                func(*workshop, turn) bool
	}
	make := func(change func(*words)) func() func(turn) any {
		return func() func(turn) any {
			shop := newWorkshop()
			w := words{schema: anyColour, state: (*workshop).state, takes: (*workshop).takes,
				bad:  func(turn) any { return refusal{"the state is not of this call"} },
				done: func(t turn, name string) any { return says("%s is %s now.", t.arguments["wall"], name) },
				no:   func(turn, string) any { return says("You declined.") },
			}
			w.ask = func(t turn, state string) any { return asking(w.schema, state, "Which colour?") }
			w.again = w.ask
			if change != nil {
				change(&w)
			}
			return func(t turn) any {
				state := w.state(shop, t)
				if t.state == nil {
					return w.ask(t, state)
				}
				if !w.takes(shop, t) {
					return w.bad(t)
				}
				name, accepted, fits := t.colour()
				switch w.schema {
				case colours:
					fits = fits && (name == "red" || name == "blue")
				case pattern:
					fits = fits && len(name) == 7 && name[0] == '#'
				}
				switch {
				case declined(t):
					return w.no(t, state)
				case !accepted || !fits:
					return w.again(t, state)
				}
				return w.done(t, name)
			}
		}
	}
	quote := func(t turn) string {
		text, err := json.Marshal(t.answer)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	var count int
	var mu sync.Mutex
	next := func() int {
		mu.Lock()
		defer mu.Unlock()
		count++
		return count
	}
	all := map[string]func() func(turn) any{
		"plain":   make(nil),
		"options": make(func(w *words) { w.schema = colours }),
		"results that change": make(func(w *words) {
			w.done = func(t turn, name string) any {
				return says("Job %d (%s) at %v: %s is %s.", next(), rand.Text(), time.Now(), t.arguments["wall"], name)
			}
		}),
		"questions that change": make(func(w *words) {
			w.ask = func(t turn, state string) any { return asking(w.schema, state, "Hello no. %d! Which colour?", next()) }
			w.again = func(t turn, state string) any { return asking(w.schema, state, "Try %d: which one?", next()) }
		}),
		"questions that quote": make(func(w *words) {
			w.schema = colours
			w.again = func(t turn, state string) any {
				return asking(w.schema, state, "%s is no colour. Please choose one.", quote(t))
			}
		}),
		"questions under another key": make(func(w *words) {
			w.schema = colours
			w.again = func(t turn, state string) any {
				asked := asking(w.schema, state, "%s is no colour. Please choose one.", quote(t))
				asked["inputRequests"] = map[string]any{"retry": asked["inputRequests"].(map[string]any)["colour"]}
				return asked
			}
		}),
		"results that quote": make(func(w *words) {
			w.schema = colours
			w.again = func(t turn, _ string) any { return says("Sorry, %s is no colour that we have.", quote(t)) }
		}),
		"errors that quote": make(func(w *words) {
			w.again = func(t turn, _ string) any { return wrong("Sorry, %s is no colour that we have.", quote(t)) }
		}),
		"a decline is an error": make(func(w *words) {
			w.no = func(turn, string) any { return wrong("The user has declined.") }
		}),
		"a decline is asked again": make(func(w *words) {
			w.no = func(t turn, state string) any { return asking(w.schema, state, "But which colour?") }
		}),
		"one text": make(func(w *words) {
			w.done = func(turn, string) any { return says("OK") }
			w.no = w.done
		}),
		"refusals that quote the state": make(func(w *words) {
			w.bad = func(t turn) any { return refusal{"bad state: " + *t.state} }
		}),
		"results that quote the state": make(func(w *words) {
			w.bad = func(t turn) any { return says("This is a bad state: %s", *t.state) }
		}),
		"questions that quote the state": make(func(w *words) {
			w.bad = func(t turn) any {
				return asking(w.schema, w.state(newWorkshop(), t), "The state %q was bad. Which colour?", *t.state)
			}
		}),
		"a JWT": make(func(w *words) {
			w.state = func(k *workshop, t turn) string {
				text := b64([]byte(`{"alg":"HS256","kid":"2026-1","typ":"JWT"}`)) + "." +
					b64(fmt.Appendf(nil, `{"tool":%q,"wall":%q,"sub":%q}`, t.tool, t.arguments["wall"], k.sum(t.principal)))
				return text + "." + b64([]byte(k.sum(text)))
			}
			w.takes = func(k *workshop, t turn) bool { return *t.state == w.state(k, t) }
		}),
		"a default that says no": make(func(w *words) {
			w.schema = `{"type":"object","required":["name"],"properties":{"name":{"type":"string","maxLength":20},
				"gloss":{"type":"boolean","default":false}}}`
			w.done = func(t turn, name string) any {
				if t.answer.Content["gloss"] != true {
					return says("It has no gloss.")
				}
				return says("It is glossy and %s.", name)
			}
			w.no = func(turn, string) any { return says("It has no gloss.") }
		}),
		"a pattern": make(func(w *words) {
			w.schema = pattern
			w.again = func(t turn, state string) any {
				return asking(w.schema, state, "%s is no colour. Please enter one.", quote(t))
			}
		}),
	}
	all["a session"] = func() func(turn) any {
		shop, asked := newWorkshop(), map[string]bool{}
		return func(t turn) any {
			mu.Lock()
			defer mu.Unlock()
			cookie, err := t.r.Cookie("session")
			if err != nil {
				id := rand.Text()
				asked[id] = true
				http.SetCookie(t.w, &http.Cookie{Name: "session", Value: id})
				return asking(anyColour, shop.state(t), "Which colour?")
			}
			name, _, fits := t.colour()
			if !asked[cookie.Value] || !fits {
				return wrong("Please begin again.")
			}
			delete(asked, cookie.Value)
			return says("It is %s.", name)
		}
	}
	all["no state"] = func() func(turn) any {
		return func(t turn) any {
			name, accepted, fits := t.colour()
			switch {
			case declined(t):
				return says("You declined.")
			case !accepted || !fits:
				return asking(anyColour, "", "Which colour?")
			}
			return says("It is %s.", name)
		}
	}
	// The state is the argument itself, and what was asked is on the server.
	all["a record of what was asked"] = func() func(turn) any {
		open := map[string]bool{}
		return func(t turn) any {
			mu.Lock()
			defer mu.Unlock()
			wall, _ := t.arguments["wall"].(string)
			id := t.principal + " " + t.tool + " " + wall
			name, accepted, fits := t.colour()
			switch {
			case t.state == nil || *t.state == wall && open[id] && !declined(t) && (!accepted || !fits):
				open[id] = true
				return asking(anyColour, wall, "Which colour?")
			case *t.state != wall || !open[id]:
				return refusal{"nobody was asked"}
			}
			delete(open, id)
			if declined(t) {
				return says("You declined.")
			}
			return says("%s is %s now.", wall, name)
		}
	}
	// A store keeps the result of a call that has ended, for a client that has lost it.
	all["a store"] = func() func(turn) any {
		type open struct{ tool, wall, principal, result string }
		calls := map[string]*open{}
		return func(t turn) any {
			mu.Lock()
			defer mu.Unlock()
			wall, _ := t.arguments["wall"].(string)
			if t.state == nil {
				id := rand.Text()
				calls[id] = &open{t.tool, wall, t.principal, ""}
				return asking(anyColour, id, "Which colour?")
			}
			c := calls[*t.state]
			name, accepted, fits := t.colour()
			switch {
			case c == nil || c.tool != t.tool || c.wall != wall || c.principal != t.principal:
				return refusal{"there is no such call"}
			case c.result != "":
			case declined(t):
				c.result = "You declined."
			case !accepted || !fits:
				return asking(anyColour, *t.state, "Which colour?")
			default:
				c.result = fmt.Sprintf("It is %s.", name)
			}
			return says("%s", c.result)
		}
	}
	return all
}

// Correct servers that are unlike ours have no findings.
func TestHonestServersHaveNoFindings(t *testing.T) {
	t.Parallel()
	for name, start := range honestServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web, other := httptest.NewServer(small(start())), httptest.NewServer(small(start()))
			t.Cleanup(web.Close)
			t.Cleanup(other.Close)
			report, err := runPatiently(t.Context(), Options{
				Server: Endpoint{URL: web.URL, Header: bearer("a-token-of-one")}, Second: bearer("a-token-of-another"),
				Allow: []string{"*"}, MaxRequests: 5000,
				Only: []string{"questions", "state", "answers"}, // these servers look at no header
				Plan: Plan{Replica: web.URL, Elsewhere: other.URL,
					Calls: map[string]PlannedCall{"print": {Once: name == "a store"}}},
			})
			expect.Check(t, err)
			if name == "plain" && report.Count(findings.Pass) < 20 {
				t.Errorf("%d probes passed", report.Count(findings.Pass))
			}
			if len(report.Targets) != 2 || strings.Contains(report.Stopped, "in a row") {
				t.Errorf("%d targets, %s", len(report.Targets), report.Stopped)
			}
			for _, v := range report.Verdicts {
				if v.Level != findings.NotJudged || testing.Verbose() {
					t.Logf("%-10s %-20s %-12s %s", v.Level, v.Probe, v.Target, v.Reason)
				}
				if v.Level.AtLeast(findings.Warn) {
					t.Errorf("%s %s: %s by %s: %s\n%s", v.Probe, v.Target, v.Level, v.Proof, v.Reason, v.Transcript)
				}
			}
		})
	}
}
