package arguments

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnExampleShowsWhatAnAnswerLooksLike(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b"]}`: `{"b":"…"}`,
		`{"properties":{"b":{"type":"boolean"},"a":{"type":"number"}}}`:                  `{"a":1,"b":true}`,
		`{"properties":{"a":{"enum":["<x>","y"]},"b":{"oneOf":[{"const":"z"}]}}}`:        `{"a":"<x>","b":"z"}`,
		`{"properties":{"a":{"type":"array","items":{"enum":["x"]}},"b":{"type":"string",` +
			`"default":"dflt"}}}`: `{"a":["x"],"b":"dflt"}`,
		`{}`: `{}`,
		`[]`: `{…}`,
	} {
		if diff := cmp.Diff(want, SampleContent(json.RawMessage(schema))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", schema, diff)
		}
	}
}
