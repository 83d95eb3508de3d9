package askback_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkInteraction is a call that asks and its retry with the answer, through the
// HTTP handler without a network. What it costs a server beside a bare net/http handler
// the program in bench/ measures.
func BenchmarkInteraction(b *testing.B) {
	h := newServer(b, nil, greet).HTTPHandler(nil)
	ask := request{target: "greet", arguments: `{"place":"New York"}`}
	template := ask.http(b)
	first, err := io.ReadAll(template.Body)
	if err != nil {
		b.Fatal(err)
	}
	retry := ask
	retry.state = ask.send(b, h).asked(b, "login")
	retry.responses = octocat
	second, err := io.ReadAll(retry.http(b).Body)
	if err != nil {
		b.Fatal(err)
	}
	serve := func(body []byte) *httptest.ResponseRecorder {
		r := template.WithContext(b.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	b.ReportAllocs()
	for b.Loop() {
		if w := serve(first); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
		if w := serve(second); w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte("Hello octocat")) {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkTaskGet is a request of the extension for how a parked task stands, whose
// question it inlines.
func BenchmarkTaskGet(b *testing.B) {
	s := newTaskServer(b, b.TempDir(), nil, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + withExtension + `}}}`)
	template := request{method: "tasks/get", target: id, body: string(body)}.http(b)
	b.ReportAllocs()
	for b.Loop() {
		r := template.WithContext(b.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		w := httptest.NewRecorder()
		if s.handler.ServeHTTP(w, r); !bytes.Contains(w.Body.Bytes(), []byte("echo_input")) {
			b.Fatal(w.Body)
		}
	}
}
