package inbox

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// one is a schema with one property, x.
func one(t testing.TB, property string, required bool) *form.Schema {
	t.Helper()
	schema := `{"type":"object","properties":{"x":` + property + `}}`
	if required {
		schema = `{"type":"object","required":["x"],"properties":{"x":` + property + `}}`
	}
	s := expect.Must(form.Read([]byte(schema)))(t)
	return s
}

// Each kind of property becomes a control, and what a browser sends for it becomes a value of the property.
func TestControls(t *testing.T) {
	const (
		text   = `{"type":"string"}`
		few    = `{"type":"string","enum":["a","b"]}`
		titled = `{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]}`
		flag   = `{"type":"boolean"}`
		whole  = `{"type":"integer","minimum":1,"maximum":9}`
		number = `{"type":"number"}`
		many   = `{"type":"array","maxItems":2,"items":{"type":"string","enum":["a","b","c"]}}`
		mail   = `{"type":"string","format":"email"}`
		link   = `{"type":"string","format":"uri"}`
		day    = `{"type":"string","format":"date"}`
		at     = `{"type":"string","format":"date-time"}`
		long   = `{"type":"string","maxLength":500}`
		nested = `{"type":"object","properties":{"n":{"type":"integer"}}}`
		size   = `{"type":"string","minLength":2,"maxLength":4}`
	)
	for _, c := range []struct {
		property string
		required bool
		sent     string // as a browser encodes it
		control  string
		want     string // the value, or nothing
		problem  string
	}{
		{text, true, "f0=ada", "text", `"ada"`, ""},
		{text, true, "f0=", "text", "", "is required"},
		{text, false, "f0=", "text", "", ""},
		{text, false, "f0=a%0D%0Ab", "text", `"a\nb"`, ""},
		{text, false, "f0=%FF", "text", `"` + "\ufffd" + `"`, ""},
		{`{"type":"string","default":"d"}`, false, "f0=", "text", `""`, ""},
		{`{"type":"string","default":"d","minLength":1}`, false, "f0=", "text", "", ""},
		{long, false, "f0=x", "area", `"x"`, ""},
		{size, true, "f0=x", "text", "", "must be at least 2 characters long"},
		{size, true, "f0=%F0%9F%98%80%F0%9F%98%80%F0%9F%98%80%F0%9F%98%80", "text", `"😀😀😀😀"`, ""},
		{mail, true, "f0=+ada@example.com+", "text", `"ada@example.com"`, ""},
		{mail, true, "f0=ada", "text", "", "must be"},
		{link, true, "f0=https://example.com/", "text", `"https://example.com/"`, ""},
		{day, true, "f0=2026-11-24", "text", `"2026-11-24"`, ""},
		{day, true, "f0=2026-02-30", "text", "", "must be"},
		{at, true, "f0=2026-11-24T12:00", "moment", `"2026-11-24T12:00:00Z"`, ""},
		{at, true, "f0=2026-11-24T12:00:05", "moment", `"2026-11-24T12:00:05Z"`, ""},
		{at, true, "f0=2026-11-24T12:00:05%2B01:00", "moment", `"2026-11-24T12:00:05+01:00"`, ""},
		{at, true, "f0=noon", "moment", "", "must be"},
		{whole, true, "f0=7", "number", "7", ""},
		{whole, true, "f0=%2B007", "number", "7", ""},
		{whole, true, "f0=10", "number", "", "must be at most 9"},
		{whole, true, "f0=1.5", "number", "", "must be a whole number"},
		{whole, true, "f0=seven", "number", "", "must be a whole number"},
		{whole, true, "f0=", "number", "", "is required"},
		{number, false, "f0=-.5", "number", "-0.5", ""},
		{number, false, "f0=", "number", "", ""},
		{flag, true, "f0=0", "few", "true", ""},
		{flag, true, "f0=1", "few", "false", ""},
		{flag, true, "", "few", "", "choose one"},
		{flag, false, "f0=", "few", "", ""},
		{few, true, "f0=1", "few", `"b"`, ""},
		{few, true, "f0=b", "few", "", "choose one"}, // not what the page sends
		{few, true, "f0=2", "few", "", "choose one"},
		{titled, true, "f0=1", "few", `"b"`, ""},
		{`{"type":"string","enum":["1","2","3","4","5","6","7","8"]}`, true, "f0=7", "one", `"8"`, ""},
		{many, true, "f0=2&f0=0", "many", `["a","c"]`, ""},
		{many, true, "f0=0&f0=1&f0=2", "many", "", "must hold at most 2 items"},
		{many, true, "", "many", `[]`, ""},
		{many, false, "", "many", "", ""},
		{`{"type":"array","default":["a"],"items":{"type":"string","enum":["a","b"]}}`, false, "", "many", `[]`, ""},
		{nested, true, "f0=+%7B%22n%22%3A1%7D%0D%0A", "area", `{"n":1}`, ""},
		{nested, true, "f0=%7B%22n%22%3A%22x%22%7D", "area", "", "does not fit the rules"},
		{nested, true, "f0=%7B", "area", "", "invalid JSON"},
		{nested, true, "f0=", "area", "", "is required"},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, true, "f0=", "text", "", ""},
		{`{"type":"string","pattern":"^[0-9]+$"}`, true, "f0=x", "text", "", "pattern"},
	} {
		all := newFields(one(t, c.property, c.required), nil)
		sent := expect.Must(url.ParseQuery(c.sent))(t)
		content, sound := all.read(sent, nil)
		got := string(strictjson.Get(content, "x"))
		if f := all[0]; f.Control != c.control || got != c.want || !strings.Contains(f.Problem, c.problem) ||
			sound != (c.problem == "") {
			t.Errorf("%s, %q: the %s has %s, %q; want the %s with %s, %q", c.property, c.sent, f.Control, got, f.Problem,
				c.control, c.want, c.problem)
		}
	}
}

// Whoever changes nothing in a form that shows a proposal accepts the proposal exactly, so that the votes count
// together.
func TestProposalsStayExact(t *testing.T) {
	for _, c := range []struct{ property, value, control string }{
		{`{"type":"string"}`, `"a\r\nb"`, "text"},
		{`{"type":"string"}`, `""`, "text"},
		{`{"type":"string","maxLength":900}`, `"\na"`, "area"},
		{`{"type":"string","format":"date-time"}`, `"2026-11-24T12:00:00Z"`, "moment"},
		{`{"type":"string","format":"date-time"}`, `"2026-11-24T12:00:00.50Z"`, "text"},
		{`{"type":"string","format":"date-time"}`, `"2026-11-24T12:00:00+01:00"`, "text"},
		{`{"type":"number"}`, `1.50e1`, "number"},
		{`{"type":"boolean"}`, `false`, "few"},
		{`{"type":"string","enum":["a","b"]}`, `"b"`, "few"},
		{`{"type":"array","items":{"type":"string","enum":["a","b"]}}`, `["b","a"]`, "many"},
		{`{"type":"array","items":{"type":"string","enum":["a","b"]}}`, `[]`, "many"},
	} {
		shown := json.RawMessage(`{"x":` + c.value + `}`)
		all := newFields(one(t, c.property, false), shown)
		content, sound := all.read(asShown(all), shown)
		if string(content) != string(shown) || !sound || all[0].Control != c.control {
			t.Errorf("%s in the %s becomes %s", shown, all[0].Control, content)
		}
	}
}

// asShown is what a browser sends of a form in which nothing is changed.
func asShown(all fields) url.Values {
	sent := make(url.Values)
	for _, f := range all {
		if f.Choices != nil {
			sent[f.ID] = f.Picked
			continue
		}
		lines := strings.ReplaceAll(f.Value, "\r\n", "\n")
		sent.Set(f.ID, strings.ReplaceAll(lines, "\n", "\r\n"))
	}
	return sent
}

// Whatever a browser sends, what is read fits the schema, or there is a problem at a field. What is shown again and
// sent again is the same.
func FuzzForm(f *testing.F) {
	f.Add(`{"type":"string","minLength":1}`, "f0=x", `{"x":"y"}`)
	f.Add(`{"type":"string","format":"date-time"}`, "f0=2026-11-24T12:00", `{"x":"2026-11-24T12:00:00.5Z"}`)
	f.Add(`{"type":"integer"}`, "f0=%2B007", `{"x":1e2}`)
	f.Add(`{"type":"array","items":{"type":"string","enum":["a","b"]}}`, "f0=1&f0=0", `{"x":["b","b"]}`)
	f.Add(`{"type":"boolean","default":true}`, "f0=", `{}`)
	f.Add(`{"type":"string","enum":["0","1",""]}`, "f0=2", `null`)
	f.Fuzz(func(t *testing.T, property, encoded, proposal string) {
		for _, required := range []string{"", `"required":["x"],`} {
			schema, err := form.Parse([]byte(`{"type":"object",` + required + `"properties":{"x":` + property + `}}`))
			if err != nil {
				return
			}
			shown := json.RawMessage(proposal)
			if strictjson.Check(shown, strictjson.MaxDepth) != nil {
				shown = nil
			}
			sent, _ := url.ParseQuery(encoded)
			content, sound := newFields(schema, shown).read(sent, shown)
			if !sound {
				continue
			}
			clean, err := schema.Check(content)
			if err != nil {
				t.Fatalf("%s of %q is taken and does not fit: %v", content, encoded, err)
			}
			all := newFields(schema, clean)
			again, sound := all.read(asShown(all), clean)
			if first, err := schema.Check(again); !sound || err != nil || string(first) != string(clean) {
				t.Fatalf("%s becomes %s, %v", clean, again, err)
			}
		}
	})
}
