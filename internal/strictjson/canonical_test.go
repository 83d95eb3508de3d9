package strictjson

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ value, want string }{
		{`{}`, `{}`},
		{` [ ] `, `[]`},
		{" { \"b\" : [ true , false , null ] ,\n\"a\" : { } } ", `{"a":{},"b":[true,false,null]}`},
		{`{"a":1,"ab":2,"":3,"B":4}`, `{"":3e0,"B":4e0,"a":1e0,"ab":2e0}`},
		// An object in an array between others, each in need of sorting.
		{`{"z":[{"b":{"d":1,"c":2},"a":[]},{"b":3,"a":4},5],"y":{"f":{},"e":6}}`,
			`{"y":{"e":6e0,"f":{}},"z":[{"a":[],"b":{"c":2e0,"d":1e0}},{"a":4e0,"b":3e0},5e0]}`},
		// The characters of RFC 8785, 3.2.3: CR, 1, U+0080, ö, €, 😀 (D83D DE00), U+FB33.
		{`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":2e0,\"1\":4e0,\"\u0080\":6e0,\"ö\":7e0,\"€\":1e0,\"😀\":5e0,\"\ufb33\":3e0}"},
		// The string of RFC 8785, 3.2.2.
		{`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"€$\u000f\nA'B\"\\\\\"/"`},
		{`"\u0008\u0009\u000A\u000c\u000D\u0000\u001F\u007f\u2028"`, "\"\\b\\t\\n\\f\\r\\u0000\\u001f\u007f\u2028\""},
		{`{"\u0022":"\u002f"}`, `{"\"":"/"}`},
	} {
		if err := Check([]byte(tc.value), 8); err != nil {
			t.Errorf("Check(%s) = %v", tc.value, err)
		}
		if got := string(AppendCanonical([]byte("<"), []byte(tc.value))); got != "<"+tc.want {
			t.Errorf("canonical form of %s\n got %s\nwant %s", tc.value, got[1:], tc.want)
		}
		if got, want := Digest([]byte(tc.value)), sha256.Sum256([]byte(tc.want)); got != want {
			t.Errorf("digest of %s is not the SHA-256 of its canonical form", tc.value)
		}
	}
}

// States in flight are sealed over the digest of their call's arguments, so that it must never change.
func TestDigestStaysTheSame(t *testing.T) {
	docs := largeArguments(32 << 10)
	docs["small"], docs["call"] = []byte(`{"place":"New York"}`), doc3K
	for name, want := range map[string]string{
		"small":   "602f7e7fec46936d7a9f413aede2a585c2caf59c4e56dffbf57b1b175c8ad866",
		"call":    "3bf8c3337596ae7378c150e5b81ec1fccdb9f5bb630c622979974728d3cf7f35",
		"strings": "ecec776662e50cb02d28216933f9ea97252a842890edbf99d508d5e855545022",
		"objects": "466ec46d3899200f0643495608b4d97579fc4e2565f9850e5aafe82c67b9e9d2",
		"sorted":  "466ec46d3899200f0643495608b4d97579fc4e2565f9850e5aafe82c67b9e9d2",
		"tiny":    "d10d6c9975c818fa59fda10a823c5855a125874471605686d78a0b8a11a79589",
		"numbers": "475a586bf0a83e53256f3ba215cc34784745f74808b26a7c9e767771cdee54ba",
		"arrays":  "b922404c9e9d533593eb7bf68e3ecc0b50801aaeb40ef456b356e704aeb93943",
	} {
		if got := fmt.Sprintf("%x", Digest(docs[name])); got != want {
			t.Errorf("digest of %s is %s, want %s", name, got, want)
		}
	}
}

// Small objects, large ones, and those around or inside others are put in order in different ways.
func TestCanonicalOfNestedObjects(t *testing.T) {
	var objects func(depth int) *rapid.Generator[tree]
	objects = func(depth int) *rapid.Generator[tree] {
		return rapid.Custom(func(t *rapid.T) tree {
			o := map[string]tree{}
			for range rapid.IntRange(0, 4).Draw(t, "members") {
				var v tree = strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 300, 5000}).Draw(t, "length"))
				if depth > 0 && rapid.Bool().Draw(t, "nested") {
					v = []tree{objects(depth-1).Draw(t, "object")}
				}
				o[rapid.StringMatching(`[a-f\n]{1,2}`).Draw(t, "name")] = v
			}
			return o
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		spell(&b, objects(5).Draw(t, "tree"), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "spelling"), 1)))
		doc := b.String()
		want := reference(t, doc)
		if got := string(AppendCanonical(nil, []byte(doc))); got != want {
			t.Fatalf("canonical form\n got %s\nwant %s", got, want)
		}
		if Digest([]byte(doc)) != sha256.Sum256([]byte(want)) {
			t.Fatalf("the digest of %s is not that of its canonical form", doc)
		}
	})
}

// The second bound on depth, for unchecked bytes, must not bite on checked ones.
func TestCanonicalDepth(t *testing.T) {
	nested := func(n int, open, end string) []byte {
		return []byte(strings.Repeat(open, n) + "1" + strings.Repeat(end, n))
	}
	for _, tc := range []struct{ value, want []byte }{
		{nested(MaxDepth, "[ ", " ]"), bytes.Replace(nested(MaxDepth, "[", "]"), []byte("1"), []byte("1e0"), 1)},
		{nested(MaxDepth, `{ "a" : `, " }"), bytes.Replace(nested(MaxDepth, `{"a":`, "}"), []byte("1"), []byte("1e0"), 1)},
	} {
		expect.Check(t, Check(tc.value, MaxDepth))
		if got := AppendCanonical(nil, tc.value); !bytes.Equal(got, tc.want) {
			t.Errorf("got %.40q…, want %.40q…", got, tc.want)
		}
	}
	for _, unchecked := range []string{"[", `{"a":`} {
		Digest(nested(5_000_000, unchecked, "]"))
	}
}

func TestCanonicalNumbers(t *testing.T) {
	for want, spellings := range map[string][]string{
		`0`: {`0`, `-0`, `0.0`, `-0.000`, `0e5`, `0E-999999999999999999999`,
			`-0.0e+99999999999999999999`},
		`1e0`: {`1`, `1.0`, `1e0`, `1E+0`, `1e-0`, `10e-1`, `0.1e1`, `0.001e003`,
			`1000e-00003`},
		`-1e0`:                  {`-1`, `-1.0`, `-0.1e1`},
		`-15e2`:                 {`-1500`, `-1.5e3`, `-150000e-2`},
		`25e-2`:                 {`0.25`, `25e-2`, `0.250`, `2.5e-1`},
		`101e-1`:                {`10.1`, `1.01e1`, `0.101e2`, `1010e-2`},
		`1e1`:                   {`10`, `10.0`, `1e1`},
		`9007199254740992e0`:    {`9007199254740992`, `9007199254740992.0`},
		`9007199254740993e0`:    {`9007199254740993`, `9.007199254740993e15`},
		`1e400`:                 {`1E400`, `10e399`, `0.1e401`},
		`1e9223372036854775808`: {`1e9223372036854775808`, `10e9223372036854775807`, `0.01e9223372036854775810`},
		`1e-9223372036854775809`: {`1e-9223372036854775809`, `10e-9223372036854775810`,
			`0.1e-9223372036854775808`},
		`1e999999999999999999`:              {`1e999999999999999999`, `0.1e1000000000000000000`, `10e999999999999999998`},
		`1e1000000000000000000`:             {`10e999999999999999999`, `1e1000000000000000000`, `0.1e0001000000000000000001`},
		`1e-999999999999999999`:             {`10e-1000000000000000000`, `1e-999999999999999999`},
		`1e-1000000000000000000`:            {`0.1e-999999999999999999`, `1e-1000000000000000000`},
		`1e999999999999999999999`:           {`1e999999999999999999999`, `1.00e+0999999999999999999999`},
		`1e1000000000000000000000`:          {`10e999999999999999999999`, `1e1000000000000000000000`},
		`12e-` + strings.Repeat("9", 50):    {`1.2e-` + strings.Repeat("9", 49) + `8`, `120e-1` + strings.Repeat("0", 50)},
		`1e` + "1" + strings.Repeat("0", 9): {`1e1000000000`},
	} {
		for _, spelling := range spellings {
			if err := Check([]byte(spelling), 0); err != nil {
				t.Errorf("Check(%s) = %v", spelling, err)
			}
			if got := string(AppendCanonical(nil, []byte(spelling))); got != want {
				t.Errorf("canonical form of %s is %s, want %s", spelling, got, want)
			}
		}
	}
}

// The numbers of RFC 8785, appendix B, and others that the form of ECMAScript has to tell apart.
func TestJCSNumbers(t *testing.T) {
	for value, want := range map[string]string{
		"-0": "0", "0.0e7": "0", "1": "1", "1.0": "1", "10e-1": "1", "-1500": "-1500", "0.25": "0.25", "-12.5": "-12.5",
		"4.50": "4.5", "2e-3": "0.002", "1E30": "1e+30", "1e20": "100000000000000000000", "1e21": "1e+21",
		"1e-6": "0.000001", "1e-7": "1e-7", "123e-9": "1.23e-7", "9.999999999999997e22": "9.999999999999997e+22",
		"333333333.33333329": "333333333.33333329", "295147905179352830000": "295147905179352830000",
		"-1.7976931348623157e308": "-1.7976931348623157e+308", "0.000001": "0.000001", "5e-324": "5e-324",
		"9007199254740993":       "9007199254740993", // no float64 has it
		"1e99999999999999999999": "1e+99999999999999999999", "12e-99999999999999999999": "1.2e-99999999999999999998",
	} {
		doc := []byte(`{"b":[` + value + `],"a":"\u003c"}`)
		if got, want := string(AppendJCS(nil, doc)), `{"a":"<","b":[`+want+`]}`; got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}

// What encoding/json writes of a float64 is the number of RFC 8785.
func TestJCSNumbersAreThoseOfFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		want, err := json.Marshal(f)
		if err != nil {
			t.Skip("not a number of JSON")
		}
		if got := AppendJCS(nil, strconv.AppendFloat(nil, f, 'e', -1, 64)); string(got) != string(want) && f != 0 {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Two numbers share a form exactly if they are equal, as math/big sees it.
func TestNumbersShareAFormOnlyIfEqual(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringMatching(`-?(0|[1-9][0-2]{0,3})(\.[0-2]{1,4})?([eE][-+]?[0-4]{1,2})?`).Draw(t, "number")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		p, q := AppendCanonical(nil, []byte(a)), AppendCanonical(nil, []byte(b))
		if (x.Cmp(y) == 0) != bytes.Equal(p, q) {
			t.Fatalf("%s is %s and %s is %s", a, p, b, q)
		}
		if z, _ := new(big.Rat).SetString(string(p)); x.Cmp(z) != 0 {
			t.Fatalf("%s became %s", a, p)
		}
	})
}

func TestExponentsAddExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exponent := rapid.StringMatching(`-?0{0,3}([0-9]{1,17}|[0-9]{16,21}|9{15,22}|10{15,22})`).Draw(t, "exponent")
		shift := rapid.IntRange(-1<<50, 1<<50).Draw(t, "shift")
		want, _ := new(big.Int).SetString(exponent, 10)
		want.Add(want, big.NewInt(int64(shift)))
		if got := string(appendExponent(nil, []byte(exponent), shift)); got != want.String() {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestCompareUTF16(t *testing.T) {
	runes := rapid.StringOf(
		rapid.SampledFrom([]rune("\x00aé\u07ff\u0800\ud7ff\ue000\uefff\uf000\uffff\U00010000😀\U0010ffff")))
	rapid.Check(t, func(t *rapid.T) {
		a, b := runes.Draw(t, "a"), runes.Draw(t, "b")
		want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		if got := compareUTF16([]byte(a), []byte(b)); cmp.Compare(got, 0) != want {
			t.Fatalf("compareUTF16(%q, %q) = %d, want %d", a, b, got, want)
		}
	})
}

// tree is a JSON value: nil, bool, number, string, []tree or map[string]tree.
type tree any

// number is coefficient × 10^exponent.
type number struct {
	coefficient int64
	exponent    int
}

func trees(depth int) *rapid.Generator[tree] {
	return rapid.Custom(func(t *rapid.T) tree {
		kinds := 5
		if depth == 0 {
			kinds = 3
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return number{rapid.Int64().Draw(t, "coefficient"), rapid.IntRange(-30, 30).Draw(t, "exponent")}
		case 3:
			return rapid.String().Draw(t, "string")
		case 4:
			return rapid.SliceOfN(trees(depth-1), 0, 4).Draw(t, "array")
		default:
			return rapid.MapOfN(rapid.String(), trees(depth-1), 0, 40).Draw(t, "object")
		}
	})
}

// spell writes v in one of its many spellings, which r picks.
func spell(b *strings.Builder, v tree, r *rand.Rand) {
	space := func() {
		for r.IntN(4) == 0 {
			b.WriteByte(" \t\r\n"[r.IntN(4)])
		}
	}
	space()
	defer space()
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		fmt.Fprint(b, v)
	case number:
		spellNumber(b, v, r)
	case string:
		spellString(b, v, r)
	case []tree:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(b, e, r)
		}
		space()
		b.WriteByte(']')
	case map[string]tree:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(b, name, r)
			b.WriteByte(':')
			spell(b, v[name], r)
		}
		space()
		b.WriteByte('}')
	default:
		panic(fmt.Sprintf("%T is no tree", v))
	}
}

func spellNumber(b *strings.Builder, n number, r *rand.Rand) {
	digits, negative := strings.CutPrefix(strconv.FormatInt(n.coefficient, 10), "-")
	zeros := r.IntN(3)
	digits += strings.Repeat("0", zeros)
	exponent := n.exponent - zeros
	if negative {
		b.WriteByte('-')
	}
	if point := r.IntN(len(digits) + 1); point == 0 {
		pad := strings.Repeat("0", r.IntN(3))
		digits, exponent = "0."+pad+digits, exponent+len(digits)+len(pad)
	} else if point < len(digits) && digits[0] != '0' {
		digits, exponent = digits[:point]+"."+digits[point:], exponent+len(digits)-point
	} else if digits[0] == '0' {
		digits = "0"
	}
	b.WriteString(digits)
	if exponent != 0 || r.IntN(2) == 0 {
		e := fmt.Sprintf([]string{"%d", "%+d", "%03d", "%+06d"}[r.IntN(4)], exponent)
		b.WriteString([]string{"e", "E"}[r.IntN(2)] + e)
	}
}

func spellString(b *strings.Builder, s string, r *rand.Rand) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	b.WriteByte('"')
	for _, c := range s {
		how := r.IntN(3)
		if escape := short[c]; how == 0 && escape != "" {
			b.WriteString(escape)
		} else if how == 1 && c >= ' ' && c != '"' && c != '\\' {
			b.WriteRune(c)
		} else {
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], unit)
			}
		}
	}
	b.WriteByte('"')
}

func TestDigestIgnoresSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := trees(3).Draw(t, "tree")
		seed := rapid.Uint64().Draw(t, "spelling")
		var a, b strings.Builder
		spell(&a, v, rand.New(rand.NewPCG(seed, 1)))
		spell(&b, v, rand.New(rand.NewPCG(seed, 2)))
		for _, doc := range []string{a.String(), b.String()} {
			if err := Check([]byte(doc), 8); err != nil {
				t.Fatalf("Check(%s) = %v", doc, err)
			}
			if got, want := string(AppendCanonical(nil, []byte(doc))), reference(t, doc); got != want {
				t.Fatalf("canonical form\n got %s\nwant %s", got, want)
			}
		}
		if Digest([]byte(a.String())) != Digest([]byte(b.String())) {
			t.Fatalf("two spellings of a value have two digests:\n%s\n%s", &a, &b)
		}
	})
}

// Any change to any one place of a value changes its digest.
func TestDigestTellsValuesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := trees(3).Draw(t, "tree")
		seed := rapid.Uint64().Draw(t, "spelling")
		r := rand.New(rand.NewPCG(seed, 1))
		var a, b strings.Builder
		spell(&a, v, r)
		spell(&b, change(v, r), r)
		if Digest([]byte(a.String())) == Digest([]byte(b.String())) {
			t.Fatalf("two values have one digest:\n%s\n%s", &a, &b)
		}
	})
}

func change(v tree, r *rand.Rand) tree {
	switch v := v.(type) {
	case nil:
		return []tree{false, number{}, "", "null", []tree{}, map[string]tree{}}[r.IntN(6)]
	case bool:
		return []tree{!v, nil, fmt.Sprint(v)}[r.IntN(3)]
	case number:
		if r.IntN(2) == 0 && v.coefficient != 0 {
			return number{v.coefficient, v.exponent + 1}
		}
		return number{v.coefficient ^ 1, v.exponent}
	case string:
		switch i := r.IntN(len(v) + 1); {
		case i < len(v) && v[i] < 0x7f:
			return v[:i] + string(rune(v[i]+1)) + v[i+1:]
		case r.IntN(2) == 0:
			return []tree{v}
		}
		return v + "\x00"
	case []tree:
		if len(v) == 0 {
			return map[string]tree{}
		}
		v = slices.Clone(v)
		i := r.IntN(len(v))
		switch r.IntN(3) {
		case 0:
			return append(v, v[i])
		case 1:
			return slices.Delete(v, i, i+1)
		}
		v[i] = change(v[i], r)
		return v
	case map[string]tree:
		changed := map[string]tree{}
		names := make([]string, 0, len(v))
		for name, e := range v {
			names = append(names, name)
			changed[name] = e
		}
		slices.Sort(names)
		if len(names) == 0 {
			return map[string]tree{"": nil}
		}
		name := names[r.IntN(len(names))]
		switch r.IntN(3) {
		case 0:
			delete(changed, name)
		case 1: // rename, to what no other member is called
			delete(changed, name)
			changed[strings.Join(names, "")+"x"] = v[name]
		default:
			changed[name] = change(v[name], r)
		}
		return changed
	}
	panic(fmt.Sprintf("%T is no tree", v))
}

// reference is the canonical form of a checked document the slow and obvious
// way. Exponents must be small.
func reference(t fataler, doc string) string {
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json: %v", err)
	}
	var write func(v any) string
	write = func(v any) string {
		switch v := v.(type) {
		case json.Number:
			return referenceNumber(t, string(v))
		case string:
			var b strings.Builder
			for _, c := range v {
				if i := strings.IndexRune("\b\t\n\f\r\"\\", c); i >= 0 {
					b.WriteString(`\` + `btnfr"\`[i:i+1])
				} else if c < ' ' {
					fmt.Fprintf(&b, `\u%04x`, c)
				} else {
					b.WriteRune(c)
				}
			}
			return `"` + b.String() + `"`
		case []any:
			var elements []string
			for _, e := range v {
				elements = append(elements, write(e))
			}
			return "[" + strings.Join(elements, ",") + "]"
		case map[string]any:
			var names []string
			for name := range v {
				names = append(names, name)
			}
			slices.SortFunc(names, func(a, b string) int {
				return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
			})
			var members []string
			for _, name := range names {
				members = append(members, write(name)+":"+write(v[name]))
			}
			return "{" + strings.Join(members, ",") + "}"
		}
		return strings.ReplaceAll(fmt.Sprint(v), "<nil>", "null")
	}
	return write(v)
}

func referenceNumber(t fataler, s string) string {
	x, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("math/big refuses %s", s)
	}
	if x.Sign() == 0 {
		return "0"
	}
	exponent, ten := 0, big.NewRat(10, 1)
	for !x.IsInt() {
		x.Mul(x, ten)
		exponent--
	}
	for {
		y := new(big.Rat).Quo(x, ten)
		if !y.IsInt() {
			break
		}
		x, exponent = y, exponent+1
	}
	return fmt.Sprintf("%se%d", x.Num(), exponent)
}

type fataler interface{ Fatalf(string, ...any) }

// FuzzCanonical gives arbitrary bytes to all that wants checked ones, and holds
// the laws of the canonical form against those that pass.
func FuzzCanonical(f *testing.F) {
	for _, doc := range seeds {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var walk func(value []byte)
		walk = func(value []byte) {
			TypeOf(value)
			String(value)
			Get(value, "a")
			AppendCompact(nil, value)
			for _, member := range Members(value) {
				walk(member)
			}
			for element := range Elements(value) {
				walk(element)
			}
		}
		walk(doc)
		form := AppendCanonical(nil, doc)
		if Digest(doc) != sha256.Sum256(form) {
			t.Fatal("the digest is not that of the canonical form")
		}
		if Check(doc, 100) != nil {
			return
		}

		if err := Check(form, 100); err != nil {
			t.Fatalf("canonical form %q: %v", form, err)
		}
		if again := AppendCanonical(nil, form); !bytes.Equal(form, again) {
			t.Fatalf("canonical form %q has canonical form %q", form, again)
		}
		jcs := AppendJCS(nil, doc)
		if !bytes.Equal(AppendCanonical(nil, jcs), form) || !bytes.Equal(AppendJCS(nil, jcs), jcs) {
			t.Fatalf("%q is %q as RFC 8785 writes it", form, jcs)
		}
		if exponentsAreSmall(doc) {
			if want := reference(t, string(doc)); string(form) != want {
				t.Fatalf("canonical form %q, want %q", form, want)
			}
		}
		var s string
		if got, ok := String(doc); ok != (TypeOf(doc) == TypeString) {
			t.Fatalf("String is %v for type %v", ok, TypeOf(doc))
		} else if ok && (json.Unmarshal(doc, &s) != nil || s != got) {
			t.Fatalf("String is %q, encoding/json says %q", got, s)
		}
		var members map[string]json.RawMessage
		if TypeOf(doc) == TypeObject {
			expect.Check(t, json.Unmarshal(doc, &members))
		}
		n := 0
		for name, value := range Members(doc) {
			n++
			if want := members[string(name)]; !bytes.Equal(value, want) || !bytes.Equal(Get(doc, string(name)), want) {
				t.Fatalf("member %q is %q, encoding/json says %q", name, value, want)
			}
		}
		if n != len(members) {
			t.Fatalf("%d of %d members", n, len(members))
		}
		var elements []json.RawMessage
		if TypeOf(doc) == TypeArray {
			expect.Check(t, json.Unmarshal(doc, &elements))
		}
		n = 0
		for value := range Elements(doc) {
			if n >= len(elements) || !bytes.Equal(value, elements[n]) {
				t.Fatalf("element %d is %q, encoding/json says %q", n, value, elements)
			}
			n++
		}
		if n != len(elements) {
			t.Fatalf("%d of %d elements", n, len(elements))
		}
		var compact bytes.Buffer
		expect.Check(t, json.Compact(&compact, doc))
		if got := AppendCompact(nil, doc); !bytes.Equal(got, compact.Bytes()) {
			t.Fatalf("compact is %q, encoding/json says %q", got, compact.Bytes())
		}
	})
}

// exponentsAreSmall reports whether no number can trouble math/big.
func exponentsAreSmall(doc []byte) bool {
	for i, b := range doc {
		if (b == 'e' || b == 'E') && i+1 < len(doc) {
			digits := bytes.TrimLeft(doc[i+1:], "+-0")
			if skipDigits(digits, 0) > 3 {
				return false
			}
		}
	}
	return true
}
