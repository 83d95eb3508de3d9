package eventscmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// A type is streamed only if its server says so.
func TestStreams(t *testing.T) {
	list := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		result := list
		if m.Method == "server/discover" {
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,` +
				`"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer srv.Close()
	session, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: srv.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for delivery, want := range map[string]bool{
		`["poll"]`: false, `["poll","push"]`: true, `["webhook"]`: false, `[]`: false, `"push"`: false, `7`: false,
	} {
		list = `{"resultType":"complete","events":[{"name":"other","delivery":["push"]},{"name":"call.ended","delivery":` +
			delivery + `}]}`
		if got := streams(t.Context(), session, "call.ended"); got != want {
			t.Errorf("with the delivery %s: %v", delivery, got)
		}
	}
}
