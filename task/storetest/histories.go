package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/task"
)

// What a store finds of questions beyond those that wait.
var historyTests = []test{
	{"ForOthers leaves out what the tasks of one principal ask, unless it is For", func(f *fixture, s task.Store) {
		for i, principal := range []string{"alice", "bob", ""} {
			key := func(k string) string { return fmt.Sprint(k, i) }
			group, both := within(long, key("a"), "group:a"), within(long+time.Minute, key("b"), "user:alice", "group:a")
			group.Equal, both.Equal = "equal", "equal"
			t := f.addAsking(s, principal, group, both, within(long+time.Hour, key("c"), "group:b"))
			f.tick(s, t.Updated)
		}
		alice := task.QuestionFilter{For: []string{"user:alice"}, ForOthers: []string{"group:a", "group:none"}, Own: "alice"}
		with := func(change func(*task.QuestionFilter)) task.QuestionFilter {
			f := alice
			change(&f)
			return f
		}
		for _, c := range []struct {
			filter task.QuestionFilter
			want   string
		}{
			{alice, "b0 a1 b1 a2 b2"},
			{with(func(f *task.QuestionFilter) { f.Newest = true }), "b2 a2 b1 a1 b0"},
			{with(func(f *task.QuestionFilter) { f.ByDeadline = true }), "a1 a2 b0 b1 b2"},
			{with(func(f *task.QuestionFilter) { f.Equal = "equal" }), "b0 a1 b1 a2 b2"},
			{with(func(f *task.QuestionFilter) { f.For = nil }), "a1 b1 a2 b2"},
			{with(func(f *task.QuestionFilter) { f.For, f.Equal = nil, "equal" }), "a1 b1 a2 b2"},
			{with(func(f *task.QuestionFilter) { f.ForOthers = nil }), "b0 b1 b2"},
			{with(func(f *task.QuestionFilter) { f.ForOthers, f.Equal = nil, "equal" }), "b0 b1 b2"},
			{with(func(f *task.QuestionFilter) { f.ForOthers = append(f.For, "group:b") }), "b0 b1 c1 b2 c2"},
			{with(func(f *task.QuestionFilter) { f.Own = "" }), "a0 b0 a1 b1 b2"},
			{with(func(f *task.QuestionFilter) { f.Own = "Alice" }), "a0 b0 a1 b1 a2 b2"},
			{with(func(f *task.QuestionFilter) { f.Targets = []string{"none"} }), ""},
			{task.QuestionFilter{Own: "alice"}, "a0 b0 c0 a1 b1 c1 a2 b2 c2"},
		} {
			f.wantWaiting(s, c.filter, strings.Fields(c.want)...)
			f.wantPages(s, c.filter, 2, f.waiting(s, c.filter))
		}
	}},
	{"Voters are those that ChangeQuestion wrote", func(f *fixture, s task.Store) {
		t := f.addAsking(s, "alice", forBob("key", "other")...)
		for _, voters := range [][]string{{"bob"}, {"bob", "ä'%\\"}, {"carol"}, nil, {"bob", "carol"}} {
			given := slices.Clone(voters)
			f.edit(s, t.ID, "key", func(q *task.Question) { q.Voters = given })
			if len(voters) > 0 {
				given[0] = "mallory"
			}
			f.wantEqual("the voters", f.question(s, t.ID, "key").Voters, voters)
			waits := f.waiting(s, task.QuestionFilter{For: []string{"user:bob"}})
			f.wantEqual("the voters in the list", [][]string{waits[0].Voters, waits[1].Voters}, [][]string{voters, nil})
			for _, name := range []string{"bob", "carol", "ä'%\\", "mallory"} {
				var want []string
				if slices.Contains(voters, name) {
					want = []string{"key"}
				}
				f.wantHistory(s, task.QuestionHistory{Voter: name}, want...)
			}
		}
	}},
	{"a history has questions of any status, the newest first, and nothing of others", func(f *fixture, s task.Store) {
		var all, voted []string
		for i, principal := range []string{"alice", "bob", "alice", "alice"} {
			key := func(k string) string { return fmt.Sprint(k, i) }
			three := []string{key("withdrawn"), key("open"), key("decided")}
			t := f.addAsking(s, principal, append(forBob(three...), within(long, key("timer")))...)
			for k, voters := range map[string][]string{"open": {"carol", "dave"}, "decided": {"carol"}, "withdrawn": {"carol"},
				"timer": {"carol"}} {
				f.edit(s, t.ID, key(k), func(q *task.Question) { q.Voters = voters })
			}
			f.decide(s, t.ID, key("decided"))
			t = f.get(s, t.ID)
			f.update(s, t, task.Update{Keep: true, Answered: []string{key("withdrawn")}})
			if i == 2 {
				f.updateStatus(s, f.get(s, t.ID), task.Cancelled, task.Update{Due: -1})
			}
			f.tick(s, f.get(s, t.ID).Updated)
			voted = slices.Concat(three, voted)
			if principal == "alice" {
				all = slices.Concat(three, all)
			}
		}
		cancelled := f.history(s, task.QuestionHistory{Voter: "dave"})[1]
		f.check(cancelled.Status == task.QuestionWithdrawn, "of a cancelled task a question is %s", cancelled.Status)
		for _, s := range f.instances(s, 2) {
			f.wantHistory(s, task.QuestionHistory{Principal: "alice"}, all...)
			f.wantHistory(s, task.QuestionHistory{Voter: "carol"}, voted...)
			f.wantHistory(s, task.QuestionHistory{Voter: "dave"}, "open3", "open2", "open1", "open0")
			for _, none := range []string{"Alice", "alice ", "caf\xe9", "a\x00", "' OR ''='", "%"} {
				f.wantHistory(s, task.QuestionHistory{Voter: none})
				f.wantHistory(s, task.QuestionHistory{Principal: none})
			}
			f.wantHistory(s, task.QuestionHistory{})
			f.wantHistory(s, task.QuestionHistory{Voter: "alice"})
			f.wantHistory(s, task.QuestionHistory{Principal: "carol"})
		}
		for _, of := range []task.QuestionHistory{{Principal: "alice"}, {Voter: "carol"}} {
			whole := f.history(s, of)
			for _, size := range []int{1, 2, 5, len(whole), len(whole) + 1} {
				f.pages(size, whole, func(after *task.Question) ([]*task.Question, error) {
					return s.History(f.ctx, of, after, size)
				})
			}
		}
	}},
	{"Changes has what was changed since a time, by the store's clock, as it is then", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		var last time.Time
		seen := make(map[string]int64)
		// want requires that these questions have changed since the last time.
		want := func(says string, keys ...string) {
			for i, s := range handles {
				got, now := f.changes(s, &task.Question{Changed: last})
				var changed []string
				for _, q := range got {
					if version, known := seen[q.Key]; !known || version != q.Version {
						changed = append(changed, q.Key)
					}
					f.wantEqual(says, q, f.question(s, q.Task, q.Key))
					f.check(!q.Changed.After(now), "%s: at %v %q is told to be %+v", says, now, q.Key, q)
				}
				slices.Sort(changed)
				f.wantEqual(says, changed, keys)
				if i == 1 {
					for _, q := range got {
						seen[q.Key] = q.Version
						last = q.Changed
					}
				}
			}
		}
		none, now := f.changes(s, &task.Question{Changed: time.Now().Add(-100 * long)})
		f.check(len(none) == 0 && !now.IsZero(), "at %v %d questions have changed", now, len(none))
		late := question("late", "user:bob")
		t := f.addAsking(s, "alice", append(forBob("a", "b", "c"), late, within(time.Millisecond, "timer"))...)
		want("asked", "a", "b", "c", "late")
		q := f.question(s, t.ID, "a")
		f.check(!q.Changed.Before(q.Asked) && !q.Changed.Before(now),
			"it was asked at %v, changed at %v, after %v", q.Asked, q.Changed, now)
		want("nothing")
		for _, change := range []func(q *task.Question){
			func(q *task.Question) { q.Votes, q.Voters = []byte("votes"), []string{"bob"} },
			func(q *task.Question) { q.Deadline = q.Asked.Add(long) },
			func(*task.Question) {},
			func(q *task.Question) { q.Decision = []byte("decision") },
		} {
			f.tick(s, f.question(s, t.ID, "a").Changed)
			q := f.edit(s, t.ID, "a", change)
			now := f.question(s, t.ID, "a").Changed
			f.check(now.After(q.Changed), "it was changed at %v, and at %v before", now, q.Changed)
			want("changed", "a")
		}
		t = f.get(s, t.ID)
		f.tick(s, t.Updated)
		f.update(s, t, task.Update{Keep: true, Answered: []string{"b"}})
		want("answered by its client", "b")
		f.tick(s, t.Updated)
		f.park(s, f.claimThis(s, t.ID, long), question("b"), late)
		want("one is asked again, and one no longer", "b", "c")
		f.tick(s, f.question(s, t.ID, "late").Changed)
		f.expire(s, t.ID, "late")
		want("its deadline has passed", "late")
		f.tick(s, f.get(s, t.ID).Updated)
		f.updateStatus(s, f.get(s, t.ID), task.Cancelled, task.Update{Due: -1})
		want("cancelled", "b")
		whole, _ := f.changes(s, nil)
		f.check(len(whole) == 4, "%d questions have changed since ever, want 4", len(whole))
		page, now, err := s.Changes(f.ctx, nil, 0)
		f.check(err == nil && len(page) == 0 && !now.Before(last),
			"a limit of zero reads %d questions at %v, %v", len(page), now, err)
	}},
	{"Changes have each once, in the order of their times, then by the name of their task and by key",
		func(f *fixture, s task.Store) {
			for i := range 5 { // several are of one time
				t := f.addRunning(s, "alice")
				if i%2 == 0 {
					f.tick(s, t.Created)
				}
				f.park(s, t, forBob("b", "a", "c")...)
			}
			whole, _ := f.changes(s, nil)
			places := each(whole, func(q *task.Question) string {
				return fmt.Sprint(q.Changed.UnixMilli(), " ", task.Name(q.Task), " ", q.Key)
			})
			f.check(len(whole) == 15 && slices.IsSorted(places), "not 15 changes in their order: %q", places)
			for _, size := range []int{1, 2, 4, 15} {
				f.pages(size, whole, func(after *task.Question) ([]*task.Question, error) {
					page, _, err := s.Changes(f.ctx, after, size)
					return page, err
				})
			}
		}},
}

func (f *fixture) history(s task.Store, of task.QuestionHistory) []*task.Question {
	return must(s.History(f.ctx, of, nil, 1000))(f, "History")
}

func (f *fixture) wantHistory(s task.Store, of task.QuestionHistory, keys ...string) {
	f.wantKeys(fmt.Sprintf("History of %q", of), f.history(s, of), keys)
}

// changes reads what was changed after a place, and the time.
func (f *fixture) changes(s task.Store, after *task.Question) ([]*task.Question, time.Time) {
	qs, now, err := s.Changes(f.ctx, after, 1000)
	f.ok("Changes", err)
	return qs, now
}

// pages requires that pages of this size give all questions, each after the place of the last one before it.
func (f *fixture) pages(
	size int, all []*task.Question, read func(after *task.Question) ([]*task.Question, error),
) {
	paged := readPages(&f.suite, size, func(last *task.Question) ([]*task.Question, error) {
		if last.Task == "" {
			return read(nil)
		}
		return read(&task.Question{Task: last.Task, Key: last.Key, Asked: last.Asked, Deadline: last.Deadline,
			Changed: last.Changed})
	})
	f.wantEqual(fmt.Sprintf("pages of %d", size), paged, all)
}
