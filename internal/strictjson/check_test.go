package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCheckAccepts(t *testing.T) {
	for _, doc := range []string{
		`{}`, `[]`, `""`, `0`, `true`, `false`, `null`,
		" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n",
		`-0`, `0.0`, `-12.50e+07`, `1E400`, `1e999999999999999999999`, `9007199254740993`,
		`"\"\\\/\b\f\n\r\t\u0000\u20aC"`,
		`"é€😀"`, `"\ud83d\ude00"`, `"\uFFFE"`, "\"\u007f\u2028\uffff\"",
		`{"a":1,"A":2,"":3,"\u0000":4," a":5}`,
		`{"a":{"a":{"a":[{"a":1},{"a":1}]}}}`,
		"{\"\u00e9\":1,\"e\u0301\":2}", // equal only to who normalizes
		object(15, ""), object(16, ""), object(17, ""), object(5000, ""),
	} {
		if err := Check([]byte(doc), 8); err != nil {
			t.Errorf("Check(%.60q) = %v, want nil", doc, err)
		}
		if !json.Valid([]byte(doc)) {
			t.Errorf("encoding/json refuses %.60q", doc)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, tc := range []struct {
		doc    string
		kind   Kind
		offset int
	}{
		// One value.
		{"", Syntax, 0},
		{"  ", Syntax, 2},
		{"\ufeff{}", Syntax, 0},
		{"{} {}", Syntax, 3},
		{"1\x00", Syntax, 1},
		{"true,", Syntax, 4},

		// Syntax of objects and arrays.
		{`{`, Syntax, 1},
		{`{"a"`, Syntax, 4},
		{`{"a":`, Syntax, 5},
		{`{"a":1`, Syntax, 6},
		{`{"a":1,`, Syntax, 7},
		{`{"a":1,}`, Syntax, 7},
		{`{"a" 1}`, Syntax, 5},
		{`{"a":}`, Syntax, 5},
		{`{"a":1 "b":2}`, Syntax, 7},
		{`{"a":1]`, Syntax, 6},
		{`{a:1}`, Syntax, 1},
		{`{'a':1}`, Syntax, 1},
		{`{1:1}`, Syntax, 1},
		{`{,}`, Syntax, 1},
		{`[`, Syntax, 1},
		{`[1`, Syntax, 2},
		{`[1,]`, Syntax, 3},
		{`[,1]`, Syntax, 1},
		{`[1 2]`, Syntax, 3},
		{`[1}`, Syntax, 2},
		{`]`, Syntax, 0},
		{"[1,\v2]", Syntax, 3},
		{"[1,\u00a02]", Syntax, 3},
		{`[1/**/]`, Syntax, 2},

		// Literals and numbers.
		{`True`, Syntax, 0},
		{`tru`, Syntax, 0},
		{`nulll`, Syntax, 4},
		{`NaN`, Syntax, 0},
		{`-Infinity`, Syntax, 1},
		{`-`, Syntax, 1},
		{`+1`, Syntax, 0},
		{`.5`, Syntax, 0},
		{`5.`, Syntax, 2},
		{`5.e1`, Syntax, 2},
		{`01`, Syntax, 0},
		{`-00`, Syntax, 1},
		{`0x10`, Syntax, 1},
		{`1e`, Syntax, 2},
		{`1e+`, Syntax, 3},
		{`1e1.5`, Syntax, 3},
		{`1_000`, Syntax, 1},

		// Strings.
		{`"`, Syntax, 1},
		{`"abcdefghijkl`, Syntax, 13},
		{`"\`, Syntax, 1},
		{`"\"`, Syntax, 3},
		{`"\x41"`, Syntax, 1},
		{`"\'"`, Syntax, 1},
		{`"\u12"`, Syntax, 1},
		{`"\u12g4"`, Syntax, 1},
		{`"\U0041"`, Syntax, 1},
		{"\"a\nb\"", Syntax, 2},
		{"\"abcdefgh\x1f\"", Syntax, 9},
		{"\"\x00\"", Syntax, 1},

		// Encoding.
		{"\"\x80\"", Encoding, 1},
		{"\"abcdefg\xff\"", Encoding, 8},
		{"\"\xc3\"", Encoding, 1},
		{"\"é\xc3", Encoding, 3},
		{"\"\xc0\xaf\"", Encoding, 1},         // overlong
		{"\"\xed\xa0\x80\"", Encoding, 1},     // a surrogate in UTF-8
		{"\"\xf4\x90\x80\x80\"", Encoding, 1}, // beyond U+10FFFF
		{`"\ud800"`, Encoding, 1},
		{`"\uDC00"`, Encoding, 1},
		{`"\ud83d\n"`, Encoding, 1},
		{`"\ud83d\u0041"`, Encoding, 1},
		{`"\ud83d\ud83d\ude00"`, Encoding, 1},
		{`"\ud83d\ude00\ude00"`, Encoding, 13},
		{`{"\ud800":1}`, Encoding, 2},

		// Duplicates.
		{`{"a":1,"a":1}`, Duplicate, 7},
		{`{"a":1,"\u0061":1}`, Duplicate, 7},
		{`{"\u0061":1,"b":2,"a":1}`, Duplicate, 18},
		{`{"\u006a\n":1,"j\u000a":1}`, Duplicate, 14},
		{`{"😀":1,"\ud83d\ude00":1}`, Duplicate, 10},
		{`{"":1,"":1}`, Duplicate, 6},
		{`[{"x":{"a":{"b":1},"c":2,"a":3}}]`, Duplicate, 25},
		{object(15, "k0"), Duplicate, len(object(15, "")) - 1 + 1},
		{object(16, "k0"), Duplicate, len(object(16, "")) - 1 + 1},
		{object(17, "k16"), Duplicate, len(object(17, "")) - 1 + 1},
		{object(5000, "k4321"), Duplicate, len(object(5000, "")) - 1 + 1},
		{object(5000, `\u006b4321`), Duplicate, len(object(5000, "")) - 1 + 1},

		// Depth.
		{`[[[[[[[[[]]]]]]]]]`, Depth, 8},
		{`{"a":[{"a":[{"a":[{"a":[{}]}]}]}]}`, Depth, 24},
		{strings.Repeat("[", 1_000_000), Depth, 8},
	} {
		err := Check([]byte(tc.doc), 8)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("Check(%.60q) = %v, want an *Error", tc.doc, err)
			continue
		}
		if e.Kind != tc.kind || e.Offset != tc.offset {
			t.Errorf("Check(%.60q) = %v at %d (%v), want %v at %d", tc.doc, e.Kind, e.Offset, e, tc.kind, tc.offset)
		}
	}
}

// object returns an object with n members, "k0" to "kN" with a nested object
// each, and one named more if that is not empty.
func object(n int, more string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":{"k0":0,"k1":1}`, i)
	}
	if more != "" {
		b.WriteString(`,"` + more + `":0`)
	}
	return "{" + b.String()[1:] + "}"
}

func TestCheckDepth(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for _, tc := range []struct {
		doc      []byte
		maxDepth int
		ok       bool
	}{
		{[]byte(`1`), 0, true},
		{[]byte(`1`), -1, true},
		{[]byte(`[]`), 0, false},
		{[]byte(`{}`), 0, false},
		{[]byte(`[]`), 1, true},
		{nested(64), 64, true},
		{nested(65), 64, false},
		{nested(MaxDepth), 1 << 40, true},
		{nested(MaxDepth + 1), 1 << 40, false},
		{[]byte(`[[],[],[]]`), 2, true}, // siblings do not add up
	} {
		if err := Check(tc.doc, tc.maxDepth); (err == nil) != tc.ok {
			t.Errorf("Check(%.20q…, %d) = %v, want ok %v", tc.doc, tc.maxDepth, err, tc.ok)
		}
	}
}

func TestErrorHoldsNoContent(t *testing.T) {
	for _, doc := range []string{
		`{"hunter2":1,"hunter2":2}`, `{"a":hunter2}`, `"hunter2`, `"hunter2\ud800"`, `[[["hunter2"]]]`,
	} {
		err := Check([]byte(doc), 2)
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "hunter") {
			t.Errorf("Check(%q) = %v, want an error without content", doc, err)
		}
	}
	if got, want := Check([]byte(`{"a":1,"a":2}`), 2).Error(),
		"invalid JSON at offset 7: duplicate member name"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Check([]byte(`[[[]]]`), 2).Error(),
		"invalid JSON at offset 2: nested deeper than the limit of 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// raceDetector is set where sync.Pool drops what it is given at random.
var raceDetector bool

func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	var count int
	members := func(doc []byte) {
		for range Members(doc) {
			count++
		}
	}
	elements := func(doc []byte) {
		for range Elements(doc) {
			count++
		}
	}
	escaped := []byte(`{"\n":1,"\u0061":{}}`)
	items, plain := []byte(`[1,"a",{}]`), []byte(`"a plain string"`)
	for _, tc := range []struct {
		name string
		run  func()
	}{
		{"Check", func() { Check(doc300, 8) }},
		{"Check 3 KB", func() { Check(doc3K, 8) }},
		{"Check escaped names", func() { Check(escaped, 8) }},
		{"Digest", func() { Digest(doc300) }},
		{"Digest 30 KB", func() { Digest(doc30K) }},
		{"Get", func() { Get(doc300, "params") }},
		{"Members", func() { members(doc300) }},
		{"Elements", func() { elements(items) }},
		{"Text", func() { Text(plain) }},
	} {
		if got := testing.AllocsPerRun(100, tc.run); got != 0 {
			t.Errorf("%s allocates %v times, want 0", tc.name, got)
		}
	}
}

// FuzzCheck compares Check with encoding/json, which accepts more.
func FuzzCheck(f *testing.F) {
	for _, doc := range seeds {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := Check(doc, MaxDepth)
		valid := json.Valid(doc)
		if err == nil {
			if !valid {
				t.Fatal("accepted what encoding/json refuses")
			}
			if shallow := Check(doc, 3); (shallow == nil) != (depth(doc) <= 3) {
				t.Fatalf("depth is %d but Check(3) says %v", depth(doc), shallow)
			}
			return
		}
		e := err.(*Error)
		if e.Offset < 0 || e.Offset > len(doc) {
			t.Fatalf("offset %d in %d bytes", e.Offset, len(doc))
		}
		switch {
		case (e.Kind == Syntax || e.Kind == Depth) && valid:
			t.Fatalf("refused what encoding/json accepts: %v", err)
		case e.Kind == Duplicate && valid && !hasDuplicate(doc):
			t.Fatalf("found no duplicate, but Check says %v", err)
		}
	})
}

// depth and hasDuplicate are the slow and obvious way, by encoding/json.
func depth(doc []byte) int {
	deepest, now := 0, 0
	d := json.NewDecoder(strings.NewReader(string(doc)))
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			now++
			deepest = max(deepest, now)
		case json.Delim('}'), json.Delim(']'):
			now--
		}
	}
}

func hasDuplicate(doc []byte) bool {
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.UseNumber()
	var value func() bool
	value = func() bool {
		token, err := d.Token()
		if err != nil {
			return false
		}
		found := false
		switch token {
		case json.Delim('{'):
			seen := map[any]bool{}
			for d.More() {
				name, err := d.Token()
				if err != nil {
					return found
				}
				found = found || seen[name]
				seen[name] = true
				found = value() || found
			}
			d.Token()
		case json.Delim('['):
			for d.More() {
				found = value() || found
			}
			d.Token()
		}
		return found
	}
	return value()
}

var seeds = []string{
	`{"a":1,"\u0061":2}`, `{"b":[1,2.50,-0,1e400,null],"a":{"c":"\ud83d\ude00\n","d":true}}`,
	`"\ud800"`, "\"\xff\"", `[[[[]]]]`, `1e-999999999999999999999`, `{"€":1,"\r":2,"דּ":3,"😀":5}`,
	` {"k" : [ ] } `, `{"a":1,"a":`, `"\`, `[1,]`, `-`, `100000000000000000000000000000000e-99999999999999999990`,
	string(object(18, "")), string(object(18, "k3")),
}
