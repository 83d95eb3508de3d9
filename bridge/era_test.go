package bridge_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// A server that could not answer at the start of the bridge is as it would be without that: its tools ask.
func TestAServerThatIsAwayAtTheStart(t *testing.T) {
	behind := newBehind(t)
	var requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= 3 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		behind.HTTPHandler(nil).ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	f := newFront(t, web.URL, patient)
	res, err := host(t, f.url, "", able()).CallTool(t.Context(), &mcp.CallToolParams{
		Name: "order", Arguments: map[string]any{"item": "hat"},
	})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "red hat ordered" {
		t.Errorf("the tool answered %v, %v", res, err)
	}
}

// An era is a property of the server: sessions with one that is older begin without a probe, until it refuses to begin
// one. The call that finds this out runs in the new era.
func TestAServerChangesItsEra(t *testing.T) {
	past, modern := newScripted(t, "2025-11-25"), newScripted(t, "2026-07-28")
	var probes atomic.Int64
	var changed atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			probes.Add(1)
		}
		switch {
		case !changed.Load():
			past.ServeHTTP(w, r)
		case bytes.Contains(body, []byte(`"initialize"`)) || r.Header.Get("Mcp-Session-Id") != "":
			http.Error(w, "no sessions here", http.StatusNotFound)
		default:
			modern.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	f := newFront(t, web.URL)
	session := host(t, f.url, "", client.Options{})
	for range 2 {
		if got := told(t, session, "act"); got != "done" {
			t.Fatal(got)
		}
	}
	if n := probes.Load(); n != 1 {
		t.Errorf("an older server was probed %d times, want once", n)
	}
	changed.Store(true)
	if got := told(t, session, "act"); got != "done" {
		t.Errorf("after the change: %s", got)
	}
	if got := told(t, session, "look"); got != "done" || modern.effects != 2 {
		t.Errorf("after the change: %s, with %d effects", got, modern.effects)
	}
}
