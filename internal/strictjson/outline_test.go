package strictjson

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func listed(members iter.Seq2[[]byte, []byte]) (all []string) {
	for name, value := range members {
		all = append(all, fmt.Sprintf("%q: %s", name, value))
	}
	return all
}

func TestOutline(t *testing.T) {
	var many strings.Builder
	for i := range 9 {
		fmt.Fprintf(&many, `"%d":{"a":%d},`, i, i)
	}
	for _, test := range []struct {
		document string
		kept     [2]int // members at each level; -1 if they are found by walking
	}{
		{`{"a":1,"params": {"b":[{"c":1}] , "d":{}},"e":{"b":2}}`, [2]int{3, 2}},
		{`{"params":{"params":{"x":1}},"z":{"params":{}}}`, [2]int{2, 1}},
		{`{"params":[{"a":1}]}`, [2]int{1, 0}},
		{`[{"params":{"a":1}}]`, [2]int{0, 0}},
		{`{"p\u0061rams":{"a":1},"b":2}`, [2]int{-1, 1}},
		{`{"params":{"\u0061":1}}`, [2]int{1, -1}},
		{`{` + many.String() + `"params":{"a":1}}`, [2]int{-1, 1}},
		{`{"params":{` + many.String() + `"a":1}}`, [2]int{1, -1}},
		{`{}`, [2]int{0, 0}}, {`null`, [2]int{0, 0}},
	} {
		var o Outline
		expect.Check(t, o.Check([]byte(test.document), 64, Wanted{Inner: "params"}))
		for i, want := range test.kept {
			if l := o.levels[i]; l.missing != (want < 0) || !l.missing && int(l.n) != want {
				t.Errorf("%s: level %d keeps %d (missing: %v), want %d", test.document, i, l.n, l.missing, want)
			}
		}
		compareOutline(t, &o, []byte(test.document))
	}
}

// An outline has what a walk finds.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"a":1,"params":{"b":[{"c":1}],"d":{}},"e":{"b":2}}`))
	f.Add([]byte(` {"p\u0061rams" : { "a" : "\u0062" , "":null} } `))
	f.Add([]byte(`{"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"params":{"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,` +
		`"8":8,"9":9}}`))
	f.Add([]byte(`{"params":{"a":`))
	for _, a := range []string{`{"c":1,"b":2}`, `{"c":1,"b":2,"c":3}`, `{"a":1,"\u0061":2}`, `{"b":[{"b":1,"b":2}]}`,
		`[1e999,{"b":1.50,"a":"\u00e9 \u001f"}]`, `1e5`, `"` + "\x80" + `"`, `01`, `[[[[1,]]]]`,
		`{"b":{},"a":{"d":1,"c":2}}`} {
		f.Add([]byte(`{"params": {"b":1, "a" : ` + a + ` } ,"c":[]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, depth := range []int{4, 64} {
			var o Outline
			got, want := o.Check(data, depth, Wanted{Inner: "params", Digest: "a"}), Check(data, depth)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v, want %v", got, want)
			}
			if want == nil {
				compareOutline(t, &o, data)
			}
		}
	})
}

// With the digest of a member a document is refused for the same reason, and the digest is that of the member alone.
func TestDigestOfAMember(t *testing.T) {
	deep := strings.Repeat("[", 62) + strings.Repeat("]", 62)
	for _, value := range []string{
		`{}`, `{"b":1,"a":[{"d":1,"c":1.50}]}`, `{"b":1,"a":2,"b":3}`, `{"a":1,"a":3}`, `{"c":1,"b":{"x":1,"x":2},"a":3}`,
		`{"a":1,"b":2,"\u0061":3}`,
		`"text"`, `null`, `1e400`, `-0.50`, `1.`, `01`, `{"a":1,}`, `{"a" 1}`, `[1 2]`, "\"\x80\"", "\"\t\"", `"\ud800"`,
		`tru`, `{`, ``, deep, "[" + deep + "]",
		`1` + strings.Repeat("0", 299), `1` + strings.Repeat("0", 300), `{"a":{"d":1,"c":` + strings.Repeat("3", 302) + `}}`,
	} {
		document := []byte(`{"a":{"b":1},"params":{"c":{"a":1}, "a": ` + value + ` ,"d":2},"b":{"a":2}}`)
		var o Outline
		got, want := o.Check(document, 64, Wanted{Inner: "params", Digest: "a"}), Check(document, 64)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
		if want != nil {
			continue
		}
		compareOutline(t, &o, document)
		if o.Digest() == nil {
			t.Errorf("%s has no digest", value)
		}
		if wide := strings.Contains(value, "e4") || len(value) > 300 && value[0] != '['; o.Floats() == wide {
			t.Errorf("%s: every number is certainly a float64: %v", value, o.Floats())
		}
	}
}

func compareOutline(t *testing.T, o *Outline, data []byte) {
	t.Helper()
	if got, want := listed(o.Members()), listed(Members(data)); !slices.Equal(got, want) {
		t.Fatalf("members %q, want %q", got, want)
	}
	inner := Get(data, "params")
	if got, want := listed(o.Inner(inner)), listed(Members(inner)); !slices.Equal(got, want) {
		t.Fatalf("inner members %q, want %q", got, want)
	}
	if o.want.Digest == "" {
		return
	}
	member := Get(inner, o.want.Digest)
	if got := o.Digest(); (got == nil) != (member == nil) || got != nil && *got != Digest(member) {
		t.Fatalf("the digest of %s is %x", member, got)
	}
	if o.Floats() {
		c := At(data)
		for n := range c.Numbers() {
			if _, err := strconv.ParseFloat(string(n), 64); err != nil {
				t.Fatalf("not every number is a float64: %v", err)
			}
		}
	}
}
