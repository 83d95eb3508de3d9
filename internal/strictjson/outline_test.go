package strictjson

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
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
		if err := o.Check([]byte(test.document), 64, "params"); err != nil {
			t.Fatal(err)
		}
		for i, want := range test.kept {
			if l := o.levels[i]; l.missing != (want < 0) || !l.missing && l.n != want {
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
	f.Add([]byte(`{"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"params":{"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"9":9}}`))
	f.Add([]byte(`{"params":{"a":`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o Outline
		got, want := o.Check(data, 64, "params"), Check(data, 64)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if want == nil {
			compareOutline(t, &o, data)
		}
	})
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
}
