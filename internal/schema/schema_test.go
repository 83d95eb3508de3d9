package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

type point struct {
	X int `json:"x"`
}

// withDefault is a schema whose member n has a default.
func withDefault() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object",
		Properties: map[string]*jsonschema.Schema{"n": {Type: "integer", Default: []byte("5")}}}
}

// nested is a schema whose member in has a member with a default.
func nested() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"in": withDefault()}}
}

// Structured output is made as the SDK makes it: a nil map is an empty object, and what the
// schema has a default for is there.
func TestOutputIsTheSDKs(t *testing.T) {
	for says, test := range map[string]struct {
		schema any
		out    any
		want   string // the structured content, or a part of the error
		text   string // further text blocks
	}{
		"a nil map":                {nil, map[string]int(nil), `{}`, `{}`},
		"a nil map with a default": {withDefault(), map[string]int(nil), `{"n":5}`, `{"n":5}`},
		"a default": {withDefault(), map[string]int{"m": 1 << 60}, `{"m":1152921504606846976,"n":5}`,
			`{"m":1152921504606846976,"n":5}`},
		"a nested default": {nested(), map[string]map[string]int{"in": {"m": 1}}, `{"in":{"m":1,"n":5}}`,
			`{"in":{"m":1,"n":5}}`},
		"no default":             {withDefault(), map[string]int{"n": 1}, `{"n":1}`, `{"n":1}`},
		"a struct":               {nil, point{1}, `{"x":1}`, `{"x":1}`},
		"a nil pointer":          {nil, (*point)(nil), `{"x":0}`, `{"x":0}`},
		"a slice":                {nil, []int{1}, `[1]`, `[1]`},
		"what does not fit":      {withDefault(), map[string]string{"n": "x"}, `does not fit its schema`, ""},
		"what cannot be encoded": {withDefault(), map[string]func(){"f": func() {}}, `cannot be encoded`, ""},
	} {
		tool := &mcp.Tool{OutputSchema: test.schema}
		r, err := ForResult(tool, reflect.TypeOf(test.out))
		if err != nil && test.schema == nil || tool.OutputSchema == nil {
			t.Errorf("%s: %v, schema %v", says, err, tool.OutputSchema)
			continue
		}
		res := new(mcp.CallToolResult)
		if err := r.Structure(res, test.out, false); err != nil {
			if strings.HasPrefix(test.want, "{") || !strings.Contains(err.Error(), test.want) || res.StructuredContent != nil {
				t.Errorf("%s: %v", says, err)
			}
			continue
		}
		got, _ := res.StructuredContent.(json.RawMessage)
		if string(got) != test.want || len(res.Content) != 1 || res.Content[0].(*mcp.TextContent).Text != test.text {
			t.Errorf("%s: got %s and %d blocks, want %s", says, got, len(res.Content), test.want)
		}
	}
	// A result without a schema, and whole results with content of their own.
	for says, test := range map[string]struct {
		out     any
		whole   bool
		content []mcp.Content
		blocks  int
	}{
		"nothing":                      {nil, false, nil, 0},
		"an object, beside content":    {point{1}, false, []mcp.Content{&mcp.TextContent{}}, 1},
		"a number, beside content":     {7, false, []mcp.Content{&mcp.TextContent{}}, 2},
		"a number, in a whole result":  {7, true, []mcp.Content{&mcp.TextContent{}}, 1},
		"an object, in a whole result": {point{1}, true, nil, 1},
	} {
		r := expect.Must(ForResult(new(mcp.Tool), reflect.TypeFor[any]()))(t)
		res := &mcp.CallToolResult{Content: test.content}
		if err := r.Structure(res, test.out, test.whole); err != nil || len(res.Content) != test.blocks ||
			(res.StructuredContent != nil) != (test.out != nil) {
			t.Errorf("%s: %d blocks, %v, %v", says, len(res.Content), res.StructuredContent, err)
		}
	}
}

// Arguments are validated, completed with defaults, and decoded by exact names; numbers keep
// their digits.
func TestArguments(t *testing.T) {
	for says, test := range map[string]struct {
		schema    any
		arguments string // nil if empty
		want      string // encoded again, or a part of the error
	}{
		"none":                  {nil, ``, `missing`},
		"as the type says":      {nil, `{"x":7}`, `{"x":7}`},
		"another type":          {nil, `{"x":"7"}`, `x`},
		"what the type has not": {nil, `{"x":1,"y":2}`, `y`},
		"in capitals":           {&jsonschema.Schema{Type: "object"}, `{"X":7}`, `{"x":0}`},
		"a schema as a map":     {map[string]any{"type": "object", "required": []any{"x"}}, `{}`, `x`},
		"a default": {map[string]any{"type": "object",
			"properties": map[string]any{"x": map[string]any{"type": "integer", "default": 9}}}, ``, `{"x":9}`},
		"a default that is not due": {map[string]any{"type": "object",
			"properties": map[string]any{"x": map[string]any{"type": "integer", "default": 9}}}, `{"x":9007199254740993}`,
			`{"x":9007199254740993}`},
		"a list": {&jsonschema.Schema{Type: "object"}, `[]`, `array`},
	} {
		tool := &mcp.Tool{InputSchema: test.schema}
		a, err := ForArguments(tool, reflect.TypeFor[point]())
		if err != nil || tool.InputSchema == nil {
			t.Fatalf("%s: %v", says, err)
		}
		var arguments []byte
		if test.arguments != "" {
			arguments = []byte(test.arguments)
		}
		var into point
		if err := a.Decode(arguments, false, &into); err != nil {
			if strings.HasPrefix(test.want, "{") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", says, err)
			}
			continue
		}
		if got, _ := json.Marshal(into); string(got) != test.want {
			t.Errorf("%s: got %s, want %s", says, got, test.want)
		}
	}
	for says, schema := range map[string]any{
		"a default that does not fit": map[string]any{"type": "object",
			"properties": map[string]any{"x": map[string]any{"type": "integer", "default": "x"}}},
		"no schema":        "x",
		"what is not JSON": func() {},
	} {
		if _, err := ForArguments(&mcp.Tool{InputSchema: schema}, reflect.TypeFor[point]()); err == nil {
			t.Errorf("%s: no error", says)
		}
	}
	tool := new(mcp.Tool)
	if _, err := ForArguments(tool, reflect.TypeFor[any]()); err != nil ||
		tool.InputSchema.(*jsonschema.Schema).Type != "object" {
		t.Errorf("any: %v, %v", tool.InputSchema, err)
	}
}

// A tag that the schema of arguments would pass over in silence is told when the tool is added.
func TestTagsOfArguments(t *testing.T) {
	type inner struct {
		Count int `json:"count" minimum:"1"`
	}
	for _, test := range []struct {
		in   any
		want string
	}{
		{struct {
			Name string `json:"name" maxLength:"3"`
		}{}, `Name: no tag is called maxLength; there are json, jsonschema`},
		{struct {
			Name string `json:"name" jsonschma:"the name"`
		}{}, "did you mean jsonschema?"},
		{struct {
			List []*struct {
				Mode string `enum:"a|b"`
			}
		}{}, "Mode: no tag is called enum"},
		{inner{}, "Count: no tag is called minimum"},
		{struct {
			Name string `json:"name" db:"x" validate:"required" title:"a" jsonschema:"the name"`
			At   time.Time
			List []inner // of a package, as far as this struct without a name is concerned
		}{}, ""},
	} {
		_, err := ForArguments(&mcp.Tool{}, reflect.TypeOf(test.in))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%T: %v, want %q", test.in, err, test.want)
		}
		if _, err := ForArguments(&mcp.Tool{InputSchema: json.RawMessage(`{"type":"object"}`)},
			reflect.TypeOf(test.in)); err != nil {
			t.Errorf("%T with a schema of its own: %v", test.in, err)
		}
	}
}
