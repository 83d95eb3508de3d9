package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/task"
)

var eventTests = needs[task.EventLog]([]test{
	{"each event is logged once, by the write that makes it so, in the order of a task", func(f *fixture, s task.Store) {
		writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
		t := f.addLogged(writer, "alice")
		f.wantEvents(reader, ofAlice)
		asks := append(forBob("people", "late"), within(long, "timer"))
		f.park(writer, t, asks...)
		f.wantEvents(reader, ofAlice, "asked people", "asked late")
		f.wake(writer, t)
		t.Pending = everyByte
		f.park(writer, t, asks...)
		input := fmt.Sprintf("input %d", t.Version)
		f.wantEvents(reader, ofAlice, "asked people", "asked late", input)
		t.Message = "still asking"
		f.update(writer, t, task.Update{Keep: true})
		f.edit(writer, t.ID, "people", func(q *task.Question) { q.Votes = []byte("a vote") })
		f.wantEvents(reader, ofAlice, "asked people", "asked late", input)
		f.decide(writer, t.ID, "people")
		f.expire(writer, t.ID, "late")
		f.expire(writer, t.ID, "timer")
		t = f.claimThis(writer, t.ID, long)
		t.Pending, t.Outcome = nil, []byte("outcome")
		f.updateStatus(writer, t, task.Completed, task.Update{Leased: true, Due: 0})
		f.update(writer, t, task.Update{Due: -1})
		page := f.wantEvents(reader, ofAlice, "asked people", "asked late", input, "decided people",
			"unanswered late", "ended ")
		for i, e := range page.Events {
			f.check(!e.Written.Before(t.Created) && !e.Written.After(page.Now) && e.Written.Location() == time.UTC,
				"the event is %+v of the task %+v; it is %v now", e, t, page.Now)
			f.wantEqual("the event", e, &task.Event{Position: e.Position, Reader: "caller:alice", Principal: "alice",
				Kind: e.Kind, Task: t.ID, Target: t.Target, Key: e.Key, Written: e.Written,
				Status: []task.Status{5: task.Completed}[i]})
		}
	}},
	{"a task without Events has none, and a write that is refused logs none", func(f *fixture, s task.Store) {
		t := f.addRunning(s, "alice")
		t.Pending = everyByte
		f.park(s, t, question("key", "user:bob"))
		f.decide(s, t.ID, "key")
		t = f.claimThis(s, t.ID, long)
		f.updateStatus(s, t, task.Failed, task.Update{Leased: true, Due: -1})
		logged := f.addLogged(s, "alice")
		logged.Version--
		logged.Status = task.Completed
		f.wantUpdate(s, logged, task.Update{Due: -1}, task.ErrConflict)
		f.wantEvents(s, ofAlice)
	}},
	{"a page has the events of one principal, of its task, kinds and target, after a position, up to the limit",
		func(f *fixture, s task.Store) {
			var all []*task.Task
			for i, principal := range []string{"alice", "bob", "alice", "", "alice"} {
				t := newTask(principal)
				t.Events, t.Target = true, fmt.Sprint("tool ", i%4)
				f.createWith(s, t, long)
				f.park(s, t, question("key", "user:carol"))
				all = append(all, t)
			}
			for _, t := range all {
				f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
			}
			everything := f.wantEvents(s, ofAlice, "asked key", "asked key", "asked key", "ended ", "ended ", "ended ").Events
			for _, none := range []string{"caller:", "task:" + all[2].ID, "caller:carol", "alice"} {
				f.wantEvents(s, eventsOf(none))
			}
			f.wantEvents(s, eventsOf())
			f.wantEvents(s, eventsOf("task:"+all[3].ID), "asked key", "ended ")
			of := ofAlice
			of.Task = all[2].ID
			f.wantEvents(s, of, "asked key", "ended ")
			of.Readers = []string{"caller:bob"}
			f.wantEvents(s, of)
			of = ofAlice
			of.Kinds = []task.EventKind{task.EventEnded, task.EventInput}
			f.wantEvents(s, of, "ended ", "ended ", "ended ")
			of.Target = "tool 0"
			f.wantEvents(s, of, "ended ", "ended ")
			of.Target = "tool 1"
			f.wantEvents(s, of)
			for i, after := range everything {
				page := f.events(s, task.EventQuery{Readers: ofAlice.Readers, After: after.Position, Limit: 2})
				f.wantEqual(fmt.Sprintf("the page after event %d", i), page, &task.EventPage{At: after, Last: everything[5],
					Events: everything[i+1 : min(i+3, 6)], Now: page.Now})
			}
			page := f.wantEvents(s, task.EventQuery{Readers: []string{"caller:bob"}, After: everything[0].Position})
			f.wantEqual("what another reader has at that position", page.At, everything[0])
			of = task.EventQuery{Readers: ofAlice.Readers, After: 1 << 60, Limit: 9}
			page = f.wantEvents(s, of)
			f.check(page.At == nil && page.Last != nil, "beyond the end At is %+v and Last is %+v", page.At, page.Last)
			of.After, of.Limit = 0, 0
			f.wantEvents(s, of)
		}},
	{"events are deleted with their task, which is remembered, and no position is given again",
		func(f *fixture, s task.Store) {
			end := func(principal string, ttl time.Duration) *task.Task {
				f.ttl = ttl
				t := f.addLogged(s, principal)
				f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
				return t
			}
			stays := end("alice", long)
			first := f.wantEvents(s, ofAlice, "ended ").Last
			end("alice", time.Millisecond)
			second := f.wantEvents(s, ofAlice, "ended ", "ended ").Last
			unseen := end("alice", time.Millisecond)
			anonymous := f.addLogged(s, "")
			f.park(s, anonymous, question("key", "user:dave"))
			f.updateStatus(s, anonymous, task.Cancelled, task.Update{Due: -1})
			end("bob", long)
			f.eventually("three are purged", func() bool {
				must(s.Purge(f.ctx, 0, 9))(f, "Purge")
				return len(f.events(s, ofAlice).Events) == 1 && f.events(s, eventsOf("user:dave")).Deleted > 0
			})
			f.wantGone(s, unseen.ID)
			f.wantGone(s, anonymous.ID)
			page := f.events(s, eventsOf("task:"+anonymous.ID))
			f.check(page.Deleted == 0, "of an anonymous caller, %d was deleted", page.Deleted)
			page = f.wantEvents(s, task.EventQuery{Readers: ofAlice.Readers, After: second.Position, Limit: 9})
			f.check(page.At == nil && *page.Last == *first && page.Deleted > second.Position,
				"the first event is %+v, the second one %+v, and the page after it %+v", first, second, page)
			page = f.events(s, eventsOf("caller:bob"))
			f.check(page.Deleted == 0, "of bob, %d was deleted", page.Deleted)
			end("alice", long)
			page = f.wantEvents(s, ofAlice, "ended ", "ended ")
			f.check(page.Last.Position > page.Deleted, "the next event is %+v, and %d was deleted", page.Last, page.Deleted)
			f.evict(s, "alice", -time.Second, 1, 1)
			f.wantGone(s, stays.ID)
			f.wantEvents(s, ofAlice, "ended ")
		}},
	{"the people of a question read that it is asked and decided, as long as it is for them",
		func(f *fixture, s task.Store) {
			writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
			t := f.addLogged(writer, "alice")
			f.park(writer, t, question("people", "user:bob", "group:a"), question("timer"))
			f.wantEvents(reader, ofAlice, "asked people")
			f.wantEvents(reader, eventsOf("user:bob"), "asked people")
			both := f.wantEvents(reader, eventsOf("user:bob", "group:a"), "asked people", "asked people")
			for i, e := range both.Events {
				f.check(e.Reader == []string{"user:bob", "group:a"}[i] && e.Principal == "alice" && e.Task == t.ID &&
					e.ID() == both.Events[0].ID(),
					"event %d is %+v", i, e)
			}
			f.wantEvents(reader, eventsOf("user:carol", "user:alice", "caller:bob", "bob"))
			one := eventsOf("user:bob")
			one.Task = t.ID
			f.wantEvents(reader, one, "asked people")
			one.Task = "another"
			f.wantEvents(reader, one)

			f.edit(writer, t.ID, "people", func(q *task.Question) { q.For = []string{"group:a", "user:carol"} })
			f.wantEvents(reader, eventsOf("user:carol"), "asked people")
			f.edit(writer, t.ID, "people", func(q *task.Question) { q.Votes = []byte("a vote") })
			f.edit(writer, t.ID, "people", func(q *task.Question) { q.For = append(q.For, "user:bob") })
			f.edit(writer, t.ID, "people", func(q *task.Question) { q.For = q.For[:2] })
			f.decide(writer, t.ID, "people")
			t = f.claimThis(writer, t.ID, long)
			f.updateStatus(writer, t, task.Completed, task.Update{Leased: true, Due: -1})
			f.wantEvents(reader, ofAlice, "asked people", "decided people", "ended ")
			bob := f.wantEvents(reader, eventsOf("user:bob"), "asked people")
			f.wantEvents(reader, eventsOf("user:carol"), "asked people", "decided people")
			group := f.wantEvents(reader, eventsOf("group:a"), "asked people", "decided people")

			f.evict(s, "alice", -time.Second, 1, 1)
			for name, last := range map[string]*task.Event{"user:bob": bob.Last, "group:a": group.Last} {
				page := f.wantEvents(reader, eventsOf(name))
				f.check(page.Deleted == last.Position && page.Last == nil,
					"%s: the last event is %+v and %d was deleted, want %d", name, page.Last, page.Deleted, last.Position)
			}
			page := f.wantEvents(reader, eventsOf("user:bob", "group:a", "user:dave"))
			f.check(page.Deleted >= group.Last.Position, "of all readers %d was deleted, not %+v", page.Deleted, group.Last)
		}},
	{"what an author emits is logged once for each reader, and the newest is kept for a time",
		func(f *fixture, s task.Store) {
			writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
			emitFor := func(keep time.Duration, id string, readers ...string) {
				f.ok("Emit", writer.(task.EventLog).Emit(f.ctx, &task.Emission{Readers: readers, ID: id,
					Payload: `{"id":"` + id + `"}`, Keep: keep, Most: 3}))
			}
			emit := func(id string, readers ...string) { emitFor(long, id, readers...) }
			t := f.addLogged(writer, "alice")
			f.updateStatus(writer, t, task.Completed, task.Update{Due: -1})
			emit("1", "emitted:x")
			emit("2", "emitted:x:carol", "emitted:x:bob")
			emit("1", "emitted:x", "emitted:x:bob")
			emit("2", "emitted:y")
			x := f.wantEvents(reader, eventsOf("emitted:x"), "emitted 1")
			e := *x.Events[0]
			f.check(!e.Written.IsZero() && !e.Written.After(x.Now) && e.Written.Location() == time.UTC,
				"it was emitted at %v, and now it is %v", e.Written, x.Now)
			f.wantEqual("the event", e, task.Event{Reader: "emitted:x", Kind: task.EventEmitted, Key: "1", Payload: `{"id":"1"}`,
				Position: e.Position, Written: e.Written})
			bob := f.wantEvents(reader, eventsOf("emitted:x", "emitted:x:bob"), "emitted 1", "emitted 2", "emitted 1")
			f.check(bob.Last.ID() == x.Last.ID() && bob.Events[1].ID() != x.Last.ID(),
				"the IDs of events are %q, %q and %q", x.Last.ID(), bob.Events[1].ID(), bob.Last.ID())
			f.wantEvents(reader, eventsOf("emitted:x:carol"), "emitted 2")
			f.wantEvents(reader, eventsOf("emitted:y"), "emitted 2")
			f.wantEvents(reader, eventsOf("emitted:", "emitted:x:", "x"))
			f.wantEvents(reader, ofAlice, "ended ")

			emit("3", "emitted:x")
			emit("4", "emitted:x")
			emit("4", "emitted:x")
			full := f.wantEvents(reader, eventsOf("emitted:x"), "emitted 1", "emitted 3", "emitted 4")
			f.check(full.Deleted == 0, "%d was deleted, and nothing too much emitted", full.Deleted)
			emit("5", "emitted:x")
			page := f.wantEvents(reader, eventsOf("emitted:x"), "emitted 3", "emitted 4", "emitted 5")
			f.check(page.Deleted == full.Events[0].Position, "%d was deleted, not %+v", page.Deleted, full.Events[0])
			f.wantEvents(reader, eventsOf("emitted:x:bob"), "emitted 2", "emitted 1")

			emitFor(time.Millisecond, "1", "emitted:z")
			f.eventually("what was kept for a time is gone", func() bool {
				must(s.Purge(f.ctx, 0, 9))(f, "Purge")
				return len(f.events(reader, eventsOf("emitted:z")).Events) == 0
			})
			page = f.events(reader, eventsOf("emitted:z"))
			f.check(page.Deleted > full.Last.Position && page.Last == nil,
				"%d was deleted, and the last is %+v", page.Deleted, page.Last)
			f.wantEvents(reader, eventsOf("emitted:x"), "emitted 3", "emitted 4", "emitted 5")
		}},
	{"a reader who follows the positions misses no event, however late a write is committed",
		func(f *fixture, s task.Store) {
			const writers, each = 4, 12
			sets := [][]string{{"caller:alice"}, {"caller:alice", "user:carol"}, {"user:carol", "caller:alice"}}
			var writing atomic.Int64
			writing.Store(writers)
			handles := f.instances(s, writers)
			type seen struct {
				reader   int
				of, task string
				kind     task.EventKind
			}
			read := together(&f.suite, writers+len(sets), func(i int, add func(seen)) error {
				if i < writers {
					defer writing.Add(-1)
					for n := range each {
						if err := live(f, handles[i], []string{"alice", "bob"}[n%2]); err != nil {
							return err
						}
					}
					return nil
				}
				q := task.EventQuery{Readers: sets[i-writers], Limit: 3}
				for {
					last := writing.Load() == 0
					page, err := handles[i-writers].(task.EventLog).Events(f.ctx, q)
					if err != nil || last && len(page.Events) == 0 {
						return err
					}
					for _, e := range page.Events {
						add(seen{i, e.Reader, e.Task, e.Kind})
						q.After = e.Position
					}
				}
			})
			was := make(map[seen]bool)
			for _, e := range read {
				f.check(!was[e] && (e.kind != task.EventEnded || was[seen{e.reader, e.of, e.task, task.EventAsked}]),
					"%+v comes at the wrong time, or again", e)
				was[e] = true
			}
			asked := writers * each // of which alice's calls ask half, and end
			want := len(sets)*asked + 2*asked
			f.check(len(read) == want, "the readers have read %d events, want %d", len(read), want)
		}},
})

// live makes a task ask, and end.
func live(f *fixture, s task.Store, principal string) error {
	t := newTask(principal)
	t.Events = true
	err := s.Create(f.ctx, t, long, long, nil, nil, task.Quota{})
	if err == nil {
		t.Status = task.InputRequired
		err = s.Update(f.ctx, t, task.Update{Leased: true, Due: -1, Ask: []*task.Question{question("key", "user:carol")}})
	}
	if err == nil {
		t.Status = task.Completed
		err = s.Update(f.ctx, t, task.Update{Due: -1})
	}
	return err
}

// ofAlice is a query for all events of a principal.
var ofAlice = task.EventQuery{Readers: []string{"caller:alice"}, Limit: 100}

func eventsOf(readers ...string) task.EventQuery {
	return task.EventQuery{Readers: readers, Limit: 9}
}

// addLogged creates a task with Events that the caller has claimed.
func (f *fixture) addLogged(s task.Store, principal string) *task.Task {
	t := newTask(principal)
	t.Events = true
	f.createWith(s, t, long)
	f.wantRow(s, t)
	return t
}

func (f *fixture) events(s task.Store, q task.EventQuery) *task.EventPage {
	return must(s.(task.EventLog).Events(f.ctx, q))(f, "Events")
}

// wantEvents requires that a page has events of these kinds with these keys, in this order.
func (f *fixture) wantEvents(s task.Store, q task.EventQuery, want ...string) *task.EventPage {
	page := f.events(s, q)
	got := each(page.Events, func(e *task.Event) string { return string(e.Kind) + " " + e.Key })
	f.wantEqual(fmt.Sprintf("Events with %+v", q), got, want)
	f.check(slices.IsSortedFunc(page.Events, func(a, b *task.Event) int { return cmp.Compare(a.Position, b.Position) }),
		"Events with %+v are in another order than their positions", q)
	return page
}
