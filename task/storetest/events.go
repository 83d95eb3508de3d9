package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/task"
)

// logs tests a store that is a [task.EventLog].
func logs(test func(f *fixture, s task.Store)) func(f *fixture, s task.Store) {
	return func(f *fixture, s task.Store) {
		if _, ok := s.(task.EventLog); !ok {
			f.Skip("not tested: this store is no task.EventLog")
		}
		test(f, s)
	}
}

var eventTests = []test{
	{"each event is logged once, by the write that makes it so, in the order of a task", logs(
		func(f *fixture, s task.Store) {
			writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
			t := f.addLogged(writer, "alice")
			f.wantEvents(reader, ofAlice)
			people, late, timer := question("people", "user:bob"), question("late", "user:bob"), question("timer")
			timer.Within = long
			f.park(writer, t, people, late, timer)
			f.wantEvents(reader, ofAlice, "asked people", "asked late")
			f.wake(writer, t)
			t.Pending = everyByte
			f.park(writer, t, people, late, timer)
			input := fmt.Sprintf("input %d", t.Version)
			f.wantEvents(reader, ofAlice, "asked people", "asked late", input)
			t.Message = "still asking"
			f.update(writer, t, task.Update{Keep: true})
			q := f.question(writer, t.ID, "people")
			q.Votes = []byte("a vote")
			f.change(writer, q)
			f.wantEvents(reader, ofAlice, "asked people", "asked late", input)
			f.decide(writer, t.ID, "people")
			for _, key := range []string{"late", "timer"} {
				q := f.question(writer, t.ID, key)
				q.Deadline = q.Asked
				f.change(writer, q)
				q.Decision = []byte("decision")
				f.wantChange(writer, q, true, nil)
			}
			t = f.claimThis(writer, t.ID, long)
			t.Pending, t.Outcome = nil, []byte("outcome")
			f.updateStatus(writer, t, task.Completed, task.Update{Leased: true, Due: 0})
			f.update(writer, t, task.Update{Due: -1})
			page := f.wantEvents(reader, ofAlice, "asked people", "asked late", input, "decided people",
				"unanswered late", "ended ")
			for _, e := range page.Events {
				status := task.Status("")
				if e.Kind == task.EventEnded {
					status = task.Completed
				}
				f.check(e.Task == t.ID && e.Target == t.Target && e.Principal == "alice" && e.Reader == "caller:alice" &&
					e.Status == status && !e.Written.Before(t.Created) &&
					!e.Written.After(page.Now) && e.Written.Location() == time.UTC,
					"the event is %+v of the task %+v; it is %v now", e, t, page.Now)
			}
		})},
	{"a task that is inserted has the events of its status and of what it asks", inserts(
		func(f *fixture, s task.Store, insert insert) {
			logs(func(f *fixture, s task.Store) {
				for status, want := range map[task.Status][]string{
					task.Working: nil, task.InputRequired: {"asked key", "input 7"}, task.Completed: {"ended "},
					task.Failed: {"ended "}, task.Cancelled: {"ended "},
				} {
					t := newTask(string(status))
					t.Events, t.Status, t.Version = true, status, 7
					u := task.Update{Due: long}
					if status == task.InputRequired {
						t.Pending, u = everyByte, task.Update{Due: -1, Ask: []*task.Question{question("key", "user:bob")}}
					}
					f.ok("Insert", insert(t, u, task.Quota{}))
					f.wantRow(s, t)
					page := f.events(s, task.EventQuery{Readers: []string{"caller:" + t.Principal}, Limit: 9})
					slices.SortFunc(page.Events, func(a, b *task.Event) int { return cmp.Compare(a.Kind, b.Kind) })
					f.wantLogged("a task that is "+string(status), page, want)
				}
			})(f, s)
		})},
	{"a task without Events has none, and a write that is refused logs none", logs(func(f *fixture, s task.Store) {
		t := f.addRunning(s, "alice")
		t.Pending = everyByte
		f.park(s, t, question("key", "user:bob"))
		f.decide(s, t.ID, "key")
		t = f.claimThis(s, t.ID, long)
		f.updateStatus(s, t, task.Failed, task.Update{Leased: true, Due: -1})
		logged := f.addLogged(s, "alice")
		logged.Version--
		logged.Status = task.Completed
		f.wantError("Update", s.Update(f.ctx, logged, task.Update{Due: -1}), task.ErrConflict)
		f.wantEvents(s, ofAlice)
	})},
	{"a page has the events of one principal, of its task, kinds and target, after a position, up to the limit", logs(
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
			f.wantEvents(s, task.EventQuery{Readers: []string{"caller:"}, Limit: 9})
			f.wantEvents(s, task.EventQuery{Readers: []string{"task:" + all[3].ID}, Limit: 9}, "asked key", "ended ")
			f.wantEvents(s, task.EventQuery{Readers: []string{"task:" + all[2].ID}, Limit: 9})
			f.wantEvents(s, task.EventQuery{Readers: []string{"caller:carol"}, Limit: 9})
			f.wantEvents(s, task.EventQuery{Readers: []string{"alice"}, Limit: 9})
			f.wantEvents(s, task.EventQuery{Limit: 9})
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
			for after := range everything {
				of = task.EventQuery{Readers: ofAlice.Readers, After: everything[after].Position, Limit: 2}
				page := f.events(s, of)
				f.check(page.At != nil && *page.At == *everything[after] && page.Last != nil && *page.Last == *everything[5],
					"after event %d: At is %+v and Last is %+v", after, page.At, page.Last)
				for i, e := range page.Events {
					f.check(*e == *everything[after+1+i],
						"after event %d: got %+v, want %+v", after, e, everything[after+1+i])
				}
				want := min(2, 5-after)
				f.check(len(page.Events) == want, "after event %d there are %d, want %d", after, len(page.Events), want)
			}
			of = task.EventQuery{Readers: []string{"caller:bob"}, After: everything[0].Position}
			page := f.wantEvents(s, of)
			f.check(page.At != nil && *page.At == *everything[0], "another reader has %+v at that position", page.At)
			of = task.EventQuery{Readers: ofAlice.Readers, After: 1 << 60, Limit: 9}
			page = f.wantEvents(s, of)
			f.check(page.At == nil && page.Last != nil, "beyond the end At is %+v and Last is %+v", page.At, page.Last)
			of.After, of.Limit = 0, 0
			f.wantEvents(s, of)
		})},
	{"events are deleted with their task, which is remembered, and no position is given again", logs(
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
			f.eventually("both are purged", func() bool {
				_, err := s.Purge(f.ctx, 0, 9)
				f.ok("Purge", err)
				return len(f.events(s, ofAlice).Events) == 1
			})
			f.wantGone(s, unseen.ID)
			f.eventually("a third one is purged", func() bool {
				_, err := s.Purge(f.ctx, 0, 9)
				f.ok("Purge", err)
				return f.events(s, task.EventQuery{Readers: []string{"user:dave"}}).Deleted > 0
			})
			f.wantGone(s, anonymous.ID)
			page := f.events(s, task.EventQuery{Readers: []string{"task:" + anonymous.ID}})
			f.check(page.Deleted == 0, "of an anonymous caller, %d was deleted", page.Deleted)
			page = f.wantEvents(s, task.EventQuery{Readers: ofAlice.Readers, After: second.Position, Limit: 9})
			f.check(page.At == nil && *page.Last == *first && page.Deleted > second.Position,
				"At is %+v, Last is %+v, want %+v, and Deleted is %d, want more than %d", page.At, page.Last, first, page.Deleted, second.Position)
			page = f.events(s, task.EventQuery{Readers: []string{"caller:bob"}})
			f.check(page.Deleted == 0, "of bob, %d was deleted", page.Deleted)
			end("alice", long)
			page = f.wantEvents(s, ofAlice, "ended ", "ended ")
			f.check(page.Last.Position > page.Deleted,
				"the next event has position %d, and %d was deleted", page.Last.Position, page.Deleted)
			n, err := s.Evict(f.ctx, "alice", -time.Second, 1)
			f.ok("Evict", err)
			f.require(n == 1, "Evict deleted %d tasks", n)
			f.wantGone(s, stays.ID)
			f.wantEvents(s, ofAlice, "ended ")
		})},
	{"the people of a question read that it is asked and decided, as long as it is for them", logs(
		func(f *fixture, s task.Store) {
			writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
			of := func(readers ...string) task.EventQuery { return task.EventQuery{Readers: readers, Limit: 9} }
			t := f.addLogged(writer, "alice")
			f.park(writer, t, question("people", "user:bob", "group:a"), question("timer"))
			f.wantEvents(reader, ofAlice, "asked people")
			f.wantEvents(reader, of("user:bob"), "asked people")
			both := f.wantEvents(reader, of("user:bob", "group:a"), "asked people", "asked people")
			for i, e := range both.Events {
				f.check(e.Reader == []string{"user:bob", "group:a"}[i] && e.Principal == "alice" && e.Task == t.ID &&
					e.ID() == both.Events[0].ID(),
					"event %d is %+v", i, e)
			}
			f.wantEvents(reader, of("user:carol", "user:alice", "caller:bob", "bob"))
			one := of("user:bob")
			one.Task = t.ID
			f.wantEvents(reader, one, "asked people")
			one.Task = "another"
			f.wantEvents(reader, one)

			q := f.question(writer, t.ID, "people")
			q.For = []string{"group:a", "user:carol"}
			f.change(writer, q)
			f.wantEvents(reader, of("user:carol"), "asked people")
			q.Votes = []byte("a vote")
			f.change(writer, q)
			q.For = []string{"group:a", "user:bob", "user:carol"}
			f.change(writer, q)
			q.For = []string{"group:a", "user:carol"}
			f.change(writer, q)
			f.decide(writer, t.ID, "people")
			t = f.claimThis(writer, t.ID, long)
			f.updateStatus(writer, t, task.Completed, task.Update{Leased: true, Due: -1})
			f.wantEvents(reader, ofAlice, "asked people", "decided people", "ended ")
			bob := f.wantEvents(reader, of("user:bob"), "asked people")
			f.wantEvents(reader, of("user:carol"), "asked people", "decided people")
			group := f.wantEvents(reader, of("group:a"), "asked people", "decided people")

			n, err := s.Evict(f.ctx, "alice", -time.Second, 1)
			f.require(n == 1 && err == nil, "Evict: %d, %v", n, err)
			for name, last := range map[string]*task.Event{"user:bob": bob.Last, "group:a": group.Last} {
				page := f.wantEvents(reader, of(name))
				f.check(page.Deleted == last.Position && page.Last == nil,
					"%s: the last event is %+v and %d was deleted, want %d", name, page.Last, page.Deleted, last.Position)
			}
			page := f.wantEvents(reader, of("user:bob", "group:a", "user:dave"))
			f.check(page.Deleted >= group.Last.Position,
				"of all readers %d was deleted, want %d", page.Deleted, group.Last.Position)
		})},
	{"what an author emits is logged once for each reader, and the newest is kept for a time", logs(
		func(f *fixture, s task.Store) {
			writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
			of := func(readers ...string) task.EventQuery { return task.EventQuery{Readers: readers, Limit: 9} }
			emit := func(id string, readers ...string) {
				f.ok("Emit", writer.(task.EventLog).Emit(f.ctx, &task.Emission{Readers: readers, ID: id,
					Payload: `{"id":"` + id + `"}`, Keep: long, Most: 3}))
			}
			t := f.addLogged(writer, "alice")
			f.updateStatus(writer, t, task.Completed, task.Update{Due: -1})
			emit("1", "emitted:x")
			emit("2", "emitted:x:carol", "emitted:x:bob")
			emit("1", "emitted:x", "emitted:x:bob")
			emit("2", "emitted:y")
			x := f.wantEvents(reader, of("emitted:x"), "emitted 1")
			e := *x.Events[0]
			f.check(!e.Written.IsZero() && !e.Written.After(x.Now) && e.Written.Location() == time.UTC,
				"it was emitted at %v, and now it is %v", e.Written, x.Now)
			e.Position, e.Written = 0, time.Time{}
			want := task.Event{Reader: "emitted:x", Kind: task.EventEmitted, Key: "1", Payload: `{"id":"1"}`}
			f.check(e == want, "the event is %+v, want %+v", e, want)
			bob := f.wantEvents(reader, of("emitted:x", "emitted:x:bob"), "emitted 1", "emitted 2", "emitted 1")
			f.check(bob.Last.ID() == x.Last.ID() && bob.Events[1].ID() != x.Last.ID(),
				"the IDs of events are %q, %q and %q", x.Last.ID(), bob.Events[1].ID(), bob.Last.ID())
			f.wantEvents(reader, of("emitted:x:carol"), "emitted 2")
			f.wantEvents(reader, of("emitted:y"), "emitted 2")
			f.wantEvents(reader, of("emitted:", "emitted:x:", "x"))
			f.wantEvents(reader, ofAlice, "ended ")

			emit("3", "emitted:x")
			emit("4", "emitted:x")
			emit("4", "emitted:x")
			full := f.wantEvents(reader, of("emitted:x"), "emitted 1", "emitted 3", "emitted 4")
			f.check(full.Deleted == 0, "%d was deleted, and nothing too much emitted", full.Deleted)
			emit("5", "emitted:x")
			page := f.wantEvents(reader, of("emitted:x"), "emitted 3", "emitted 4", "emitted 5")
			f.check(page.Deleted == full.Events[0].Position,
				"%d was deleted, want %d", page.Deleted, full.Events[0].Position)
			f.wantEvents(reader, of("emitted:x:bob"), "emitted 2", "emitted 1")

			f.ok("Emit", writer.(task.EventLog).Emit(f.ctx, &task.Emission{Readers: []string{"emitted:z"}, ID: "1",
				Payload: "{}", Keep: time.Millisecond, Most: 3}))
			f.eventually("what was kept for a time is gone", func() bool {
				_, err := s.Purge(f.ctx, 0, 9)
				f.ok("Purge", err)
				return len(f.events(reader, of("emitted:z")).Events) == 0
			})
			page = f.events(reader, of("emitted:z"))
			f.check(page.Deleted > full.Last.Position && page.Last == nil,
				"%d was deleted, and the last is %+v", page.Deleted, page.Last)
			f.wantEvents(reader, of("emitted:x"), "emitted 3", "emitted 4", "emitted 5")
		})},
	{"a reader who follows the positions misses no event, however late a write is committed", logs(
		func(f *fixture, s task.Store) {
			const writers, each = 4, 12
			sets := [][]string{{"caller:alice"}, {"caller:alice", "user:carol"}, {"user:carol", "caller:alice"}}
			var writing atomic.Int64
			writing.Store(writers)
			handles := f.instances(s, writers)
			type seen struct {
				reader int
				of     string
				task   string
				kind   task.EventKind
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
				if was[e] || e.kind == task.EventEnded && !was[seen{e.reader, e.of, e.task, task.EventAsked}] {
					f.Errorf("%+v comes at the wrong time, or again", e)
				}
				was[e] = true
			}
			asked := writers * each // of which alice's calls ask half, and end
			want := len(sets)*asked + 2*asked
			f.check(len(read) == want, "the readers have read %d events, want %d", len(read), want)
		})},
}

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

// addLogged creates a task with Events that the caller has claimed.
func (f *fixture) addLogged(s task.Store, principal string) *task.Task {
	t := newTask(principal)
	t.Events = true
	f.createWith(s, t, long)
	f.wantRow(s, t)
	return t
}

func (f *fixture) events(s task.Store, q task.EventQuery) *task.EventPage {
	page, err := s.(task.EventLog).Events(f.ctx, q)
	f.ok("Events", err)
	return page
}

// wantEvents requires that a page has events of these kinds with these keys, in this order.
func (f *fixture) wantEvents(s task.Store, q task.EventQuery, want ...string) *task.EventPage {
	page := f.events(s, q)
	f.wantLogged(fmt.Sprintf("Events with %+v", q), page, want)
	return page
}

func (f *fixture) wantLogged(what string, page *task.EventPage, want []string) {
	var got []string
	for _, e := range page.Events {
		got = append(got, string(e.Kind)+" "+e.Key)
	}
	f.require(slices.Equal(got, want), "%s gives %q, want %q", what, got, want)
	f.check(slices.IsSortedFunc(page.Events, func(a, b *task.Event) int { return cmp.Compare(a.Position, b.Position) }) || strings.HasPrefix(what, "a task"),
		"%s has positions in another order", what)
}
