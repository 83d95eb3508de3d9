package drafts

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// text is an envelope as a JSON string.
func text(t testing.TB, e envelope) string {
	t.Helper()
	state := expect.Must(e.encode())(t)
	return `"` + state + `"`
}

// encoded is what an envelope's text would be for any content.
func encoded(content string) string {
	return `"` + base64.RawURLEncoding.EncodeToString([]byte(content)) + `"`
}

// The states that are put around the questions come back as what they were made of, whatever the keys are.
func TestDependentRequestsComeBack(t *testing.T) {
	const state = `sealed "é" 😀`
	keys := []string{"a", "", `"\`, "é", "😀", "a.b/c", "\x00"}
	r := &result{kind: "input_required", state: quote(state)}
	for _, key := range keys {
		r.requests = append(r.requests, wire.InputRequest{Key: key, Method: "roots/list", Params: []byte(`{}`)})
	}
	for _, form := range []Form{State1, State2} {
		var sent struct {
			Requests struct {
				State    string `json:"state,omitempty"`
				Requests []struct {
					State string `json:"state"`
				} `json:"requests"`
			} `json:"dependent_requests"`
		}
		message := form.dependentRequests([]byte("1"), r)
		if err := json.Unmarshal(message, &sent); err != nil || len(sent.Requests.Requests) != len(keys) {
			t.Fatalf("%s: %v in %s", form, err, message)
		}
		type response struct {
			State  string          `json:"state,omitempty"`
			Result json.RawMessage `json:"result"`
		}
		var responses []response
		want := map[string]int{}
		for i, q := range sent.Requests.Requests {
			result, _ := json.Marshal(i)
			responses = append(responses, response{q.State, result})
			want[keys[i]] = i
		}
		back, err := json.Marshal(map[string]any{"state": sent.Requests.State, "responses": responses})
		if form == State2 {
			back, err = json.Marshal(map[string]any{"responses": responses})
		}
		expect.Check(t, err)
		answers, got, fault := dependentResponses(back)
		if fault != nil || string(got) != string(quote(state)) {
			t.Fatalf("%s: state %s, %v", form, got, fault)
		}
		var all map[string]int
		expect.Check(t, json.Unmarshal(answers, &all))
		expect.Diff(t, string(form), want, all)
		if dependentForm(back) != form {
			t.Errorf("%s comes back as %s", form, dependentForm(back))
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	for _, e := range []envelope{
		{}, {State: "s"}, {State: "s", Keys: []string{"a", "é"}},
		{Keys: []string{"a"}, Call: &Call{Session: "n", ID: []byte("1"), Method: "tools/call", Params: []byte(`{"name":"x"}`),
			Capabilities: []byte(`{}`)}},
	} {
		f.Add([]byte(text(f, e)))
	}
	for _, content := range []string{``, `null`, `[]`, `{"s":1}`, `{"c":{"i":{}}}`, `{"k":null,"c":null}`, `{"S":"x"}`,
		`{"s":"\ud800"}`} {
		f.Add([]byte(encoded(content)))
	}
	f.Add([]byte(`"!"`))
	f.Add([]byte(`7`))
	f.Fuzz(func(t *testing.T, state []byte) {
		e, fault := decodeEnvelope(state, 16)
		if fault != nil {
			if e != nil || fault.Code != wire.InvalidState().Code || fault.Message != wire.InvalidState().Message {
				t.Fatalf("%v, %v", e, fault)
			}
			return
		}
		again := expect.Must(e.encode())(t)
		back, fault := decodeEnvelope(quote(again), 16)
		if fault != nil {
			t.Fatalf("%s was decoded, and %s is not: %v", state, again, fault)
		}
		if twice, err := back.encode(); err != nil || twice != again {
			t.Fatalf("%s becomes %s, %v", again, twice, err)
		}
	})
}
