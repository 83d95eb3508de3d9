package schema_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/schema"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Arguments that are accepted have what the schema requires and its defaults, and nothing that it excludes.
func FuzzDecode(f *testing.F) {
	type in struct {
		ID   int64          `json:"id"`
		Mode string         `json:"mode"`
		Tags []string       `json:"tags"`
		Opts map[string]any `json:"opts"`
	}
	tool := &mcp.Tool{
		InputSchema: json.RawMessage(`{"type":"object","required":["id"],"additionalProperties":false,"properties":{
		"id":{"type":"integer","minimum":1},"mode":{"enum":["fast","slow"],"default":"fast"},
		"tags":{"type":"array","items":{"type":"string"},"maxItems":3},
		"opts":{"type":"object","properties":{"deep":{"type":"boolean","default":true}}}}}`)}
	arguments := expect.Must(schema.ForArguments(tool, reflect.TypeFor[in]()))(f)
	for _, seed := range []string{`{"id":1}`, `{"id":9007199254740993,"mode":"slow","tags":["a"],"opts":{"a":1}}`,
		`{"ID":1}`, `{"id":1e400}`, `{"id":1.0,"opts":{"deep":null}}`, `{"id":1,"tags":[1]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		if strictjson.Check(sent, 64) != nil || strictjson.TypeOf(sent) != strictjson.TypeObject {
			return // as the wire refuses it
		}
		var got in
		if arguments.Decode(sent, false, &got) != nil {
			return
		}
		if got.ID < 1 || got.Mode != "fast" && got.Mode != "slow" || len(got.Tags) > 3 {
			t.Fatalf("accepted %s as %+v", sent, got)
		}
		if _, deep := got.Opts["deep"]; got.Opts != nil && !deep {
			t.Fatalf("%s has no default: %+v", sent, got)
		}
	})
}
