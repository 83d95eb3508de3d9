package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// plain has a field of every kind that a shape covers.
type plain struct {
	S      string             `json:"s"`
	B      bool               `json:"b"`
	I      int                `json:"i"`
	I8     int8               `json:"i8,omitempty"`
	I16    int16              `json:"i16,omitempty"`
	I32    int32              `json:"i32,omitempty"`
	I64    int64              `json:"i64,omitzero"`
	U      uint               `json:"u,omitempty"`
	U8     uint8              `json:"u8,omitempty"`
	U16    uint16             `json:"u16,omitempty"`
	U32    uint32             `json:"u32,omitempty"`
	U64    uint64             `json:"u64,omitempty"`
	F      float64            `json:"f,omitempty"`
	F32    float32            `json:"f32,omitempty"`
	P      *string            `json:"p"`
	N      *inner             `json:"n,omitempty"`
	In     inner              `json:"in"`
	List   []inner            `json:"list"`
	Deep   [][]*int8          `json:"deep,omitempty"`
	Pair   [2]bool            `json:"pair"`
	Map    map[string]float64 `json:"map,omitempty"`
	Maps   map[string][]inner `json:"maps,omitempty"`
	Quoted string             `json:"é<"`
}

type inner struct {
	X int     `json:"x"`
	Y *uint16 `json:"y,omitempty"`
}

// special has fields whose schema leaves something to the full validator or to the decoder.
type special struct {
	inner
	Any    any                       `json:"any,omitempty"`
	Opts   map[string]any            `json:"opts,omitempty"`
	Raw    json.RawMessage           `json:"raw,omitempty"`
	Time   time.Time                 `json:"time,omitzero"`
	Upper  upper                     `json:"upper,omitempty"`
	Word   string                    `json:"word,omitempty"`
	WORD   string                    `json:"WORD,omitempty"`
	Number json.Number               `json:"number,omitempty"`
	Text   int                       `json:"text,string,omitempty"`
	Nested map[string]map[string]any `json:"nested,omitempty"`
}

// upper decodes itself.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	*u = "upper " + upper(text)
	return nil
}

func bounded() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Required: []string{"x"}, AdditionalProperties: &jsonschema.Schema{Type: "number"},
		Properties: map[string]*jsonschema.Schema{
			"x": {Type: "integer", Minimum: jsonschema.Ptr(-1.5), Maximum: jsonschema.Ptr(1e3)},
			"y": {Types: []string{"integer", "null"}, ExclusiveMinimum: jsonschema.Ptr(3.0)},
			"tags": {Types: []string{"array", "string"}, Items: &jsonschema.Schema{Type: "string"}, MinItems: jsonschema.Ptr(1),
				MaxItems: jsonschema.Ptr(2)},
			"free": {},
		},
	}
}

// loose says little of its members.
func loose() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{"list": {Type: "array"}, "free": {Description: "anything"},
			"x": {Minimum: jsonschema.Ptr(0.0)}, "map": {Type: "object"}},
	}
}

// shapeCase is a schema, with a function that makes what to decode into. An exact one is covered by its shape whole.
type shapeCase struct {
	schema *jsonschema.Schema
	into   func() any
	exact  bool
}

func shapeCases() []shapeCase {
	return []shapeCase{
		{nil, func() any { return new(plain) }, true},
		{nil, func() any { return new(inner) }, true},
		{nil, func() any { return new(map[string]plain) }, true},
		{nil, func() any { return new(special) }, false},
		{bounded(), func() any { return new(map[string]any) }, false},
		{bounded(), func() any { return new(inner) }, false},
		{loose(), func() any { return new(map[string]any) }, true},
	}
}

func (c shapeCase) arguments(t testing.TB) *Arguments {
	tool := new(mcp.Tool)
	if c.schema != nil {
		tool.InputSchema = c.schema
	}
	a := expect.Must(ForArguments(tool, reflect.TypeOf(c.into()).Elem()))(t)
	if a.shape == nil {
		t.Fatalf("%T has no shape", c.into())
	}
	return a
}

// What a shape accepts the full validator accepts, and it is decoded to the same value. What is left to the full
// validator, though it is valid, is only what a shape does not cover.
func FuzzShape(f *testing.F) {
	cases := shapeCases()
	var fast, full []*Arguments
	for _, c := range cases {
		a := c.arguments(f)
		fast, full = append(fast, a), append(full, &Arguments{schema{resolved: a.resolved}})
	}
	for _, seed := range []string{
		`{"s":"a","b":true,"i":-1,"p":null,"in":{"x":1},"list":null,"pair":[true,false],"é<":""}`,
		`{"s":"a\u00e9","b":false,"i":1e2,"p":"","in":{"x":1,"y":65535},"list":[{"x":0}],"pair":[true,false],` +
			`"\u00e9\u003c":"","map":{"a":1.5e-3},"deep":[[1,null]]}`,
		`{"x":1}`, `{"x":1.0}`, `{"x":1.5}`, `{"x":1e400}`, `{"x":9223372036854775807}`, `{"x":9223372036854775808}`,
		`{"X":1}`, `{"x":1,"y":-1}`,
		`{"x":1,"y":null}`, `{"x":1,"z":2}`, `{"x":null}`, `{}`, `{"x":-0,"tags":["a"]}`, `{"x":-1.5,"tags":[]}`,
		`{"x":1001}`,
		`{"a":{"s":"","b":true,"i":1,"p":"","in":{"x":1},"list":[],"pair":[true],"é<":""}}`,
		`{"x":1,"any":[{"a":1e999}],"opts":{},"raw":[1,2],"time":"2006-01-02T15:04:05Z","upper":"u","word":"a","WORD":"b"}`,
		`{"list":[1,[-2e308]],"free":"1e999","x":"a","map":{"a":1}}`,
		`{"list":[1,["-2e308"]],"free":[-0.5,null],"x":-1,"map":{}}`,
		`{"x":1,"text":"5","number":"7","nested":{"a":{}},"free":null}`,
	} {
		for i := range cases {
			f.Add(uint8(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, sent []byte) {
		if int(i) >= len(cases) || strictjson.Check(sent, 64) != nil || strictjson.TypeOf(sent) != strictjson.TypeObject {
			return // as the wire refuses it
		}
		accepts, floats := fast[i].shape.accepts(sent, false), allFloats(sent)
		if floats && fast[i].shape.accepts(sent, true) != accepts {
			t.Fatalf("%T: the shape says %t of %s, and knowing that the numbers are floats the opposite", cases[i].into(),
				accepts, sent)
		}
		if _, err := full[i].validate(sent); err != nil && accepts || err == nil && !accepts && cases[i].exact {
			t.Fatalf("%T: the shape says %t of %s, and the full validator %v", cases[i].into(), accepts, sent, err)
		}
		got, want := cases[i].into(), cases[i].into()
		err1, err2 := fast[i].Decode(sent, floats, got), full[i].Decode(sent, false, want)
		if (err1 == nil) != (err2 == nil) || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s decodes into %+v, %v, and without a shape into %+v, %v", sent, got, err1, want, err2)
		}
	})
}

// allFloats reports what a message's outline says of its numbers.
func allFloats(sent []byte) bool {
	var o strictjson.Outline
	return o.Check(sent, 64, strictjson.Wanted{}) == nil && o.Floats()
}

// The shape of a plain type accepts every value that the type can encode, so that the full validator is not needed.
func TestShapeAcceptsWhatItsTypeEncodes(t *testing.T) {
	input := shapeCase{into: func() any { return new(plain) }}.arguments(t)
	output := expect.Must(ForResult(new(mcp.Tool), reflect.TypeFor[plain]()))(t)
	accepted := func(v plain) bool {
		data, err := json.Marshal(v)
		if err != nil || !input.shape.accepts(data, true) || !output.shape.accepts(data, false) {
			t.Errorf("%s is left to the full validator (%v)", data, err)
		}
		return !t.Failed()
	}
	if err := quick.Check(accepted, nil); err != nil {
		t.Error(err)
	}
	if !accepted(plain{}) ||
		!accepted(plain{I: -1 << 63, U: 1<<64 - 1, U64: 1<<64 - 1, I64: 1<<63 - 1, F: 1.7976931348623157e308, F32: -3.4e38}) {
		t.Error("at the limits of a type")
	}
}

// A part of a schema that says more than a shape knows has no shape.
func TestShapeKnowsItsLimits(t *testing.T) {
	object := func(property *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": property}}
	}
	many := &jsonschema.Schema{Type: "object", Properties: make(map[string]*jsonschema.Schema)}
	for i := range 65 {
		many.Properties[string(rune('A'+i))] = &jsonschema.Schema{Type: "string"}
	}
	for says, test := range map[string]struct {
		schema *jsonschema.Schema
		value  string
		want   bool
	}{
		"a described property": {object(&jsonschema.Schema{Type: "string", Title: "A", Description: "d"}),
			`{"a":"x"}`, true},
		"a pattern":                    {object(&jsonschema.Schema{Type: "string", Pattern: "x"}), `{"a":"x"}`, false},
		"a pattern that is not needed": {object(&jsonschema.Schema{Type: "string", Pattern: "x"}), `{}`, true},
		"an enum of strings":           {object(&jsonschema.Schema{Type: "string", Enum: []any{"x"}}), `{"a":"x"}`, true},
		"none of its values":           {object(&jsonschema.Schema{Type: "string", Enum: []any{"x"}}), `{"a":"y"}`, false},
		"not a string":                 {object(&jsonschema.Schema{Enum: []any{"x"}}), `{"a":1}`, false},
		"an enum of other values":      {object(&jsonschema.Schema{Enum: []any{"x", 1.0}}), `{"a":"x"}`, false},
		"a keyword of somebody's own": {object(&jsonschema.Schema{Type: "string", Extra: map[string]any{"x": 1}}),
			`{"a":"x"}`, false},
		"no type":              {object(&jsonschema.Schema{}), `{"a":[{"b":"x"}]}`, true},
		"no type, but a range": {object(&jsonschema.Schema{Minimum: jsonschema.Ptr(1.0)}), `{"a":0}`, false},
		"another member":       {object(&jsonschema.Schema{Type: "string"}), `{"b":"x"}`, true},
		"no other members": {&jsonschema.Schema{Type: "object",
			AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}, `{"b":"x"}`, false},
		"items that may be anything":    {object(&jsonschema.Schema{Type: "array"}), `{"a":["1e999",{}]}`, true},
		"no float64 among them":         {object(&jsonschema.Schema{Type: "array"}), `{"a":["x",[1e999]]}`, false},
		"many digits":                   {object(nil), `{"a":1` + strings.Repeat("0", 308) + `}`, true},
		"too many digits":               {object(nil), `{"a":1` + strings.Repeat("0", 309) + `}`, false},
		"a required member with no say": {&jsonschema.Schema{Type: "object", Required: []string{"a"}}, `{"a":1}`, false},
		"any object":                    {&jsonschema.Schema{Type: "object"}, `{"a":[1,{"b":2.5}]}`, true},
		"any object, but no list":       {&jsonschema.Schema{Type: "object"}, `[]`, false},
		"any object of floats":          {&jsonschema.Schema{Type: "object"}, `{"a":[1e999]}`, false},
		"a dialect": {&jsonschema.Schema{Type: "object",
			Schema: "https://json-schema.org/draft/2020-12/schema"}, `{}`, false},
		"many members": {many, `{}`, false},
	} {
		for _, floats := range []bool{false, allFloats([]byte(test.value))} {
			expect.Equal(t, says, compile(test.schema).accepts([]byte(test.value), floats), test.want)
		}
	}
	a, err := ForArguments(&mcp.Tool{InputSchema: withDefault()}, reflect.TypeFor[point]())
	if err != nil || a.shape != nil {
		t.Errorf("a schema with a default has the shape %v, %v", a.shape, err)
	}
}

func TestDecodingPlainArgumentsAllocatesOnlyTheirValues(t *testing.T) {
	arguments := shapeCase{into: func() any { return new(plain) }}.arguments(t)
	sent := []byte(`{"s":"one string","b":true,"i":7,"p":null,"in":{"x":1},"list":null,"pair":[true,false],"é<":""}`)
	var into plain
	if n := testing.AllocsPerRun(100, func() {
		expect.Check(t, arguments.Decode(sent, true, &into))
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}
