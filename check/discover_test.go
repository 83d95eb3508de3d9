package check

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server of another revision is not judged, whatever its lists and calls say.
func TestAServerOfAnotherRevisionIsNotJudged(t *testing.T) {
	t.Parallel()
	lists := `{"tools":[{"name":"wait","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}`
	for name, results := range map[string]map[string]string{
		"no discovery":   {"tools/list": lists, "tools/call": `{"content":[{"type":"text","text":"done"}]}`},
		"older versions": {"server/discover": `{"supportedVersions":["2025-11-25"]}`, "tools/list": lists},
		"a front":        {},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.NewDecoder(req.Body).Decode(&m) // what cannot be read has no method
			if result, ok := results[m.Method]; ok {
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no session"}}`, m.ID)
		}))
		report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL}, Allow: []string{"*"}})
		web.Close()
		expect.Check(t, err)
		if report.Judged() || report.Revision != "" || !strings.Contains(report.Stopped, "2026-07-28") {
			t.Errorf("%s: %q, %q, %+v", name, report.Revision, report.Stopped, report.Verdicts)
		}
	}
}
