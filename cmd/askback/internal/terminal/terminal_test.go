package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	"tags":{"type":"array","title":"Tags","minItems":1,"maxItems":2,"items":{"type":"string","enum":["ui","db","net"]},"default":["db"]},
	"note":{"type":"string","title":"Note","minLength":3,"maxLength":20}
},"required":["zeta","mail","public"]}`

func askForm(t *testing.T, on *Terminal, message, schema string) *asked[*mcp.ElicitResult] {
	return ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return on.Form(ctx, "tracker", message, json.RawMessage(schema))
	})
}

func wants[T any](t *testing.T, a *asked[T], want T) {
	t.Helper()
	got, err := a.end()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another result than wanted (-want +got):\n%s", diff)
	}
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
	p.sees("(•) (leave empty)")
	p.types("g", enter)
	p.sees("(•) Green (g)")
	p.types(down, enter) // Yes by default
	p.sees("Public · required")
	p.types(tab) // and away without an answer
	p.sees("✗ must be answered: choose one")
	p.types("\x1b[Z", "n")
	p.seesNoMore("✗")
	p.types(enter)
	p.sees("Tags · optional · 1 to 2 to choose", "▸ [x] db")
	p.types(down, " ", up, up, " ", enter)
	p.sees("✗ must hold at most 2 items")
	p.types(" ", enter)
	p.types("ok", enter)
	p.sees("✗ must be at least 3 characters long")
	p.types("ay", enter)
	p.sees("▸ Review")
	p.types(enter)
	p.sees("This will be sent:", "Duplicate of another bug (dup)", "2026-02-28T10:00:00+01:00", "▸ Send")
	p.types(enter)

	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
		"zeta": "dup", "alpha": 4.0, "mail": "ada@lovelace.org", "home": "https://example.com/ada", "due": "2026-02-28",
		"at": "2026-02-28T10:00:00+01:00", "weight": 0.75, "colour": "g", "loud": false, "public": false,
		"tags": []any{"db", "net"}, "note": "okay",
	}})
	p.sees("tracker: answered")
	p.seesNoMore("This will be sent")
	p.gotItBack()
}

// Nothing is chosen yet, and the cursor points at the first option: an arrow moves from there, Enter takes what is pointed at.
func TestArrowsMoveFromTheOptionThatIsPointedAt(t *testing.T) {
	const (
		open   = `{"type":"object","required":["a"],"properties":{"a":{"type":"string","enum":["first","second","third"]}}}`
		preset = `{"type":"object","required":["a"],"properties":{"a":{"type":"string","enum":["first","second","third"],"default":"second"}}}`
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
		{preset, enter, "second"},
		{preset, down + enter, "third"},
		{preset, up + enter, "first"},
	} {
		p := newPerson(t)
		a := askForm(t, p.terminal(), "Which?", tt.schema)
		p.sees("▸ ")
		p.types(tt.keys)
		p.sees("▸ Review")
		p.types(enter)
		p.sees("This will be sent:")
		p.types(enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"a": tt.want}})
	}
}

func TestFieldsStandInTheOrderOfTheSchema(t *testing.T) {
	fields, err := fieldsOf(json.RawMessage(bug))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range fields {
		got = append(got, f.name)
	}
	want := []string{"zeta", "alpha", "mail", "home", "due", "at", "weight", "colour", "loud", "public", "tags", "note"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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
		for _, env := range []string{"X=", "NO_COLOR=1"} {
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
	a := askForm(t, p.terminal(), "", `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
	p.sees("name · required")
	p.types(tab, enter) // Review, with nothing filled in
	p.sees("┃ ✗ must be answered", "name · required")
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
	p.types("9007199254740993", enter, ".10", enter, "007.", enter, "+1e1", enter, enter)
	p.sees("big     9007199254740993", "plain   0.10", "odd     7", "signed  10")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
		"big": json.Number("9007199254740993"), "plain": 0.1, "odd": 7.0, "signed": 10.0,
	}})
}

func TestNoNumbers(t *testing.T) {
	for _, s := range []string{"abc", "null", "true", "-", ".", "+-1", "e5", "0x10", "1,5", "--1", `"1"`, "[1]", "1 2", "NaN"} {
		f := fieldOf(t, `{"type":"number"}`)
		f.text = s
		if got := f.problem(); got != "must be a number" {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func fieldOf(t *testing.T, property string) *field {
	t.Helper()
	fields, err := fieldsOf(fmt.Appendf(nil, `{"type":"object","properties":{"it":%s}}`, property))
	if err != nil {
		t.Fatal(err)
	}
	return fields[0]
}

func TestDecline(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "How was this bug resolved?", bug)
	p.sees("Resolution")
	p.types("\x1b[Z", down, strings.Repeat(tab, 13), enter)
	wants(t, a, &mcp.ElicitResult{Action: "decline"})
	p.sees("tracker: declined")
	p.gotItBack()
}

func TestCancel(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "How was this bug resolved?", bug)
	p.sees("Resolution")
	p.types(down, enter, "12")
	p.sees("> 12")
	p.types(esc)
	wants(t, a, &mcp.ElicitResult{Action: "cancel"})
	p.sees("tracker: canceled")
	p.gotItBack()
}

// Ctrl-C is for whoever asks, and no answer.
func TestInterrupt(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	form := askForm(t, on, "How was this bug resolved?", bug)
	p.sees("Resolution")
	p.types(down, enter, "12")
	p.sees("> 12")
	p.types(ctrlC)
	if result, err := form.end(); result != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, %v", result, err)
	}
	page := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return on.URL(ctx, "tracker", "Sign in", "https://example.com/", func(string) error { return nil })
	})
	p.sees("wants you to open an address")
	p.types(ctrlC)
	if result, err := page.end(); result != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, %v", result, err)
	}
	p.gotItBack()
}

func TestContextEndsThePrompt(t *testing.T) {
	for name, env := range map[string]string{"drawn": "X=", "by line": "NO_COLOR=1"} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			a := askForm(t, p.terminal(env), "How was this bug resolved?", bug)
			p.sees("Resolution")
			a.Cancel()
			if _, err := a.end(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			p.gotItBack()
		})
	}
}

func TestTheTerminalGoesAway(t *testing.T) {
	for _, env := range []string{"X=", "NO_COLOR=1"} {
		p := newPerson(t)
		a := askForm(t, p.terminal(env), "How was this bug resolved?", bug)
		p.sees("Resolution")
		p.leaves()
		if result, _ := a.end(); result != nil && result.Action == "accept" {
			t.Errorf("%s: got %v", env, result)
		}
	}
}

func TestTypingIsNotLostBetweenQuestions(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	for i := range 20 {
		a := askForm(t, on, fmt.Sprintf("question %d.", i), `{"type":"object","properties":{"x":{"type":"string"}}}`)
		p.sees(fmt.Sprintf("question %d.", i), "x · optional")
		p.types("abc", enter)
		p.sees("> abc", "▸ Review")
		p.types(enter)
		p.sees("x  abc", "▸ Send")
		p.types(enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"x": "abc"}})
	}
}

func TestSmallTerminals(t *testing.T) {
	for _, size := range []pty.Winsize{{Rows: 8, Cols: 40}, {Rows: 3, Cols: 10}, {Rows: 40, Cols: 200}} {
		p := newPerson(t)
		if err := pty.Setsize(p.tty, &size); err != nil {
			t.Fatal(err)
		}
		p.screen = newEmulator(int(size.Rows), int(size.Cols))
		a := askForm(t, p.terminal(), "How?", `{"type":"object","properties":{"x":{"type":"string"}}}`)
		p.waits("for anything", func(screen string) bool { return screen != "" })
		p.types("abc", enter, enter, enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"x": "abc"}})
		p.gotItBack()
	}
}

func TestOneQuestionAtATime(t *testing.T) {
	p := newPerson(t)
	on := p.terminal()
	first := askForm(t, on, "the first", `{"type":"object","properties":{}}`)
	p.sees("the first")
	second := askForm(t, on, "the second", `{"type":"object","properties":{}}`)
	third := askForm(t, on, "the third", `{"type":"object","properties":{}}`)
	third.Cancel() // while it waits for its turn
	if _, err := third.end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.types(enter) // stands on Decline, as nothing was filled in
	wants(t, first, &mcp.ElicitResult{Action: "decline"})
	p.sees("the second")
	p.types(toLeft, enter)
	wants(t, second, &mcp.ElicitResult{Action: "accept", Content: map[string]any{}})
}

func TestSchemasThatAreNotAllowed(t *testing.T) {
	manyFields := strings.Repeat(`"%d":{"type":"string"},`, maxFields+1)
	for i := range maxFields + 1 {
		manyFields = strings.Replace(manyFields, "%d", fmt.Sprint(i), 1)
	}
	tests := map[string]struct{ schema, why string }{
		"nested":       {`{"type":"object","properties":{"a":{"type":"object"}}}`, `property "a": type: must be "string"`},
		"no JSON":      {`{"type":`, "not valid JSON"},
		"nothing":      {``, "not valid JSON"},
		"null":         {`null`, "must be an object"},
		"a list":       {`[]`, "must be an object"},
		"many fields":  {`{"type":"object","properties":{` + strings.TrimSuffix(manyFields, ",") + `}}`, "more than the 50 fields"},
		"huge":         {`{"type":"object","properties":{"a":{"type":"string","title":"` + strings.Repeat("x", maxSchema) + `"}}}`, "262144 are the most"},
		"many choices": {`{"type":"object","properties":{"a":{"type":"string","enum":["` + numbered(300) + `"]}}}`, "more than the 250 choices"},
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

func numbered(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, `","`)
}

func TestNotesOnTheWholeSchemaAreIgnored(t *testing.T) {
	_, err := fieldsOf(json.RawMessage(`{"title":"Bug","description":"A bug","additionalProperties":false,"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`))
	if err != nil {
		t.Error(err)
	}
}

const evil = "\x1b]0;owned\x07\x1b[2J\x1b[31m\u009b1m\x1b]52;c;aGk=\x07\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\ " +
	"\u202etxt.exe\u200b\U000e0041 https://evil.example www.evil.example mailto:evil \r\b\x00\x7f a\u0300\u0301\u0302\u0303\u0304\u0305\u0306"

func TestHostileTextStaysText(t *testing.T) {
	quoted, _ := json.Marshal(evil)
	schema := fmt.Sprintf(`{"type":"object","properties":{
		%[1]s:{"type":"string","title":%[1]s,"description":%[1]s,"default":%[1]s},
		"two":{"type":"array","items":{"anyOf":[{"const":%[1]s,"title":"same"},{"const":"x","title":"same"},{"const":"y","title":%[1]s}]}}
	}}`, quoted)
	params := &mcp.CreateMessageWithToolsParams{SystemPrompt: evil, Messages: []*mcp.SamplingMessageV2{
		nil,
		{Role: mcp.Role(evil), Content: []mcp.Content{
			&mcp.TextContent{Text: evil}, &mcp.ImageContent{MIMEType: evil}, &mcp.AudioContent{MIMEType: evil},
			&mcp.ToolUseContent{Name: evil, Input: map[string]any{evil: evil}},
			&mcp.ToolResultContent{Content: []mcp.Content{&mcp.TextContent{Text: evil}}},
			&mcp.ResourceLink{URI: evil, Name: evil}, nil,
		}}}}
	questions := map[string]func(ctx context.Context, on *Terminal) (any, error){
		"form": func(ctx context.Context, on *Terminal) (any, error) {
			return on.Form(ctx, evil, evil, json.RawMessage(schema))
		},
		"bad form": func(ctx context.Context, on *Terminal) (any, error) {
			return on.Form(ctx, evil, evil, json.RawMessage(`{"type":"object","properties":{`+string(quoted)+`:{"type":`+string(quoted)+`}}}`))
		},
		"address": func(ctx context.Context, on *Terminal) (any, error) {
			return on.URL(ctx, evil, evil, "https://ok.example/\u202e\u00e9", nil)
		},
		"bad address": func(ctx context.Context, on *Terminal) (any, error) { return on.URL(ctx, evil, evil, evil, nil) },
		"sample":      func(ctx context.Context, on *Terminal) (any, error) { return on.Sample(ctx, evil, params) },
	}
	for name, put := range questions {
		for mode, env := range map[string]string{"drawn": "X=", "by line": "NO_COLOR=1"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				p := newPerson(t)
				a := ask(t, func(ctx context.Context) (any, error) { return put(ctx, p.terminal(env)) })
				p.sees(`\x1b]0;owned\a`)
				if mode == "drawn" {
					p.types("\x1b[6~", strings.Repeat(tab, 5), enter, esc) // all of the page, and the review
				} else {
					p.types("\n/empty\n\n1\n", "/cancel\n", "\x04")
				}
				a.end()
				p.gotItBack() // nothing strange reached the terminal
				bad := []string{"\x1b]", "\x1b[2J", "\u009b", "\u202e", "\u200b", "\U000e0041", "\x07", "\x00", "\x7f", "\u0304"}
				if name != "form" { // there, one is a default, which must be shown as it will be sent
					bad = append(bad, "https://evil", "www.evil", "mailto:")
				}
				for _, bad := range bad {
					if p.everSaw(bad) {
						t.Errorf("%q reached the terminal", bad)
					}
				}
			})
		}
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), strings.Repeat("word ", 100)+strings.Repeat("\nrow", 100), `{"type":"object","properties":{}}`)
	p.sees("│ word word", "│ row…", "│ (cut here: 308 more characters)", "▸ Decline")
	p.types(esc)
	a.end()
	p = newPerson(t)
	a = askForm(t, p.terminal(), strings.Repeat("word ", 1000), `{"type":"object","properties":{"x":{"type":"string"}}}`)
	p.sees("│ (cut here: 3000 more characters)", "x · optional")
	p.types(esc)
	a.end()
}

func TestURL(t *testing.T) {
	const address = "https://login.example.com:8443/authorize?client=42&state=abc"
	tests := map[string]struct {
		address string
		sees    []string
		keys    []string
		action  string
		opened  string
	}{
		"consent":      {address, []string{address, "Host: login.example.com:8443", "│ Sign in"}, []string{toLeft, enter}, "accept", address},
		"refusal":      {address, []string{address}, []string{enter}, "decline", ""},
		"cancel":       {address, []string{address}, []string{esc}, "cancel", ""},
		"Cancel":       {address, []string{address}, []string{right, enter}, "cancel", ""},
		"punycode":     {"https://xn--pypal-4ve.com/", []string{"! The host is written in punycode"}, []string{esc}, "cancel", ""},
		"lookalike":    {"https://p\u0430ypal.com/", []string{"https://p%D0%B0ypal.com/", `Host: p\u0430ypal.com`, "! The host has characters outside ASCII"}, []string{toLeft, enter}, "accept", "https://p%D0%B0ypal.com/"},
		"user":         {"https://bank.com@evil.com/", []string{"Host: evil.com", "! What stands before the @"}, []string{esc}, "cancel", ""},
		"http":         {"http://example.com/", []string{"! It is not https"}, []string{esc}, "cancel", ""},
		"IPv4":         {"https://192.0.2.1/", []string{"! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"IPv6":         {"https://[2001:db8::1]:443/", []string{"Host: [2001:db8::1]:443", "! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"number":       {"https://2130706433/", []string{"! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"hex":          {"https://0x7F.1/", []string{"! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"backslash":    {`https://evil.com\@good.com/`, []string{`! This address will not be opened: it holds '\\', which`, "▸ Decline    Cancel"}, []string{toLeft, enter}, "decline", ""},
		"newline":      {"https://good.com\n.evil.com/", []string{"! This address will not be opened"}, []string{enter}, "decline", ""},
		"javascript":   {"javascript:alert(1)", []string{"! This address will not be opened", "neither https nor http"}, []string{enter}, "decline", ""},
		"no host":      {"https:evil.com", []string{"! This address will not be opened", "it names no host"}, []string{enter}, "decline", ""},
		"three /":      {"https:///evil.com", []string{"it names no host"}, []string{enter}, "decline", ""},
		"no address":   {"::", []string{"! This address will not be opened"}, []string{enter}, "decline", ""},
		"empty":        {"", []string{"neither https nor http"}, []string{enter}, "decline", ""},
		"too long":     {"https://example.com/" + strings.Repeat("x", maxURL), []string{"it is 8212 bytes long"}, []string{enter}, "decline", ""},
		"long, in all": {"https://example.com/" + strings.Repeat("x", 200) + "!", []string{"\n  " + strings.Repeat("x", 66) + "!\n"}, []string{toLeft, enter}, "accept", "https://example.com/" + strings.Repeat("x", 200) + "!"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			opened := ""
			a := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
				return p.terminal().URL(ctx, "tracker", "Sign in", tt.address, func(url string) error { opened = url; return nil })
			})
			p.sees(append(tt.sees, "tracker wants you to open an address:", "▸ Decline")...)
			p.types(tt.keys...)
			wants(t, a, &mcp.ElicitResult{Action: tt.action})
			if opened != tt.opened {
				t.Errorf("opened %q, not %q", opened, tt.opened)
			}
			p.gotItBack()
		})
	}
}

func TestURLNeedsNoWarning(t *testing.T) {
	for _, address := range []string{"https://example.com", "https://example.com:443/a?b#c", "https://1.example.com/", "https://a.b2/", "https://x.com/@user"} {
		_, about, err := inspect(address)
		if err != nil || len(about) != 2 {
			t.Errorf("%s: %v, %v", address, about, err)
		}
	}
}

func TestURLToOpenByHand(t *testing.T) {
	const address = "https://login.example.com/authorize?state=abc"
	for name, open := range map[string]func(string) error{
		"Open this address:":                   nil,
		"could not be opened: no browser here": func(string) error { return errors.New("no browser here") },
	} {
		p := newPerson(t)
		a := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
			return p.terminal().URL(ctx, "tracker", "Sign in", address, open)
		})
		p.sees("▸ Decline")
		p.types(toLeft, enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept"})
		p.sees(name, "\n"+address)
	}
}

func askSample(t *testing.T, on *Terminal) *asked[*mcp.CreateMessageWithToolsResult] {
	return ask(t, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
		return on.Sample(ctx, "tracker", &mcp.CreateMessageWithToolsParams{
			SystemPrompt: "Be brief.", MaxTokens: 100,
			Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Summarise:\nthe bug"}}}},
			Tools:    []*mcp.Tool{{Name: "look"}},
		})
	})
}

var written = &mcp.CreateMessageWithToolsResult{
	Role: "assistant", Model: "human", StopReason: "endTurn", Content: []mcp.Content{&mcp.TextContent{Text: "It is wrong.\nVery."}},
}

func TestSample(t *testing.T) {
	p := newPerson(t)
	a := askSample(t, p.terminal())
	p.sees("tracker asks for a completion", "System prompt", "│ Be brief.", "User", "│ Summarise:\n│ the bug",
		"At most 100 tokens; 1 tools are offered", "Your completion")
	p.types(tab, enter)
	p.sees("✗ write something first")
	p.types("It is wrong.", enter, "Very.", tab)
	p.sees("▸ Send")
	p.types(enter)
	wants(t, a, written)
	p.gotItBack()
}

func TestSampleRefused(t *testing.T) {
	for key, want := range map[string]error{tab + tab + enter: ErrDeclined, esc: ErrCanceled} {
		p := newPerson(t)
		a := askSample(t, p.terminal())
		p.sees("Your completion")
		p.types(key)
		if result, err := a.end(); result != nil || !errors.Is(err, want) {
			t.Errorf("got %v, %v", result, err)
		}
	}
}

func TestByLine(t *testing.T) {
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb", "ACCESSIBLE=1"} {
		t.Run(env, func(t *testing.T) {
			p := newPerson(t)
			a := askForm(t, p.terminal(env), "How was this bug resolved?", bug)
			p.sees("tracker asks:\n  | How was this bug resolved?", "Type /decline or /cancel to leave at any time.",
				"1 of 12: Resolution (required)", "  | What became of the bug", "  2. Duplicate of another bug (dup)")
			p.types("\n")
			p.sees("! must be answered: choose one")
			p.types("7\n")
			p.sees("! type a number from 1 to 2")
			p.types("2\n", "x\n")
			p.sees("! must be a whole number")
			p.types("42\n")
			p.sees(`Enter keeps "ada@example.com".`)
			p.types("\n", "\n", "\n", "\n", "\n", "1\n", "\n", "2\n")
			p.sees("Tags (optional, 1 to 2 to choose)", "2. db (chosen)")
			p.types("1, 3\n", "hello\n")
			p.sees("This will be sent:", "Tags: ui, net", "Seen at: (left empty)")
			p.types("2\n") // change
			p.types("\n\n", "/empty\n")
			p.sees("! must be answered")
			p.types("a@b.c\n\n\n\n\n\n\n\n\n\n")
			p.sees("Contact: a@b.c", "number of your decision:")
			p.types("1\n")
			wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
				"zeta": "dup", "alpha": 42.0, "mail": "a@b.c", "colour": "r", "loud": true, "public": false,
				"tags": []any{"ui", "net"}, "note": "hello",
			}})
			if p.everSaw("\x1b") {
				t.Error("an escape sequence reached a terminal that cannot take it")
			}
			p.gotItBack()
		})
	}
}

func TestByLineLeaving(t *testing.T) {
	for keys, want := range map[string]string{"/decline\n": "decline", "/cancel\n": "cancel", "\x04": "cancel", "1\n\x04": "cancel"} {
		p := newPerson(t)
		a := askForm(t, p.terminal("TERM=dumb"), "How was this bug resolved?", bug)
		p.sees("Resolution")
		p.types(keys)
		wants(t, a, &mcp.ElicitResult{Action: want})
	}
}

func TestByLineSampleAndURL(t *testing.T) {
	p := newPerson(t)
	on := p.terminal("TERM=dumb")
	s := askSample(t, on)
	p.sees("System prompt:\n  | Be brief.", "Your completion (end with a line that holds nothing but a dot)")
	p.types("It is wrong.\nVery.\n.\n")
	p.sees("  1. Send\n  2. Change\n  3. Decline\n  4. Cancel")
	p.types("1\n")
	wants(t, s, written)

	opened := ""
	u := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return on.URL(ctx, "tracker", "Sign in", "http://example.com/", func(url string) error { opened = url; return nil })
	})
	p.sees("  http://example.com/\n  Host: example.com\n  ! It is not https", "  1. Open\n  2. Decline\n  3. Cancel")
	p.types("\n", "1\n")
	wants(t, u, &mcp.ElicitResult{Action: "accept"})
	if opened != "http://example.com/" {
		t.Errorf("opened %q", opened)
	}
}

// Out of raw mode, Ctrl-C is a signal to the process whose terminal this is.
func TestByLineCtrlC(t *testing.T) {
	const helper = "ASKBACK_TERMINAL_TEST"
	if os.Getenv(helper) != "" {
		result, err := (&Terminal{}).Form(context.Background(), "tracker", "How?", json.RawMessage(bug))
		fmt.Println("ended", result == nil, err)
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestByLineCtrlC$")
	cmd.Env = append(os.Environ(), helper+"=1", "TERM=dumb")
	keyboard, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	p := &person{t: t, keyboard: keyboard}
	p.watch()
	p.sees("Resolution", "\n>")
	p.types(ctrlC)
	p.sees("ended true interrupted")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestFromAPipe(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	shown, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	go io.Copy(io.Discard, shown)
	defer out.Close()
	on := &Terminal{In: in, Out: out}
	if term.IsTerminal(in.Fd()) {
		t.Fatal("a pipe is a terminal")
	}
	const schema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	// Both answers are there at once; the second question must find its own.
	if _, err := io.WriteString(feed, "Ada\n1\nGrace\n1\n"); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	for _, want := range []string{"Ada", "Grace"} {
		wants(t, askForm(t, on, "Who?", schema), &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": want}})
	}
	wants(t, askForm(t, on, "Who?", schema), &mcp.ElicitResult{Action: "cancel"})
}
