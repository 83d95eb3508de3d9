package arguments

import (
	"encoding/json"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestEachFieldOfAFormIsOneLine(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object","required":["mail","size"],"properties":{
			"zone":{"type":"string","oneOf":[{"const":"eu","title":"Europe"},{"const":"us","title":"us"}],"default":"eu"},
			"mail":{"type":"string","format":"email","title":"Contact","maxLength":99},
			"size":{"type":"number","minimum":0.5,"maximum":1e6,"description":"in litres"},
			"tags":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]}},
			"sure":{"type":"boolean"}}}`: `    zone  one of "eu" (Europe), "us", default "eu"
    mail  an email address, at most 99 characters, required: Contact
    size  a number, at least 0.5, at most 1000000, required: in litres
    tags  a JSON array with any of "a", "b", at least 1 item, at most 2 items
    sure  true or false
`,
		`{"type":"object","properties":{}}`: "    no fields\n",
		`{"type":"object","properties":{"x\u001b[2J":{"type":"string","description":"\u001b[2J"}}}`: "" +
			"    x\\x1b[2J  a string: \\x1b[2J\n",
		// Not a form of the protocol: a line would not tell how to fill it in.
		`{"properties":{"o":{"type":"object"}}}`: "    {\n      \"properties\": {\n        \"o\": {\n          " +
			"\"type\": \"object\"\n        }\n      }\n    }\n",
		`{"$ref":"#"}`: "    {\n      \"$ref\": \"#\"\n    }\n",
		`[]`:           "    []\n",
	} {
		expect.Diff(t, schema, want, FormRows(json.RawMessage(schema)))
	}
}
