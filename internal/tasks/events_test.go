package tasks_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// modernFronts are the fronts of the revision that has events.
func modernFronts() []harness.Front {
	return slices.DeleteFunc(allFronts(), func(f harness.Front) bool { return f.Session })
}

// byToken names callers by their tokens, so that those without one are anonymous.
func byToken(_ context.Context, extra *mcp.RequestExtra) (string, error) {
	if extra == nil || extra.TokenInfo == nil {
		return "", nil
	}
	return extra.TokenInfo.UserID, nil
}

// withEvents are the options of a server with events.
func withEvents() *askback.Options {
	return &askback.Options{Events: &askback.EventOptions{}, Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}
}

// pollEvents polls with these members of params, and returns the result.
func pollEvents(t *testing.T, ask harness.Ask, members string, args ...any) map[string]any {
	t.Helper()
	response := ask("events/poll", fmt.Sprintf(members, args...))
	result, _ := response["result"].(map[string]any)
	if result == nil {
		t.Fatalf("events/poll with "+members+": %v", append(args, response)...)
	}
	return result
}

// follower is a client that follows the events of one type.
type follower struct {
	ask             harness.Ask
	name, arguments string
	cursor          any
	seen            map[string]bool
}

// follow begins to follow events from now on.
func follow(t *testing.T, ask harness.Ask, name, arguments string) *follower {
	t.Helper()
	f := &follower{ask, name, arguments, nil, make(map[string]bool)}
	if got := f.poll(t); got != nil {
		t.Errorf("%s, from now on: %v", name, got)
	}
	return f
}

// poll returns what the data of the new events have beside the call and the tool.
func (f *follower) poll(t *testing.T) (said []string) {
	t.Helper()
	cursor, _ := json.Marshal(f.cursor)
	page := pollEvents(t, f.ask, `"name":%q,"arguments":{%s},"cursor":%s`, f.name, f.arguments, cursor)
	f.cursor = page["cursor"]
	if page["truncated"] != false || page["hasMore"] != false || page["nextPollMs"] != 30000.0 ||
		page["resultType"] != "complete" || harness.At(page, "_meta") == nil {
		t.Errorf("%s: the page is %v", f.name, page)
	}
	for i := range page["events"].([]any) {
		e := harness.At(page, "events", i)
		id, _ := harness.At(e, "eventId").(string)
		if f.seen[id] || id == "" || harness.At(e, "name") != f.name {
			t.Errorf("%s: the event %v", f.name, e)
		}
		f.seen[id] = true
		at, err := time.Parse(time.RFC3339, harness.At(e, "timestamp").(string))
		if err != nil || at.IsZero() {
			t.Errorf("%s: it happened at %v (%v)", f.name, at, err)
		}
		data := harness.At(e, "data")
		said = append(said, fmt.Sprint(cmp.Or(harness.At(data, "of"), harness.At(data, "outcome"),
			harness.At(data, "status"))))
		expect.Equal[any](t, f.name+": the call", harness.At(data, "call"), task.Name(harness.At(data, "taskId").(string)))
	}
	return said
}

// A caller learns through every front what becomes of its calls, and nobody else does.
func TestACallerFollowsItsCalls(t *testing.T) {
	t.Parallel()
	for _, f := range modernFronts() {
		t.Run(f.Name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				srv, d := deskServer(t, withEvents())
				ask := f.Dial(t, srv, &auth.TokenInfo{UserID: "alice"})
				asked, decided, ended := follow(t, ask, "question.asked", ""), follow(t, ask, "question.decided", ""),
					follow(t, ask, "call.ended", "")
				other := follow(t, ask, "call.ended", `"tool":"deploy"`)
				want := func(when string, people, outcomes, statuses []string) {
					t.Helper()
					synctest.Wait()
					for of, want := range map[*follower][]string{asked: people, decided: outcomes, ended: statuses, other: nil} {
						if got := of.poll(t); !slices.Equal(got, want) {
							t.Errorf("%s, %s gives %q, want %q", when, of.name, got, want)
						}
					}
				}
				id, _ := harness.At(ask("tools/call", `"name":"then","arguments":{"version":"1"}`), "result", "taskId").(string)
				want("when people are asked", []string{"people"}, nil, nil)
				approve(t, d, task.Name(id))
				want("when they have decided", []string{"caller"}, []string{"decided"}, nil)
				only := follow(t, ask, "call.ended", `"taskId":"`+id+`","tool":"then"`)
				ask("tasks/update", harness.Answered(id, `"login":{"action":"accept","content":{"name":"A"}}`))
				want("when it has ended", nil, nil, []string{"completed"})
				expect.Same(t, "of the task alone", only.poll(t), []string{"completed"})
				id, _ = harness.At(ask("tools/call", `"name":"report","arguments":{"version":"1"}`), "result", "taskId").(string)
				time.Sleep(2 * time.Hour)
				want("when nobody has decided", []string{"people"}, []string{"unanswered"}, []string{"completed"})
				ask("tasks/cancel", `"taskId":"`+id+`"`)
				want("when it has ended before", nil, nil, nil)
			})
		})
	}
}

// A caller reads the events of its own calls only, and an anonymous one the events of a task whose ID it knows.
func TestWhoReadsEvents(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		opts := withEvents()
		opts.Principal = byToken
		srv, _ := deskServer(t, opts, harness.AddText("quick", nil, asksColors()))
		front := harness.Fronts[0]
		alice, bob := front.Dial(t, srv, &auth.TokenInfo{UserID: "alice"}), front.Dial(t, srv, &auth.TokenInfo{UserID: "bob"})
		anonymous := front.Dial(t, srv, nil)
		const call, quick = `"name":"deploy","arguments":{"version":"1"}`, `"name":"quick","arguments":{}`
		of := follow(t, bob, "question.asked", "")
		start := pollEvents(t, alice, `"name":"question.asked"`)["cursor"].(string)
		id := harness.At(alice("tools/call", call), "result", "taskId").(string)
		theirs := harness.At(anonymous("tools/call", quick), "result", "taskId").(string)
		anonymous("tools/call", quick)
		synctest.Wait()
		if got := of.poll(t); got != nil {
			t.Errorf("bob is told %q", got)
		}
		mine := pollEvents(t, alice, `"name":"question.asked","cursor":%q`, start)
		if harness.At(mine, "events", 0, "data", "taskId") != id || harness.At(mine, "events", 1) != nil {
			t.Errorf("alice is told %v", mine)
		}
		// Where another one is in the log says nothing to bob.
		page := pollEvents(t, bob, `"name":"question.asked","cursor":%q`, mine["cursor"])
		if len(page["events"].([]any)) > 0 {
			t.Errorf("with a cursor of alice's bob is told %v", page)
		}
		page = pollEvents(t, anonymous, `"name":"call.ended","arguments":{"taskId":%q},"cursor":%q`, theirs, start)
		if harness.At(page, "events", 0, "data", "taskId") != theirs || harness.At(page, "events", 1) != nil {
			t.Errorf("who knows the ID is told %v", page)
		}
		for _, refused := range []struct {
			ask       harness.Ask
			arguments string
		}{
			{anonymous, ""}, {anonymous, `"tool":"deploy"`}, {anonymous, `"taskId":"` + id + `"`},
			{bob, `"taskId":"` + id + `"`},
			{bob, `"taskId":"` + theirs + `"`}, {bob, `"taskId":"` + task.Name(id) + `"`}, {alice, `"taskId":"unknown"`},
		} {
			for _, method := range []string{"events/poll", "events/stream"} {
				got := refused.ask(method, `"name":"question.asked","arguments":{`+refused.arguments+`}`)
				if harness.At(got, "error", "code") != -32024.0 || strings.Contains(fmt.Sprint(got), task.Name(id)) {
					t.Errorf("%s with the arguments %s: %v", method, refused.arguments, got)
				}
			}
		}
	})
}

// logServer is a server with a log, whose only client is alice. It runs no tasks, and deletes none.
func logServer(t *testing.T) (harness.Ask, *task.MemoryStore) {
	t.Helper()
	opts := withEvents()
	opts.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	srv := harness.NewServer(t, opts)
	return harness.Fronts[0].Dial(t, srv, nil), opts.Tasks.Store.(*task.MemoryStore)
}

// end adds a task of alice that has ended, and returns its ID.
func end(t *testing.T, store *task.MemoryStore, ttl time.Duration) string {
	t.Helper()
	id := rand.Text()
	endAs(t, store, id, ttl)
	return id
}

func endAs(t *testing.T, store *task.MemoryStore, id string, ttl time.Duration) {
	t.Helper()
	n := &task.Task{ID: id, Principal: "alice", Method: "tools/call", Target: "deploy", Status: task.Completed,
		Events: true}
	expect.Check(t, store.Insert(t.Context(), n, ttl, nil, task.Update{Due: -1}, task.Quota{}))
	time.Sleep(time.Millisecond) // so that it is older than what comes
}

// tasksOn returns the IDs of the tasks whose events a page has.
func tasksOn(page map[string]any) (ids []string) {
	for i := range page["events"].([]any) {
		ids = append(ids, harness.At(page, "events", i, "data", "taskId").(string))
	}
	return ids
}

// Pages are as long as the client wants, up to a bound. No event is on two of them, and none on no page.
func TestPagesOfEvents(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ask, store := logServer(t)
		start := pollEvents(t, ask, `"name":"call.ended"`)["cursor"]
		var all []string
		for range 120 {
			all = append(all, end(t, store, time.Hour))
		}
		for _, c := range []struct {
			members string
			want    int
		}{{`"maxEvents":7`, 7}, {`"maxEvents":1e1`, 10}, {`"maxEvents":null`, 50}, {`"maxEvents":100`, 100},
			{`"maxEvents":5000`, 100},
			{`"arguments":{"tool":"deploy"},"maxEvents":99`, 99}} {
			var got []string
			for cursor, more := start, true; more; {
				page := pollEvents(t, ask, `"name":"call.ended","cursor":%q,`+c.members, cursor)
				ids := tasksOn(page)
				got = append(got, ids...)
				cursor, more = page["cursor"], page["hasMore"].(bool)
				if more != (len(got) < len(all)) || len(ids) > c.want || more && len(ids) != c.want || page["truncated"] != false {
					t.Fatalf("%s: %d events, %v", c.members, len(ids), page)
				}
			}
			expect.Same(t, c.members+": the pages have events", got, all)
		}
		page := pollEvents(t, ask, `"name":"call.ended","cursor":%q,"arguments":{"tool":"other"}`, start)
		if tasksOn(page) != nil || page["hasMore"] != false || page["cursor"] == start {
			t.Errorf("of another tool: %v", page)
		}
	})
}

// A client that asks for young events is told that there were older ones.
func TestTheAgeOfEvents(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ask, store := logServer(t)
		start := pollEvents(t, ask, `"name":"call.ended","cursor":null,"maxAgeMs":1000`)["cursor"]
		old := end(t, store, time.Hour)
		time.Sleep(time.Minute)
		young := end(t, store, time.Hour)
		for members, want := range map[string][]string{
			`"maxAgeMs":1000`: {young}, `"maxAgeMs":0`: nil, `"maxAgeMs":120000`: {old, young}, `"maxAgeMs":1e300`: {old, young},
			`"maxAgeMs":null`: {old, young},
		} {
			page := pollEvents(t, ask, `"name":"call.ended","cursor":%q,`+members, start)
			if got := tasksOn(page); !slices.Equal(got, want) || page["truncated"] != (len(want) < 2) {
				t.Errorf("%s: %q, and the page is %v", members, got, page)
			}
		}
	})
}

// A client that comes back is told whether there may have been events that it can no longer read, and not otherwise.
func TestWhatAnEventsCursorCovers(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ask, store := logServer(t)
		poll := func(cursor any) map[string]any {
			t.Helper()
			return pollEvents(t, ask, `"name":"call.ended","cursor":%q`, cursor)
		}
		want := func(when string, page map[string]any, truncated bool, ids ...string) (cursor any) {
			t.Helper()
			if got := tasksOn(page); !slices.Equal(got, ids) || page["truncated"] != truncated || page["hasMore"] != false {
				t.Errorf("%s: %q of %q, and the page is %v", when, got, ids, page)
			}
			return page["cursor"]
		}
		purge := func(after time.Duration) {
			t.Helper()
			time.Sleep(after)
			expect.Must(store.Purge(t.Context(), 0, 9))(t)
		}
		empty := pollEvents(t, ask, `"name":"call.ended"`)["cursor"]
		first := end(t, store, time.Minute)
		seen := want("the first", poll(empty), false, first)
		stays := end(t, store, 100*24*time.Hour)
		later := want("the second", poll(seen), false, stays)
		purge(24 * time.Hour) // the first one
		want("what was deleted had been seen", poll(seen), false, stays)
		want("it had not", poll(empty), true, stays)
		later = want("nothing is new", poll(later), false)
		end(t, store, time.Minute)
		purge(24 * time.Hour)
		after := want("it was deleted unseen", poll(later), true)
		want("that was told", poll(after), false)
		next := end(t, store, time.Hour)
		last := want("the next", poll(after), false, next)

		// The log has another event, or none, where the cursor is: it has lost commits.
		position := func(of string) any { return base64.RawURLEncoding.EncodeToString([]byte(of)) }
		now := time.Now().UnixMilli()
		want("another event", poll(position(fmt.Sprintf("2.%d.ANOTHER", now))), true, stays, next)
		want("no event", poll(position(fmt.Sprintf("77.%d.ANOTHER", now))), true, stays, next)
		raw, _ := base64.RawURLEncoding.DecodeString(last.(string))
		again := strings.Split(string(raw), ".") // the same event, which has happened again
		mark, _, _ := strings.Cut(again[2], "-")
		want("again", poll(position(again[0]+"."+again[1]+"."+mark+"-"+again[1])), true, stays, next)
		page := pollEvents(t, ask, `"name":"call.ended","cursor":%q,"arguments":{"taskId":%q}`,
			position(fmt.Sprintf("2.%d.ANOTHER", now)), next)
		want("of a task", page, true, next)

		purge(31 * 24 * time.Hour)
		want("after a month", poll(after), true, stays)
		want("after a month that began before all", poll(empty), true, stays)
		end(t, store, time.Minute)
		purge(31 * 24 * time.Hour)
		want("when it is forgotten what was deleted", poll(empty), true, stays)
	})
}

// A page between does not pass over what comes after it, for what was deleted behind it.
func TestWhatIsDeletedBehindAPage(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ask, store := logServer(t)
		var cursor any = pollEvents(t, ask, `"name":"call.ended"`)["cursor"]
		want := []string{end(t, store, time.Hour), end(t, store, time.Hour), end(t, store, time.Hour)}
		end(t, store, time.Millisecond)
		if n, err := store.Purge(t.Context(), 0, 9); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		var got []string
		for range want {
			page := pollEvents(t, ask, `"name":"call.ended","maxEvents":1,"cursor":%q`, cursor)
			got, cursor = append(got, tasksOn(page)...), page["cursor"]
		}
		expect.Same(t, "the pages have", got, want)
	})
}

// The log of one task has no gap, whatever else of its caller is deleted, and begins before its first event.
func TestTheEventsOfOneTask(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ask, store := logServer(t)
		n := &task.Task{ID: "one", Principal: "alice", Method: "tools/call", Target: "deploy", Status: task.Working,
			Events: true}
		expect.Check(t, store.Create(t.Context(), n, time.Hour, 0, nil, nil, task.Quota{}))
		var cursor any
		poll := func(want ...string) {
			t.Helper()
			encoded, _ := json.Marshal(cursor)
			page := pollEvents(t, ask, `"name":"call.ended","arguments":{"taskId":"one"},"cursor":%s`, encoded)
			if got := tasksOn(page); !slices.Equal(got, want) || page["truncated"] != false {
				t.Errorf("%q of %q, and the page is %v", got, want, page)
			}
			cursor = page["cursor"]
		}
		poll()
		for range 2 {
			end(t, store, time.Millisecond)
			expect.Must(store.Purge(t.Context(), 0, 9))(t)
			poll()
		}
		n.Status = task.Failed
		expect.Check(t, store.Update(t.Context(), n, task.Update{Due: -1}))
		poll("one")
		end(t, store, time.Millisecond)
		poll()
	})
}

// What a client sends that is no request of the extension is refused, with the code for it.
func TestMistakesOfPolls(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ask, _ := logServer(t)
		for members, want := range map[string]float64{
			``: -32602, `"name":7`: -32602, `"name":null`: -32602, `"name":"question"`: -32023, `"name":""`: -32023,
			`"name":"call.ended","arguments":[]`:                              -32602,
			`"name":"call.ended","arguments":{"other":"x"}`:                   -32602,
			`"name":"call.ended","arguments":{"Tool":"x"}`:                    -32602,
			`"name":"call.ended","arguments":{"tool":null}`:                   -32602,
			`"name":"call.ended","arguments":{"taskId":7}`:                    -32602,
			`"name":"call.ended","arguments":{"taskId":""}`:                   -32602,
			`"name":"call.ended","cursor":7`:                                  -32602,
			`"name":"call.ended","cursor":""`:                                 -32602,
			`"name":"call.ended","cursor":"MS4x"`:                             -32602,
			`"name":"call.ended","cursor":"` + strings.Repeat("M", 500) + `"`: -32602,
			`"name":"call.ended","maxEvents":0`:                               -32602,
			`"name":"call.ended","maxEvents":1.5`:                             -32602,
			`"name":"call.ended","maxEvents":"7"`:                             -32602,
			`"name":"call.ended","maxAgeMs":-1`:                               -32602,
			`"name":"call.ended","maxAgeMs":[]`:                               -32602,
		} {
			for _, method := range []string{"events/poll", "events/stream"} {
				if method == "events/stream" && strings.Contains(members, "maxEvents") {
					continue
				}
				got := ask(method, members)
				if code := harness.At(got, "error", "code"); code != want {
					t.Errorf("%s with %s: %v, want %v", method, members, got, want)
				}
				if want == -32023 && harness.At(got, "error", "data", "kind") != "event" {
					t.Errorf("%s with %s: %v does not say what is not found", method, members, got)
				}
			}
		}
		harness.Want(t, "a list with a cursor", ask("events/list", `"cursor":"x"`), -32602.0, "error", "code")
		for _, method := range []string{"events/publish", "events/"} {
			if got := ask(method, `"name":"call.ended"`); harness.At(got, "error", "code") != -32601.0 || got["status"] != 404 {
				t.Errorf("%s: %v", method, got)
			}
		}
	})
}

// eventSchema returns a schema of an event type in a list.
func eventSchema(t *testing.T, list map[string]any, i int, member string) *jsonschema.Resolved {
	t.Helper()
	encoded, _ := json.Marshal(harness.At(list, "result", "events", i, member))
	s := new(jsonschema.Schema)
	expect.Check(t, json.Unmarshal(encoded, s))
	resolved := expect.Must(s.Resolve(nil))(t)
	return resolved
}

// The list has the types with schemas that hold for what is sent.
func TestTheSchemasOfEvents(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, d := deskServer(t, withEvents())
		ask := harness.Fronts[0].Dial(t, srv, nil)
		list := ask("events/list", "")
		if harness.At(list, "result", "resultType") != "complete" || harness.At(list, "result", "nextCursor") != nil {
			t.Errorf("the list is %v", list)
		}
		var names []string
		cursors := make(map[string]any)
		for i := range harness.At(list, "result", "events").([]any) {
			name := harness.At(list, "result", "events", i, "name").(string)
			names = append(names, name)
			cursors[name] = pollEvents(t, ask, `"name":%q`, name)["cursor"]
			expect.Equal(t, name+" has", fmt.Sprint(harness.At(list, "result", "events", i, "delivery")), "[poll push]")
			input := eventSchema(t, list, i, "inputSchema")
			for arguments, valid := range map[string]bool{`{}`: true, `{"tool":"x","taskId":"y"}`: true, `{"tool":7}`: false,
				`{"other":"x"}`: false} {
				var v any
				_ = json.Unmarshal([]byte(arguments), &v)
				if err := input.Validate(v); (err == nil) != valid {
					t.Errorf("%s with the arguments %s: %v", name, arguments, err)
				}
			}
		}
		if want := []string{"question.asked", "question.decided", "call.ended"}; !slices.Equal(names, want) {
			t.Fatalf("the types are %q, want %q", names, want)
		}
		id := harness.At(ask("tools/call", `"name":"then","arguments":{"version":"1"}`), "result", "taskId").(string)
		synctest.Wait()
		approve(t, d, task.Name(id))
		synctest.Wait()
		ask("tasks/update", harness.Answered(id, `"login":{"action":"accept","content":{"name":"A"}}`))
		ask("tools/call", `"name":"report","arguments":{"version":"1"}`)
		time.Sleep(2 * time.Hour)
		for i, name := range names {
			payload := eventSchema(t, list, i, "payloadSchema")
			page := pollEvents(t, ask, `"name":%q,"cursor":%q`, name, cursors[name])
			expect.Equal(t, "there are events "+name, len(page["events"].([]any)), []int{3, 2, 2}[i])
			for i := range page["events"].([]any) {
				if err := payload.Validate(harness.At(page, "events", i, "data")); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

// Clients of the revision that has events are told of them, and only if there are any.
func TestEventsAreAdvertised(t *testing.T) {
	t.Parallel()
	for _, f := range allFronts() {
		t.Run(f.Name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				for _, events := range []*askback.EventOptions{nil, {}} {
					opts := withEvents()
					opts.Events = events
					srv, _ := deskServer(t, opts)
					ask := f.Dial(t, srv, &auth.TokenInfo{UserID: "alice"})
					has := events != nil && !f.Session
					if !f.Session {
						found := ask("server/discover", "")
						can := harness.At(found, "result", "capabilities")
						extension := harness.At(can, "extensions", "io.modelcontextprotocol/events", "listChanged") == true
						sketch := harness.At(can, "events", "listChanged") == true
						if extension != has || sketch != has || (harness.At(can, "events") != nil) != has ||
							harness.At(can, "tools") == nil ||
							harness.At(can, "extensions", "io.modelcontextprotocol/tasks") == nil ||
							harness.At(found, "result", "supportedVersions") == nil ||
							harness.At(found, "result", "resultType") != "complete" || harness.At(found, "result", "_meta") == nil {
							t.Errorf("with %v: %v", events, found)
						}
					}
					for _, method := range []string{"events/list", "events/poll", "events/stream"} {
						if has && method == "events/stream" {
							continue
						}
						got := ask(method, `"name":"call.ended"`)
						if (got["result"] != nil) != has || !has && harness.At(got, "error", "code") != -32601.0 {
							t.Errorf("%s with %v: %v", method, events, got)
						}
					}
				}
			})
		})
	}
}

// Requests for events pass the operator's middleware and authorization.
func TestWhatEventsPass(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*askback.Server, mcp.Middleware){
		"past the SDK": func(srv *askback.Server, m mcp.Middleware) { srv.AddReceivingMiddleware(m) },
		"nothing":      func(*askback.Server, mcp.Middleware) {},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				var passed, seen []string
				opts := withEvents()
				may := error(nil)
				opts.Authorize = func(_ context.Context, a askback.Access) error {
					passed = append(passed, fmt.Sprintf("%s %s %q", a.Principal, a.Method, a.Target))
					return may
				}
				srv, _ := deskServer(t, opts)
				add(srv, func(next mcp.MethodHandler) mcp.MethodHandler {
					return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
						seen = append(seen, method)
						return next(ctx, method, req)
					}
				})
				ask := harness.Fronts[0].Dial(t, srv, nil)
				pollEvents(t, ask, `"name":"call.ended"`)
				ask("events/list", "")
				want := []string{`alice events/poll "call.ended"`, `alice events/list ""`}
				if !slices.Equal(passed, want) || name != "nothing" && !slices.Equal(seen, []string{"events/poll", "events/list"}) {
					t.Errorf("%q were authorized, and middleware has seen %q", passed, seen)
				}
				may = errors.New("no")
				got := ask("events/poll", `"name":"call.ended"`)
				if harness.At(got, "error", "code") != -32024.0 || got["status"] != http.StatusForbidden {
					t.Errorf("refused: %v", got)
				}
			})
		})
	}
}

// A client that knows events, and cannot take a task, is told which event tells of the end of its call.
func TestWordsNameTheEvent(t *testing.T) {
	t.Parallel()
	const knows = `{"extensions":{"io.modelcontextprotocol/events":{}}}`
	for _, c := range []struct {
		capabilities string
		events       *askback.EventOptions
		names        bool
	}{{knows, new(askback.EventOptions), true}, {`{}`, new(askback.EventOptions), false}, {knows, nil, false}} {
		store := new(task.MemoryStore)
		s := harness.NewTaskServerOn(t, store, &askback.Options{Events: c.events, Principal: harness.UserHeader,
			Desk: &askback.DeskOptions{Wait: time.Millisecond}}, addDeploy)
		_, response := s.Send(c.capabilities, "tools/call", "deploy", `"name":"deploy","arguments":{"version":"1"}`,
			"X-User: carol")
		result, _ := response["result"].(map[string]any)
		rows, err := store.Select(t.Context(), task.Filter{}, "", 10)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		words := fmt.Sprint(harness.Content(result))
		event := "call.ended with the argument taskId=" + rows[0].ID + " tells"
		if strings.Contains(words, event) != c.names {
			t.Errorf("with %s the client is told %q", c.capabilities, words)
		}
	}
}

// A Server with events needs tasks in a store that keeps a log.
func TestOptionsOfEvents(t *testing.T) {
	t.Parallel()
	type bare struct{ task.Store }
	tasks := func(s task.Store) *askback.Tasks { return &askback.Tasks{Store: s} }
	memory := tasks(new(task.MemoryStore))
	for says, opts := range map[string]*askback.Options{
		"needs Options.Tasks": {Events: &askback.EventOptions{}},
		"task.EventLog":       {Events: &askback.EventOptions{}, Tasks: tasks(bare{new(task.MemoryStore)})},
		"PollInterval":        {Events: &askback.EventOptions{PollInterval: -1}, Tasks: memory},
		"Keep":                {Events: &askback.EventOptions{Keep: 31 * 24 * time.Hour}, Tasks: memory},
		"MaxPayload":          {Events: &askback.EventOptions{MaxPayload: 1 << 20}, Tasks: memory},
	} {
		opts.Logger = slog.New(slog.DiscardHandler)
		_, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil), opts)
		expect.Fails(t, "the error", err, says)
	}
}
