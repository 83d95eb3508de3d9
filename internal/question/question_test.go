package question_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

type color struct {
	Name string `json:"name" enum:"red|blue"`
	N    int8   `json:"n,omitempty"`
}

func must(t *testing.T, q *question.Question, err error) *question.Question {
	t.Helper()
	expect.Check(t, err)
	return q
}

func questions(t *testing.T) map[string]*question.Question {
	form, err := question.FormOf("Which color?", reflect.TypeFor[color]())
	form = must(t, form, err)
	url, err := question.URL("Sign in", "https://example.com/in?a=b")
	url = must(t, url, err)
	messages := []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hi"}}}
	sample, err := question.Sample(&mcp.CreateMessageParams{MaxTokens: 10, Messages: messages})
	sample = must(t, sample, err)
	tools, err := question.Sample(&mcp.CreateMessageWithToolsParams{
		MaxTokens: 10,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Hi"}}}},
		Tools:     []*mcp.Tool{{Name: "t", InputSchema: map[string]any{"type": "object"}}},
	})
	tools = must(t, tools, err)
	return map[string]*question.Question{
		"form": form, "url": url, "sample": sample, "tools": tools, "roots": question.Roots(),
	}
}

// What counts as an answer is the same for a question that was just made and for one that
// was stored as it was sent.
func TestAnswers(t *testing.T) {
	all := questions(t)
	for _, c := range []struct{ question, answer, record, refused string }{
		{"form", `{"action":"accept","content":{"name":"red"}}`, `{"action":"accept","content":{"name":"red"}}`, ""},
		{"form", `{"action":"decline","content":{"name":"red"}}`, `{"action":"decline"}`, ""},
		{"form", `{"action":"cancel"}`, `{"action":"cancel"}`, ""},
		{"form", `{"action":"accept","content":{"name":"green"}}`, "", "name"},
		{"form", `{"action":"accept"}`, "", "name: is required"},
		{"form", `{"action":"perhaps"}`, "", "action"},
		{"form", `{}`, "", "action"},
		{"url", `{"action":"accept"}`, `{"action":"accept"}`, ""},
		{"url", `{"action":"accept","content":{"secret":1}}`, `{"action":"accept"}`, ""},
		{"url", `{"action":1}`, "", "action"},
		{"sample", `{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}`,
			`{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}`, ""},
		{"sample", `{"role":"assistant","content":{"type":"text","text":"hi"}}`, "", "model"},
		{"sample", `{"role":"system","model":"m","content":{"type":"text","text":"hi"}}`, "", "role"},
		{"sample", `{"role":"assistant","model":"m","content":{"type":"tool_use","id":"1","name":"t","input":{}}}`, "",
			"none were offered"},
		{"tools", `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"t","input":{}}]}`,
			`{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"t","input":{}}]}`, ""},
		{"sample", `{"role":1}`, "", "not a sampling result"},
		{"roots", `{"roots":[{"uri":"file:///src"}]}`, `{"roots":[{"uri":"file:///src"}]}`, ""},
		{"roots", `{"roots":[]}`, `{"roots":[]}`, ""},
		{"roots", `{}`, "", "roots"},
		{"roots", `{"roots":[null]}`, "", "null"},
		{"roots", `{"roots":[{"uri":"https://example.com"}]}`, "", "file URI"},
		{"roots", `{"roots":[{"uri":"file:///src"},{"uri":"/src"}]}`, "", "file URI"},
	} {
		q := all[c.question]
		stored := expect.Must(question.AcceptFor(q.Method, q.Params()))(t)
		for how, accept := range map[string]question.Accept{"made": q.Accept, "stored": stored} {
			record, err := accept([]byte(c.answer))
			switch {
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("%s, %s: %s gives %v, want an error about %q", c.question, how, c.answer, err, c.refused)
			case c.refused == "" && (err != nil || string(record) != c.record):
				t.Errorf("%s, %s: %s records %s, %v, want %s", c.question, how, c.answer, record, err, c.record)
			}
		}
	}
	if _, err := question.AcceptFor("tools/call", nil); err == nil {
		t.Error("a question of another method was stored")
	}
}

// A number that the schema allows may be too large for the type that the answer goes into.
func TestAnswersFitTheirType(t *testing.T) {
	schema := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}
	q, err := question.FormFor("?", schema, reflect.TypeFor[color]())
	q = must(t, q, err)
	if _, err := q.Accept([]byte(`{"action":"accept","content":{"n":300}}`)); err == nil {
		t.Error("300 fits into an int8")
	}
	if _, err := q.Accept([]byte(`{"action":"accept","content":{"n":100}}`)); err != nil {
		t.Error(err)
	}
}

// A client is asked for what it declared, and a question is known by all that it sees.
func TestNeedsAndDigests(t *testing.T) {
	all := questions(t)
	seen := make(map[journal.Digest]string)
	for name, need := range map[string]wire.Capability{
		"form": wire.Form, "url": wire.URL, "sample": wire.Sampling, "tools": wire.Sampling | wire.SamplingTools,
		"roots": wire.Roots,
	} {
		q := all[name]
		if q.Need != need {
			t.Errorf("%s needs %v", name, q.Need)
		}
		if other := seen[q.Digest]; other != "" || q.Digest == (journal.Digest{}) {
			t.Errorf("%s has the digest of %q", name, other)
		}
		seen[q.Digest] = name
		manual, err := question.Manual(q.Typed())
		if err != nil || manual.Need != need || manual.Method != q.Method || manual.Digest != (journal.Digest{}) {
			t.Errorf("%s in the manual style: %+v, %v", name, manual, err)
		}
	}
	reworded, err := question.FormOf("Which color, then?", reflect.TypeFor[color]())
	if reworded = must(t, reworded, err); seen[reworded.Digest] != "" {
		t.Error("a reworded question has the digest of the first")
	}
}

// A form's digest is joined from parts, and is that of the whole: a question must keep its digest from one version to
// the next. Its parameters are those of the SDK's type.
func FuzzFormMessage(f *testing.F) {
	for _, message := range []string{
		"", "Who are you?", "\"<&>\\\n\x00\u007f\u2028", "é 世界 😀", "\xff\xfe \xed\xa0\x80", strings.Repeat("long ", 200),
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		q, err := question.FormOf(message, reflect.TypeFor[color]())
		expect.Check(t, err)
		if err := strictjson.Check(q.Params(), 64); err != nil {
			t.Fatalf("%q makes %s: %v", message, q.Params(), err)
		}
		if sum := strictjson.Digest(q.Params()); q.Digest != journal.Digest(sum[:16]) {
			t.Fatalf("%s has the digest %x", q.Params(), q.Digest)
		}
		typed, err := json.Marshal(q.Typed())
		if err != nil || strictjson.Digest(typed) != strictjson.Digest(q.Params()) {
			t.Fatalf("the SDK sends %s, %v, in place of %s", typed, err, q.Params())
		}
		text, _ := json.Marshal(message) // which makes U+FFFD of what is not UTF-8
		if strictjson.Digest(strictjson.Get(q.Params(), "message")) != strictjson.Digest(text) {
			t.Fatalf("%s is not the message %s", q.Params(), text)
		}
	})
}

func TestAskingAgainAllocatesLittle(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		expect.Must(question.FormOf("Which color?", reflect.TypeFor[color]()))(t)
	}); n > 2 { // the question and its parameters
		t.Errorf("%v allocations", n)
	}
}

func TestQuestionsThatCannotBe(t *testing.T) {
	for says, err := range map[string]error{
		"absolute":   second(question.URL("?", "/in")),
		"https":      second(question.URL("?", "javascript:alert(1)")),
		"or http":    second(question.URL("?", "https:///in")),
		"message":    second(question.Sample(&mcp.CreateMessageParams{MaxTokens: 1})),
		"MaxTokens":  second(question.Sample(&mcp.CreateMessageParams{Messages: []*mcp.SamplingMessage{{}}})),
		"the schema": second(question.FormFor("?", func() {}, reflect.TypeFor[color]())),
		"struct":     second(question.FormOf("?", reflect.TypeFor[int]())),
	} {
		expect.Fails(t, "the error", err, says)
	}
}

func second[T any](_ T, err error) error { return err }
