package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Post sends a message, and returns the last message of the response.
func Post(t testing.TB, url, body string, header ...string) (status int, message map[string]any) {
	t.Helper()
	res := Open(t, url, body, header...)
	defer res.Body.Close()
	data := lastMessage(res.Header, expect.Must(io.ReadAll(res.Body))(t))
	if len(data) > 0 && json.Unmarshal(data, &message) != nil {
		message = map[string]any{"text": string(data)}
	}
	return res.StatusCode, message
}

// Open sends a message, and returns the response, which may be a stream.
func Open(t testing.TB, url, body string, header ...string) *http.Response {
	t.Helper()
	req := expect.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
	setHeaders(req, header)
	return expect.Must(http.DefaultClient.Do(req))(t)
}

// setHeaders sets the headers that every message has, and these: each is a name and a value.
func setHeaders(r *http.Request, header []string) {
	all := append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, header...)
	for pair := range slices.Chunk(all, 2) {
		r.Header.Set(pair[0], pair[1])
	}
}

// lastMessage returns the last message of a response, which may be a stream.
func lastMessage(header http.Header, body []byte) []byte {
	if strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		events := bytes.Split(bytes.TrimSpace(body), []byte("\n\n"))
		_, body, _ = bytes.Cut(events[len(events)-1], []byte("data: "))
	}
	return body
}

// AsJSON decodes JSON.
func AsJSON(t testing.TB, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}
