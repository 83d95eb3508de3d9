package strictjson

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// rebuild appends the value at the cursor, without white space. The next choice says whether it reads the value part by
// part (0), as a whole (1), or not at all (2), when null stands for it.
func rebuild(dst []byte, c *Cursor, choices *[]byte) []byte {
	choice := byte(0)
	if len(*choices) > 0 {
		choice, *choices = (*choices)[0], (*choices)[1:]
	}
	if choice%3 == 1 {
		return AppendCompact(dst, c.Value())
	}
	if choice%3 == 2 {
		return append(dst, "null"...) // the value is not read at all
	}
	switch c.Type() {
	case TypeObject:
		dst = append(dst, '{')
		first := true
		for name := range c.Members() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendString(dst, name), ':')
			dst = rebuild(dst, c, choices)
		}
		return append(dst, '}')
	case TypeArray:
		dst = append(dst, '[')
		for i := range c.Elements() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = rebuild(dst, c, choices)
		}
		return append(dst, ']')
	}
	return append(dst, c.Value()...)
}

func TestCursor(t *testing.T) {
	const doc = " { \"a\" : [ 1 , {\"b\":[ ]} , [[2]] ] ,\"c\":{ } , \"\\u0064\":\"x}\" , \"e\":[{\"f\":-1.5e3},true , " +
		"null] } "
	for choices, want := range map[string]string{
		"":                     `{"a":[1,{"b":[]},[[2]]],"c":{},"d":"x}","e":[{"f":-1.5e3},true,null]}`,
		"\x01":                 `{"a":[1,{"b":[]},[[2]]],"c":{},"\u0064":"x}","e":[{"f":-1.5e3},true,null]}`,
		"\x00\x02":             `{"a":null,"c":{},"d":"x}","e":[{"f":-1.5e3},true,null]}`,
		"\x00\x00\x02\x02\x01": `{"a":[null,null,[[2]]],"c":{},"d":"x}","e":[{"f":-1.5e3},true,null]}`,
		"\x00\x01\x02\x02\x02": `{"a":[1,{"b":[]},[[2]]],"c":null,"d":null,"e":null}`,
	} {
		c, left := At([]byte(doc)), []byte(choices)
		expect.Equal(t, fmt.Sprintf("%q", choices), string(rebuild(nil, &c, &left)), want)
	}
	c := At([]byte(doc))
	for range c.Members() {
	}
	if c.Type() != TypeInvalid || c.Value() != nil {
		t.Errorf("behind the document is %s", c.Value())
	}
}

func TestNumbers(t *testing.T) {
	for doc, want := range map[string]string{
		`[1,{"a":-2.5e1,"3":[ 4 ,"5",[]]},true,6]`: "1 -2.5e1 4 6",
		`7`: "7", `"8"`: "", `true`: "", ` {"a":null} `: "", `[[],{},9]`: "9",
	} {
		c := At([]byte(`[` + doc + `,"behind"]`))
		var got []string
		for i := range c.Elements() {
			if i > 0 {
				expect.Equal(t, doc+": the cursor is not behind it", string(c.Value()), `"behind"`)
				break
			}
			for n := range c.Numbers() {
				got = append(got, string(n))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %q, want %s", doc, got, want)
		}
	}
}

// Read with the cursor, a document is what it is by its bytes, whatever is read and whatever is left alone.
func FuzzCursor(f *testing.F) {
	for _, doc := range []string{`{"a":[1,{"b":[]}],"c":{"d":"}"}}`, `[[],[[1e9]],{"a":{}}]`, ` "a" `, `-1`, `{`, `[1,`,
		`{"a":`, `{"a"`, `[}`, `{"a":1]`} {
		f.Add([]byte(doc), []byte{0, 0, 1, 2})
	}
	f.Fuzz(func(t *testing.T, doc, choices []byte) {
		c := At(doc)
		all := []byte(nil)
		got := rebuild(nil, &c, &all)
		if c = At(doc); Check(doc, 64) != nil {
			rebuild(nil, &c, &choices) // anything, but it ends
			c = At(doc)
			for range c.Numbers() {
			}
			return
		}
		if !bytes.Equal(AppendCanonical(nil, got), AppendCanonical(nil, doc)) {
			t.Fatalf("%s is read as %s", doc, got)
		}
		// What is left alone is not there, and moves nothing else.
		wrapped := slices.Concat([]byte(`[`), doc, []byte(`,"behind"]`))
		c = At(wrapped)
		for i := range c.Elements() {
			if i == 0 {
				rebuild(nil, &c, &choices)
			} else if s, ok := String(c.Value()); !ok || s != "behind" {
				t.Fatalf("behind %s is %q", doc, s)
			}
		}
	})
}
