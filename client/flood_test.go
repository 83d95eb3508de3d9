package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// flood is a server that answers a call with other messages of its own first, one a line, and takes no answer to them.
// Only after that, and when an answer has come, it sends the result.
type flood struct {
	messages func(yield func(string) bool)
	result   bool
}

// overHTTP serves the flood on the call's stream. An answer is a request, which gets no response.
func (f flood) overHTTP(t *testing.T) mcp.Transport {
	answered := make(chan struct{}, 1)
	return wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			for line := range f.messages {
				fmt.Fprintf(w, "data: %s\n\n", line)
			}
			w.(http.Flusher).Flush()
			if f.result {
				select {
				case <-answered:
				case <-r.Context().Done():
					return
				}
				respondOn(w, m, `{"resultType":"complete","content":[]}`)
			} else {
				<-r.Context().Done()
			}
		case m.Method == "" && r.Method == http.MethodPost:
			select {
			case answered <- struct{}{}:
			default:
			}
			<-r.Context().Done()
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
}

// inMemory serves the flood on a pipe, and reads nothing more from it.
func (f flood) inMemory(t *testing.T) mcp.Transport {
	here, there := mcp.NewInMemoryTransports()
	server := expect.Must(there.Connect(t.Context()))(t)
	go func() {
		for {
			msg, err := server.Read(t.Context())
			req, ok := msg.(*jsonrpc.Request)
			if err != nil {
				return
			}
			if !ok || !req.IsCall() {
				continue
			}
			result := discovered
			if req.Method == "tools/call" {
				for line := range f.messages {
					if msg, err = jsonrpc.DecodeMessage([]byte(line)); err == nil {
						err = server.Write(t.Context(), msg)
					}
					if err != nil {
						return
					}
				}
				if !f.result {
					return
				}
				result = `{"resultType":"complete","content":[]}`
			}
			if err := server.Write(t.Context(), &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(result)}); err != nil ||
				req.Method == "tools/call" {
				return
			}
		}
	}()
	return here
}

// pings returns requests of a server.
func pings(n int, more string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range n {
			if !yield(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"%s}`, i, more)) {
				return
			}
		}
	}
}

// soon fails the test if something takes so long that it may never end.
func soon(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// A server cannot hold a session open by asking something and then not taking the answer.
func TestClosingWaitsForNoServer(t *testing.T) {
	t.Parallel()
	f := flood{messages: pings(1, ""), result: true}
	for name, c := range map[string]struct {
		transport mcp.Transport
		version   string
	}{
		"http":   {f.overHTTP(t), "2025-11-25"},
		"memory": {f.inMemory(t), ""},
	} {
		t.Run(name, func(t *testing.T) {
			session := connect(t, client.Options{}, c.transport, c.version)
			expect.Must(called(t, session, "t"))(t)
			soon(t, "closing", func() { session.Close() })
		})
	}
}

// What a server asks before it takes the answers to what it asked before is bounded.
func TestRequestsOfAServerAreBounded(t *testing.T) {
	client.SetUnanswered(t, 256<<10)
	for name, c := range map[string]struct {
		flood
		want func(error) bool
	}{
		"many": {flood{messages: pings(3000, "")}, isLimit("requests of the server at once")},
		"large": {flood{messages: pings(20, `,"params":{"_meta":{"pad":"`+strings.Repeat("x", 16<<10)+`"}}`)},
			isLimit("bytes of the server's requests at once")},
		"unsound": {flood{messages: pings(3000, `,"ID":1,"method":"ping"`)}, func(err error) bool {
			return isProtocol(err) || isLimit("requests of the server at once")(err)
		}},
	} {
		for over, transport := range map[string]func(*testing.T) mcp.Transport{"http": c.overHTTP, "memory": c.inMemory} {
			t.Run(name+"/"+over, func(t *testing.T) {
				t.Parallel()
				version := ""
				if over == "http" {
					version = "2025-11-25"
				}
				session := connect(t, client.Options{Limits: client.Limits{MessageBytes: 64 << 10}}, transport(t), version)
				ctx := harness.InTime(t)
				if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"}); !c.want(err) {
					t.Errorf("got %.300v", err)
				}
				soon(t, "closing", func() { session.Close() })
			})
		}
	}
}

// A server of 2026-07-28 sends no requests over HTTP, and gets no answers to any (basic/transports/streamable-http,
// "Receiving Messages").
func TestARequestOnTheStreamOfACallEndsIt(t *testing.T) {
	session := connect(t, client.Options{}, flood{messages: pings(1, ""), result: true}.overHTTP(t), "")
	if _, err := called(t, session, "t"); !isProtocol(err) ||
		!strings.Contains(err.Error(), `"ping"`) {
		t.Errorf("got %v", err)
	}
	soon(t, "closing", func() { session.Close() })
}

// Requests whose answers the server took do not count.
func TestAnsweredRequestsDoNotCount(t *testing.T) {
	t.Parallel()
	const asked = 1500
	answered := make(chan struct{})
	overHTTP := wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method != "tools/call" {
			if m.Method == "" && r.Method == http.MethodPost {
				select {
				case answered <- struct{}{}:
				case <-r.Context().Done(): // it came twice, as an answer may whose connection broke
				}
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for line := range pings(asked, "") {
			fmt.Fprintf(w, "data: %s\n\n", line)
			w.(http.Flusher).Flush()
			select {
			case <-answered:
			case <-r.Context().Done():
				return
			}
		}
		respondOn(w, m, `{"resultType":"complete","content":[]}`)
	})
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for range asked {
				if err := req.Session.Ping(ctx, nil); err != nil {
					return nil, err
				}
			}
			return text("done"), nil
		})
	here, there := mcp.NewInMemoryTransports()
	expect.Must(server.Connect(t.Context(), there, nil))(t)
	for name, transport := range map[string]mcp.Transport{"http": overHTTP, "memory": here} {
		session := connect(t, client.Options{}, transport, "2025-11-25")
		if _, err := called(t, session, "t"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call ends with its context, although the program that it goes to does not read its input.
func TestACallEndsThoughNobodyReadsIt(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	answers, server := io.Pipe()
	go func() { // reads the first line only
		line, err := bufio.NewReader(&oneByte{in}).ReadBytes('\n')
		var m message
		if err := errors.Join(err, json.Unmarshal(line, &m)); err != nil {
			t.Error(err)
		}
		respond(server, m, discovered)
		fmt.Fprintln(server)
	}()
	session := connect(t, client.Options{}, &mcp.IOTransport{Reader: answers, Writer: out}, "")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	soon(t, "the call", func() {
		expect.Is(t, "the result", expect.Err(session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})),
			context.DeadlineExceeded)
	})
	soon(t, "closing", func() { session.Close() })
}

// oneByte reads no more than it is asked for.
type oneByte struct{ io.Reader }

func (r *oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// A stream ends with the response that it is for, whatever the server still sends on it.
func TestAStreamEndsWithItsResponse(t *testing.T) {
	over := make(chan struct{})
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "text/event-stream")
		respondOn(w, m, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`)
		defer close(over)
		for r.Context().Err() == nil {
			if _, err := fmt.Fprintf(w, ": %s\n\n", kilobyte); err != nil {
				return
			}
		}
	}), "")
	expect.Must(session.SDK().ListTools(t.Context(), nil))(t)
	soon(t, "the stream", func() { <-over })
}

// A stream that went too far ends its call, and is not resumed.
func TestAStreamThatGoesTooFarIsNotResumed(t *testing.T) {
	var resumed atomic.Int64
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodGet {
			resumed.Add(1)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: %d\nretry: 1\ndata: \n\ndata: ", resumed.Load())
		for range 20 << 10 {
			fmt.Fprint(w, kilobyte)
		}
	}), "")
	ctx := harness.InTime(t)
	_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
	if !isLimit(`bytes of the result of the tool "t"`)(err) || resumed.Load() > 0 {
		t.Errorf("got %v, and the stream was resumed %d times", err, resumed.Load())
	}
}
