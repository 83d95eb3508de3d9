package planted_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server with any fault answers any body and any state, and does not panic.
func FuzzServer(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), "a", uint8(0))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","inputResponses":{"guest":{}}}}`),
		`{"step":-1}`, uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, state string, fault uint8) {
		o := planted.Options{Fault: planted.Faults[int(fault)%len(planted.Faults)].Name}
		c := newClient(t, o)
		var message struct {
			Method string
			Params struct{ Name, URI, TaskID string }
		}
		_ = json.Unmarshal(body, &message) // what is not JSON has no headers
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+planted.Alice)
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", message.Method)
		r.Header.Set("Mcp-Name", message.Params.Name+message.Params.URI+message.Params.TaskID)
		w := httptest.NewRecorder()
		if message.Method != "subscriptions/listen" { // whose response lasts
			c.handler.ServeHTTP(w, r)
		}
		text := expect.Must(json.Marshal(state))(t)
		for _, target := range []string{"book", "redeem"} {
			c.send("tools/call", `"name":"`+target+`","arguments":{"city":"Rome"},"requestState":`+string(text)+
				`,"inputResponses":{`+guest+`}`)
		}
	})
}
