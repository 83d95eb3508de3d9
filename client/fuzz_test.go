package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

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

// Whatever a server says of a task, it is a task with a known status and bounded times, or an
// error; and what comes of it is a result, an error, or questions that can be stored.
func FuzzTask(f *testing.F) {
	f.Add([]byte(`{"resultType":"complete","taskId":"t","status":"input_required","createdAt":"2026-11-20T10:30:00Z","lastUpdatedAt":"2026-11-20T10:40:00.5Z","ttlMs":60000,"pollIntervalMs":1e3,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}}}}`))
	f.Add([]byte(`{"taskId":"t","status":"Completed","ttl":null,"pollInterval":-1,"result":{"content":[{"type":"text","text":"x"}],"isError":false}}`))
	f.Add([]byte(`{"taskId":"t","status":"failed","error":{"code":-32603,"message":"x"},"statusMessage":"\u0000"}`))
	f.Add([]byte(`{"inputRequests":{"q":{"method":"roots/list"}},"requestState":"s"}`))
	c := New(nil)
	s := &Session{client: c, sdk: new(mcp.ClientSession)}
	f.Fuzz(func(t *testing.T, data []byte) {
		x := &exchange{method: "tasks/get"}
		if _, err := x.take(data, c.opts.Limits); err != nil {
			return
		}
		raw, _ := x.came()
		_, _ = s.asked(raw)
		got, err := s.parseTask(raw)
		if err != nil {
			return
		}
		const century = 100 * 365 * 24 * time.Hour
		if got.ID == "" || len(got.ID) > maxTaskID || taskStatus(got.Status) != got.Status || got.TTL < 0 || got.TTL > century || got.PollInterval < 0 || got.PollInterval > century {
			t.Fatalf("%+v", got)
		}
		w := &await{Session: s, id: got.ID, tasks: TasksExtension, task: got}
		if at := w.interval(); at < c.opts.Limits.MinPoll || at > c.opts.Limits.MaxPoll {
			t.Fatalf("looks every %v", at)
		}
		if got.Ended() {
			_, _ = taskResult(got.Result)
			_ = taskFault(got)
		}
		stored, err := json.Marshal(w.pending())
		if err != nil {
			t.Fatal(err)
		}
		var loaded Pending
		if err := json.Unmarshal(stored, &loaded); err != nil {
			t.Fatalf("%v: %s", err, stored)
		}
		for i, q := range loaded.Questions {
			if digest(q) != digest(got.Questions[i]) {
				t.Fatalf("the question %q is another one when it is stored", q.Key)
			}
		}
		// As a notification it is the same, or none.
		n := &news{id: got.ID, depth: c.opts.Limits.Depth, agreed: true, parse: s.parseTask, wake: make(chan struct{}, 1)}
		message := append(append([]byte(`{"jsonrpc":"2.0","method":"notifications/tasks","params":`), raw...), '}')
		if n.ends(message, []byte("1")) {
			t.Fatal("a notification ended the stream")
		}
		if told := n.take(); told == nil || told.Status != got.Status {
			t.Fatalf("told %+v", told)
		}
	})
}

// A server's interval is followed within bounds.
func TestIntervals(t *testing.T) {
	for told, want := range map[time.Duration]time.Duration{
		0: time.Second, 1: 100 * time.Millisecond, 5 * time.Second: 5 * time.Second, 365 * 24 * time.Hour: 5 * time.Minute,
	} {
		w := &await{Session: &Session{client: New(nil)}, task: &Task{PollInterval: told}}
		if got := w.interval(); got != want {
			t.Errorf("told %v, looks every %v, want %v", told, got, want)
		}
	}
}

// What a list says of its tools is what the standard library reads, too.
func FuzzTaskSupport(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b"},7,{"name":"c","execution":[]}],"nextCursor":"2"}`))
	limits := Limits{}
	limits.setDefaults()
	f.Fuzz(func(t *testing.T, data []byte) {
		x := &exchange{method: methodListTools}
		if _, err := x.take(data, limits); err != nil {
			return
		}
		raw, _ := x.came()
		all := make(map[string]string)
		if err := readTaskSupport(all, raw); err != nil {
			return
		}
		var page map[string]json.RawMessage
		var tools []json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(page["tools"], &tools); err != nil {
			t.Fatal(err)
		}
		want := make(map[string]string)
		for _, data := range tools {
			var tool, execution map[string]json.RawMessage
			var name, support any
			_ = json.Unmarshal(data, &tool) // it may be anything
			_ = json.Unmarshal(tool["name"], &name)
			_ = json.Unmarshal(tool["execution"], &execution)
			_ = json.Unmarshal(execution["taskSupport"], &support)
			if name, ok := name.(string); ok {
				want[name], _ = support.(string)
			}
		}
		if !maps.Equal(all, want) {
			t.Fatalf("got %q, want %q", all, want)
		}
		_, _ = nextCursor(raw)
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
