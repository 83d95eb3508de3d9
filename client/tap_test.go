package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// Before 2026-07-28 a server may close a response's stream and send the result on
// another one, which the client asks for with the last event's id.
func TestResultOnResumedStream(t *testing.T) {
	t.Parallel()
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

// Where the SDK's client sends the rounds, the cancellation of one is a separate message to the server, which must not
// carry the members of the round.
func TestCancellationCarriesNoAnswers(t *testing.T) {
	cancelled := make(chan message, 1)
	ctx, cancel := context.WithCancel(t.Context())
	session := connect(t, answers(),
		&mcp.LoggingTransport{Writer: io.Discard,
			Transport: wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
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
			})}, "")
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"}); err == nil {
		t.Fatal("the call was not cancelled")
	}
	m := <-cancelled
	if m.Params["requestId"] == nil || m.Params["inputResponses"] != nil || m.Params["requestState"] != nil {
		t.Errorf("the cancellation carries %s", m.Params)
	}
}

// Over HTTP a round of 2026-07-28 is cancelled by the end of its request (basic/patterns/cancellation).
func TestCancellationEndsTheRequest(t *testing.T) {
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	session := connect(t, answers(), wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method != "tools/call" {
			t.Errorf("the client sent %s", m.Method)
			return
		}
		defer close(ended)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	}), "")
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
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

// A result with content that the SDK does not know is passed on as it came, and is an error only for who wants it in
// its type.
func TestAResultThatTheSDKDoesNotKnow(t *testing.T) {
	t.Parallel()
	const result = `{"content":[{"type":"hologram","depth":3}],"structuredContent":{"n":12345678901234567890}}`
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		respond(w, m, result)
	}), "2025-11-25")
	got, next, err := session.Send(t.Context(), &client.Pending{Method: "tools/call", Params: []byte(`{"name":"t"}`)})
	if err != nil || next != nil || string(got) != result {
		t.Errorf("got %s, %v, %v", got, next, err)
	}
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if _, ok := errors.AsType[*client.ProtocolError](err); !ok {
		t.Errorf("typed: %v", err)
	}
}
