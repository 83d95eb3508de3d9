package rounds

import (
	"encoding/json"
	"testing"
)

// FuzzPending lets anything be what was sealed of a round: it is refused, or can be encoded again.
func FuzzPending(f *testing.F) {
	for _, seed := range []string{
		`{"method":"tools/call","params":{},"round":1,"requestState":""}`,
		`{"method":"tools/call","params":{},"round":1,"questions":[{"key":"k","method":"elicitation/create",` +
			`"params":{"mode":"url","url":"https://example.com"}}]}`,
		`{"taskId":"t","tasks":"extension","questions":null}`, `{"method":"tools/call","params":{},"questions":[null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := readPending(data); err == nil {
			if _, err := json.Marshal(p); err != nil {
				t.Fatalf("%q cannot be encoded again: %v", data, err)
			}
			for _, q := range p.Questions {
				if q == nil {
					t.Fatalf("%q has a question that is nil", data)
				}
			}
		}
	})
}
