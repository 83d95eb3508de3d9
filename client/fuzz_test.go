package client

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// sound reports whether the tap accepts a result.
func sound(result []byte) bool {
	return strictjson.Check(result, New(nil).opts.Limits.Depth) == nil &&
		strictjson.TypeOf(result) == strictjson.TypeObject
}

// For any answer of a server, the call's outcome is a result, a round or an error.
func FuzzOutcome(f *testing.F) {
	f.Add([]byte(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create",` +
		`"params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}}},` +
		`"requestState":"s","_meta":{"io.github.askback-mcp/expires":"2026-11-20T12:00:00Z"}}`))
	f.Add([]byte(`{"content":[]}`))
	c := New(&Options{Form: func(context.Context, *Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"a": 1}}, nil
	}})
	f.Fuzz(func(t *testing.T, result []byte) {
		if !sound(result) {
			return
		}
		call := &call{Session: &Session{opts: &c.opts, sdk: new(mcp.ClientSession)}, method: "tools/call",
			params: json.RawMessage(`{"name":"t"}`)}
		next, err := call.outcome(result)
		if err != nil || next == nil || len(next.Questions) == 0 && next.State == "" {
			return
		}
		for _, q := range next.Questions {
			if c.opts.check(q) == nil {
				_, _ = c.opts.answer(t.Context(), q)
			}
		}
		stored := expect.Must(json.Marshal(next))(t)
		var loaded Pending
		if err := json.Unmarshal(stored, &loaded); err != nil {
			t.Fatalf("%v: %s", err, stored)
		}
		if loaded.State != next.State || len(loaded.Questions) != len(next.Questions) {
			t.Fatalf("stored %s", stored)
		}
	})
}

// Any description of a task is read as a task with a known status and bounded times, or is an error.
// Its outcome is a result, an error, or questions that can be stored.
func FuzzTask(f *testing.F) {
	f.Add([]byte(`{"resultType":"complete","taskId":"t","status":"input_required","createdAt":"2026-11-20T10:30:00Z",` +
		`"lastUpdatedAt":"2026-11-20T10:40:00.5Z","ttlMs":60000,"pollIntervalMs":1e3,` +
		`"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object",` +
		`"properties":{"a":{"type":"integer"}}}}}}}`))
	f.Add([]byte(`{"taskId":"t","status":"Completed","ttl":null,"pollInterval":-1,"result":{"content":[{"type":"text",` +
		`"text":"x"}],"isError":false}}`))
	f.Add([]byte(`{"taskId":"t","status":"failed","error":{"code":-32603,"message":"x"},"statusMessage":"\u0000"}`))
	f.Add([]byte(`{"inputRequests":{"q":{"method":"roots/list"}},"requestState":"s"}`))
	c := New(nil)
	s := &Session{opts: &c.opts, sdk: new(mcp.ClientSession)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !sound(raw) {
			return
		}
		_, _ = parseAsked(raw, nil, &c.opts.Limits)
		got, err := parseTask(raw, nil, &c.opts.Limits)
		if err != nil {
			return
		}
		const century = 100 * 365 * 24 * time.Hour
		if got.ID == "" || len(got.ID) > maxTaskID || taskStatus(got.Status) != got.Status || got.TTL < 0 ||
			got.TTL > century || got.PollInterval < 0 || got.PollInterval > century {
			t.Fatalf("%+v", got)
		}
		w := &await{Session: s, id: got.ID, tasks: taskRequests{s, TasksExtension}, task: got}
		if at := w.interval(); at < c.opts.Limits.MinPoll || at > c.opts.Limits.MaxPoll {
			t.Fatalf("looks every %v", at)
		}
		if got.Ended() {
			_, _ = parseTaskResult(got.Result)
			_ = got.failure()
		}
		stored := expect.Must(json.Marshal(w.pending()))(t)
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
		n := newSubscription(s, got.ID)
		n.agreed = true
		n.receive(tap.MethodTask, raw)
		if told := n.take(); told == nil || told.Status != got.Status {
			t.Fatalf("told %+v", told)
		}
	})
}

// The list of tools is read in the same way as by the standard library.
func FuzzToolTasks(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b"},7,{"name":"c",` +
		`"execution":[]}],"nextCursor":"2"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !sound(raw) {
			return
		}
		all := make(map[string]string)
		items, err := itemsOf(raw, "tools")
		if err != nil {
			return
		}
		for _, item := range items {
			addToolTask(all, item)
		}
		var page map[string]json.RawMessage
		var tools []json.RawMessage
		expect.Check(t, json.Unmarshal(raw, &page))
		expect.Check(t, json.Unmarshal(page["tools"], &tools))
		want := make(map[string]string)
		for _, data := range tools {
			var tool, execution map[string]json.RawMessage
			var name, support any
			_ = json.Unmarshal(data, &tool) // the data may be anything
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

func FuzzPending(f *testing.F) {
	f.Add([]byte(`{"method":"tools/call","params":{"name":"t"},"round":1,"questions":[{"key":"q",` +
		`"method":"elicitation/create","params":{"message":"?"}}],"parked":"2026-11-20T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Pending
		if json.Unmarshal(data, &p) == nil {
			_ = (&PendingError{&p, ErrPark}).Error()
			expect.Must(json.Marshal(&p))(t)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"events":[{"eventId":"e","name":"call.ended","timestamp":"2026-11-28T10:00:00Z","data":{}}],` +
		`"cursor":"c","hasMore":true,"nextPollMs":1e9,"truncated":false}`))
	f.Add([]byte(`{"events":[null],"cursor":null,"nextPollMs":-1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !sound(raw) {
			return
		}
		page, err := parseEvents(raw, &EventPoll{Name: "call.ended", Cursor: "before"})
		if err != nil {
			return
		}
		if page.More && (page.Cursor == "" || page.Cursor == "before") ||
			len(page.Events) == 0 && page.NextPoll < time.Second {
			t.Errorf("%s is read as %+v", raw, page)
		}
		for _, e := range page.Events {
			if e.ID == "" || e.Name != "call.ended" {
				t.Errorf("%s has %+v", raw, e)
			}
		}
	})
}

func FuzzGrant(f *testing.F) {
	f.Add([]byte(`{"id":"s","refreshBefore":"2026-11-28T10:00:00Z","cursor":"c","truncated":true,` +
		`"deliveryStatus":{"lastError":"timeout"}}`))
	f.Add([]byte(`{"id":"s","refreshBefore":null,"deliveryStatus":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !sound(raw) {
			return
		}
		g, err := parseGrant(raw)
		if err == nil && (g.ID == "" || len(g.ID) > maxSubscriptionID || len(g.Cursor) > maxCursor) {
			t.Errorf("%s is read as %+v", raw, g)
		}
	})
}

// Whatever a stream says is an event of its type, a cursor within the bounds, an error, or nothing.
func FuzzEventNotifications(f *testing.F) {
	f.Add("event", []byte(`{"eventId":"e","name":"call.ended","timestamp":"2026-11-28T10:00:00Z","data":{},"cursor":"c"}`))
	f.Add("active", []byte(`{"cursor":null,"truncated":true}`))
	f.Add("terminated", []byte(`{"error":{"code":-32024,"message":"no","data":{"reason":7}}}`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		if !sound(raw) {
			return
		}
		page, err := parseNotification(wire.EventNotifications+name, raw, "call.ended")
		if page != nil && (err != nil || len(page.Cursor) > maxCursor || len(page.Events) > 1) {
			t.Errorf("%s %s is read as %+v, %v", name, raw, page, err)
		}
		if page != nil && page.Events != nil && (page.Events[0].ID == "" || page.Events[0].Name != "call.ended") {
			t.Errorf("%s has %+v", raw, page.Events[0])
		}
	})
}
