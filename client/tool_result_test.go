package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// What is read here is what the SDK reads.
func FuzzDecodeText(f *testing.F) {
	for _, raw := range []string{
		`{"resultType":"complete","content":[{"type":"text","text":"a\u00e9\ud83d\ude00"},{"text":"b","type":"text"}],` +
			`"isError":true}`,
		`{"content":[{"type":"text"}],"resultType":"complete","structuredContent":{"n":[1e2,12345678901234567890,null,` +
			`"x"]},"_meta":{"a":{}}}`,
		`{"resultType":"complete","content":[{"type":"text","text":"a","annotations":{"priority":1}}]}`,
		`{"resultType":"complete","content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
		`{"resultType":"complete","structuredContent":7}`,
		`{"resultType":"complete","structuredContent":null,"content":null}`,
		`{"resultType":"complete","Content":[],"\u0063ontent":[]}`,
	} {
		f.Add([]byte(raw))
	}
	if decodeText([]byte(`{"resultType":"complete","content":[{"type":"text","text":"a"}],"_meta":{"a":1},`+
		`"structuredContent":{}}`)) == nil {
		f.Error("an ordinary result is left to the SDK")
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if strictjson.Check(raw, 64) != nil || strictjson.TypeOf(raw) != strictjson.TypeObject {
			return
		}
		got := decodeText(raw)
		if got == nil {
			return
		}
		want := new(mcp.CallToolResult)
		if err := want.UnmarshalJSON(raw); err != nil {
			t.Fatalf("the SDK refuses it: %v", err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(mcp.CallToolResult{}), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("(-the SDK's +ours):\n%s", diff)
		}
	})
}
