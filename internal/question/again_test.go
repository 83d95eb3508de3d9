package question_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// typedMessage is the message of an elicitation as the SDK would send it.
func typedMessage(t *testing.T, q *question.Question) string {
	t.Helper()
	p, ok := q.Typed().(*mcp.ElicitParams)
	if !ok {
		t.Fatalf("the question is a %T", q.Typed())
	}
	return p.Message
}

// An elicitation that is asked again says why, in both of its forms, and only the last reason. It stays the same
// question, and the original is as it was.
func TestAskedAgain(t *testing.T) {
	all := questions(t)
	for _, name := range []string{"form", "url"} {
		q := all[name]
		first := typedMessage(t, q)
		again := q.Again(errors.New("n: is too large")).Again(errors.New("name: is required"))
		want := first + "\n\nThe answer before this one does not fit: name: is required."
		sent, _ := strictjson.String(strictjson.Get(again.Params(), "message"))
		if sent != want || typedMessage(t, again) != want {
			t.Errorf("%s: it is asked again with %q, and as the SDK's type with %q, want %q",
				name, sent, typedMessage(t, again), want)
		}
		if again.Digest != q.Digest || typedMessage(t, q) != first || strings.Contains(string(q.Params()), "does not fit") {
			t.Errorf("%s: asking it again makes another question of it", name)
		}
		if asked, reason := question.Reason(sent); asked != first || reason != "name: is required" {
			t.Errorf("%s: the message is split into %q and %q", name, asked, reason)
		}
		if question.Asked(sent) != first || question.Asked(first) != first {
			t.Errorf("%s: the author's message is lost", name)
		}
		var before, after map[string]json.RawMessage
		expect.Check(t, errors.Join(json.Unmarshal(q.Params(), &before), json.Unmarshal(again.Params(), &after)))
		delete(before, "message")
		delete(after, "message")
		expect.Diff(t, name+": asked again it has other parameters", before, after)
	}
	for _, name := range []string{"sample", "roots"} {
		if again := all[name].Again(errors.New("no")); again != all[name] {
			t.Errorf("%s: it is asked again with %s", name, again.Params())
		}
	}
	if params := question.AskAgain([]byte(`{"message":1}`), errors.New("no")); string(params) != `{"message":1}` {
		t.Errorf("a question without a message becomes %s", params)
	}
}

type parcel struct {
	Weight float64  `json:"weight" minimum:"0.5"`
	Marks  []string `json:"marks,omitempty" enum:"fragile|cold"`
}

// A form that is rendered as text stays the same question, and takes the answers to both renderings, by the same rules.
func TestPlain(t *testing.T) {
	q, err := question.FormOf("What do you send?", reflect.TypeFor[parcel]())
	q = must(t, q, err)
	plain := q.Plain()
	const properties = `"weight":{"type":"string"`
	typed, err := json.Marshal(plain.Typed())
	if err != nil || !strings.Contains(string(plain.Params()), properties) ||
		!strings.Contains(string(typed), properties) {
		t.Errorf("it is sent as %s, and as the SDK's type as %s, %v", plain.Params(), typed, err)
	}
	if plain.Digest != q.Digest || strings.Contains(string(q.Params()), properties) {
		t.Error("rendering it makes another question of it")
	}
	const accepted = `{"action":"accept","content":`
	for answer, want := range map[string]string{
		accepted + `{"weight":"2.5","marks":"fragile, cold"}}`: accepted + `{"weight":2.5,"marks":["fragile","cold"]}}`,
		accepted + `{"weight":2.5,"marks":["fragile"]}}`:       accepted + `{"weight":2.5,"marks":["fragile"]}}`,
		`{"action":"decline"}`:                                 `{"action":"decline"}`,
		accepted + `{"weight":"0.1"}}`:                         "",
		accepted + `{"weight":"heavy"}}`:                       "",
		`{"action":"accept"}`:                                  "",
	} {
		record, err := plain.Accept([]byte(answer))
		if (err != nil) != (want == "") || string(record) != want {
			t.Errorf("%s records %s, %v, want %s", answer, record, err, want)
		}
	}
	text, err := question.FormOf("Which color?", reflect.TypeFor[struct {
		Name string `json:"name"`
	}]())
	text = must(t, text, err)
	url := questions(t)["url"]
	if text.Plain() != text || url.Plain() != url || question.Roots().Plain().Method != input.MethodListRoots {
		t.Error("a question without numbers is rendered otherwise")
	}
}

// Where a handler reads answers itself they are checked against the question as it was sent.
func TestUnfit(t *testing.T) {
	q, err := question.Manual(&mcp.ElicitParams{Mode: "form", Message: "Sure?", RequestedSchema: json.RawMessage(
		`{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}`)})
	q = must(t, q, err)
	if err := q.Unfit([]byte(`{"action":"accept","content":{"sure":true}}`)); err != nil {
		t.Errorf("an answer that fits: %v", err)
	}
	err = q.Unfit([]byte(`{"action":"accept","content":{}}`))
	expect.Fails(t, "an answer that does not fit", err, "sure: is required")
	array := json.RawMessage(`{"type":"array"}`)
	other, err := question.Manual(&mcp.ElicitParams{Message: "Sure?", RequestedSchema: array})
	if other = must(t, other, err); other.Unfit([]byte(`{"action":"accept"}`)) == nil {
		t.Error("a form that is none has an answer")
	}
}

// People correct their answers. A client's model and its roots are as they are.
func TestCorrectable(t *testing.T) {
	for method, want := range map[string]bool{
		input.MethodElicit: true, input.MethodCreateMessage: false, input.MethodListRoots: false,
	} {
		if question.Correctable(method) != want {
			t.Errorf("%s: %v", method, !want)
		}
	}
}

// A question may be sent with other parameters of the SDK's type, and is the same question.
func TestWithTyped(t *testing.T) {
	q := questions(t)["form"]
	params := &mcp.ElicitParams{Message: "Which color, again?"}
	other := q.WithTyped(params)
	if typedMessage(t, other) != params.Message || typedMessage(t, q) == params.Message || other.Digest != q.Digest ||
		other.Digest == (journal.Digest{}) {
		t.Errorf("it is %q, and was %q", typedMessage(t, other), typedMessage(t, q))
	}
}
