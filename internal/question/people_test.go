package question_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Names and keys are lines that look like nothing else. A key may have space around it, and a name may not.
func TestNamesAndKeys(t *testing.T) {
	for text, want := range map[string][2]bool{ // key, name
		"ada": {true, true}, "Ada Lovelace": {true, true}, " ada": {true, false}, "ada\u00a0": {true, false},
		"": {false, false}, "a\nb": {false, false}, "a\x1b[31m": {false, false}, "a\xff": {false, false},
		strings.Repeat("a", question.MaxName):   {true, true},
		strings.Repeat("a", question.MaxName+1): {false, false},
	} {
		if got := [2]bool{question.IsKey(text), question.IsName(text)}; got != want {
			t.Errorf("%q: key and name %v, want %v", text, got, want)
		}
	}
}

// Clients are told in one line who is awaited, how many of them, and until when, whatever the server's time zone is.
func TestWhoIsAwaited(t *testing.T) {
	deadline := time.Date(2026, 7, 28, 14, 0, 0, 0, time.FixedZone("there", 2*3600))
	for _, c := range []struct {
		to       []string
		votes    int
		deadline time.Time
		want     string
	}{
		{[]string{"user:ada"}, 1, time.Time{}, "user:ada"},
		{[]string{"user:ada", "group:ops"}, 2, time.Time{}, "2 of user:ada, group:ops"},
		{[]string{"user:ada"}, 1, deadline, "user:ada until 2026-07-28 12:00:00 UTC"},
	} {
		if got := question.Awaited(c.to, c.votes, c.deadline); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Who may answer, and how many must, belongs to the question: changed rules ask again, and spelling a name twice or
// leaving out one vote changes nothing.
func TestAddressedQuestions(t *testing.T) {
	addressed := func(votes int, to ...string) *question.Question {
		q, err := question.FormOf("Which color?", reflect.TypeFor[color]())
		q = must(t, q, err)
		q.Address(to, votes)
		return q
	}
	one := addressed(0, "user:ada", "user:bob", "user:ada")
	if one.Votes != 1 || !slices.Equal(one.For, []string{"user:ada", "user:bob"}) {
		t.Errorf("%d votes of %q", one.Votes, one.For)
	}
	if same := addressed(1, "user:ada", "user:bob"); same.Digest != one.Digest {
		t.Error("the same people make another question")
	}
	plain := questions(t)["form"]
	for says, other := range map[string]*question.Question{
		"nobody": plain, "two votes": addressed(2, "user:ada", "user:bob"), "others": addressed(1, "user:ada"),
	} {
		if other.Digest == one.Digest {
			t.Errorf("for %s it is the same question", says)
		}
	}
}

// The time after which somebody declined is measured by the server. What a client says of it does not count.
func TestWhenAnAnswerCame(t *testing.T) {
	for _, c := range []struct {
		result string
		after  time.Duration
		want   string
	}{
		{`{"action":"decline","after":9,"shown":false}`, 40 * time.Millisecond, `{"action":"decline","after":40}`},
		{`{"action":"cancel"}`, 2 * time.Second, `{"action":"cancel","after":2000}`},
		{`{"action":"decline","after":9}`, -1, `{"action":"decline"}`},
		{`{"action":"accept","content":{}}`, time.Second, `{"action":"accept","content":{}}`},
		{`{"roots":[]}`, time.Second, `{"roots":[]}`},
	} {
		if got := string(question.WithAfter([]byte(c.result), c.after)); got != c.want {
			t.Errorf("%s becomes %s, want %s", c.result, got, c.want)
		}
	}
	type decoded struct {
		after     time.Duration
		shown, ok bool
	}
	hidden := string(question.NotShown([]byte(`{"action":"decline","content":{"secret":1}}`), 3*time.Millisecond))
	expect.Equal(t, "an answer that nobody gave", hidden, `{"action":"decline","after":3,"shown":false}`)
	for result, want := range map[string]decoded{
		`{"action":"decline","after":40}`: {40 * time.Millisecond, true, true},
		hidden:                            {3 * time.Millisecond, false, true},
		`{"action":"accept"}`:             {0, true, false},
		`{"after":"soon"}`:                {0, true, false},
		`{"after":-5}`:                    {-5 * time.Millisecond, true, false},
	} {
		var got decoded
		if got.after, got.shown, got.ok = question.After([]byte(result)); got != want {
			t.Errorf("%s is %+v, want %+v", result, got, want)
		}
	}
}

// A host that accepts a form without a value, or does not say what it did, has shown the form to nobody.
func TestBlankAnswers(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"action":"accept"}`: true, `{"action":"accept","content":{}}`: true, `{}`: true, `null`: true,
		`{"action":"accept","content":{"sure":false}}`: false, `{"action":"decline"}`: false, `{"action":"cancel"}`: false,
	} {
		expect.Equal(t, answer+": blank", question.IsBlank([]byte(answer)), want)
	}
}

// A question that was sent before takes the answers that it took then. Unchecked, it takes any.
func TestStoredQuestions(t *testing.T) {
	for name, made := range questions(t) {
		checked, err := question.Stored(made.Method, made.Params(), true)
		checked = must(t, checked, err)
		unchecked, err := question.Stored(made.Method, made.Params(), false)
		unchecked = must(t, unchecked, err)
		if checked.Need != made.Need || checked.Method != made.Method || string(checked.Params()) != string(made.Params()) {
			t.Errorf("%s: it needs %v, and is %s %s", name, checked.Need, checked.Method, checked.Params())
		}
		const odd = `{"odd":1}`
		if _, err := checked.Accept([]byte(odd)); err == nil {
			t.Errorf("%s: an answer that fits nothing is taken", name)
		}
		if record, err := unchecked.Accept([]byte(odd)); err != nil || string(record) != odd {
			t.Errorf("%s: unchecked, it records %s, %v", name, record, err)
		}
	}
	if _, err := question.Stored(input.MethodElicit, []byte(`{"message":1}`), true); err == nil {
		t.Error("a form without a message can be asked")
	}
	if _, err := question.Stored("tools/call", []byte(`{}`), true); err == nil {
		t.Error("a request of another method can be asked")
	}
}

// A schema that a stranger wrote may have what an author's may not. One that is no object cannot be asked.
func TestFormsOfStrangers(t *testing.T) {
	q, err := question.ForeignForm("Which?", map[string]any{"type": "object", "x-unknown": true,
		"properties": map[string]any{"size": map[string]any{"type": "integer", "x-unit": "cm"}}})
	q = must(t, q, err)
	if !strings.Contains(string(q.Params()), `"x-unit":"cm"`) {
		t.Errorf("it is asked as %s", q.Params())
	}
	if _, err := q.Accept([]byte(`{"action":"accept","content":{"size":"large"}}`)); err == nil {
		t.Error("a text is a size")
	}
	for _, schema := range []any{func() {}, "text", map[string]any{"type": "array"}} {
		if q, err := question.ForeignForm("Which?", schema); err == nil {
			t.Errorf("%T is asked as %s", schema, q.Params())
		}
	}
}

// A sleep is a question that nobody can answer.
func TestTimers(t *testing.T) {
	q := question.Timer(time.Hour)
	if q.Within != time.Hour || q.Digest != question.TimerDigest || q.Params() != nil {
		t.Errorf("a timer is %+v", q)
	}
	for name, asked := range questions(t) {
		if asked.Digest == question.TimerDigest {
			t.Errorf("%s is a timer", name)
		}
	}
}
