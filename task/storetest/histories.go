package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

// What a store finds of questions beyond those that wait.
var historyTests = []test{
	{"ForOthers leaves out what the tasks of one principal ask, unless it is For", func(f *fixture, s task.Store) {
		for i, principal := range []string{"alice", "bob", ""} {
			t := f.addRunning(s, principal)
			key := func(k string) string { return fmt.Sprint(k, i) }
			group, both, other := question(key("a"), "group:a"), question(key("b"), "user:alice", "group:a"),
				question(key("c"), "group:b")
			group.Within, both.Within, other.Within = long, long+time.Minute, long+time.Hour
			group.Equal, both.Equal = "equal", "equal"
			f.park(s, t, group, both, other)
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
		t := f.addRunning(s, "alice")
		f.park(s, t, question("key", "user:bob"), question("other", "user:bob"))
		for _, voters := range [][]string{{"bob"}, {"bob", "ä'%\\"}, {"carol"}, nil, {"bob", "carol"}} {
			q := f.question(s, t.ID, "key")
			q.Voters = slices.Clone(voters)
			f.change(s, q)
			if len(voters) > 0 {
				q.Voters[0] = "mallory"
			}
			if got := f.question(s, t.ID, "key").Voters; !slices.Equal(got, voters) {
				f.Errorf("the voters are %q, want %q", got, voters)
			}
			if waits := f.waiting(s, task.QuestionFilter{For: []string{"user:bob"}}); len(waits) != 2 ||
				!slices.Equal(waits[0].Voters, voters) {
				f.Errorf("the list has %d questions, want 2 with the voters %q", len(waits), voters)
			}
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
			t := f.addRunning(s, principal)
			key := func(k string) string { return fmt.Sprint(k, i) }
			timer := question(key("timer"))
			timer.Within = long
			f.park(s, t, question(key("decided"), "group:a"), question(key("open"), "group:a"),
				question(key("withdrawn"), "group:a"), timer)
			for _, k := range []string{"decided", "open", "withdrawn", "timer"} {
				q := f.question(s, t.ID, key(k))
				q.Voters = []string{"carol"}
				if k == "open" {
					q.Voters = append(q.Voters, "dave")
				}
				f.change(s, q)
			}
			f.decide(s, t.ID, key("decided"))
			t = f.get(s, t.ID)
			f.update(s, t, task.Update{Keep: true, Answered: []string{key("withdrawn")}})
			if i == 2 {
				f.updateStatus(s, f.get(s, t.ID), task.Cancelled, task.Update{Due: -1})
			}
			f.tick(s, f.get(s, t.ID).Updated)
			three := []string{key("withdrawn"), key("open"), key("decided")}
			voted = slices.Concat(three, voted)
			if principal == "alice" {
				all = slices.Concat(three, all)
			}
		}
		f.wantStatus(s, f.history(s, task.QuestionHistory{Voter: "dave"})[1].Task, "open2", task.QuestionWithdrawn)
		for _, s := range f.instances(s, 2) {
			f.wantHistory(s, task.QuestionHistory{Principal: "alice"}, all...)
			f.wantHistory(s, task.QuestionHistory{Voter: "carol"}, voted...)
			f.wantHistory(s, task.QuestionHistory{Voter: "dave"}, "open3", "open2", "open1", "open0")
			for _, none := range []string{"", "Alice", "alice ", "caf\xe9", "a\x00", "' OR ''='", "%"} {
				if none != "" {
					f.wantHistory(s, task.QuestionHistory{Voter: none})
				}
				f.wantHistory(s, task.QuestionHistory{Principal: none})
			}
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
			f.Helper()
			for i, s := range handles {
				got, now := f.changes(s, &task.Question{Changed: last})
				var changed []string
				for _, q := range got {
					if version, known := seen[q.Key]; !known || version != q.Version {
						changed = append(changed, q.Key)
					}
					if !cmp.Equal(q, f.question(s, q.Task, q.Key), cmpopts.EquateEmpty()) || q.Changed.After(now) {
						f.Errorf("%s: at %v %q is told to be %+v", says, now, q.Key, q)
					}
				}
				slices.Sort(changed)
				if !slices.Equal(changed, keys) {
					f.Errorf("%s: %q have changed, want %q", says, changed, keys)
				}
				if i == 1 {
					for _, q := range got {
						seen[q.Key] = q.Version
						last = q.Changed
					}
				}
			}
		}
		none, now := f.changes(s, &task.Question{Changed: time.Now().Add(-100 * long)})
		if len(none) > 0 || now.IsZero() {
			f.Errorf("at %v %d questions have changed", now, len(none))
		}
		t := f.addRunning(s, "alice")
		timer, late := question("timer"), question("late", "user:bob")
		timer.Within = time.Millisecond
		f.park(s, t, question("a", "user:bob"), question("b", "user:bob"), question("c", "user:bob"), late, timer)
		want("asked", "a", "b", "c", "late")
		if q := f.question(s, t.ID, "a"); q.Changed.Before(q.Asked) || q.Changed.Before(now) {
			f.Errorf("it was asked at %v, changed at %v, after %v", q.Asked, q.Changed, now)
		}
		want("nothing")
		for _, change := range []func(q *task.Question){
			func(q *task.Question) { q.Votes, q.Voters = []byte("votes"), []string{"bob"} },
			func(q *task.Question) { q.Deadline = q.Asked.Add(long) },
			func(*task.Question) {},
			func(q *task.Question) { q.Decision = []byte("decision") },
		} {
			q := f.question(s, t.ID, "a")
			f.tick(s, q.Changed)
			change(q)
			f.change(s, q)
			if now := f.question(s, t.ID, "a").Changed; !now.After(q.Changed) {
				f.Errorf("it was changed at %v, and at %v before", now, q.Changed)
			}
			want("changed", "a")
		}
		t = f.get(s, t.ID)
		f.tick(s, t.Updated)
		f.update(s, t, task.Update{Keep: true, Answered: []string{"b"}})
		want("answered by its client", "b")
		f.tick(s, t.Updated)
		f.updateStatus(s, f.claimThis(s, t.ID, long), task.InputRequired,
			task.Update{Leased: true, Due: -1, Ask: []*task.Question{question("b"), late}})
		want("one is asked again, and one no longer", "b", "c")
		late = f.question(s, t.ID, "late")
		late.Deadline = late.Asked
		f.tick(s, late.Changed)
		f.change(s, late)
		late.Decision = []byte("unanswered")
		f.wantChange(s, late, true, nil)
		want("its deadline has passed", "late")
		f.tick(s, f.get(s, t.ID).Updated)
		f.updateStatus(s, f.get(s, t.ID), task.Cancelled, task.Update{Due: -1})
		want("cancelled", "b")
		whole, _ := f.changes(s, nil)
		if len(whole) != 4 {
			f.Errorf("%d questions have changed since ever, want 4", len(whole))
		}
		if page, now, err := s.Changes(f.ctx, nil, 0); err != nil || len(page) > 0 || now.Before(last) {
			f.Errorf("a limit of zero reads %d questions at %v, %v", len(page), now, err)
		}
	}},
	{"Changes have each once, in the order of their times, then by the name of their task and by key",
		func(f *fixture, s task.Store) {
			for i := range 5 { // several are of one time
				t := f.addRunning(s, "alice")
				if i%2 == 0 {
					f.tick(s, t.Created)
				}
				f.park(s, t, question("b", "user:bob"), question("a", "user:bob"), question("c", "user:bob"))
			}
			whole, _ := f.changes(s, nil)
			place := func(q *task.Question) string {
				return fmt.Sprint(q.Changed.UnixMilli(), " ", task.Name(q.Task), " ", q.Key)
			}
			if len(whole) != 15 || !slices.IsSortedFunc(whole, func(a, b *task.Question) int {
				return strings.Compare(place(a), place(b))
			}) {
				f.Errorf("%d changes, or in another order", len(whole))
			}
			for _, size := range []int{1, 2, 4, 15} {
				f.pages(size, whole, func(after *task.Question) ([]*task.Question, error) {
					page, _, err := s.Changes(f.ctx, after, size)
					return page, err
				})
			}
		}},
}

func (f *fixture) history(s task.Store, of task.QuestionHistory) []*task.Question {
	f.Helper()
	qs, err := s.History(f.ctx, of, nil, 1000)
	f.ok("History", err)
	return qs
}

func (f *fixture) wantHistory(s task.Store, of task.QuestionHistory, keys ...string) {
	f.Helper()
	f.wantKeys(fmt.Sprintf("History of %q", of), f.history(s, of), keys)
}

// changes reads what was changed after a place, and the time.
func (f *fixture) changes(s task.Store, after *task.Question) ([]*task.Question, time.Time) {
	f.Helper()
	qs, now, err := s.Changes(f.ctx, after, 1000)
	f.ok("Changes", err)
	return qs, now
}

// pages requires that pages of this size give all questions, each after the place of the last one before it.
func (f *fixture) pages(
	size int, all []*task.Question, read func(after *task.Question) ([]*task.Question, error),
) {
	f.Helper()
	paged := readPages(&f.suite, size, func(last *task.Question) ([]*task.Question, error) {
		if last == nil {
			return read(nil)
		}
		return read(&task.Question{Task: last.Task, Key: last.Key, Asked: last.Asked, Deadline: last.Deadline,
			Changed: last.Changed})
	})
	if diff := cmp.Diff(all, paged, cmpopts.EquateEmpty()); diff != "" {
		f.Errorf("pages of %d give other questions, or another order, than one page (-want +got):\n%s", size, diff)
	}
}
