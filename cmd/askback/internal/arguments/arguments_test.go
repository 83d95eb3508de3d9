package arguments

import (
	"encoding/json"
	"strings"
	"testing"
)

// A mistake is told by the argument and what is wanted there, not in the words of a validator.
func TestWrongArgumentsAreToldPlainly(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","additionalProperties":false,"properties":{
		"below":{"type":"integer","minimum":2,"maximum":50000000},
		"part":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},
		"even":{"type":"integer","multipleOf":2},
		"name":{"type":"string","minLength":2,"maxLength":3},
		"code":{"type":"string","pattern":"^[a-z]$"},
		"level":{"enum":["low","high"]},
		"fixed":{"const":"x"},
		"tags":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","maxLength":1}},
		"box":{"type":"object","required":["size"],"additionalProperties":false,"properties":{
			"size":{"type":"integer","maximum":9},"colour":{"type":"string"}}},
		"either":{"anyOf":[{"type":"integer","maximum":1},{"type":"string","maxLength":1}]}
	},"dependentRequired":{"even":["part"]}}`
	for _, tt := range []struct{ arguments, want string }{
		{`{"below":50000001}`, "below=50000001: want at most 50000000"},
		{`{"below":1}`, "below=1: want at least 2"},
		{`{"below":2.5}`, "below=2.5: want an integer"},
		{`{"below":3.0}`, ""},
		{`{"below":"3"}`, `below="3": want an integer`},
		{`{"part":0}`, "part=0: want more than 0"},
		{`{"part":1}`, "part=1: want less than 1"},
		{`{"even":3,"part":0.5}`, "even=3: want a multiple of 2"},
		{`{"even":2}`, `the arguments do not go together; the tool's schema says: ` +
			`{"type":"object","dependentRequired":{"even":["part"]},"additionalProperties":false}`},
		{`{"name":"x"}`, `name="x": want at least 2 characters`},
		{`{"name":"日本語四"}`, `name="日本語四": want at most 3 characters`},
		{`{"code":"A"}`, `code="A": want a value that this schema allows: {"type":"string","pattern":"^[a-z]$"}`},
		{`{"level":"mid"}`, `level="mid": want one of "low", "high"`},
		{`{"fixed":"y"}`, `fixed="y": want "x"`},
		{`{"tags":[]}`, "tags=[]: want at least 1 item"},
		{`{"tags":["a","b","c"]}`, `tags=["a","b","c"]: want at most 2 items`},
		{`{"tags":["a","bc"]}`, `tags[1]="bc": want at most 1 character`},
		{`{"tags":[1]}`, `tags[0]=1: want a string`},
		{`{"box":{}}`, "box.size is missing"},
		{`{"box":{"size":10}}`, "box.size=10: want at most 9"},
		{`{"box":{"size":1,"color":"red"}}`, `there is no argument "box.color"; did you mean colour?`},
		{`{"bos":{}}`, `there is no argument "bos"`},
		{`{"either":2}`, `either=2: want a value that this schema allows: ` +
			`{"anyOf":[{"type":"integer","maximum":1},{"type":"string","maxLength":1}]}`},
		{`{"below":3,"name":"ab","tags":["a"],"box":{"size":1},"either":"x"}`, ""},
	} {
		got := ""
		if err := ParseSchema(json.RawMessage(schema)).check(t.Context(), json.RawMessage(tt.arguments)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.arguments, got, tt.want)
		}
		if strings.Contains(got, "validating") || strings.Contains(got, "/1 ") {
			t.Errorf("%s: in the words of the validator: %s", tt.arguments, got)
		}
	}
}
