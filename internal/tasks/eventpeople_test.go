package tasks_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// directory says who is in which groups, or fails.
type directory struct {
	mu     sync.Mutex
	groups map[string][]string
	err    error
}

func (d *directory) of(_ context.Context, principal string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.groups[principal], d.err
}

func (d *directory) set(groups map[string][]string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groups, d.err = groups, err
}

// peopleServer is a server whose callers are named by their tokens, on a store that nobody else writes to.
func peopleServer(t *testing.T) (dial func(name string) harness.Ask, store *task.MemoryStore, groups *directory) {
	t.Helper()
	groups = new(directory)
	opts := withEvents()
	opts.Principal, opts.Events.Groups = byToken, groups.of
	srv := harness.NewServer(t, opts)
	return func(name string) harness.Ask {
		return harness.Fronts[0].Dial(t, srv, &auth.TokenInfo{UserID: name})
	}, opts.Tasks.Store.(*task.MemoryStore), groups
}

// asks adds a task of a principal that asks these, and returns the name of its call.
func asks(t *testing.T, store *task.MemoryStore, principal string, who ...string) string {
	t.Helper()
	n := &task.Task{ID: rand.Text(), Principal: principal, Method: "tools/call", Target: "deploy",
		Status: task.InputRequired, Events: true}
	ask := []*task.Question{{Key: "ok", For: who, Content: []byte("content")}}
	expect.Check(t, store.Insert(t.Context(), n, time.Hour, nil, task.Update{Due: -1, Ask: ask}, task.Quota{}))
	return task.Name(n.ID)
}

// reading is a client that follows question.asked, so many events at a time.
type reading struct {
	ask    harness.Ask
	most   int
	cursor string
}

func read(t *testing.T, ask harness.Ask, most int) *reading {
	t.Helper()
	return &reading{ask, most, pollEvents(t, ask, `"name":"question.asked"`)["cursor"].(string)}
}

// want requires that the calls which have asked since the last time are these.
func (r *reading) want(t *testing.T, when string, calls ...string) {
	t.Helper()
	var got []string
	for more := true; more; {
		page := pollEvents(t, r.ask, `"name":"question.asked","maxEvents":%d,"cursor":%q`, r.most, r.cursor)
		if page["truncated"] != false || len(page["events"].([]any)) > r.most {
			t.Errorf("%s: the page is %v", when, page)
		}
		for i := range page["events"].([]any) {
			got = append(got, harness.At(page, "events", i, "data", "call").(string))
		}
		r.cursor, more = page["cursor"].(string), page["hasMore"].(bool)
	}
	expect.Same(t, when+": have asked", got, calls)
}

// People whom a question is for learn of it, and of its end, what the desk shows them. Others learn nothing.
func TestPeopleFollowWhatTheyAreAsked(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		groups := &directory{groups: map[string][]string{"dave": {"other", "release"}, "carol": {"other"}}}
		opts := withEvents()
		opts.Principal, opts.Events.Groups = byToken, groups.of
		srv, d := deskServer(t, opts, harness.AddTask("ship", nil,
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				return "shipped", askback.Approve(call, "ok", askback.Question{Message: "Ship it?",
					For: []string{askback.User("bob"), askback.Group("release")}})
			}))
		dial := func(name string) harness.Ask {
			return harness.Fronts[0].Dial(t, srv, &auth.TokenInfo{UserID: name})
		}
		people, cursors := make(map[string]harness.Ask), make(map[string]string)
		types := []string{"question.asked", "question.decided", "call.ended"}
		for _, name := range []string{"alice", "bob", "carol", "dave"} {
			people[name] = dial(name)
			for _, of := range types {
				cursors[name+of] = pollEvents(t, people[name], `"name":%q`, of)["cursor"].(string)
			}
		}
		id := harness.At(people["alice"]("tools/call", `"name":"ship","arguments":{}`), "result", "taskId").(string)
		synctest.Wait()
		questions := expect.Must(d.Questions(t.Context(), task.Name(id), nil))(t)
		by := desk.Person{Name: "bob"}
		veto := desk.Answer{By: by, Action: "decline"}
		expect.Must(d.Answer(t.Context(), task.Name(id), questions[0].Key, veto))(t)
		synctest.Wait()
		shown := expect.Must(d.Question(t.Context(), task.Name(id), questions[0].Key, &by))(t)
		list := people["bob"]("events/list", "")
		for i, of := range types {
			for name, ask := range people {
				page := pollEvents(t, ask, `"name":%q,"cursor":%q`, of, cursors[name+of])
				told, _ := harness.At(page, "events", 0, "data").(map[string]any)
				is := map[string]any{"question.asked": "people", "question.decided": "decided", "call.ended": "completed"}
				member := []string{"of", "outcome", "status"}[i]
				want := map[string]any{"call": shown.Name, "tool": shown.Target, member: is[of]}
				switch {
				case name == "alice":
					want["taskId"] = id
				case name == "carol" || of == "call.ended":
					want = nil
				default:
					want["question"] = shown.Key
				}
				if !maps.Equal(told, want) || harness.At(page, "events", 1) != nil {
					t.Errorf("%s is told by %s: %v, want %v", name, of, page, want)
				}
				if name != "alice" && strings.Contains(fmt.Sprint(page), id) {
					t.Errorf("%s is told the ID of the task: %v", name, page)
				}
				if told != nil {
					if err := eventSchema(t, list, i, "payloadSchema").Validate(told); err != nil {
						t.Errorf("%s of %s: %v", of, name, err)
					}
				}
			}
		}
		refused := people["bob"]("events/poll", `"name":"question.asked","arguments":{"taskId":"`+id+`"}`)
		harness.Want(t, "with the ID of a task of somebody else", refused, -32024.0, "error", "code")
		only := pollEvents(t, people["bob"], `"name":"question.asked","arguments":{"tool":"deploy"},"cursor":%q`,
			cursors["bobquestion.asked"])
		if len(only["events"].([]any)) > 0 {
			t.Errorf("of another tool: %v", only)
		}
	})
}

// Who is in a group is asked at each read. Who comes may read what the group could, and who goes reads no more.
func TestGroupsThatChange(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dial, store, groups := peopleServer(t)
		ask := dial("bob")
		bob := read(t, ask, 100)
		first := asks(t, store, "alice", "group:a")
		bob.want(t, "in no group")
		groups.set(map[string][]string{"bob": {"a", "a"}, "alice": {"b"}}, nil)
		second := asks(t, store, "alice", "group:a")
		bob.want(t, "in a group", first, second)
		groups.set(map[string][]string{"bob": {"b"}}, nil)
		asks(t, store, "alice", "group:a")
		third := asks(t, store, "alice", "group:b")
		bob.want(t, "in another group, after an event of the first one", third)

		groups.set(nil, errors.New("out of order"))
		mine := asks(t, store, "alice", "user:bob", "group:b")
		failed := ask("events/poll", fmt.Sprintf(`"name":"question.asked","cursor":%q`, bob.cursor))
		if failed["result"] != nil || strings.Contains(fmt.Sprint(failed), "out of order") ||
			harness.At(failed, "error", "code") == -32024.0 {
			t.Errorf("when it is not known who is in a group: %v", failed)
		}
		groups.set(map[string][]string{"bob": slices.Repeat([]string{"b"}, 65)}, nil)
		if failed := ask("events/poll", `"name":"question.asked"`); failed["result"] != nil {
			t.Errorf("with too many groups: %v", failed)
		}
		if ended := ask("events/poll", `"name":"call.ended"`); ended["result"] == nil {
			t.Errorf("events that have nothing to do with groups: %v", ended)
		}
		groups.set(map[string][]string{"bob": {"b"}}, nil)
		bob.want(t, "when it is known again", mine)
	})
}

// Who is added to those whom a question is for learns of it, and the caller has known it.
func TestAQuestionForFurtherPeople(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		dial, store, _ := peopleServer(t)
		alice, bob, carol := read(t, dial("alice"), 9), read(t, dial("bob"), 9), read(t, dial("carol"), 9)
		call := asks(t, store, "alice", "user:carol")
		alice.want(t, "the caller", call)
		carol.want(t, "who is asked", call)
		bob.want(t, "who is not")
		questions := expect.Must(store.Questions(t.Context(), call))(t)
		questions[0].For = []string{"user:alice", "user:bob"}
		expect.Check(t, store.ChangeQuestion(t.Context(), questions[0], false))
		alice.want(t, "the caller, who is asked now")
		bob.want(t, "who is asked now", call)
		carol.want(t, "who is no longer asked")
	})
}

// An event comes once to somebody who may read it in several ways, however long the pages are. The caller reads it as
// such.
func TestAnEventComesOnce(t *testing.T) {
	t.Parallel()
	for most := 1; most < 8; most++ {
		synctest.Test(t, func(t *testing.T) {
			dial, store, groups := peopleServer(t)
			groups.set(map[string][]string{"alice": {"a"}, "bob": {"a", "b"}}, nil)
			ask := dial("alice")
			start := pollEvents(t, ask, `"name":"question.asked"`)["cursor"]
			alice, bob := read(t, ask, most), read(t, dial("bob"), most)
			var calls, own []string
			for i := range 5 {
				calls = append(calls, asks(t, store, "alice", "group:a", "user:bob", "group:b", "user:alice"))
				own = append(own, calls[i])
				own = append(own, asks(t, store, "bob", "group:c", "user:alice", "group:a"))
			}
			alice.want(t, fmt.Sprint(most, " at a time, alice"), own...)
			bob.want(t, fmt.Sprint(most, " at a time, bob"), own...)
			page := pollEvents(t, ask, `"name":"question.asked","cursor":%q`, start)
			for i := range page["events"].([]any) {
				data, _ := json.Marshal(harness.At(page, "events", i, "data"))
				if caller := harness.At(page, "events", i, "data", "taskId") != nil; caller != (i%2 == 0) {
					t.Errorf("event %d is told as %s", i, data)
				}
			}
		})
	}
}
