package tap

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// An answer that is sent again, after it was refused for its credentials or not sent at all,
// carries its state again; once it was taken the state is forgotten.
func TestAnEchoIsSentAgain(t *testing.T) {
	echoes := newEchoes(&config)
	echoes.collect([]byte(`{"jsonrpc":"2.0","id":1,"method":"roots/list","state":"s"}`))
	statuses := []int{0, 401, 403, 202, 202}
	var sent []bool
	web := &roundTripper{config: &config, asked: newUnanswered(&config), echoes: echoes,
		base: roundTrip(func(req *http.Request) (*http.Response, error) {
			body := expect.Must(io.ReadAll(req.Body))(t)
			status := statuses[len(sent)]
			sent = append(sent, strings.Contains(string(body), `"state":"s"`))
			if status == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		})}
	for len(sent) < len(statuses) { // the first one is sent twice
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`))
		expect.Check(t, err)
		_, _ = web.RoundTrip(req) // what becomes of the response is not what this is about
	}
	for i, want := range []bool{true, true, true, true, false} {
		if sent[i] != want {
			t.Errorf("attempt %d after the status %v: echoed %v, want %v", i+1, statuses[:i], sent[i], want)
		}
	}
}
