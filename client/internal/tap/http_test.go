package tap

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Over HTTP the end of its stream cancels a subscription, and no message does
// (basic/patterns/cancellation, "Transport-Specific Cancellation"). The SDK (1.8.0) sends one. For
// other requests it passes.
func TestACancelledSubscriptionSendsNothing(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for name, c := range map[string]struct {
		x      *Exchange
		passes bool
	}{
		"a subscription": {&Exchange{Method: "subscriptions/listen", Notify: func(string, []byte) {}}, false},
		"a request":      {&Exchange{Method: "tasks/result", Cancelled: make(chan struct{})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			web := &roundTripper{config: &config, asked: newUnanswered(&config), base: roundTrip(func(req *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					t.Fatal(err)
				}
				sent = append(sent, string(body))
				return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: req}, nil
			})}
			for _, message := range []string{`{"jsonrpc":"2.0","id":1,"method":"tasks","params":{"a":1}}`, cancel} {
				req, err := http.NewRequestWithContext(c.x.Context(t.Context()), http.MethodPost, "http://example.com", strings.NewReader(message))
				if err != nil {
					t.Fatal(err)
				}
				res, err := web.RoundTrip(req)
				if err != nil || message == cancel && res.StatusCode != http.StatusAccepted {
					t.Fatalf("%s: %v, %v", message, res, err)
				}
			}
			if want := `{"jsonrpc":"2.0","id":1,"method":"` + c.x.Method + `","params":{"a":1}}`; sent[0] != want {
				t.Errorf("sent %s, want %s", sent[0], want)
			}
			if passes := len(sent) == 2 && sent[1] == cancel; passes != c.passes {
				t.Errorf("sent %s", sent)
			}
			if c.x.Cancelled != nil {
				select {
				case <-c.x.Cancelled:
				default:
					t.Error("the exchange does not know that the server was told")
				}
			}
		})
	}
}
