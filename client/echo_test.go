package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
)

// wiretap records the members of a server's requests and their responses beside params and result.
type wiretap struct {
	mu             sync.Mutex
	sent, received []string
}

func (w *wiretap) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte{}
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	var m struct {
		Method string
		Result json.RawMessage
		State  json.RawMessage
	}
	if json.Unmarshal(body, &m) == nil && m.Method == "" && m.Result != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.received = append(w.received, string(m.State))
	}
	return res, err
}

// A client echoes the state of a question in a session unchanged, with the answer to that question,
// and only with Options.Drafts.
func TestTheStateOfAQuestionIsEchoed(t *testing.T) {
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), nil))(t)
	askback.AddTool(srv, &mcp.Tool{Name: "two"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			type name struct {
				Name string `json:"name"`
			}
			a, err1 := askback.Elicit[name](call, "a", "A?")
			b, err2 := askback.Elicit[name](call, "b", "B?")
			return a.Name + b.Name, errors.Join(err1, err2)
		})
	// With JSON responses the questions come over the session's standalone stream.
	for _, drafts := range []struct{ server, client, json, echoed bool }{
		{true, true, false, true}, {true, true, true, true}, {true, false, false, false}, {true, false, true, false},
		{false, true, false, false}, {false, true, true, false},
	} {
		tap := new(wiretap)
		handler := srv.HTTPHandler(&askback.HTTPOptions{Drafts: drafts.server,
			Streamable: mcp.StreamableHTTPOptions{JSONResponse: drafts.json}})
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(&overheard{w, tap}, r)
		}))
		defer ts.Close()
		defer ts.CloseClientConnections() // the standalone stream
		opts := answers()
		opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": q.Message}}, nil
		}
		opts.Drafts = drafts.client
		session := connect(t, opts, &mcp.StreamableClientTransport{Endpoint: ts.URL + "?draft=state",
			HTTPClient: &http.Client{Transport: tap}}, "2025-11-25")
		for drafts.json && !tap.heard(": ok") { // the SDK begins that stream with it
			time.Sleep(time.Millisecond)
		}
		res, err := called(t, session, "two")
		if err != nil || textOf(res) != "A?B?" {
			t.Fatal(res, err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		expect.Equal(t, "answers", len(tap.received), 2)
		for _, state := range tap.received {
			if sent := strings.Join(tap.sent, ""); drafts.echoed != (state != "" && strings.Contains(sent, `"state":`+state)) ||
				!drafts.echoed && state != "" {
				t.Errorf("%+v: echoed %q of %s", drafts, state, sent)
			}
		}
		if drafts.echoed && !strings.HasPrefix(tap.received[0], `"\u0065`) {
			t.Errorf("the state is not spelled as it was: %s", tap.received[0])
		}
		if drafts.echoed && tap.received[0] == tap.received[1] {
			t.Error("both questions got the same state")
		}
	}
}

// If the answer to a question reaches another server, which does not hold the session, the call
// continues there. The client does not wait for its result.
func TestACallThatWentOnElsewhereIsLost(t *testing.T) {
	keys := harness.NewRing(t)
	for name, elsewhere := range map[string]*seal.Ring{"which goes on": keys, "which cannot open the state": nil} {
		serve := func(keys *seal.Ring) http.Handler {
			srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil),
				&askback.Options{Keys: keys}))(t)
			askback.AddTool(srv, &mcp.Tool{Name: "ask"},
				func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
					_, err := askback.Elicit[struct {
						Name string `json:"name"`
					}](call, "a", "A?")
					return "done", err
				})
			return srv.HTTPHandler(&askback.HTTPOptions{Drafts: true})
		}
		here, there := serve(keys), serve(elsewhere)
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if r.Method == http.MethodPost && !bytes.Contains(body, []byte(`"method"`)) {
				there.ServeHTTP(w, r)
				return
			}
			here.ServeHTTP(w, r)
		}))
		defer ts.Close()
		defer ts.CloseClientConnections()
		opts := answers()
		opts.Form = filling(map[string]any{"name": "x"})
		opts.Drafts = true
		session := connect(t, opts, &mcp.StreamableClientTransport{Endpoint: ts.URL + "?draft=state"}, "2025-11-25")
		ctx := harness.InTime(t)
		expect.Is(t, "answered to a server "+name, expect.Err(session.CallTool(ctx, &mcp.CallToolParams{Name: "ask"})),
			mcp.ErrSessionMissing)
	}
}

func (w *wiretap) heard(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.sent, ""), text)
}

// overheard records the events that a server sends.
type overheard struct {
	http.ResponseWriter
	tap *wiretap
}

func (o *overheard) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *overheard) Write(data []byte) (int, error) {
	o.tap.mu.Lock()
	// The same string in another spelling, which has to come back unchanged.
	sent := bytes.Replace(data, []byte(`"state":"e`), []byte(`"state":"\u0065`), 1)
	o.tap.sent = append(o.tap.sent, string(sent))
	o.tap.mu.Unlock()
	if _, err := o.ResponseWriter.Write(sent); err != nil {
		return 0, err
	}
	return len(data), nil
}
