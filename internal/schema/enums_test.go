package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func forArguments(t *testing.T, schema string) *Arguments {
	t.Helper()
	a, err := ForArguments(&mcp.Tool{InputSchema: json.RawMessage(schema)}, reflect.TypeFor[map[string]any]())
	expect.Check(t, err)
	return a
}

func TestEnums(t *testing.T) {
	for schema, arguments := range map[string]map[string]string{ // to a part of the error, or "" where they are valid
		`{"type":"object","properties":{"a":{"type":"string","enum":["x","y"]}}}`: {
			`{"a":"x"}`: "", `{}`: "", `{"a":"z"}`: `z is not one of "x", "y"`, `{"a":1}`: "type", `{"b":"z"}`: "",
		},
		`{"type":"object","properties":{"a":{"enum":["x"]}}}`: {`{"a":"x"}`: "", `{"a":1}`: "1 is not one of",
			`{"a":null}`: "is not one of"},
		`{"type":"object","properties":{"a":{"enum":["x",1]}}}`: {`{"a":"x"}`: "", `{"a":1}`: "", `{"a":2}`: "enum"},
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}}}`: {
			`{"a":["x","x"]}`: "", `{"a":["x","y"]}`: `/properties/a/items: enum: y is not one of "x"`,
		},
		`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"string","enum":["x"]}}`: {
			`{"a":"y","b":"x"}`: "", `{"b":"y"}`: "/additionalProperties: enum",
		},
		`{"type":"object","properties":{"a":{"anyOf":[{"enum":["x"]},{"type":"number"}]}}}`: {`{"a":"x"}`: "",
			`{"a":1}`: "", `{"a":"y"}`: "anyOf"},
		`{"type":"object","patternProperties":{"^p":{}},"additionalProperties":{"enum":["x"]}}`: {`{"p":"y","b":"x"}`: "",
			`{"b":"y"}`: "enum"},
		`{"type":"object","properties":{"a":{"enum":["x"]},"b":{"$ref":"#/properties/a"}}}`: {`{"b":"x"}`: "",
			`{"b":"y"}`: "enum"},
		`{"type":"object","properties":{"a":{"enum":["x"],"default":"x"}}}`:   {`{}`: "", `{"a":"y"}`: "enum"},
		`{"type":"object","properties":{"a":{"type":"string","enum":["é"]}}}`: {`{"a":"\u00e9"}`: ""},
	} {
		a := forArguments(t, schema)
		for arguments, want := range arguments {
			var into map[string]any
			err := a.Decode([]byte(arguments), false, &into)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: got %v, want %q", schema, arguments, err, want)
			}
		}
	}
	unsound := json.RawMessage(`{"type":"object","properties":{"a":{"enum":["x"],"default":"y"}}}`)
	if _, err := ForArguments(&mcp.Tool{InputSchema: unsound}, reflect.TypeFor[any]()); err == nil {
		t.Error("a default that is not among the values of its enum is taken")
	}
}

// A long list of values is checked against a long enum in a time that grows with their sum, and an error is short. If
// each value were compared with each, go test would end it.
func TestLargeEnums(t *testing.T) {
	values := make([]string, 200_000)
	for i := range values {
		values[i] = fmt.Sprintf(`"value %07d"`, i)
	}
	all := strings.Join(values, ",")
	huge := strings.Repeat("x", 1<<20)
	for schema, arguments := range map[string][]string{
		`{"type":"object","properties":{"a":{"type":"string","enum":[` + all + `]}}}`: {`{"a":"x"}`, `{"a":"` + huge + `"}`},
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":[` + all + `]}}}}`: {
			`{"a":[` + all + `]}`, `{"a":[` + all + `,"x"]}`, `{"a":[` + all + `],"b":1e400}`, `{"a":["` + huge + `"]}`,
		},
		`{"type":"object","additionalProperties":false}`: {`{"` + huge + `":1}`},
	} {
		a := forArguments(t, schema)
		for i, arguments := range arguments {
			var into map[string]any
			err := a.Decode([]byte(arguments), false, &into)
			if err != nil && len(err.Error()) > 2<<10 {
				t.Errorf("%.80s %d: an error of %d bytes", schema, i, len(err.Error()))
			}
		}
	}
}
