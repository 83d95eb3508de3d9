package sdkfront

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// What the SDK's types drop of a request's parameters arrives behind them as it was sent.
func FuzzCarry(f *testing.F) {
	for _, params := range []string{
		`{"name":"t","arguments":{"n":9007199254740993},"inputResponses":{"q":{"action":"accept"}},"requestState":"s",` +
			`"task":{"ttl":1}}`,
		`{"name":"t","requestState":null,"_meta":{"a":1}}`,
		`{"name":"t","_meta":{"io.github.askback-mcp/exact":"{\"requestState\":\"x\",\"requestState\":\"\"}"}}`,
		`{"name":"t","_meta":{"io.github.askback-mcp/exact":"["}}`,
		`{"name":"t","_meta":7,"task":{}}`,
	} {
		f.Add([]byte(params), "7")
	}
	f.Fuzz(func(t *testing.T, params []byte, id string) {
		if strictjson.Check(params, 64) != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
			return // as the wire refuses it
		}
		rawID := []byte(id)
		if !json.Valid(rawID) {
			rawID = nil
		}
		var p mcp.CallToolParamsRaw
		if json.Unmarshal(Carry(params, rawID), &p) != nil {
			return // the SDK refuses it
		}
		got, _, err := exactParams(&mcp.CallToolRequest{Params: &p}, 64)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("no JSON: %s", got)
		}
		if meta := strictjson.Get(params, "_meta"); strictjson.Get(meta, metaExact) != nil {
			return // of the client's own choice
		}
		for _, name := range exactMembers {
			want := strictjson.Get(params, name)
			if have := strictjson.Get(got, name); (want == nil) != (have == nil) ||
				want != nil && strictjson.Digest(want) != strictjson.Digest(have) {
				t.Fatalf("%s was %s and is %s", name, want, have)
			}
		}
	})
}
