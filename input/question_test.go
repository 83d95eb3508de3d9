package input_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, method, params            string
		mode, message, schema, url, err string
	}{
		{"a form", input.MethodElicit, `{"message":"Which?","requestedSchema":{"type":"object"}}`,
			"form", "Which?", `{"type":"object"}`, "", ""},
		{"a form that says so", input.MethodElicit, `{"mode":"form","message":"Which?","url":"https://a.b"}`,
			"form", "Which?", `{"type":"object","properties":{}}`, "", ""},
		{"a page", input.MethodElicit, `{"mode":"url","message":"Sign in","url":"https://a.b/c","requestedSchema":{}}`,
			"url", "Sign in", "", "https://a.b/c", ""},
		{"a mode of a later revision", input.MethodElicit, `{"mode":"voice","message":"Say it","url":"https://a.b"}`,
			"voice", "Say it", "", "", ""},
		{"null members", input.MethodElicit, `{"mode":null,"message":null}`,
			"form", "", `{"type":"object","properties":{}}`, "", ""},
		{"a sampling request", input.MethodCreateMessage, `{"message":"not read"}`, "", "", "", "", ""},
		{"no parameters", input.MethodElicit, ``, "", "", "", "", "no parameters"},
		{"an array", input.MethodElicit, `[]`, "", "", "", "", "no parameters"},
		{"a message of another type", input.MethodElicit, `{"mode":"form","message":1}`,
			"", "", "", "", "message is not a string"},
		{"a page without a URL", input.MethodElicit, `{"mode":"url"}`, "", "", "", "", "no URL"},
		{"a page that is a script", input.MethodElicit, `{"mode":"url","url":"javascript:alert(1)"}`,
			"", "", "", "", "not an https:// or http:// URL"},
		{"a page without a host", input.MethodElicit, `{"mode":"url","url":"https:///x"}`, "", "", "", "", "https://"},
	} {
		q := input.Question{Key: "k", Method: c.method, Params: json.RawMessage(c.params)}
		err := q.Parse()
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), `"k"`) {
				t.Errorf("%s: %v, want an error about %q of the question", c.name, err, c.err)
			}
			if q.Mode != "" || q.Message != "" || q.Schema != nil || q.URL != "" {
				t.Errorf("%s: of a malformed question are read %+v", c.name, q)
			}
			continue
		}
		if err != nil || q.Mode != c.mode || q.Message != c.message || string(q.Schema) != c.schema || q.URL != c.url {
			t.Errorf("%s: %+v, %v", c.name, q, err)
		}
	}
}

// What a question marshals to is all that is needed to have it again, and a message beside its parameters counts for
// nothing.
func TestQuestionsAreEncoded(t *testing.T) {
	q := input.Question{Key: "k", Method: input.MethodElicit, Params: json.RawMessage(`{"message":"Which?"}`)}
	expect.Check(t, q.Parse())
	data, err := json.Marshal(q)
	const want = `{"key":"k","method":"elicitation/create","params":{"message":"Which?"},"message":"Which?"}`
	if err != nil || string(data) != want {
		t.Fatalf("%s, %v, want %s", data, err, want)
	}
	var again input.Question
	data = bytes.Replace(data, []byte(`},"message":"Which?"`), []byte(`},"message":"Forged"`), 1)
	if err := json.Unmarshal(data, &again); err != nil || again.Message != "Forged" {
		t.Fatalf("%s is %+v, %v", data, again, err)
	}
	if err := again.Parse(); err != nil || again.Message != q.Message {
		t.Errorf("%+v, %v", again, err)
	}
}

// A question that is parsed again has nothing of what it was.
func TestParsedAgain(t *testing.T) {
	q := input.Question{
		Method: input.MethodElicit, Params: json.RawMessage(`{"mode":"url","message":"m","url":"https://a.b"}`),
	}
	expect.Check(t, q.Parse())
	q.Params = json.RawMessage(`{"message":1}`)
	if err := q.Parse(); err == nil || q.Mode != "" || q.Message != "" || q.Schema != nil || q.URL != "" {
		t.Errorf("%+v, %v", q, err)
	}
	q.Params = json.RawMessage(`{}`)
	if err := q.Parse(); err != nil || q.Mode != "form" || q.Message != "" || q.URL != "" {
		t.Errorf("%+v, %v", q, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mode":"url","url":"https://example.com/in","message":"Sign in"}`)
	f.Add(`{"mode":"form","requestedSchema":{"type":"object"},"message":"\u0000"}`)
	f.Fuzz(func(t *testing.T, params string) {
		if strictjson.Check([]byte(params), 16) != nil {
			return
		}
		q := input.Question{Key: "k", Method: input.MethodElicit, Params: json.RawMessage(params)}
		if err := q.Parse(); err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("%q", err)
			}
			return
		}
		switch {
		case q.Mode == "form" && (q.URL != "" || q.Schema == nil),
			q.Mode == "url" && (!strings.HasPrefix(strings.ToLower(q.URL), "http") || q.Schema != nil),
			q.Mode != "form" && q.Mode != "url" && (q.URL != "" || q.Schema != nil):
			t.Errorf("%s is %+v", params, q)
		}
	})
}
