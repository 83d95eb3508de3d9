package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

const bug = `{"type":"object","properties":{
	"zeta":{"type":"string","title":"Resolution","description":"What became of the bug","oneOf":[
		{"const":"fixed","title":"Fixed"},{"const":"dup","title":"Duplicate of another bug"}]},
	"alpha":{"type":"integer","title":"Duplicate of","minimum":1,"maximum":99999},
	"mail":{"type":"string","format":"email","title":"Contact","default":"ada@example.com"},
	"home":{"type":"string","format":"uri","title":"Home page"},
	"due":{"type":"string","format":"date","title":"Due"},
	"at":{"type":"string","format":"date-time","title":"Seen at"},
	"weight":{"type":"number","title":"Weight","minimum":0.5},
	"colour":{"type":"string","title":"Colour","enum":["r","g"],"enumNames":["Red","Green"]},
	"loud":{"type":"boolean","title":"Notify everybody","default":true},
	"public":{"type":"boolean","title":"Public"},
	"tags":{"type":"array","title":"Tags","minItems":1,"maxItems":2,"items":{"type":"string","enum":["ui","db","net"]},
		"default":["db"]},
	"note":{"type":"string","title":"Note","minLength":3,"maxLength":20}
},"required":["zeta","mail","public"]}`

func askForm(t *testing.T, on *Terminal, message, schema string) *asked[*mcp.ElicitResult] {
	return ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return on.Form(ctx, "tracker", message, json.RawMessage(schema))
	})
}

func TestFormOfEveryKind(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "How was this bug resolved?", bug)

	p.sees("tracker asks:", "│ How was this bug resolved?", "Resolution · required", "What became of the bug")
	p.types(down, enter)
	p.sees("(•) Duplicate of another bug (dup)", "Duplicate of · optional · a whole number, 1 to 99999")
	p.types("4.5", enter)
	p.sees("✗ must be a whole number")
	p.types(back, back, enter)
	p.sees("> ada@example.com")
	p.types(ctrlU, "ada", enter)
	p.sees("✗ must be an email address")
	p.types("@lovelace.org")
	p.seesNoMore("✗") // as soon as it is right
	p.types(enter, "https://example.com/ada", enter)
	p.types("2026-02-30", enter)
	p.sees("✗ must be a date such as")
	p.types(ctrlU, "2026-02-28", enter)
	p.types("2026-02-28T10:00:00+01:00", enter)
	p.types("0.25", enter)
	p.sees("✗ must be at least 0.5")
	p.types(ctrlU, "0.75", enter)
	p.sees("▸ (•) (leave empty)")
	p.types("g", enter)
	p.sees("(•) Green (g)")
	p.types(down, enter) // Yes by default
	p.sees("Public · required")
	p.types(tab) // and away without an answer
	p.sees("✗ choose one")
	p.types("\x1b[Z", "n")
	p.seesNoMore("✗")
	p.types(enter)
	p.sees("Tags · optional · 1 to 2 to choose", "▸ [x] db")
	p.types(down, " ", up, up, " ", enter)
	p.sees("✗ choose 1 to 2")
	p.types(" ", enter)
	p.types("ok", enter)
	p.sees("✗ must be at least 3 characters long")
	p.types("ay")
	p.sees("enter review")
	p.types(enter)
	p.sees("This will be sent:", "Duplicate of another bug (dup)", "2026-02-28T10:00:00+01:00", "▸ Send")
	p.types(enter)

	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
		"zeta": "dup", "alpha": 4.0, "mail": "ada@lovelace.org", "home": "https://example.com/ada", "due": "2026-02-28",
		"at": "2026-02-28T10:00:00+01:00", "weight": 0.75, "colour": "g", "loud": false, "public": false,
		"tags": []any{"db", "net"}, "note": "okay",
	}})
	p.sees("✓ Sent.")
	p.seesNoMore("This will be sent")
	p.gotItBack()
}

// Nothing is chosen yet, and the cursor points at the first option: an arrow moves from there, Enter takes what is
// pointed at.
func TestArrowsMoveFromTheOptionThatIsPointedAt(t *testing.T) {
	const (
		open   = `{"type":"object","required":["a"],"properties":{"a":{"type":"string","enum":["first","second","third"]}}}`
		preset = `{"type":"object","required":["a"],"properties":{"a":{"type":"string","enum":["first","second","third"],` +
			`"default":"second"}}}`
	)
	for _, tt := range []struct{ schema, keys, want string }{
		{open, enter, "first"},
		{open, down + enter, "second"},
		{open, down + down + enter, "third"},
		{open, "\x0e" + enter, "second"}, // control n
		{open, up + enter, "first"},
		{open, down + up + enter, "first"},
		{open, "\x1b[F" + enter, "third"},
		{open, " " + enter, "first"},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"boolean"}}}`, enter, "false"}, // unlike a first option
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"boolean"}}}`, up + enter, "true"},
		{`{"type":"object","properties":{"a":{"type":"string","enum":["first","second"]}}}`, enter, "<nil>"},
		{`{"type":"object","properties":{"a":{"type":"string","enum":["first","second"]}}}`, down + enter, "first"},
		{`{"type":"object","properties":{"a":{"type":"string","enum":["first","second"],"default":"first"}}}`, up + enter,
			"<nil>"},
		{preset, enter, "second"},
		{preset, down + enter, "third"},
		{preset, up + enter, "first"},
	} {
		p := newPerson(t)
		a := askForm(t, p.terminal(), "Which?", tt.schema)
		p.sees("▸ ")
		p.types(tt.keys)
		answer, err := a.end()
		if err != nil || answer.Action != "accept" || fmt.Sprint(answer.Content["a"]) != tt.want {
			t.Errorf("%q: got %v, %v, want %s", tt.keys, answer, err, tt.want)
		}
	}
}

// One Enter sends a form of one field, drawn or line by line, and what was asked and answered stays once.
func TestOneEnterSendsOneField(t *testing.T) {
	for _, tt := range []struct {
		property, keys string
		want           any
		shown          string
	}{
		{`{"type":"string","title":"Name"}`, "Ada" + enter, "Ada", "Ada"},
		{`{"type":"integer","title":"Name"}`, "7." + enter, 7.0, "7"},
		{`{"type":"string","title":"Name","enum":["b","c"]}`, down + enter, "c", "c"},
		{`{"type":"array","title":"Name","items":{"type":"string","enum":["b","c"]}}`, " " + enter, []any{"b"}, "b"},
	} {
		p := newPerson(t)
		a := askForm(t, p.terminal(), "Who are you?", `{"type":"object","required":["a"],"properties":{"a":`+tt.property+`}}`)
		p.sees("Name · required", "enter send · ", "  Send    Decline    Cancel")
		p.types(tt.keys)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"a": tt.want}})
		p.showsOnly("tracker asks:\n│ Who are you?\n  Name  " + tt.shown + "\n✓ Sent.")
		p.gotItBack()
	}

	p := newPerson(t)
	a := askForm(t, p.terminal("ACCESSIBLE=1"), "Who are you?",
		`{"type":"object","properties":{"name":{"type":"string"}}}`)
	p.sees("\n>")
	p.types("Ada\n")
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}})
	p.sees("> Ada\n  name: Ada\nSent.")
}

func TestWhatWasAskedAndAnsweredStays(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	a := askForm(t, on, "Where to?", `{"type":"object","properties":{
		"name":{"type":"string"},"ways":{"type":"array","items":{"type":"string","enum":["air","boat"]},
			"default":["air","boat"]}}}`)
	p.sees("name · optional")
	p.types("Ada", enter, enter)
	p.sees("This will be sent:", "▸ Send")
	p.types(enter)
	expect.Must(a.end())(t)
	record := "tracker asks:\n│ Where to?\n  name  Ada\n  ways  air\n        boat\n✓ Sent."
	p.showsOnly(record)

	a = askForm(t, on, "What else?", `{"type":"object","properties":{"name":{"type":"string"}}}`)
	p.sees("What else?", "name · optional")
	p.types("Ada", tab, right, enter)
	expect.Must(a.end())(t)
	record += "\ntracker asks:\n│ What else?\n✗ Declined: the server is told no."
	p.showsOnly(record)

	a = askForm(t, on, "And?", `{"type":"object","properties":{}}`)
	p.sees("▸ Decline")
	p.types(toLeft, enter)
	expect.Must(a.end())(t)
	record += "\ntracker asks:\n│ And?\n✓ Accepted."
	p.showsOnly(record)
}

// Esc asks before it throws away what takes time to fill in again.
func TestEscapeAsksFirst(t *testing.T) {
	const (
		one  = `{"type":"object","properties":{"a":{"type":"string"}}}`
		two  = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`
		asks = "Leave without an answer?"
	)
	type step struct{ sees, types string }
	for name, tt := range map[string]struct {
		schema string
		steps  []step
		want   string
	}{
		"one field untouched": {one, []step{{"esc cancel", esc}}, "cancel"},
		"one field filled": {one, []step{{"esc cancel", "x"}, {"esc leave", esc}, {"is lost", right + right + enter}},
			"cancel"},
		"decline": {two, []step{{"esc leave", esc}, {asks, right}, {"▸ Decline", ""},
			{"decline tells the server no", enter}}, "decline"},
		"cancel": {two, []step{{"esc leave", esc}, {asks, right + right}, {"▸ Cancel", ""},
			{"cancel leaves without a decision", enter}}, "cancel"},
		"go back": {two, []step{{"esc leave", "x"}, {"> x", esc}, {"▸ Go back", enter}, {"> x", enter + enter},
			{"▸ Send", enter}}, "accept"},
		"a second escape": {two, []step{{"esc leave", esc}, {"esc go back", esc}, {"esc leave", enter + enter},
			{"▸ Send", enter}}, "accept"},
		"from the review": {two, []step{{"esc leave", enter + enter}, {"▸ Send", esc}, {asks, enter}, {"▸ Send", enter}},
			"accept"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			a := askForm(t, p.terminal(), "How?", tt.schema)
			for _, s := range tt.steps {
				p.sees(s.sees)
				p.types(s.types)
			}
			answer, err := a.end()
			if err != nil || answer.Action != tt.want {
				t.Errorf("got %v, %v", answer, err)
			}
			p.gotItBack()
		})
	}
}

func TestDefaultsAndEmptyFields(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"name":{"type":"string","default":"Ada"},
		"nick":{"type":"string","default":"A"},
		"age":{"type":"integer","default":36},
		"size":{"type":"string","enum":["S","M","L"],"default":"M"},
		"ways":{"type":"array","items":{"anyOf":[{"const":"a","title":"Air"},{"const":"b","title":"Boat"}]},"default":["b"]},
		"ok":{"type":"boolean","default":false},
		"free":{"type":"string"}
	},"required":["name","size"]}`
	p := newPerson(t)
	a := askForm(t, p.terminal(), "", schema)
	p.sees("> Ada", "> A", "> 36", "(•) M", "[x] Boat (b)", "(•) No", "free · optional")
	p.types(tab, ctrlU, tab, ctrlU, tab, tab, " ")
	p.seesNoMore("[x] Boat")
	p.types(up, " ", tab, tab, tab, enter)
	p.sees("name  Ada", "nick  (an empty text)", "age   (left empty; the server may take its default)", "size  M",
		"ways  Air (a)", "ok    No", "free  (left empty)")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
		"name": "Ada", "nick": "", "size": "M", "ways": []any{"a"}, "ok": false,
	}})
}

func TestSecretsAreWarnedOf(t *testing.T) {
	const warned = "! Servers must not ask for passwords"
	for _, schema := range []string{
		`{"type":"object","properties":{"apiKey":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","title":"Pass\u200bword"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"the number and CVV of your card"}}}`,
	} {
		for _, env := range []string{"X=", "ACCESSIBLE=1"} {
			p := newPerson(t)
			a := askForm(t, p.terminal(env), "", schema)
			p.sees(warned)
			a.Cancel()
			a.end()
		}
	}
	if f := fieldOf(t, `{"type":"string","title":"Keyboard","description":"The passing of cards"}`); f.warning != "" {
		t.Error("warned of nothing")
	}
}

func TestReviewCanChange(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "",
		`{"type":"object","properties":{"name":{"type":"string"},"nick":{"type":"string"}},"required":["name"]}`)
	p.sees("name · required")
	p.types(tab, tab, enter) // Review, with nothing filled in
	p.sees("┃ ✗ must be answered", "┃ name · required")
	p.types("Ada", enter, enter)
	p.sees("name  Ada", "▸ Send")
	p.types(right, enter)
	p.sees("> Ada", "Review")
	p.types(" L", enter, enter)
	p.sees("name  Ada L", "▸ Send")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada L"}})
}

func TestNumbersKeepTheirValue(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "", `{"type":"object","properties":{
		"big":{"type":"integer"},"plain":{"type":"number"},"odd":{"type":"number"},"signed":{"type":"integer"}}}`)
	p.sees("big · optional")
	p.types("9007199254740993", enter, ".10", enter, "007.", enter, "+1e1", enter)
	p.sees("big     9007199254740993", "plain   0.10", "odd     7", "signed  10")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
		"big": json.Number("9007199254740993"), "plain": 0.1, "odd": 7.0, "signed": 10.0,
	}})
}

// What no form has a field for is asked for as JSON, and checked by its own schema.
func TestFieldsAsJSON(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "How?", `{"type":"object","title":"M","properties":{"a":{"type":"object",`+
		`"properties":{"n":{"type":"integer"}}}},"required":["a"],"additionalProperties":false}`)
	p.sees("as JSON, such as", "How?")
	p.types(`{"n":"x"}`, enter, enter)
	p.sees("does not fit the rules of its schema")
	p.types(strings.Repeat("\x7f", 9), `{"n":9007199254740993}`, enter, enter)
	content := map[string]any{"a": json.RawMessage(`{"n":9007199254740993}`)}
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: content})
}

func TestSchemasThatAreNotAllowed(t *testing.T) {
	manyFields := strings.Repeat(`"%d":{"type":"string"},`, maxFields+1)
	for i := range maxFields + 1 {
		manyFields = strings.Replace(manyFields, "%d", fmt.Sprint(i), 1)
	}
	tests := map[string]struct{ schema, why string }{
		"no JSON": {`{"type":`, "invalid JSON at offset 8"},
		"a list":  {`[]`, "the form is not an object"},
		"a text":  {`{"type":"string"}`, "not of the type object"},
		"many fields": {`{"type":"object","properties":{` + strings.TrimSuffix(manyFields, ",") + `}}`,
			"more than the 50 fields"},
		"huge": {`{"type":"object","properties":{"a":{"type":"string","title":"` + strings.Repeat("x", maxSchema) +
			`"}}}`, "at most 262144"},
		"many choices": {`{"type":"object","properties":{"a":{"type":"string","enum":["` + numbered(300) + `"]}}}`,
			"more than the 250 choices"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			a := askForm(t, p.terminal(), "How?", tt.schema)
			p.sees("! This question cannot be answered", tt.why, "▸ Decline    Cancel")
			p.types(right, enter)
			wants(t, a, &mcp.ElicitResult{Action: "cancel"})
		})
	}
}
