package transcript

import (
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// script is a transcript with one part, of which these are the steps.
func script(steps string) string {
	return "Title: t\nServer: A\n== p\n" + steps
}

func TestParse(t *testing.T) {
	text := `Title: Two servers
Document: the document
Section: the section
Server: A
Server: B --ttl 1s

# A comment.
== First part
Query: draft=mrtr-1

--> A
X-Header: value

{
  "a": "{{meta}}", // said to be
# a comment
  "b": "// no comment"
}
<-- 200 within 10s
Mcp-Session-Id: {{session}}

{ "c": "{{d}}", "...": "..." }
<-- event
{ "e": "{{f:not d}}" }
<-- end
--- drop
--- wait 1s
== Second part
--> B raw
{ "a": }
<-- 400
`
	got, err := Parse("two.txt", []byte(text))
	expect.Check(t, err)
	if got.Title != "Two servers" || got.Document != "the document" || got.Section != "the section" {
		t.Errorf("the header is %+v", got)
	}
	if len(got.Servers) != 2 || got.Servers[1].Name != "B" || strings.Join(got.Servers[1].Args, " ") != "--ttl 1s" {
		t.Errorf("the servers are %+v", got.Servers)
	}
	if len(got.Parts) != 2 || got.Parts[0].Query != "draft=mrtr-1" || len(got.Parts[0].steps) != 3 ||
		len(got.Parts[1].steps) != 1 {
		t.Fatalf("the parts are %+v", got.Parts)
	}
	if s := got.Parts[0].steps[0]; s.line != 11 || len(s.header) != 1 || len(s.expect) != 3 || s.expect[0].line != 19 {
		t.Errorf("the first step is %+v", s)
	}
	if s := got.Parts[1].steps[0]; string(s.body) != `{ "a": }` || !s.expect[0].empty {
		t.Errorf("the raw step is %+v", s)
	}
}

func TestMistakesAreNamedWithTheirLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "x:1: the header has no Title"},
		{"Title: t\nServer: A\n", "x:3: there is no part"},
		{"Title: t\nTitle: u\n", "x:2: Title must be there once"},
		{"Titel: t\n", `x:1: unexpected "Titel: t": the header has`},
		{"Title: t\nServer: A\nServer: A\n", "x:3: there are two servers A"},
		{"Title: t\nServer: --drafts\n", "x:2: a server has a name"},
		{"Title: t\n== p\n", "x:2: the header names no server"},
		{"Title: t\nServer: A\n--> A\n", "x:3: a step comes before the first part"},
		{script("--> A\n{}\n<-- 200\n== p\n"), `x:7: there are two parts "p"`},
		{script("== q\n"), `x:4: the part "p" has no steps`},
		{script("--> B\n{}\n<-- 200\n"), `x:4: unexpected "--> B"`},
		{script("--> A\n{}\n"), "x:4: nothing is expected of this request"},
		{script("--> A\n{}\n--> A\n{}\n<-- 200\n"), "x:4: nothing is expected of this request"},
		{script("<-- 200\n"), "x:4: nothing was sent before this"},
		{script("--> A\n{}\n--- wait 1s\n<-- event\n{}\n"), "x:4: nothing is expected"},
		{script("--> A\n{}\n<-- event\n{}\n"), "x:6: a request is answered by one status"},
		{script("--> A\n{}\n<-- 200\n<-- 200\n"), "x:7: a request is answered by one status"},
		{script("--> A\n{}\n<-- 200\n<-- event\n"), "x:7: an event has a body"},
		{script("--> A\n{}\n<-- 200\n<-- end\n{}\n"), "x:7: nothing comes after the end"},
		{script("--> A\n{}\n<-- 99\n"), `x:6: unexpected "<-- 99"`},
		{script("--> A\n{}\n<-- 200 within 1h\n{}\n"), `x:6: the time "1h"`},
		{script("--> A\n{}\n<-- 200 within 1s\n"), "x:6: within needs a body"},
		{script("--> A hex\n7b7\n<-- 400\n"), "x:4: the bytes are not hexadecimal digits"},
		{script("--> A 0 times\n{}\n<-- 200\n"), `x:4: unexpected "--> A 0 times": a request is sent 1 to 1000 times`},
		{script("--> A 1001 times\n{}\n<-- 200\n"), "a request is sent 1 to 1000 times"},
		{script("--> A many times\n{}\n<-- 200\n"), "a request is sent 1 to 1000 times"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{b:new}}\" }\n"), "{{b:new}}: b stood in no response above"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{_:new}}\" }\n"), "{{_:new}}: _ stood in no response above"},
		{script("--- sleep 1s\n"), `x:4: unexpected "--- sleep 1s"`},
		{script("--- wait -1s\n"), `x:4: the time "-1s"`},
		{script("--> A\n{}\n<-- 200\n{\n  \"a\": 1,\n  \"a\": 2\n}\n"), "x:9: invalid JSON"},
		{script("--> A\n{ \"a\" }\n<-- 200\n"), "x:5: invalid JSON"},
		{script("--> A\n{ \"a\": \"{{b}}\" }\n<-- 200\n"), "{{b}} stood in no response above"},
		{script("--> A\n{ \"a\": \"{{_}}\" }\n<-- 200\n"), "{{_}} stood in no response above"},
		{script("--> A\n{ \"a\": \"{{meta:all}}\" }\n<-- 200\n"), "{{meta:all}}"},
		{script("--> A\n{ \"a\": \"a {{meta}}\" }\n<-- 200\n"), "{{meta}} is an object"},
		{script("--> A\n{ \"...\": \"...\" }\n<-- 200\n"), `in a request, "..."`},
		{script("--> A\n{ \"...\": 1, \"a\": \"{{meta}}\" }\n<-- 200\n"), `in a request, "..."`},
		{script("--> A\n{ \"{{meta}}\": 1 }\n<-- 200\n"), "a placeholder stands in a value"},
		{script("--> A\n{ \"a\": \"{{filler:99999999}}\" }\n<-- 200\n"), "{{filler:N}} stands for"},
		{script("--> A\n{ \"a\": \"{{b\" }\n<-- 200\n"), "has no end"},
		{script("--> A\nX: {{b}}\n\n{}\n<-- 200\n"), "{{b}} stood in no response above"},
		{script("--> A\n{}\n<-- 200\nX: {{b:number}}\n"), "a header is never a number"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{b:word}}\" }\n"), "{{b:word}}: want text, number, time, new or not"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{b:not c}}\" }\n"), "c stood in no response above"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{b}}\", \"c\": \"{{d:not b}}\" }\n"), "b stood in no response above"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{meta}}\" }\n"), "{{meta}} is for requests"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"so {{b}}\" }\n"), "within a longer text"},
		{script("--> A\n{}\n<-- 200\n{ \"...\": 1 }\n"), `has "...": "..."`},
		{script("--> A\n{}\n<-- 200\n{ \"{{b}}\": 1 }\n"), "a placeholder stands in a value"},
		{script("--> A\n{}\n<-- 200\n{ \"a\": \"{{b}}\" }\n== q\n--> A\n{ \"a\": \"{{b}}\" }\n<-- 200\n"),
			"x:10: {{b}} stood in no response above"},
		{"Title: \xff", "not UTF-8"},
		{strings.Repeat("#", MaxText+1), "at most 4194304 bytes"},
	} {
		_, err := Parse("x", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n got %v\nwant %s", cut(c.text, maxQuoted), err, c.want)
		}
	}
}

// Whatever the bytes, nothing panics; and what was read can be filled in and compared.
func FuzzParse(f *testing.F) {
	for _, steps := range []string{
		"--> A\nX: y\n\n{ \"a\": 1, // b\n\"c\": \"//\" }\n<-- 200 within 5s\nZ: {{z}}\n\n{ \"...\": \"...\" }\n",
		"--> A\n{ \"...\": \"{{meta}}\", \"a\": \"x{{filler:3}}\" }\n<-- 200\n{ \"a\": " +
			"\"{{b:number}}\" }\n<-- event\n[\"{{c:not b}}\"]\n<-- end\n",
		"--> raw\n[1,\n<-- 400\n--- drop\n--- wait 1s\n== q\nQuery: a=b\n--> A\n<-- 202\n",
		"--> A\n{ \"_meta\": \"{{meta:tasks}}\" }\n<-- 200\n{ \"a\": \"{{b:time}}\" }\n--> A\n{ \"\\u0062\": " +
			"\"{{b}}\" }\n<-- 200\n\"so {{b}}\"\n",
	} {
		f.Add([]byte(script(steps)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := Parse("x", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x:") {
				t.Errorf("the error does not tell the file: %v", err)
			}
			return
		}
		for _, part := range text.Parts {
			known := variables{}
			for _, s := range part.steps {
				if s.kind == request && !s.raw {
					checkFilled(t, known, s.body)
				}
				for _, e := range s.expect {
					// A body that stands for itself, where it has no placeholders.
					if !e.empty && !strings.Contains(e.text, "{{") && !strings.Contains(e.text, anything) {
						if d := known.match("", e.body, e.body); d != nil {
							t.Errorf("%s differs from itself: %s", e.text, d)
						}
					}
				}
			}
		}
	})
}
