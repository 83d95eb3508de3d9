package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Post sends a message, and returns the last message of the response.
func Post(t testing.TB, url, body string, header ...string) (status int, message map[string]any) {
	t.Helper()
	res := Open(t, url, body, header...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, last, ok := bytes.Cut(data, []byte("data: ")); ok &&
		strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		data = last
	}
	if len(data) > 0 && json.Unmarshal(data, &message) != nil {
		message = map[string]any{"text": string(data)}
	}
	return res.StatusCode, message
}

// Open sends a message, and returns the response, which may be a stream.
func Open(t testing.TB, url, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
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
