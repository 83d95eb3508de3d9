package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/signedhook"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// posted is what a receiver has taken.
type posted struct {
	id    string
	page  *client.EventPage
	ended error
}

// endpoint is a receiver behind TLS.
type endpoint struct {
	*httptest.Server
	taken chan posted

	mu      sync.Mutex
	secrets []string
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{taken: make(chan posted, 10)}
	e.Server = httptest.NewTLSServer(&client.EventReceiver{
		Secrets: func(context.Context, string) ([]string, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.secrets, nil
		},
		Receive: func(_ context.Context, id string, page *client.EventPage, ended error) error {
			e.taken <- posted{id, page, ended}
			return nil
		},
	})
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) know(secrets ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets = secrets
}

// A subscription has events posted to its receiver, also while its secret is rotated, until it ends.
func TestEventsArePosted(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	srv := harness.NewTaskServerOn(t, new(task.MemoryStore), &askback.Options{
		Keys: harness.NewRing(t), Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Events: &askback.EventOptions{Webhooks: &askback.WebhookOptions{UncheckedTransport: e.Client().Transport}},
	}, func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, &askback.TaskSupport{Required: true},
			func(context.Context, *askback.Call, struct{}) (string, error) { return "deployed", nil })
	})
	session := connect(t, patient(), &mcp.StreamableClientTransport{Endpoint: srv.URL()}, "")
	first, second := client.NewEventSecret(), client.NewEventSecret()
	sub := &client.EventSubscription{Name: "call.ended", Arguments: map[string]any{"tool": "deploy"}, URL: e.URL + "/hook",
		Secret: first, TTL: 10 * time.Minute}
	if _, err := session.Subscribe(t.Context(), sub); codeOf(err) != -32027 {
		t.Errorf("an endpoint that does not know the secret: %v", err)
	}
	e.know(first)
	grant, err := session.Subscribe(t.Context(), sub)
	if err != nil || grant.ID == "" || grant.Cursor == "" || grant.Truncated || grant.LastError != "" ||
		!grant.RefreshBefore.Before(time.Now().Add(time.Hour)) || grant.RefreshBefore.IsZero() {
		t.Fatalf("%+v, %v", grant, err)
	}
	ends := func() {
		t.Helper()
		expect.Must(called(t, session, "deploy"))(t)
		got := <-e.taken
		if got.ended != nil || got.id != grant.ID || len(got.page.Events) != 1 || got.page.Cursor == "" ||
			!strings.Contains(string(got.page.Events[0].Data), `"status":"completed"`) {
			t.Fatalf("%+v", got)
		}
		sub.Cursor = got.page.Cursor
	}
	ends()
	sub.Secret = second
	e.know(first, second)
	again, err := session.Subscribe(t.Context(), sub)
	if err != nil || again.ID != grant.ID || again.Truncated {
		t.Errorf("%+v, %v", again, err)
	}
	e.know(second)
	ends()
	if err := session.Unsubscribe(t.Context(), sub); err != nil {
		t.Error(err)
	}
	expect.Equal(t, "the code of what has ended", codeOf(session.Unsubscribe(t.Context(), sub)), -32023)
}

func codeOf(err error) int64 {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fault.Code
	}
	return 0
}

// A grant that breaks the protocol is an error, and one without an end has none.
func TestGrants(t *testing.T) {
	response := ""
	srv := serveTasks(t, map[string]func(int, message) string{
		"events/subscribe": func(int, message) string { return response },
	})
	session := connect(t, patient(), srv.transport(), "")
	subscribe := func(with string) (*client.EventGrant, error) {
		response = `{"resultType":"complete",` + with + `}`
		sub := &client.EventSubscription{Name: "mail", URL: "https://x.example/h", Secret: "s"}
		return session.Subscribe(t.Context(), sub)
	}
	grant, err := subscribe(`"id":"s1","refreshBefore":null,"cursor":null,"truncated":true,` +
		`"deliveryStatus":{"active":false,"lastError":"timeout"}`)
	if err != nil || grant.ID != "s1" || !grant.RefreshBefore.IsZero() || grant.Cursor != "" || !grant.Truncated ||
		grant.LastError != "timeout" {
		t.Errorf("%+v, %v", grant, err)
	}
	sent, _ := srv.sent("events/subscribe")
	const want = `{"delivery":{"mode":"webhook","url":"https://x.example/h","secret":"s"},"name":"mail"}`
	expect.Equal(t, "sent", sent[0], want)
	for _, bad := range []string{
		`"refreshBefore":null`, `"id":7,"refreshBefore":null`, `"id":"","refreshBefore":null`,
		`"id":"s1","refreshBefore":"soon"`, `"id":"s1","refreshBefore":5`,
		`"id":"` + strings.Repeat("s", 300) + `","refreshBefore":null`,
		`"id":"s1","refreshBefore":null,"cursor":"` + strings.Repeat("c", 70_000) + `"`,
	} {
		if grant, err := subscribe(bad); err == nil {
			t.Errorf("%.100s is read as %+v", bad, grant)
		}
	}
}

// A receiver takes what a subscription's server has signed now, and answers what the server has to know.
func TestWhatAReceiverTakes(t *testing.T) {
	secret, other := client.NewEventSecret(), client.NewEventSecret()
	event := `{"eventId":"e1","name":"mail","timestamp":"2026-11-28T10:00:00Z","data":{"from":"bob"},"cursor":"c1"}`
	big := fmt.Sprintf(`{"eventId":"e1","name":"mail","data":%q}`, strings.Repeat("x", 256<<10))
	for _, c := range []struct {
		name, body, signedBy string
		change               func(r *http.Request)
		fails                error // of Secrets or Receive
		status               int
		taken                string
	}{
		{name: "an event", body: event, status: 204, taken: "s1 e1 c1"},
		{name: "a gap", body: `{"type":"gap","cursor":"c9"}`, status: 204, taken: "s1 truncated c9"},
		{name: "the end", body: `{"type":"terminated","error":{"code":-32024,"message":"Forbidden"}}`, status: 204,
			taken: "s1 ended -32024"},
		{name: "a challenge", body: `{"type":"verification","challenge":"a\"b"}`, status: 200},
		{name: "a challenge of a stranger", body: `{"type":"verification","challenge":"ab"}`, signedBy: other, status: 401},
		{name: "a challenge without one", body: `{"type":"verification","challenge":7}`, status: 400},
		{name: "of a stranger", body: event, signedBy: other, status: 401},
		{name: "an altered one", body: event, change: func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Replace(event, "bob", "eve", 1)))
		}, status: 401},
		{name: "an old one", body: event, change: func(r *http.Request) {
			key, _ := signedhook.Key(secret)
			signedhook.Sign(r.Header, [][]byte{key}, "e1", time.Now().Add(-6*time.Minute), []byte(event))
		}, status: 401},
		{name: "a subscription without secrets", body: event, change: func(r *http.Request) {
			r.Header.Set("X-MCP-Subscription-Id", "unknown")
		}, status: 503},
		{name: "no subscription", body: event, change: func(r *http.Request) { r.Header.Del("X-MCP-Subscription-Id") },
			status: 401},
		{name: "a long ID", body: event, change: func(r *http.Request) {
			r.Header.Set("X-MCP-Subscription-Id", strings.Repeat("s", 300))
		}, status: 401},
		{name: "another ID in the header", body: strings.Replace(event, "e1", "e2", 1), status: 410},
		{name: "an unknown type", body: `{"type":"news"}`, status: 410},
		{name: "an end without a reason", body: `{"type":"terminated"}`, status: 410},
		{name: "a long cursor", body: `{"type":"gap","cursor":"` + strings.Repeat("c", 70_000) + `"}`, status: 410},
		{name: "no event", body: `{}`, status: 410},
		{name: "no object", body: `[]`, status: 400},
		{name: "no JSON", body: `{"eventId":"e1",}`, status: 400},
		{name: "a name twice", body: `{"eventId":"e1","eventId":"e1","name":"mail"}`, status: 400},
		{name: "a large one", body: big, status: 413},
		{name: "a body that is cut off", body: event, change: func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(event[:9]), failing{}))
		}, status: 400},
		{name: "a look", body: event, change: func(r *http.Request) { r.Method = http.MethodGet }, status: 405},
		{name: "a form", body: event, change: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			status: 415},
		{name: "what cannot be kept", body: event, fails: errors.New("the disk is full"), status: 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			taken := ""
			receiver := &client.EventReceiver{
				Secrets: func(_ context.Context, id string) ([]string, error) {
					if id == "unknown" {
						return nil, nil
					}
					return []string{"no secret", secret}, nil
				},
				Receive: func(_ context.Context, id string, page *client.EventPage, ended error) error {
					switch {
					case ended != nil:
						taken = fmt.Sprint(id, " ended ", codeOf(ended))
					case page.Truncated:
						taken = id + " truncated " + page.Cursor
					default:
						taken = id + " " + page.Events[0].ID + " " + page.Cursor
					}
					return c.fails
				},
			}
			w := httptest.NewRecorder()
			r := signedPost(c.body, secret)
			if c.signedBy != "" {
				r = signedPost(c.body, c.signedBy)
			}
			if c.change != nil {
				c.change(r)
			}
			receiver.ServeHTTP(w, r)
			if w.Code != c.status || c.fails == nil && taken != c.taken {
				t.Errorf("%d, taken %q", w.Code, taken)
			}
			if w.Code == 200 && w.Body.String() != `{"challenge":"a\"b"}` {
				t.Errorf("the challenge is answered by %s", w.Body)
			}
		})
	}
	// While the secrets cannot be read, the server has to come again.
	w := httptest.NewRecorder()
	(&client.EventReceiver{Secrets: func(context.Context, string) ([]string, error) {
		return nil, errors.New("the database is away")
	}}).ServeHTTP(w, signedPost(event, secret))
	expect.Equal(t, "without secrets", w.Code, 503)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func signedPost(body, secret string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("X-MCP-Subscription-Id", "s1")
	key, _ := signedhook.Key(secret)
	signedhook.Sign(r.Header, [][]byte{key}, "e1", time.Now(), []byte(body))
	return r
}

// Whatever a server signs, a receiver takes an event with the ID of its post, a gap or an end, or nothing.
func FuzzReceiver(f *testing.F) {
	secret := client.NewEventSecret()
	for _, seed := range []string{`{"eventId":"e1","name":"mail","data":{},"cursor":"c"}`, `{"type":"gap","cursor":null}`,
		`{"type":"terminated","error":{"code":1,"message":""}}`, `{"type":"verification","challenge":"x"}`, `{"type":null}`,
		`{"type":"terminated","error":{"code":1e99}}`, "[", "{}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		takes := 0
		receiver := &client.EventReceiver{
			Secrets: func(context.Context, string) ([]string, error) { return []string{secret}, nil },
			Receive: func(_ context.Context, _ string, page *client.EventPage, ended error) error {
				takes++
				if (page == nil) == (ended == nil) ||
					page != nil && !page.Truncated && (len(page.Events) != 1 || page.Events[0].ID != "e1") {
					t.Errorf("%q is taken as %+v, %v", body, page, ended)
				}
				return nil
			},
		}
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, signedPost(body, secret))
		if (w.Code == 204) != (takes == 1) || w.Code >= 500 || w.Code == 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q: %d %s, taken %d times", body, w.Code, w.Body, takes)
		}
	})
}
