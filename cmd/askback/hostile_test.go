package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// Two calls that are parked in one file at the same moment are both kept.
func TestParkingLosesNoCall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "call.json")
	if err := writePending(file, "first", false); err != nil {
		t.Fatal(err)
	}
	err := writePending(file, "second", false)
	if err == nil {
		t.Fatal("the first call was overwritten")
	}
	_, kept, _ := strings.Cut(err.Error(), "the call is in ")
	if text, err := os.ReadFile(kept); err != nil || string(text) != "second" {
		t.Errorf("the second call: %q, %v", text, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "first" {
		t.Errorf("the first call: %q, %v", text, err)
	}
	if err := writePending(file, "third", true); err != nil {
		t.Errorf("a call that was resumed from the file: %v", err)
	}
}

func TestSecretsOfAnAddressAreNotPrinted(t *testing.T) {
	if _, _, stderr := command(t, "tools", "http://bob:S3cret@127.0.0.1:1/mcp"); strings.Contains(stderr, "S3cret") {
		t.Errorf("printed: %s", stderr)
	}
}
