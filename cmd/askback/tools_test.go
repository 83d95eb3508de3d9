package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server without tools still has its prompts listed; a list that fails costs only itself.
func TestListsOfAServerWithoutTools(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&req) != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		result := map[string]string{
			"server/discover": `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],` +
				`"capabilities":{"prompts":{},"resources":{}},"ttlMs":0,"cacheScope":"public"}`,
			"prompts/list":   `"result":{"resultType":"complete","prompts":[{"name":"greet"}],"ttlMs":0,"cacheScope":"public"}`,
			"resources/list": `"error":{"code":-32603,"message":"the disk is gone"}`,
		}[req.Method]
		if result == "" {
			result = `"error":{"code":-32601,"message":"Method not found"}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, req.ID, result)
	}))
	defer server.Close()
	code, stdout, stderr := command(t, "tools", server.URL)
	if want := "Prompts, for 'askback prompt':\n\ngreet\n    no arguments\n"; code != 0 || stdout != want {
		t.Errorf("exit code %d, printed\n%s\n%s", code, stdout, stderr)
	}
	want := "askback: warning: listing the resources: the server answered with error -32603: the disk is " +
		"gone\n"
	expect.Equal(t, "warned", stderr, want)
}

// A list without end is read for a while only.
func TestEndlessLists(t *testing.T) {
	t.Parallel()
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
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s,"ttlMs":0,"cacheScope":"public"}}`,
			req.ID, result)
	}))
	defer server.Close()
	for _, args := range [][]string{{"tools", server.URL}, {"call", server.URL, "x"}, {"prompt", server.URL, "x"}} {
		n = 0
		if code, _, stderr := command(t, args...); code == 0 || n > 40 {
			t.Errorf("%v: code %d after %d requests: %s", args, code, n, stderr)
		}
	}
}
