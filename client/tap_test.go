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
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

type message struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
	Result map[string]json.RawMessage `json:"result"`
}

// wireServer serves what answer writes for each message, except for discovery.
func wireServer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, m message)) *mcp.StreamableClientTransport {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			if err := json.Unmarshal(body, &m); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "server/discover":
			respond(w, m, discovered)
		case m.Method == "initialize":
			respond(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
		default:
			answer(w, r, m)
		}
	}))
	t.Cleanup(s.Close)
	return &mcp.StreamableClientTransport{Endpoint: s.URL}
}

func respond(w io.Writer, m message, result string) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// Before 2026-07-28 a server may close a response's stream and send the result on
// another one, which the client asks for with the last event's id.
func TestResultOnResumedStream(t *testing.T) {
	var called message
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "tools/call":
			called = m
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 7\nretry: 1\ndata: \n\n")
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "7":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 8\ndata: ")
			respond(w, called, `{"content":[{"type":"text","text":"at last"}]}`)
			fmt.Fprint(w, "\n\n")
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}), "2025-11-25")
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != "at last" {
		t.Errorf("got %q", got)
	}
}

// A round that is cancelled is announced to the server in a message of its own, which
// must not carry what belongs to the round.
func TestCancellationCarriesNoAnswers(t *testing.T) {
	cancelled := make(chan message, 1)
	ctx, cancel := context.WithCancel(t.Context())
	session := connect(t, answers(), wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "notifications/cancelled":
			cancelled <- m
			w.WriteHeader(http.StatusAccepted)
		case m.Params["inputResponses"] == nil:
			respond(w, m, `{"resultType":"input_required","inputRequests":{"q":`+formQuestion+`},"requestState":"s"}`)
		default:
			cancel()
			<-r.Context().Done()
		}
	}), "")
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"}); err == nil {
		t.Fatal("the call was not cancelled")
	}
	m := <-cancelled
	if m.Params["requestId"] == nil || m.Params["inputResponses"] != nil || m.Params["requestState"] != nil {
		t.Errorf("the cancellation carries %s", m.Params)
	}
}

// The SDK answers a read from its cache, as long as the server's ttlMs allows.
func TestResourceFromCache(t *testing.T) {
	reads := 0
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		reads++
		respond(w, m, `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","contents":[{"uri":"doc://a","text":"a"}]}`)
	}), "")
	for range 2 {
		res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a"})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Contents) != 1 || !strings.HasPrefix(res.Contents[0].Text, "a") {
			t.Errorf("got %v", res.Contents)
		}
	}
	if reads != 1 {
		t.Errorf("the server was asked %d times", reads)
	}
}

// Some arguments go into headers too, which the client learns from the list of tools. A
// session that never asked for it, such as one that resumes a call, catches up.
func TestHeadersOfToolNeverListed(t *testing.T) {
	srv := newServer(t, askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "regional", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
			who, err := askback.Elicit[person](call, "who", "Who are you?")
			return fmt.Sprint(who.Name, " in ", in["region"]), err
		})
	opts := answers()
	opts.Form = park
	_, err := connect(t, opts, web(t, srv), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "regional", Arguments: map[string]any{"region": "Tromsø"}})
	pending, ok := errors.AsType[*client.Pending](err)
	if !ok {
		t.Fatal(err)
	}
	res, err := connect(t, answers(), web(t, srv), "").Resume(t.Context(), pending)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text; got != "octocat in Tromsø" {
		t.Errorf("got %q", got)
	}
}

func TestNameThatNoHeaderCanCarry(t *testing.T) {
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if got := r.Header.Get("Mcp-Name"); got != "=?base64?ZG9jOi8vVHJvbXPDuA==?=" {
			t.Errorf("Mcp-Name: %q", got)
		}
		respond(w, m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`)
	}), "")
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://Tromsø"}); err != nil {
		t.Fatal(err)
	}
}
