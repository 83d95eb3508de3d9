package drafts

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// ratifiedMetaJSON is the _meta of a translated request whose client declared nothing.
const ratifiedMetaJSON = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}}}`

// exchange is one POST to an edge. Responses are what the server behind the edge answers, in their order; requests
// are what it was asked.
type exchange struct {
	url, body string
	header    map[string]string
	routing   http.Header // further headers
	responses []string

	edge     *Edge // a new one if nil
	foreign  bool  // the session belongs to another caller
	requests []received
	answer   *httptest.ResponseRecorder
}

func notHeld(string) bool { return false }

// received is a request as the server behind the edge got it.
type received struct {
	Version, Method, Name, Session string // headers
	Body                           any
}

// serve sends the exchange's request and reports whether the edge answered it.
func (x *exchange) serve(t *testing.T) bool {
	t.Helper()
	if x.edge == nil {
		x.edge = new(Edge)
	}
	if x.edge.HasSession == nil {
		x.edge.HasSession = func(id string) bool { return id == "held" || id == "" }
	}
	x.edge.Depth = 16
	ratified := func(w http.ResponseWriter, r *http.Request, body []byte) {
		x.requests = append(x.requests, received{
			Version: r.Header.Get(wire.HeaderVersion), Method: r.Header.Get(wire.HeaderMethod),
			Name: r.Header.Get(wire.HeaderName), Session: r.Header.Get(headerSession), Body: decoded(t, string(body)),
		})
		w.Header().Set("Content-Type", "application/json")
		if n := len(x.requests); n <= len(x.responses) {
			if strings.Contains(x.responses[n-1], `"error":`) {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write([]byte(x.responses[n-1]))
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/mcp"+x.url, strings.NewReader(x.body))
	for name, value := range x.header {
		r.Header.Set(name, value)
	}
	for name, values := range x.routing {
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	before := r.Header.Clone()
	x.answer = httptest.NewRecorder()
	served := x.edge.Serve(x.answer, r, []byte(x.body), !x.foreign, ratified)
	expect.Diff(t, "the request itself was changed", before, r.Header)
	if !served && (len(x.requests) > 0 || x.answer.Body.Len() > 0 || x.answer.Flushed) {
		t.Errorf("passed on, and yet answered with %s", x.answer.Body)
	}
	return served
}

// decoded is JSON as go-cmp compares it, with numbers as they are spelled.
func decoded(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := strictjson.Check([]byte(text), 64); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func sameJSON(t *testing.T, want, got string) {
	t.Helper()
	expect.Diff(t, "the value", decoded(t, want), decoded(t, got))
}
