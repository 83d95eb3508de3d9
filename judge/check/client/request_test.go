package main

import (
	"encoding/json"
	"net/http"
	"testing"
)

// No body of a client makes the server panic, and a state that is read is the state that was written.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `{"id":{"a":[]},"method":7}`, `{"params":{"requestState":"","inputResponses":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1},"requestState":"\u00e9",` +
			`"inputResponses":{"confirm":{"action":"accept","content":{"confirmed":true}}},"_meta":` +
			`{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{}}}}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := &request{body: body, header: http.Header{"Mcp-Name": {"=?base64?" + string(body)}}}
		if json.Unmarshal(body, r) != nil {
			return
		}
		for _, kind := range append(kinds, "url", "tasks") {
			r.declares(kind)
		}
		_, _, _ = r.describe(), r.names("x"), r.carries("x")
		if !sameJSON(r.Params.Arguments, r.Params.Arguments) {
			t.Errorf("%s differs from itself", r.Params.Arguments)
		}
		for _, text := range r.Params.InputResponses {
			for _, kind := range kinds {
				question{kind: kind}.misfit(text)
			}
		}
		if r.Params.RequestState != nil {
			written, err := json.Marshal(map[string]any{"params": map[string]any{"requestState": *r.Params.RequestState}})
			again := new(request)
			if err != nil || json.Unmarshal(written, again) != nil || *again.Params.RequestState != *r.Params.RequestState {
				t.Errorf("%q does not come back: %v", *r.Params.RequestState, err)
			}
		}
	})
}
