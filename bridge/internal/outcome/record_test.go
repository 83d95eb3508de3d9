package outcome

import (
	"encoding/json"
	"testing"
)

// What a bridge decodes of a stored round is either refused with an error, or means the same after it was encoded
// again.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"result":{"content":[]}}`, `{"error":{"code":-32602,"message":"no","data":[1]}}`, `{"words":"gone"}`,
		`{"sealed":"ab1.k.x"}`, `{}`, `{"result":[]}`, `{"words":"a","sealed":"b"}`, `null`, `[]`,
		`{"result":{},"result":{}}`,
		`{"method":"tools/call","params":{},"round":1,"requestState":""}`,
		`{"method":"tools/call","params":{},"round":1,"questions":[{"key":"k","method":"elicitation/create",` +
			`"params":{"mode":"url","url":"https://example.com"}}]}`,
		`{"taskId":"t","tasks":"extension","questions":null}`, `{"method":"tools/call","params":{},"questions":[null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Record
		if err := r.UnmarshalJSON(data); err == nil {
			again, err := json.Marshal(&r)
			if err != nil {
				t.Fatalf("%q cannot be encoded again: %v", data, err)
			}
			var second Record
			if err := second.UnmarshalJSON(again); err != nil || second.Words != r.Words || second.Sealed != r.Sealed {
				t.Fatalf("%q became %q: %v", data, again, err)
			}
		}
	})
}
