package tap

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The notification that cancels a request keeps its body, and the exchange knows that it was sent.
func TestARequestKnowsOfItsCancellation(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	var sent []string
	web := &roundTripper{config: &config, asked: newUnanswered(&config),
		base: roundTrip(func(req *http.Request) (*http.Response, error) {
			body := expect.Must(io.ReadAll(req.Body))(t)
			sent = append(sent, string(body))
			return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: req}, nil
		})}
	x := &Exchange{Method: "tasks/result", Cancelled: make(chan struct{})}
	for _, message := range []string{`{"jsonrpc":"2.0","id":1,"method":"tasks","params":{"a":1}}`, cancel} {
		req, err := http.NewRequestWithContext(x.Context(t.Context()), http.MethodPost, "http://example.com",
			strings.NewReader(message))
		expect.Check(t, err)
		if _, err := web.RoundTrip(req); err != nil {
			t.Fatalf("%s: %v", message, err)
		}
	}
	expect.Same(t, "sent", sent, []string{`{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"a":1}}`, cancel})
	select {
	case <-x.Cancelled:
	default:
		t.Error("the exchange does not know that the server was told")
	}
}

// The time for a response does not pass while the user authorizes the client.
func TestAUserHasTimeToAuthorize(t *testing.T) {
	for _, authorizes := range []bool{false, true} {
		web := &roundTripper{config: &config, asked: newUnanswered(&config), authorizes: authorizes,
			base: roundTrip(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: req}, nil
			})}
		x := &Exchange{Method: "tasks/get", Timer: time.NewTimer(time.Hour)}
		req, err := http.NewRequestWithContext(x.Context(t.Context()), http.MethodPost, "http://example.com",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tasks","params":{}}`))
		expect.Check(t, err)
		expect.Must(web.RoundTrip(req))(t)
		if runs := x.Timer.Stop(); runs == authorizes {
			t.Errorf("the SDK asks the user: %v; the timer runs: %v", authorizes, runs)
		}
	}
}
