package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A list without end is read for a while only.
func TestEndlessLists(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &req) != nil {
			return
		}
		n++
		result := `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{}}`
		if strings.HasSuffix(req.Method, "/list") {
			result = fmt.Sprintf(`"tools":[],"prompts":[],"nextCursor":"%d"`, n)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s,"ttlMs":0,"cacheScope":"public"}}`, req.ID, result)
	}))
	defer server.Close()
	for _, args := range [][]string{{"tools", server.URL}, {"call", server.URL, "x"}, {"prompt", server.URL, "x"}} {
		n = 0
		if code, _, stderr := command(t, args...); code == 0 || n > 2*maxPages {
			t.Errorf("%v: code %d after %d requests: %s", args, code, n, stderr)
		}
	}
}
