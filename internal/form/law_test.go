package form

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/exactjson"
)

// fieldOf draws a struct field, and how to draw values for it that conform. Limits stay below 2⁵³ and formats out of
// it where both is wanted for a comparison with jsonschema-go, which knows neither.
type fieldOf func(t *rapid.T) (typ reflect.Type, tags map[string]string, value func(t *rapid.T) any)

var plainFields = []fieldOf{
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) { // string
		low := rapid.IntRange(0, 5).Draw(t, "minLength")
		high := low + rapid.IntRange(0, 5).Draw(t, "span")
		runes := rapid.Rune().Filter(utf8.ValidRune)
		return reflect.TypeFor[string](), map[string]string{"minLength": strconv.Itoa(low), "maxLength": strconv.Itoa(high),
				"default": strings.Repeat("é", high)},
			func(t *rapid.T) any { return rapid.StringOfN(runes, low, high, -1).Draw(t, "string") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) { // integer
		typ := rapid.SampledFrom([]reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int32](),
			reflect.TypeFor[uint16](), reflect.TypeFor[uint64]()}).Draw(t, "type")
		low := rapid.IntRange(0, 50).Draw(t, "minimum")
		high := low + rapid.IntRange(0, 50).Draw(t, "span")
		return typ, map[string]string{"minimum": strconv.Itoa(low), "maximum": strconv.Itoa(high),
				"default": strconv.Itoa(low)},
			func(t *rapid.T) any { return rapid.IntRange(low, high).Draw(t, "integer") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) { // number
		a, b := rapid.Float64Range(-1e6, 1e6).Draw(t, "a"), rapid.Float64Range(-1e6, 1e6).Draw(t, "b")
		low, high := min(a, b), max(a, b)
		spell := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
		return reflect.TypeFor[float64](), map[string]string{"minimum": spell(low), "maximum": spell(high),
				"default": spell(low)},
			func(t *rapid.T) any { return rapid.Float64Range(low, high).Draw(t, "number") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) { // boolean
		return reflect.TypeFor[bool](), map[string]string{"default": "true"}, func(t *rapid.T) any {
			return rapid.Bool().Draw(t, "boolean")
		}
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) { // single-select
		values, tag := drawEnum(t)
		return reflect.TypeFor[severity](), map[string]string{"enum": tag, "default": values[0]},
			func(t *rapid.T) any { return rapid.SampledFrom(values).Draw(t, "choice") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) { // multi-select
		values, tag := drawEnum(t)
		low := rapid.IntRange(0, len(values)).Draw(t, "minItems")
		high := low + rapid.IntRange(0, 3).Draw(t, "span")
		return reflect.TypeFor[[]string](), map[string]string{"enum": tag, "minItems": strconv.Itoa(low),
				"maxItems": strconv.Itoa(high), "default": strings.Join(values[:low], "|")},
			func(t *rapid.T) any { return rapid.SliceOfN(rapid.SampledFrom(values), low, high).Draw(t, "choices") }
	},
}

var allFields = append(plainFields[:len(plainFields):len(plainFields)],
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[int64](), nil, func(t *rapid.T) any { return rapid.Int64().Draw(t, "int64") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[uint64](), nil, func(t *rapid.T) any { return rapid.Uint64().Draw(t, "uint64") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[float32](), nil, func(t *rapid.T) any { return rapid.Float32().Draw(t, "float32") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[float64](), nil, func(t *rapid.T) any { return rapid.Float64().Draw(t, "float64") }
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[time.Time](), nil, func(t *rapid.T) any {
			zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "offset"))
			return time.Unix(rapid.Int64Range(-62135510400, 253402210799).Draw(t, "seconds"),
				rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(zone)
		}
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[string](), map[string]string{"format": "date"}, func(t *rapid.T) any {
			return time.Unix(rapid.Int64Range(-62135510400, 253402210799).Draw(t, "seconds"), 0).UTC().Format(time.DateOnly)
		}
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[string](), map[string]string{"format": "email"}, func(t *rapid.T) any {
			return rapid.StringMatching(`[a-z]{1,20}(\.[a-z0-9+]{1,9})?@[a-z0-9]{1,9}(\.[a-z]{2,9}){0,3}`).Draw(t, "email")
		}
	},
	func(t *rapid.T) (reflect.Type, map[string]string, func(*rapid.T) any) {
		return reflect.TypeFor[string](), map[string]string{"format": "uri"}, func(t *rapid.T) any {
			return rapid.StringMatching(`[a-z][a-z0-9+.-]{0,5}://[a-z0-9.]{0,9}(:[0-9]{1,5})?(/[a-zA-Z0-9~%]{0,5}){0,3}`).Filter(
				func(s string) bool { return !strings.Contains(s, "%") }).Draw(t, "uri")
		}
	},
)

func drawEnum(t *rapid.T) (values []string, tag string) {
	values = rapid.SliceOfNDistinct(rapid.StringMatching(`[^|="\\\pC\pZ]{1,4}`), 1, 5, rapid.ID).Draw(t, "enum")
	isList := len(values) == 1 && strings.ContainsAny(values[0], ",;") // a single value that looks like several
	if !rapid.Bool().Draw(t, "titled") && !isList {
		return values, strings.Join(values, "|")
	}
	titled := make([]string, len(values))
	for i, v := range values {
		titled[i] = v + "=The " + v
	}
	return values, strings.Join(titled, "|")
}

// drawForm draws a struct type and how to draw conforming values of it. An optional field with a default is never
// left out, because then the default, and not the value, is what arrives.
func drawForm(t *rapid.T, fields []fieldOf) (reflect.Type, func(*rapid.T) reflect.Value) {
	var list []reflect.StructField
	var draws []func(t *rapid.T) any
	for i := range rapid.IntRange(0, 10).Draw(t, "fields") {
		typ, tags, draw := rapid.SampledFrom(fields).Draw(t, "field")(t)
		name, optional, withDefault := fmt.Sprintf("f%d", i), rapid.Bool().Draw(t, "optional"),
			rapid.Bool().Draw(t, "default")
		if !withDefault {
			delete(tags, "default")
		}
		if optional {
			typ = reflect.PointerTo(typ)
			if _, has := tags["default"]; !has {
				inner := draw
				draw = func(t *rapid.T) any {
					if rapid.Bool().Draw(t, "missing") {
						return nil
					}
					return inner(t)
				}
				if rapid.Bool().Draw(t, "omitempty") {
					name += ",omitempty"
				}
			}
		}
		tag := fmt.Sprintf("json:%q", name)
		for k, v := range tags {
			tag += fmt.Sprintf(" %s:%s", k, strconv.Quote(v))
		}
		list = append(list, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: typ, Tag: reflect.StructTag(tag)})
		draws = append(draws, draw)
	}
	typ := reflect.StructOf(list)
	return typ, func(t *rapid.T) reflect.Value {
		v := reflect.New(typ)
		for i, draw := range draws {
			value, field := draw(t), v.Elem().Field(i)
			if value == nil {
				continue
			}
			if field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
				field = field.Elem()
			}
			field.Set(reflect.ValueOf(value).Convert(field.Type()))
		}
		return v
	}
}

// A conforming value of any form passes and decodes to itself, and its schema survives Parse.
func TestLawConformingAnswersArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, draw := drawForm(t, allFields)
		s, err := infer(typ)
		if err != nil {
			t.Fatal(err)
		}
		want := draw(t)
		content, err := json.Marshal(want.Interface())
		if err != nil {
			t.Fatal(err)
		}
		clean, err := s.Check(content)
		if err != nil {
			t.Fatalf("%s refuses %s: %v", s.JSON(), content, err)
		}
		got := reflect.New(typ)
		if err := json.Unmarshal(clean, got.Interface()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Interface(), got.Interface()); diff != "" {
			t.Fatal(diff)
		}
		exact := reflect.New(typ)
		if err := exactjson.Unmarshal(clean, exact.Interface()); err != nil ||
			!reflect.DeepEqual(exact.Interface(), got.Interface()) {
			t.Fatalf("exactjson decodes %s into %+v, %v, in place of %+v", clean, exact, err, got)
		}
		again, err := Parse(s.JSON())
		if err != nil || string(again.JSON()) != string(s.JSON()) {
			t.Fatalf("%s does not survive Parse: %v", s.JSON(), err)
		}
		if cleaner, err := s.Check(clean); err != nil || string(cleaner) != string(clean) {
			t.Fatalf("clean is not a fixed point: %s, %s, %v", clean, cleaner, err)
		}
	})
}

// anyAnswer draws answers that are sometimes right: fields of another form, or values that belong nowhere.
func anyAnswer(t *rapid.T, names int, draw func(*rapid.T) reflect.Value) []byte {
	content, err := json.Marshal(draw(t).Interface())
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(content, &members); err != nil {
		t.Fatal(err)
	}
	for name, v := range members {
		if v == nil {
			delete(members, name) // null for missing is this package's leniency, not JSON Schema's
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		name := fmt.Sprintf("f%d", rapid.IntRange(0, names).Draw(t, "name"))
		switch v := rapid.SampledFrom([]any{"", "abcdefghijklmn", "é", 0.0, -1.0, 7.5, 30.0, 127.0, true, []any{},
			[]any{"a"}, map[string]any{}, "delete", "double", "bump"}).Draw(t, "value"); v {
		case "delete":
			delete(members, name)
		case "double":
			if list, ok := members[name].([]any); ok {
				members[name] = append(list, list...)
			}
		case "bump":
			if f, ok := members[name].(float64); ok {
				members[name] = f + 1
			}
		default:
			members[name] = v
		}
	}
	content, err = json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// On the constraints that both know, this package and jsonschema-go agree: what one accepts the other accepts.
func TestLawAgreesWithJSONSchema(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		typ, draw := drawForm(t, plainFields)
		inferred, err := infer(typ)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(inferred.JSON()) // without the ranges of Go types, which are not in the JSON
		if err != nil {
			t.Fatal(err)
		}
		var judge jsonschema.Schema
		if err := json.Unmarshal(s.JSON(), &judge); err != nil {
			t.Fatal(err)
		}
		resolved, err := judge.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
		if err != nil {
			t.Fatalf("%s: %v", s.JSON(), err)
		}
		content := anyAnswer(t, typ.NumField(), draw)
		clean, err := s.Check(content)
		if err == nil {
			var instance any
			if err := json.Unmarshal(clean, &instance); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(instance); err != nil {
				t.Fatalf("%s as %s passes %s, but: %v", content, clean, s.JSON(), err)
			}
		}
		var instance any
		if json.Unmarshal(content, &instance) != nil {
			t.Fatal("bad test")
		}
		if (resolved.Validate(instance) == nil) != (err == nil) {
			t.Fatalf("%s against %s: %v, jsonschema-go: %v", content, s.JSON(), err, resolved.Validate(instance))
		}
		if err == nil {
			accepted++
		} else {
			refused++
		}
	})
	if accepted < 3 || refused < 3 {
		t.Errorf("%d answers accepted, %d refused: the test has lost its meaning", accepted, refused)
	}
}

// numbers draws JSON numbers in every spelling.
var numbers = rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?`)

func TestLawDecimalsCompareLikeRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		if rapid.Bool().Draw(t, "close") {
			b = a + "0"
			if strings.ContainsAny(a, "eE") {
				b = strings.Replace(strings.ToLower(a), "e", "e0", 1)
				b = strings.NewReplacer("e0+", "e+0", "e0-", "e-0").Replace(b)
			}
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		d, e := parseDecimal([]byte(a)), parseDecimal([]byte(b))
		if got, want := d.compare(e), x.Cmp(y); sign(got) != want {
			t.Fatalf("%s and %s: %d, want %d", a, b, got, want)
		}
		if d.isWhole() != x.IsInt() {
			t.Fatalf("%s: whole %v", a, d.isWhole())
		}
		if d.isWhole() && string(d.appendWhole(nil)) != x.Num().String() {
			t.Fatalf("%s: %s", a, d.appendWhole(nil))
		}
	})
}

func sign(n int) int { return max(-1, min(1, n)) }
