package drafts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A stream may last as long as its session: nothing that is answered may stay until it ends,
// whether the client echoes the state or does not know it.
func TestNothingStaysOfAnsweredQuestions(t *testing.T) {
	edge := &Edge{Depth: 64, HasSession: func(string) bool { return true }}
	answer := func(body string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Mcp-Session-Id", "s")
		if w := httptest.NewRecorder(); edge.Serve(w, r, []byte(body)) {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	stream := httptest.NewRequest(http.MethodGet, "/mcp", nil)
	stream.Header.Set("Mcp-Session-Id", "s")
	w := httptest.NewRecorder()
	edge.InSession(w, stream, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for id, echo := range []string{`,"state":"x"`, ``} {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"roots/list\",\"params\":{\"_meta\":{%q:\"x\"}}}\n\n", id, MetaState)
			if len(edge.open.states) != 1 {
				t.Errorf("%d open", len(edge.open.states))
			}
			answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d%s,"result":{"roots":[]}}`, id, echo))
			if n := len(edge.open.states); n != 0 {
				t.Errorf("%d open after the answer with %q", n, echo)
			}
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"roots/list\",\"params\":{\"_meta\":{%q:\"x\"}}}\n\n", MetaState)
	}))
	if n := len(edge.open.states); n != 0 || strings.Count(w.Body.String(), `"state":"x"`) != 3 {
		t.Errorf("%d open at the end of %s", n, w.Body)
	}
}
