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
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Before 2026-07-28 a server may close a response's stream and send the result on
// another one, which the client asks for with the last event's id.
func TestResultOnResumedStream(t *testing.T) {
	t.Parallel()
	var heard message
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "tools/call":
			heard = m
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 7\nretry: 1\ndata: \n\n")
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "7":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 8\ndata: ")
			respond(w, heard, `{"content":[{"type":"text","text":"at last"}]}`)
			fmt.Fprint(w, "\n\n")
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}), "2025-11-25")
	res := expect.Must(called(t, session, "slow"))(t)
	expect.Equal(t, "the result", textOf(res), "at last")
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
	expect.Is(t, "the result", expect.Err(session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"})), context.Canceled)
	<-ended
}

func TestNameThatNoHeaderCanCarry(t *testing.T) {
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		expect.Equal(t, "Mcp-Name", r.Header.Get("Mcp-Name"), "=?base64?ZG9jOi8vVHJvbXPDuA==?=")
		respond(w, m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`)
	}), "")
	expect.Must(session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://Tromsø"}))(t)
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
	_, err = called(t, session, "t")
	if _, ok := errors.AsType[*client.ProtocolError](err); !ok {
		t.Errorf("typed: %v", err)
	}
}
