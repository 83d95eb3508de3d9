package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Whatever a server answers, the tap shows the SDK JSON, and the call's outcome is a
// result, a round or an error.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}}},"requestState":"s","_meta":{"io.github.askback-mcp/expires":"2026-11-20T12:00:00Z"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x"}}`))
	c := New(&Options{Form: func(context.Context, *Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"a": 1}}, nil
	}})
	f.Fuzz(func(t *testing.T, data []byte) {
		x := new(exchange)
		if shown := x.message(data, c.opts.Limits); json.Valid(data) && !json.Valid(shown) {
			t.Fatalf("shows %s", shown)
		}
		result, err := x.came()
		if err != nil || result == nil {
			return
		}
		call := &call{Session: &Session{client: c, sdk: new(mcp.ClientSession)}, method: "tools/call", params: json.RawMessage(`{"name":"t"}`)}
		next, err := call.outcome(result)
		if err != nil || next == nil || len(next.Questions) == 0 && next.State == "" {
			return
		}
		for _, q := range next.Questions {
			if c.check(q) == nil {
				_, _ = c.answer(t.Context(), q)
			}
		}
		stored, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		var loaded Pending
		if err := json.Unmarshal(stored, &loaded); err != nil {
			t.Fatalf("%v: %s", err, stored)
		}
		if loaded.State != next.State || len(loaded.Questions) != len(next.Questions) {
			t.Fatalf("stored %s", stored)
		}
	})
}

// A stream of events arrives at the SDK with the same data, or ends with an error.
func FuzzEvents(f *testing.F) {
	f.Add("event: message\ndata: {\"a\":\ndata: 1}\n\n: comment\r\n\r\ndata: x")
	limits := Limits{MessageBytes: 1 << 10}
	limits.setDefaults()
	f.Fuzz(func(t *testing.T, stream string) {
		if strings.Contains(stream, "result") {
			return // those the tap changes
		}
		x := new(exchange)
		in := strings.NewReader(stream)
		out, err := io.ReadAll(&tapEvents{body: io.NopCloser(in), in: bufio.NewReader(in), x: x, limits: limits})
		if err != nil {
			return
		}
		if want, got := events(stream), events(string(out)); want != got {
			t.Fatalf("%q became %q", want, got)
		}
	})
}

// events is the data of a stream's events.
func events(stream string) string {
	var all, event bytes.Buffer
	for line := range strings.SplitSeq(stream, "\n") {
		line = strings.TrimRight(line, "\r\n")
		if field, data, _ := strings.Cut(line, ":"); field == "data" {
			event.WriteString(strings.TrimPrefix(data, " ") + "\n")
		} else if line == "" && event.Len() > 0 {
			all.WriteString(event.String() + "\x00")
			event.Reset()
		}
	}
	if event.Len() > 0 {
		all.WriteString(event.String() + "\x00")
	}
	return all.String()
}

func FuzzPending(f *testing.F) {
	f.Add([]byte(`{"method":"tools/call","params":{"name":"t"},"round":1,"questions":[{"key":"q","method":"elicitation/create","params":{"message":"?"}}],"parked":"2026-11-20T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Pending
		if json.Unmarshal(data, &p) == nil {
			_ = p.Error()
			if _, err := json.Marshal(&p); err != nil {
				t.Fatal(err)
			}
		}
	})
}
