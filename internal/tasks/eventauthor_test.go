package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

type incident struct {
	Service string `json:"service"`
	Level   int    `json:"level"`
}

type incidents struct {
	Above int `json:"above,omitempty"`
}

// emitter is a server with one type of an author's events, of which everybody but mallory may have what is not secret.
func emitter(t *testing.T, opts *askback.Options) (
	dial func(name string) harness.Ask, srv *askback.Server, emit func(id string, i incident, to ...string) error,
) {
	t.Helper()
	opts.Principal = byToken
	srv = harness.NewServer(t, opts)
	e := askback.AddEvent(srv, &askback.EventType{Name: "incident.created", Description: "An incident."},
		func(_ context.Context, principal string, args incidents, i incident) (bool, error) {
			switch i.Service {
			case "broken":
				return true, errors.New("the directory is out of order")
			case "panics":
				panic("at the disco")
			}
			return principal != "mallory" && i.Service != "secret" && i.Level > args.Above, nil
		})
	dial = func(name string) harness.Ask {
		if name == "" {
			return harness.Fronts[0].Dial(t, srv, nil)
		}
		return harness.Fronts[0].Dial(t, srv, &auth.TokenInfo{UserID: name})
	}
	return dial, srv, func(id string, i incident, to ...string) error { return e.Emit(t.Context(), id, i, to...) }
}

// incidentsOf polls all that there is since a cursor, and returns the IDs of the events and the next cursor.
func incidentsOf(t *testing.T, ask harness.Ask, arguments string, cursor any) (ids []string, next any) {
	t.Helper()
	for more := true; more; {
		page := pollEvents(t, ask, `"name":"incident.created","arguments":{%s},"cursor":%q`, arguments, cursor)
		expect.Equal(t, "the page", page["truncated"], false)
		for i := range page["events"].([]any) {
			ids = append(ids, harness.At(page, "events", i, "eventId").(string))
		}
		cursor, more = page["cursor"], page["hasMore"].(bool)
	}
	return ids, cursor
}

// What an author emits reaches all whom the match gives it, or those whom it is for, once.
func TestWhatAnAuthorEmits(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dial, _, emit := emitter(t, withEvents())
		cursors := make(map[string]any)
		for _, name := range []string{"", "alice", "bob", "mallory"} {
			cursors[name] = pollEvents(t, dial(name), `"name":"incident.created"`)["cursor"]
		}
		for _, e := range []struct {
			id      string
			i       incident
			to      []string
			ignored bool
		}{
			{"low", incident{"shop", 1}, nil, false}, {"hidden", incident{"secret", 3}, nil, false},
			{"high", incident{"shop", 2}, nil, false}, {"high", incident{"again", 2}, nil, true},
			{"to bob", incident{"shop", 3}, []string{"bob", "mallory", "bob"}, false},
			{"to alice", incident{"secret", 3}, []string{"alice"}, false},
		} {
			expect.Check(t, emit(e.id, e.i, e.to...))
			time.Sleep(time.Millisecond)
		}
		for _, c := range []struct {
			name, arguments string
			want            []string
		}{
			{"", "", []string{"low", "high"}}, {"alice", "", []string{"low", "high"}},
			{"alice", `"above":1`, []string{"high"}},
			{"bob", "", []string{"low", "high", "to bob"}}, {"bob", `"above":2`, []string{"to bob"}}, {"mallory", "", nil},
		} {
			got, next := incidentsOf(t, dial(c.name), c.arguments, cursors[c.name])
			if !slices.Equal(got, c.want) {
				t.Errorf("%s with {%s} gets %q, want %q", c.name, c.arguments, got, c.want)
			}
			if again, _ := incidentsOf(t, dial(c.name), c.arguments, next); again != nil {
				t.Errorf("%s with {%s} gets %q again", c.name, c.arguments, again)
			}
		}
		page := pollEvents(t, dial("bob"), `"name":"incident.created","cursor":%q`, cursors["bob"])
		high := harness.At(page, "events", 1)
		if fmt.Sprint(harness.At(high, "data")) != "map[level:2 service:shop]" ||
			harness.At(high, "name") != "incident.created" {
			t.Errorf("the event is %v", high)
		}
		ended := pollEvents(t, dial("bob"), `"name":"call.ended","cursor":%q`, cursors["bob"])
		if len(ended["events"].([]any)) > 0 {
			t.Errorf("events of calls are %v", ended)
		}
	})
}

// A reader whom the match gives little reads on, page by page, each of which costs no more than a page.
func TestPagesThatAMatchFilters(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		opts := withEvents()
		opts.Events.MaxPayload = 256 << 10
		dial, _, emit := emitter(t, opts)
		ask := dial("bob")
		var cursor any = pollEvents(t, ask, `"name":"incident.created"`)["cursor"]
		start := cursor
		for i := range 30 {
			expect.Check(t, emit(fmt.Sprint(i), incident{"shop", i % 10}))
		}
		var got []string
		polls := 0
		for more := true; more; polls++ {
			page := pollEvents(t, ask, `"name":"incident.created","arguments":{"above":8},"cursor":%q,"maxEvents":2`, cursor)
			for i := range page["events"].([]any) {
				got = append(got, harness.At(page, "events", i, "eventId").(string))
			}
			cursor, more = page["cursor"], page["hasMore"].(bool)
		}
		if !slices.Equal(got, []string{"9", "19", "29"}) || polls < 5 {
			t.Errorf("in %d polls there are %q", polls, got)
		}
		for i := range 12 {
			expect.Check(t, emit(fmt.Sprint("large ", i), incident{strings.Repeat("x", 200<<10), 1}))
		}
		page := pollEvents(t, ask, `"name":"incident.created","cursor":%q`, start)
		if n := len(page["events"].([]any)); page["hasMore"] != true || n != 27+6 {
			t.Errorf("a page has %d events, and more is %v", n, page["hasMore"])
		}
		rest, _ := incidentsOf(t, ask, "", start)
		expect.Equal(t, "the pages have events", len(rest), 27+12)
	})
}

// As long as the match cannot decide, nobody gets the event, and nothing is lost.
func TestAMatchThatFails(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"broken", "panics"} {
		synctest.Test(t, func(t *testing.T) {
			dial, _, emit := emitter(t, withEvents())
			ask := dial("bob")
			cursor := pollEvents(t, ask, `"name":"incident.created"`)["cursor"]
			expect.Check(t, emit("1", incident{service, 1}))
			got := ask("events/poll", fmt.Sprintf(`"name":"incident.created","cursor":%q`, cursor))
			text := fmt.Sprint(got)
			if got["result"] != nil || strings.Contains(text, "disco") || strings.Contains(text, "directory") {
				t.Errorf("the response is %v", got)
			}
		})
	}
}

// What was kept for its time is gone, and who has not read it is told so. What was not emitted too much is there.
func TestHowLongAnAuthorsEventsAreKept(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		opts := withEvents()
		opts.Events.Keep = time.Hour
		store := opts.Tasks.Store.(*task.MemoryStore)
		dial, _, emit := emitter(t, opts)
		ask := dial("bob")
		start := pollEvents(t, ask, `"name":"incident.created"`)["cursor"]
		want := func(truncated bool, ids ...string) {
			t.Helper()
			page := pollEvents(t, ask, `"name":"incident.created","cursor":%q`, start)
			var got []string
			for i := range page["events"].([]any) {
				got = append(got, harness.At(page, "events", i, "eventId").(string))
			}
			if !slices.Equal(got, ids) || page["truncated"] != truncated {
				t.Errorf("the page is %v, want %q", page, ids)
			}
		}
		for _, id := range []string{"1", "2"} {
			expect.Check(t, emit(id, incident{"shop", 1}))
			time.Sleep(40 * time.Minute)
		}
		want(false, "1", "2")
		expect.Must(store.Purge(t.Context(), 0, 9))(t)
		want(true, "2")
	})
}

// An author's mistakes are errors that say what to do, and a client's have their codes.
func TestMistakesWithAuthorsEvents(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dial, srv, emit := emitter(t, withEvents())
		for says, err := range map[string]error{
			"200013 bytes, and may have 16384": emit("1", incident{strings.Repeat("x", 199_989), 1}),
			"its ID has 257 bytes":             emit(strings.Repeat("x", 257), incident{}),
			"its ID has 3 bytes":               emit("a\nb", incident{}),
			"for 101 principals":               emit("1", incident{}, make([]string, 101)...),
			`for "", who`:                      emit("1", incident{}, ""),
		} {
			expect.Fails(t, "the error", err, says)
		}
		if err := emit("", incident{}); err != nil {
			t.Error(err)
		}
		match := func(context.Context, string, incidents, incident) (bool, error) { return true, nil }
		for says, add := range map[string]func(){
			"choose another name": func() { askback.AddEvent(srv, &askback.EventType{Name: "call.ended"}, match) },
			"of the characters":   func() { askback.AddEvent(srv, &askback.EventType{Name: "a:b"}, match) },
			"no match": func() {
				askback.AddEvent[incidents, incident](srv, &askback.EventType{Name: "a"}, nil)
			},
			"is no object": func() {
				askback.AddEvent(srv, &askback.EventType{Name: "a"},
					func(context.Context, string, incidents, string) (bool, error) { return true, nil })
			},
			"Options.Events is not set": func() {
				askback.AddEvent(harness.NewServer(t, nil), &askback.EventType{Name: "a"}, match)
			},
			"arguments": func() {
				askback.AddEvent(srv, &askback.EventType{Name: "a"},
					func(context.Context, string, chan int, incident) (bool, error) { return true, nil })
			},
		} {
			func() {
				defer func() {
					expect.Contains(t, "the panic", fmt.Sprint(recover()), says)
				}()
				add()
			}()
		}
		ask := dial("bob")
		for arguments, want := range map[string]float64{`[]`: -32602, `{"above":"x"}`: -32602, `{"other":1}`: -32602} {
			got := ask("events/poll", `"name":"incident.created","arguments":`+arguments)
			harness.Want(t, "with the arguments "+arguments, got, want, "error", "code")
		}
		list := ask("events/list", "")
		if harness.At(list, "result", "events", 3, "name") != "incident.created" ||
			harness.At(list, "result", "events", 3, "description") != "An incident." {
			t.Errorf("the list is %v", list)
		}
		if err := eventSchema(t, list, 3, "inputSchema").Validate(map[string]any{"above": 1.0}); err != nil {
			t.Error(err)
		}
		if err := eventSchema(t, list, 3, "payloadSchema").Validate(map[string]any{"service": "x"}); err == nil {
			t.Error("the schema of the payload lets pass what lacks a member")
		}
	})
}

// A round that the client sends again, because its response was lost, emits once.
func TestAStepThatRunsAgainEmitsOnce(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		opts := withEvents()
		opts.Principal = byToken
		srv := harness.NewServer(t, opts)
		e := askback.AddEvent(srv, &askback.EventType{Name: "incident.created"},
			func(context.Context, string, incidents, incident) (bool, error) { return true, nil })
		runs := 0
		askback.AddTool(srv, &mcp.Tool{Name: "report"},
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
				if err != nil {
					return "", err
				}
				return "reported", call.Do(ctx, "emit", func(ctx context.Context) error {
					runs++
					return e.Emit(ctx, call.IdempotencyKey("emit"), incident{l.Name, runs})
				})
			})
		ask := harness.Fronts[0].Dial(t, srv, &auth.TokenInfo{UserID: "bob"})
		cursor := pollEvents(t, ask, `"name":"incident.created"`)["cursor"]
		for range 2 {
			asked := ask("tools/call", `"name":"report","arguments":{}`)
			for range 2 {
				ask("tools/call", fmt.Sprintf(`"name":"report","arguments":{},"requestState":%q,
					"inputResponses":{"login":{"action":"accept","content":{"name":"A"}}}`,
					harness.At(asked, "result", "requestState")))
			}
		}
		if got, _ := incidentsOf(t, ask, "", cursor); len(got) != 2 || runs != 4 {
			t.Errorf("in %d runs %q were emitted", runs, got)
		}
	})
}

// What an author emits is posted to those who may have it, soon and once. Of many events that a subscriber does not
// get, none is in the way.
func TestEventsOfAuthorsArePosted(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		w, opts := new(receiver), withEvents()
		keys := harness.NewRing(t)
		opts.Keys, opts.Events.Webhooks = keys, &askback.WebhookOptions{UncheckedTransport: w}
		dial, srv, emit := emitter(t, opts)
		list := dial("alice")("events/list", "")
		expect.Equal(t, "it is delivered by", fmt.Sprint(harness.At(list, "result", "events", 3, "delivery")),
			"[poll push webhook]")
		harness.RunTasks(t, srv)
		for _, name := range []string{"alice", "mallory"} {
			subscribe(t, dial(name), strings.Replace(hook("https://hooks.example/"+name, `,"arguments":{"above":2}`),
				"call.ended", "incident.created", 1))
		}
		w.take(soon)
		posted := func(want ...string) {
			t.Helper()
			got := []string{}
			for _, d := range w.take(time.Minute) {
				got = append(got, d.path+" "+d.id)
			}
			expect.Same(t, "posted", got, want)
		}
		emitted := func(id string, i incident, to ...string) {
			t.Helper()
			expect.Check(t, emit(id, i, to...))
		}
		for n := range 300 {
			emitted(fmt.Sprint("small", n), incident{Service: "shop", Level: 1})
		}
		emitted("e1", incident{Service: "shop", Level: 3})
		posted("/alice e1")
		emitted("e2", incident{Service: "secret", Level: 3})
		emitted("e3", incident{Service: "shop", Level: 3}, "bob")
		emitted("e4", incident{Service: "shop", Level: 3}, "alice")
		posted("/alice e4")
		posted()
	})
}
