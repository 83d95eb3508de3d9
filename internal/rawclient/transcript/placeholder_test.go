package transcript

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// checkFilled verifies that filling in placeholders leaves JSON.
func checkFilled(t *testing.T, known variables, body []byte) {
	t.Helper()
	filled, err := known.fill(body)
	if err != nil || body == nil {
		return
	}
	if err := strictjson.Check(filled, 2*maxDepth); err != nil {
		if bad, ok := err.(*strictjson.Error); !ok || bad.Kind != strictjson.Duplicate { // {{meta}} may repeat a member
			t.Errorf("%s was filled in as %s: %v", body, cut(string(filled), 500), err)
		}
	}
}

func TestFill(t *testing.T) {
	known := variables{"text": `a "quoted" <text>`, "number": json.Number("12345678901234567890.50")}
	for _, c := range []struct{ body, want string }{
		{`{}`, `{}`},
		{`{"a": "{{text}}"}`, `{"a": "a \"quoted\" <text>"}`},
		{`{"a": "{{number}}"}`, `{"a": 12345678901234567890.50}`},
		{`["is {{number}}, {{text}}"]`, `["is 12345678901234567890.50, a \"quoted\" <text>"]`},
		{`{"a": "\u007b{text}}"}`, `{"a": "a \"quoted\" <text>"}`},
		{`{"a": "{{filler:3}}"}`, `{"a": "xxx"}`},
		{`{"_meta": "{{meta:none}}"}`, `{"_meta": ` + metas["none"] + `}`},
		{`{"_meta": {"a": 1, "..." : "{{meta:none}}"}}`, `{"_meta": {"a": 1, ` + metas["none"][1:] + `}`},
		{`{"_meta": {"...": "{{meta}}", "a": "{{text}}"}}`, `{"_meta": ` + metas[""][:len(metas[""])-1] +
			`, "a": "a \"quoted\" <text>"}}`},
	} {
		got, err := known.fill([]byte(c.body))
		if err != nil || string(got) != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s", c.body, got, err, c.want)
		}
	}
	if _, err := known.fill([]byte(`["{{filler:16777216}}", "{{filler:16777216}}"]`)); err != errTooLong {
		t.Errorf("a message that is too long: %v", err)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct{ want, got, difference string }{
		{`{"a": 1, "b": [true, null]}`, `{"b": [true, null], "a": 1.0}`, ""},
		{`9007199254740993`, `9007199254740992`, "want 9007199254740993, got 9007199254740992"},
		{`{"a": {"b c": [0, {"d": "e"}]}}`, `{"a": {"b c": [0, {"d": "f"}]}}`, `a["b c"][1].d: want "e", got "f"`},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, "b: was not expected: 2"},
		{`{"a": 1, "...": "..."}`, `{"a": 1, "b": 2}`, ""},
		{`{"a": 1, "...": "..."}`, `{"b": 2}`, "a: is missing, want 1"},
		{`[1]`, `[1, 2]`, "want 1 elements, got 2"},
		{`[1, 2]`, `[1]`, "want 2 elements, got 1"},
		{`["...", 2, {"a": 1, "...": "..."}]`, `[{"a": 1, "b": 0}, 3, 2]`, ""},
		{`["..."]`, `[]`, ""},
		{`{"a": ["...", {"b": 2}]}`, `{"a": [{"b": 1}, 2]}`, `a: no element is {"b":2}`},
		{`[]`, `{}`, "want an array, got {}"},
		{`{}`, `null`, "want an object, got null"},
		{`null`, `false`, "want null, got false"},
		{`true`, `{}`, "want true, got {}"},
		{`1`, `"1"`, `want 1, got "1"`},
		{`"1"`, `1`, `want "1", got 1`},
		{`"{{_}}"`, `{"a": []}`, ""},
		{`"{{_:time}}"`, `"2026-07-28T12:00:00.123Z"`, ""},
		{`"{{_:time}}"`, `"yesterday"`, `want a time such as 2026-07-28T12:00:00Z, got "yesterday"`},
		{`"{{_:time}}"`, `5`, "want a time such as 2026-07-28T12:00:00Z, got 5"},
		{`"{{a:text}}"`, `5`, "want a text, got 5"},
		{`"{{a:number}}"`, `"5"`, `want a number, got "5"`},
		{`"{{a}}"`, `true`, "want a text or a number for {{a}}, got true"},
		{`["{{a}}", "{{a}}"]`, `["x", "x"]`, ""},
		{`["{{a}}", "{{a}}"]`, `["x", "y"]`, `[1]: want {{a}}, which is "x", got "y"`},
		{`["{{a}}", "{{a}}"]`, `[1, 1.0]`, ""},
		{`["{{a}}", "{{a}}"]`, `[1, "1"]`, `[1]: want {{a}}, which is 1, got "1"`},
		{`["{{a}}", "{{b:not a}}"]`, `["x", "y"]`, ""},
		{`["{{a}}", "{{b:not a}}"]`, `["x", "x"]`, `[1]: want another value than {{a}}, got "x"`},
		{`["{{a}}", "{{a:new}}", "{{a}}"]`, `["x", "y", "y"]`, ""},
		{`["{{a}}", "{{a:new}}"]`, `["x", "x"]`, `[1]: want another value for {{a}}, got "x"`},
		{`["{{a}}", "{{a:new}}", "{{a}}"]`, `["x", "y", "x"]`, `[2]: want {{a}}, which is "y", got "x"`},
		{`["{{a}}", "is {{a}}."]`, `["x", "is x."]`, ""},
		{`["{{a}}", "is {{a}}."]`, `["x", "is y."]`, `[1]: want "is x.", got "is y."`},
	} {
		d := variables{}.match("", decode([]byte(c.want)), decode([]byte(c.got)))
		got := ""
		if d != nil {
			got = d.Error()
		}
		if got != c.difference {
			t.Errorf("%s against %s\n got %s\nwant %s", c.got, c.want, got, c.difference)
		}
	}
}

// Whatever comes, comparing does not panic; a value without placeholders matches exactly what is equal to it.
func FuzzMatch(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a": "{{b}}", "...": "..."}`, `{"a": 1, "c": {}}`}, {`["{{a}}", "{{b:not a}}", "x{{a}}"]`, `["x", 2, "xx"]`},
		{`{"a": [1.0, "\u0061", null]}`, `{"a": [1, "a", null]}`}, {`"{{_:time}}"`, `"2026-07-28T12:00:00Z"`}, {`"{{"`,
			`"{{"`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, want, got []byte) {
		if strictjson.Check(want, maxDepth) != nil || strictjson.Check(got, maxDepth) != nil {
			return
		}
		d := variables{}.match("", decode(want), decode(got))
		for _, l := range literals(want) {
			if l.text == anything || l.spread || strings.Contains(l.text, "{{") {
				return
			}
		}
		if equal := strictjson.Digest(want) == strictjson.Digest(got); equal != (d == nil) {
			t.Errorf("%s against %s: %v", got, want, d)
		}
	})
}
