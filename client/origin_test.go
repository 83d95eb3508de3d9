package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

const chosen = "https://mcp.example/mcp"

// network is an Internet in which one handler serves every address. A test can set its redirects.
type network struct {
	redirect func(m message, r *http.Request) (status int, location string) // zero for none

	mu     sync.Mutex
	strays []string // requests that reached an origin that was not chosen
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	var m message
	_ = json.Unmarshal(body, &m)
	if origin := r.URL.Scheme + "://" + strings.ToLower(strings.TrimSuffix(r.URL.Host, ":443")); origin != "https://mcp."+
		"example" {
		n.mu.Lock()
		n.strays = append(n.strays, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
		n.mu.Unlock()
	}
	w := httptest.NewRecorder()
	if status, location := n.redirect(m, r); status != 0 {
		http.Redirect(w, r, location, status)
		return w.Result(), nil
	}
	w.Header().Set("Content-Type", "application/json")
	switch _, answered := m.Params["requestState"]; {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == "server/discover":
		respond(w, m, discovered)
	case m.Method == "tools/call" && !answered:
		respond(w, m,
			`{"resultType":"input_required","inputRequests":{"who":`+formQuestion+`},"requestState":"secret state"}`)
	case m.Method == "tools/call":
		respond(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
	res := w.Result()
	res.Request = r
	return res, nil
}

// call connects and calls a tool that asks.
func (n *network) call(t *testing.T) (string, error) {
	return n.callOver(t, &mcp.StreamableClientTransport{Endpoint: chosen, HTTPClient: &http.Client{Transport: n}})
}

func (n *network) callOver(t *testing.T, transport mcp.Transport) (string, error) {
	session, err := client.New(&client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}}).Connect(t.Context(), transport, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	res, err := called(t, session, "ask")
	if err != nil {
		return "", err
	}
	return textOf(res), nil
}

// A client sends answers, requestState and headers only to the origin that its host chose.
func TestRedirectsToAnotherOriginAreNotFollowed(t *testing.T) {
	for _, location := range []string{
		"http://mcp.example/got", // everybody on the way can read this
		"http://mcp.example:443/got",
		"https://mcp.example:8443/got",
		"https://evil.example/got",
		"https://mcp.example.evil.example/got",
		"//evil.example/got",
		"https://mcp.example@evil.example/got",
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, when := range []string{"connecting", "calling", "answering"} {
				t.Run(fmt.Sprintf("%s %d %s", when, status, location), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { // connecting is tried again
						n := &network{redirect: func(m message, r *http.Request) (int, string) {
							_, answers := m.Params["requestState"]
							at := "connecting"
							switch {
							case answers:
								at = "answering"
							case m.Method == "tools/call":
								at = "calling"
							}
							if at != when || r.URL.Path != "/mcp" {
								return 0, ""
							}
							return status, location
						}}
						got, err := n.call(t)
						if err == nil || !strings.Contains(err.Error(), "the server redirects to another origin") {
							t.Errorf("got %q, %v", got, err)
						}
						if len(n.strays) > 0 {
							t.Errorf("these went elsewhere: %q", n.strays)
						}
					})
				})
			}
		}
	}
}

func TestRedirectsBehindALog(t *testing.T) {
	n := &network{redirect: func(_ message, r *http.Request) (int, string) {
		if r.URL.Path != "/mcp" {
			return 0, ""
		}
		return http.StatusTemporaryRedirect, "https://evil.example/got"
	}}
	_, err := n.callOver(t,
		&mcp.LoggingTransport{Writer: io.Discard,
			Transport: &mcp.StreamableClientTransport{Endpoint: chosen, HTTPClient: &http.Client{Transport: n}}})
	if err == nil || len(n.strays) > 0 {
		t.Errorf("got %v; these went elsewhere: %q", err, n.strays)
	}
}

func TestRedirectsWithinTheOriginAreFollowed(t *testing.T) {
	for _, location := range []string{"/elsewhere", "https://mcp.example/v2", "https://MCP.example:443/mcp/"} {
		n := &network{redirect: func(_ message, r *http.Request) (int, string) {
			if r.URL.Path != "/mcp" {
				return 0, ""
			}
			return http.StatusTemporaryRedirect, location
		}}
		expect.Equal(t, location, expect.Must(n.call(t))(t), "done")
	}
}

// A session also sends answers, and its ID.
func TestRedirectsOfASession(t *testing.T) {
	elsewhere := harness.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s reached another origin, with %v", r.Method, r.Header)
	}))
	transport := wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodGet: // the SDK would try it again for 18 seconds
			w.WriteHeader(http.StatusMethodNotAllowed)
		default: // the calls, the answers and the end of the session
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}
	})
	session := connect(t, client.Options{}, transport, "2025-11-25")
	_, err := called(t, session, "ask")
	expect.Fails(t, "the error", err, "another origin")
}

// A server of 2024-11-05 names the endpoint for messages.
func TestTheEndpointOfAnSSEServerIsOfItsOrigin(t *testing.T) {
	elsewhere := harness.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s reached another origin", r.Method)
	}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", elsewhere.URL)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	_, err := client.New(nil).Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: s.URL}, nil)
	// The SDK may see the end of the connection before its reason.
	if err == nil || !strings.Contains(err.Error(), "another origin") &&
		!strings.Contains(err.Error(), "connection closed") {
		t.Errorf("got %v", err)
	}
}
