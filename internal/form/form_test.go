package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func parsed(t testing.TB, property string) *Schema {
	t.Helper()
	s := expect.Must(Parse([]byte(`{"type":"object","properties":{"p":` + property + `}}`)))(t)
	return s
}

func TestCheckHoldsTheAnswerAsAWhole(t *testing.T) {
	type form struct {
		Name string   `json:"name"`
		Size *int     `json:"size" default:"7"`
		Sure bool     `json:"sure,omitempty"`
		Some []string `json:"some,omitempty" enum:"a|b"`
	}
	s := mustFor[form](t)
	for _, test := range []struct{ content, clean, problems string }{
		{`{"name":"x"}`, `{"name":"x","size":7}`, ""},
		{" {\n\t\"name\" : \"x\" ,\r \"size\" : 1 }\n", `{"name":"x","size":1}`, ""},
		{`{"sure":true,"size":1,"name":"x"}`, `{"name":"x","size":1,"sure":true}`, ""}, // the schema's order
		{`{"name":"x","size":null,"sure":null,"some":null}`, `{"name":"x","size":7}`, ""},
		{`{"n\u0061me":"x"}`, `{"name":"x","size":7}`, ""},

		// Members nobody asked for, however they are built.
		{`{"a":1,"name":"x","b":{"name":["}","\"",{}]},"c":[[],"]"],"d":null}`, `{"name":"x","size":7}`, ""},
		{`{"name":"x","Name":"y","NAME":"z","ſize":9,"SIZE":9}`, `{"name":"x","size":7}`, ""},
		{`{"Name":"y"}`, "", "name: is required"},
		{`{"a":"name","name":"x"}`, `{"name":"x","size":7}`, ""},

		{``, "", "name: is required"},
		{`null`, "", "name: is required"},
		{" \n null\t", "", "name: is required"},
		{`{}`, "", "name: is required"},
		{`{"name":null}`, "", "name: is required"},

		{`[]`, "", "content must be an object"},
		{`"name"`, "", "content must be an object"},
		{`1`, "", "content must be an object"},
		{`{`, "", "content is invalid JSON at offset 1: unexpected end, want a member name"},
		{`{"name":"x"}}`, "", "content is invalid JSON at offset 12: bytes after the value"},
		{`{"name":"x",}`, "", "content is invalid JSON at offset 12: want a member name"},
		{"\u00a0{}", "", "content is invalid JSON at offset 0: want a value"},
		{"\u00a0", "", "content is invalid JSON at offset 0: want a value"},
		{`{"name":"\ud800"}`, "", "content is invalid JSON at offset 9: lone surrogate"},
		{`{"name":"` + "\xff" + `"}`, "", "content is invalid JSON at offset 9: invalid UTF-8"},
		{`{"name":"x","name":"x"}`, "", "name: was given twice"},
		{`{"name":"x","n\u0061me":null}`, "", "name: was given twice"},
		{`{"name":"x","other":1,"other":2}`, "", "content is invalid JSON at offset 22: duplicate member name"},

		{`{"name":1,"size":"1","sure":"true","some":"a"}`, "",
			"name: must be a string; size: must be a whole number; sure: must be true or false; some: must be a list of " +
				"values out of a, b"},
		{`{"name":["x"],"size":true,"sure":1,"some":{"a":"b"}}`, "",
			"name: must be a string; size: must be a whole number; sure: must be true or false; some: must be a list of " +
				"values out of a, b"},
		{`{"name":{},"size":[1],"sure":[]}`, "", "name: must be a string; size: must be a whole number; sure: must be true " +
			"or false"},
	} {
		checks(t, s, test.content, test.clean, test.problems)
	}
	checks(t, mustFor[struct{}](t), "", "{}", "")
	checks(t, mustFor[struct{}](t), `{"x":1}`, "{}", "")
}

func checks(t *testing.T, s *Schema, content, clean, problems string) {
	t.Helper()
	got, err := s.Check([]byte(content))
	message := ""
	if err != nil {
		message = err.Error()
		var e *Error
		if !errors.As(err, &e) || len(e.Problems) == 0 {
			t.Errorf("%.200s: %T, want *Error with problems", content, err)
		}
	}
	if string(got) != clean || message != problems {
		t.Errorf("%.200s:\n got %.200s %q\nwant %.200s %q", content, got, message, clean, problems)
	}
}

// Each property is checked alone; clean is the value, or empty when it must be refused.
func TestCheckHoldsEachConstraint(t *testing.T) {
	const same = "same"
	for _, test := range []struct {
		property string
		answers  map[string]string // value → clean, same, or the problem
	}{
		{`{"type":"string","minLength":2,"maxLength":3}`, map[string]string{
			`"ab"`: same, `"abc"`: same, `""`: "must be at least 2 characters long", `"a"`: "must be at least 2 characters long",
			`"abcd"`: "must be at most 3 characters long",
			// code points, not bytes or UTF-16
			`"日本語"`: same, `"😀😀😀"`: same, `"😀"`: "must be at least 2 characters long",
			`"\ud83d\ude00\n"`: same, `"\ud83d\ude00"`: "must be at least 2 characters long",
			`"e\u0301"`: same, // a letter and its accent are two code points
		}},
		{`{"type":"string","maxLength":1}`, map[string]string{`""`: same, `"a"`: same, `"ab"`: "must be at most 1 " +
			"character long"}},
		{`{"type":"string","maxLength":0}`, map[string]string{`""`: same, `"a"`: "must be at most 0 characters long"}},

		{`{"type":"integer"}`, map[string]string{
			`42`: same, `42.0`: `42`, `4.2e1`: `42`, `4.20E+1`: `42`, `420e-1`: `42`, `0.42e2`: `42`, `-42`: same,
			`0`: same, `-0`: `0`, `0.000`: `0`, `0e999999999999999999999`: `0`, `-0e-5`: `0`,
			`1.5`: "must be a whole number", `42e-1`: "must be a whole number", `0.1`: "must be a whole number",
			`1e-999999999999999999999`: "must be a whole number",
			`"42"`:                     "must be a whole number", `true`: "must be a whole number",
			`9007199254740993`: same, `-9007199254740993`: same, `9223372036854775807`: same,
			`18446744073709551615`: same, `18446744073709551616`: "must be at most 18446744073709551615",
			`1.8446744073709551615e19`: `18446744073709551615`,
			`-9223372036854775808`:     same, `-9223372036854775809`: "must be at least -9223372036854775808",
			`1e19`: `10000000000000000000`, `1e20`: "must be at most 18446744073709551615",
			`1e999999999`: "must be at most 18446744073709551615", `-1e999999999999`: "must be at least -9223372036854775808",
		}},
		{`{"type":"integer","minimum":9007199254740993,"maximum":9007199254740995}`, map[string]string{
			`9007199254740992`: "must be at least 9007199254740993", `9007199254740993`: same, `9007199254740995`: same,
			`9007199254740996`: "must be at most 9007199254740995", `9.007199254740994e15`: `9007199254740994`,
		}},
		{`{"type":"integer","minimum":-1.5,"maximum":2.5}`, map[string]string{
			`-1`: same, `-2`: "must be at least -1.5", `2`: same, `3`: "must be at most 2.5",
		}},

		{`{"type":"number"}`, map[string]string{
			`1`: same, `-1.50`: same, `1e5`: same, `0`: same, `-0.0`: `0`, `0e-999999999`: `0`, `5e-324`: same,
			`1.7976931348623157e308`: same,
			`1.7976931348623158e308`: "must be at most 1.7976931348623157e+308",
			`1e999999999`:            "must be at most 1.7976931348623157e+308",
			`-1e309`:                 "must be at least -1.7976931348623157e+308",
			`1e-999999999`:           "must be 0 or have a magnitude of at least 1e-400",
			`-1e-999999999999999999`: "must be 0 or have a magnitude of at least 1e-400",
			`"1"`:                    "must be a number", `false`: "must be a number", `[]`: "must be a number",
		}},
		{`{"type":"number","minimum":0.1,"maximum":1e2}`, map[string]string{
			`0.1`: same, `1E-1`: same, `0.0999999999999999999999999999999`: "must be at least 0.1", `0`: "must be at least 0.1",
			`-1`:  "must be at least 0.1",
			`100`: same, `100.0`: same, `100.00000000000000000000000000001`: "must be at most 1e2", `1e3`: "must be at most 1e2",
		}},
		{`{"type":"number","minimum":-2,"maximum":-1}`, map[string]string{
			`-2`: same, `-1`: same, `-1.5`: same, `-2.01`: "must be at least -2", `-0.99`: "must be at most -1",
			`0`: "must be at most -1", `1`: "must be at most -1",
		}},

		{`{"type":"boolean"}`, map[string]string{`true`: same, `false`: same, `0`: "must be true or false",
			`"true"`: "must be true or false"}},

		{`{"type":"string","enum":["a","é<"]}`, map[string]string{
			`"a"`: same, `"\u0061"`: same, `"\u00e9\u003c"`: same, `"é<"`: same,
			`"A"`: "must be one of a, é<", `"a "`: "must be one of a, é<", `""`: "must be one of a, é<",
			`1`: "must be a string",
		}},
		{specTitledChoice, map[string]string{
			`"#00FF00"`: same, `"Green"`: "must be one of #FF0000, #00FF00, #0000FF",
		}},
		{`{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]}}`, map[string]string{
			`["a"]`: same, `[ "a" , "b" ]`: `["a","b"]`, `["a","a"]`: same,
			`[]`: "must hold at least 1 item", `["a","b","a"]`: "must hold at most 2 items",
			`["a","c"]`: "must hold nothing but a, b", `["a",1]`: "must hold nothing but a, b",
			`["a",null]`: "must hold nothing but a, b",
			`[["a"]]`:    "must hold nothing but a, b", `"a"`: "must be a list of values out of a, b",
		}},
		{specTitledChoices, map[string]string{
			`["#0000FF"]`: same, `["Blue"]`: "must hold nothing but #FF0000, #00FF00, #0000FF",
		}},

		{`{"type":"string","format":"email"}`, answers(formats["email"].want,
			[]string{"a@b", "user@example.com", "a.b+c@sub.example.org", "ü@example.com", "a@[127.0.0.1]",
				strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 94) + "c"},
			[]string{"", "a", "a@", "@b", "a b@c", "A <a@b>", "<a@b>", "a@b ", " a@b", "a@b\\n", "a@b, c@d", "a@b (c)", "a..b@c",
				strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 94) + "cc"})},
		{`{"type":"string","format":"uri"}`, answers(formats["uri"].want,
			[]string{"https://example.com", "https://example.com/a?b=c#d", "mailto:a@b", "urn:isbn:1", "file:///etc",
				"http://[::1]:80/", "x:" + strings.Repeat("a", formats["uri"].longest-2)},
			[]string{"", "example.com", "/a", "//example.com/a", "?q", "http://[::1", "http://a b/", ":a", "1a:b",
				"http://a/%zz", "http://a/\\n", "http://a:b", "x:" + strings.Repeat("a", formats["uri"].longest-1)})},
		{`{"type":"string","format":"date"}`, answers(formats["date"].want,
			[]string{"2026-07-28", "2024-02-29", "2000-02-29", "0000-01-01", "9999-12-31"},
			[]string{"", "2026-02-30", "2026-02-29", "1900-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-1-1",
				"26-01-01", "12026-01-01", "2026-01-01Z", "2026-01-01 ", "2026/01/01", "20260101", "-001-01-01",
				"２０２６-01-01"})},
		{`{"type":"string","format":"date-time"}`, answers(formats["date-time"].want,
			[]string{"2026-07-28T12:00:00Z", "2026-07-28T23:59:59.999999999Z", "2026-07-28T12:00:00+23:59",
				"2026-07-28T12:00:00-00:00", "2024-02-29T00:00:00.1Z", "2026-01-01T00:00:00." + strings.Repeat("1", 43) + "Z"},
			[]string{"", "2026-07-28", "2026-07-28T12:00:00", "2026-07-28 12:00:00Z", "2026-07-28t12:00:00z",
				"2026-07-28T24:00:00Z", "2026-02-30T12:00:00Z",
				"2016-12-31T23:59:60Z", // a leap second that did happen
				"2026-07-28T12:60:00Z", "2026-07-28T12:00Z", "2026-07-28T1:00:00Z", "2026-07-28T12:00:00,5Z",
				"2026-07-28T12:00:00.Z",
				"2026-07-28T12:00:00+24:00", "2026-07-28T12:00:00+00:60", "2026-07-28T12:00:00+0000", "2026-07-28T12:00:00+00",
				"2026-07-28T12:00:00Z ",
				"2026-01-01T00:00:00." + strings.Repeat("1", 44) + "Z"})},
		{`{"type":"string","format":"email","maxLength":5}`, map[string]string{`"a@b.c"`: same, `"a@b.cc"`: "must be at " +
			"most 5 characters long"}},
	} {
		s := parsed(t, test.property)
		for value, want := range test.answers {
			switch {
			case want == same:
				checks(t, s, `{"p":`+value+`}`, `{"p":`+value+`}`, "")
			case strings.HasPrefix(want, "must "):
				checks(t, s, `{"p":`+value+`}`, "", "p: "+want)
			default:
				checks(t, s, `{"p":`+value+`}`, `{"p":`+want+`}`, "")
			}
		}
	}
}

func answers(problem string, good, bad []string) map[string]string {
	m := map[string]string{}
	for _, s := range good {
		m[`"`+s+`"`] = "same"
	}
	for _, s := range bad {
		m[`"`+s+`"`] = problem
	}
	return m
}

// What the Go type cannot hold is a problem of the answer, not of the decoder.
func TestCheckHoldsTheRangeOfTheGoType(t *testing.T) {
	type form struct {
		I8  int8    `json:"i8,omitempty"`
		U8  uint8   `json:"u8,omitempty"`
		I16 int16   `json:"i16,omitempty"`
		U16 uint16  `json:"u16,omitempty"`
		I32 int32   `json:"i32,omitempty"`
		U32 uint32  `json:"u32,omitempty"`
		I64 int64   `json:"i64,omitempty"`
		U64 uint64  `json:"u64,omitempty"`
		F32 float32 `json:"f32,omitempty"`
		F64 float64 `json:"f64,omitempty"`
	}
	s := mustFor[form](t)
	for name, limits := range map[string][2]string{
		"i8": {"-128", "127"}, "u8": {"0", "255"},
		"i16": {"-32768", "32767"}, "u16": {"0", "65535"},
		"i32": {"-2147483648", "2147483647"}, "u32": {"0", "4294967295"},
		"i64": {"-9223372036854775808", "9223372036854775807"}, "u64": {"0", "18446744073709551615"},
		"f32": {"-3.4028235e+38", "3.4028235e+38"}, "f64": {"-1.7976931348623157e+308", "1.7976931348623157e+308"},
	} {
		for i, limit := range limits {
			content := fmt.Sprintf(`{"%s":%s}`, name, limit)
			checks(t, s, content, content, "")
			var f form
			if err := json.Unmarshal([]byte(content), &f); err != nil {
				t.Error(err)
			}
			beyond, message := nextInteger(limit, i == 1), "must be at most "
			if strings.HasPrefix(name, "f") {
				beyond = strings.Replace(limit, "e+", "1e+", 1)
			}
			if i == 0 {
				message = "must be at least "
			}
			checks(t, s, fmt.Sprintf(`{"%s":%s}`, name, beyond), "", name+": "+message+limit)
		}
	}
	var f form
	if clean, err := s.Check(fmt.Appendf(nil, `{"f32":%v,"f64":%v}`, float64(math.MaxFloat32),
		math.MaxFloat64)); err != nil || json.Unmarshal(clean, &f) != nil {
		t.Error("the largest floats as Go writes them are refused: ", err)
	}
}

// nextInteger is one away from zero, or from 0 in the direction given.
func nextInteger(limit string, up bool) string {
	switch {
	case limit == "0" && !up:
		return "-1"
	default:
		digits := []byte(limit)
		digits[len(digits)-1]++ // none of the limits ends in 9
		return string(digits)
	}
}

func TestCheckedAnswerDecodes(t *testing.T) {
	type form struct {
		Name  severity     `json:"name"`
		Count uint8        `json:"count"`
		Ratio *float32     `json:"ratio"`
		Exact *json.Number `json:"exact"`
		When  *time.Time   `json:"when"`
		Some  *colors      `json:"some" enum:"a|b" default:"b|a"`
		Text  *string      `json:"text" default:"<\"é\">"`
	}
	clean, err := mustFor[form](t).Check([]byte(`{"NAME":"no","name":"yes\n","count":2.5e1,"ratio":0.5,"exact":0.10,` +
		`"when":"2026\u002d07-28T12:00:00.5+02:00"}`))
	expect.Check(t, err)
	var got form
	expect.Check(t, json.Unmarshal(clean, &got))
	when := time.Date(2026, 7, 28, 10, 0, 0, 500_000_000, time.UTC)
	want := form{"yes\n", 25, new(float32(0.5)), new(json.Number("0.10")), &when, &colors{"b", "a"}, new(`<"é">`)}
	expect.Diff(t, "the value", want, got)
}

// An error may be logged and shown, so it must not repeat what the client sent.
func TestErrorNeverHoldsTheClientsValue(t *testing.T) {
	s := mustFor[specForm](t)
	const secret = "hunter2"
	for _, content := range []string{
		secret, `"` + secret + `"`, `["` + secret + `"]`, `{"` + secret + `":1}`,
		`{"string":"` + secret + `","number":"` + secret + `","boolean":"` + secret + `","choice":"` + secret +
			`","titledChoice":"` + secret + `","choices":["` + secret + `"],"titledChoices":"` + secret + `"}`,
	} {
		_, err := s.Check([]byte(content))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestErrorCutsLongEnums(t *testing.T) {
	values := make([]string, 500)
	for i := range values {
		values[i] = fmt.Sprintf("v%d", i)
	}
	list, _ := json.Marshal(values)
	_, err := parsed(t, `{"type":"string","enum":`+string(list)+`}`).Check([]byte(`{"p":"x"}`))
	if err == nil || !strings.HasSuffix(err.Error(), "v19, … (500 in all)") {
		t.Error(err)
	}
}

func TestCheckTakesMoreThanAFewProperties(t *testing.T) {
	schema, content := "", ""
	for i := range 100 {
		schema += fmt.Sprintf(`,"p%d":{"type":"integer"}`, i)
		content += fmt.Sprintf(`,"p%d":%d`, i, i)
	}
	s := expect.Must(Parse([]byte(`{"type":"object","properties":{` + schema[1:] + `}}`)))(t)
	content = "{" + content[1:] + "}"
	checks(t, s, content, content, "")
}

// Nothing an answer can hold makes checking it take more than a glance. The square of its length would outlast go test.
func TestCheckIsBounded(t *testing.T) {
	const n = 1 << 20
	s := mustFor[specForm](t)
	for _, value := range []string{
		strings.Repeat("9", n), "0." + strings.Repeat("0", n) + "1", "1e" + strings.Repeat("9", n),
		"1e-" + strings.Repeat("0", n) + "1",
		`"` + strings.Repeat(`\u0061`, n/6) + `"`, `"` + strings.Repeat("a@", n/2) + `"`, `"` + strings.Repeat("(", n) + `"`,
		`["Red"` + strings.Repeat(`,"Red"`, n/6) + `]`, strings.Repeat("[", n), strings.Repeat("[", 9000) +
			strings.Repeat("]", 9000),
	} {
		for _, p := range s.properties {
			if _, err := s.Check([]byte(`{"` + p.name + `":` + value + `}`)); err == nil {
				t.Errorf("%s: %.20s… was accepted", p.name, value)
			}
		}
	}
}

type oneField struct {
	Resolution string `json:"resolution" enum:"fixed|duplicate|wontfix" jsonschema:"Resolution type for this bug"`
}

type sixFields struct {
	Name   string   `json:"name" minLength:"1" maxLength:"80"`
	Email  string   `json:"email" format:"email"`
	Age    int      `json:"age" minimum:"18" maximum:"130"`
	Ratio  float64  `json:"ratio" minimum:"0" maximum:"1"`
	Agree  bool     `json:"agree"`
	Colors []string `json:"colors" enum:"red=Red|green=Green|blue=Blue" minItems:"1"`
}

const (
	oneAnswer  = `{"resolution":"duplicate"}`
	sixAnswers = `{"name":"Monalisa Octocat","email":"octocat@github.com","age":30,"ratio":0.25,"agree":true,` +
		`"colors":["red","blue"]}`
)

func BenchmarkCheck(b *testing.B) {
	for _, bench := range []struct {
		name, content string
		schema        *Schema
	}{
		{"1 field", oneAnswer, mustFor[oneField](b)},
		{"6 fields", sixAnswers, mustFor[sixFields](b)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			content := []byte(bench.content)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.schema.Check(content); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	schema := mustFor[sixFields](b).JSON()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(schema); err != nil {
			b.Fatal(err)
		}
	}
}
