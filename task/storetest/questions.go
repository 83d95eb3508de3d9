package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

var questionTests = slices.Concat(askTests, answeredTests, changeTests, waitingTests, historyTests)

// What updates do with questions.
var askTests = []test{
	{"a question that is new is added, with Asked now, its deadline by Within, and Task, Principal and Target of the task",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 2)
			t := f.addRunning(s, "alice")
			f.tick(s, t.Created)
			forAll := question("wire key", "user:bob", "group:release", "group:a")
			forAll.Equal, forAll.Content, forAll.Within, forAll.Remind = "equal", everyByte, 90*time.Minute, time.Hour
			timer := &task.Question{Key: "timer", Within: time.Millisecond}
			// What only the store says.
			forAll.Task, forAll.Principal, forAll.Target = "other", "mallory", "other"
			forAll.Asked, forAll.Deadline = time.Unix(1, 0), time.Unix(2, 0)
			forAll.Status, forAll.Votes, forAll.Decision = task.QuestionDecided, []byte("votes"), []byte("decision")
			given := *forAll
			given.For = slices.Clone(forAll.For)
			bare := question("bare", "user:bob")
			f.park(s, t, forAll, timer, bare)
			f.wantEqual("the given question", forAll, &given)
			for _, s := range handles {
				got := f.questions(s, t.ID)
				f.require(len(got) == 3, "the task has %d questions, want 3", len(got))
				asked := got[0].Asked
				f.check(asked.Equal(t.Updated), "it was asked at %v, and the update was made at %v", asked, t.Updated)
				want := []*task.Question{{Key: "bare", For: bare.For, Content: bare.Content},
					{Key: "timer", Deadline: asked.Add(time.Millisecond)},
					{Key: "wire key", For: given.For, Equal: "equal", Content: everyByte, Deadline: asked.Add(90 * time.Minute)}}
				for _, q := range want {
					q.Task, q.Principal, q.Target, q.Asked = t.ID, "alice", "deploy", asked
					q.Status, q.Version = task.QuestionOpen, got[0].Version
				}
				f.wantQuestions(s, t.ID, want...)
			}
			f.wantRow(s, t)
			f.noneDue(s)
		}},
	{"the store keeps what it was given, and each read is the caller's own", func(f *fixture, s task.Store) {
		q := question("key", "user:bob")
		t := f.addAsking(s, "alice", q)
		want := f.questions(s, t.ID)
		q.For[0], q.Content[0] = "user:mallory", 'X'
		for _, read := range slices.Concat(f.questions(s, t.ID), f.waiting(s, task.QuestionFilter{})) {
			read.For[0], read.Content[0] = "user:mallory", 'X'
		}
		f.wantQuestions(s, t.ID, want...)
		changed := f.question(s, t.ID, "key")
		changed.Votes, changed.Decision = []byte("votes"), []byte("decision")
		f.change(s, changed)
		changed.For[0], changed.Votes[0], changed.Decision[0] = "user:mallory", 'X', 'X'
		got := f.question(s, t.ID, "key")
		f.check(got.For[0] == "user:bob" && string(got.Votes) == "votes" && string(got.Decision) == "decision",
			"what the caller did with its question afterwards is stored: %+v", got)
	}},
	{"strings and bytes come back as they were", func(f *fixture, s task.Store) {
		t := f.addRunning(s, "ä")
		var asks []*task.Question
		for i, text := range append(texts, strings.Repeat("k", 512)) {
			text = text[:min(len(text), 500)]
			q := question(text, "user:"+text, "group:"+text, text)
			q.Equal, q.Content, q.Within = text, everyByte[:i], long
			asks = append(asks, q)
		}
		f.park(s, t, asks...)
		for _, filter := range []task.QuestionFilter{{}, {ByDeadline: true}, {Newest: true, For: asks[1].For}} {
			f.wantPages(s, filter, 3, f.waiting(s, filter))
		}
		for i, q := range asks {
			got := f.question(s, t.ID, q.Key)
			f.check(slices.Equal(got.For, q.For) && got.Equal == q.Equal && bytes.Equal(got.Content, q.Content),
				"question %d has Key %.100q and Equal %.100q", i, got.Key, got.Equal)
			got.Votes, got.For = everyByte[i:], append(got.For, "more")
			f.change(s, got)
			f.wantQuestion(s, got)
			f.wantWaiting(s, task.QuestionFilter{For: q.For[2:]}, q.Key)
			f.wantWaiting(s, task.QuestionFilter{For: []string{q.For[1], "user:nobody"}}, q.Key)
			if q.Equal != "" {
				f.wantWaiting(s, task.QuestionFilter{Equal: q.Equal}, q.Key)
			}
		}
		for _, none := range []string{"caf\xe9", "a\x00", "' OR ''='"} {
			f.wantWaiting(s, task.QuestionFilter{For: []string{none}})
			f.wantWaiting(s, task.QuestionFilter{Equal: none})
			f.wantChange(s, &task.Question{Task: t.ID, Key: none}, false, task.ErrNotFound)
			f.wantChange(s, &task.Question{Task: none, Key: "a"}, false, task.ErrNotFound)
			f.wantWaiting(s, task.QuestionFilter{Targets: []string{none}})
			got, err := s.Questions(f.ctx, none)
			f.check(len(got) == 0 && err == nil, "Questions of %q: %d, %v", none, len(got), err)
		}
	}},
	{"one that is no longer asked is withdrawn, and one that is asked again is open as it was",
		func(f *fixture, s task.Store) {
			first, second := within(long, "first", "user:bob"), within(long, "second", "user:bob")
			t := f.addAsking(s, "alice", first, second, within(long, "timer"))
			before := f.edit(s, t.ID, "first", func(q *task.Question) { q.Votes = []byte("votes") })
			open := f.edit(s, t.ID, "second", func(q *task.Question) {
				q.For, q.Votes, q.Deadline = []string{"user:carol"}, []byte("votes"), q.Deadline.Add(long)
			})
			f.tick(s, open.Asked)
			f.wake(s, t)
			second.For, second.Content, second.Equal = []string{"user:mallory"}, []byte("another"), "another"
			second.Within = time.Millisecond
			f.park(s, t, second)
			f.wantQuestion(s, open)
			f.wantStatuses(s, t.ID, "first withdrawn", "second open", "timer withdrawn")
			got := f.question(s, t.ID, "first")
			f.check(got.Version > before.Version, "its Version is %d, and was %d before", got.Version, before.Version)
			f.wantWaiting(s, task.QuestionFilter{}, "second")
			f.wake(s, t)
			first.Content, first.Within, first.For = []byte("another"), time.Minute, []string{"user:mallory"}
			f.park(s, t, first)
			again := f.question(s, t.ID, "first")
			f.check(again.Version > got.Version, "its Version is %d, and was %d before", again.Version, got.Version)
			before.Version = again.Version
			f.wantQuestion(s, before)
			f.wantStatuses(s, t.ID, "first open", "second withdrawn", "timer withdrawn")
			f.change(s, again)
			f.wake(s, t)
			f.park(s, t)
			f.wantStatuses(s, t.ID, "first withdrawn", "second withdrawn", "timer withdrawn")
		}},
	{"only an update that is Leased and leaves the task InputRequired touches what is open",
		func(f *fixture, s task.Store) {
			t := f.addAsking(s, "alice", question("key", "user:bob"))
			want := f.questions(s, t.ID)
			other := []*task.Question{question("other", "user:bob")}
			for says, u := range map[string]task.Update{
				"with more entries while it is parked": {Keep: true, Entries: list("entry")},
				"with questions, but not Leased":       {Keep: true, Ask: other},
				"that parks it again, but not Leased":  {Due: -1, Ask: other},
			} {
				f.ok(says, s.Update(f.ctx, t, u))
				f.wantQuestions(s, t.ID, want...)
			}
			f.wake(s, t)
			for says, u := range map[string]task.Update{
				"nothing":                      {Keep: true},
				"a checkpoint's":               {Leased: true, Keep: true, Entries: list("entry")},
				"a checkpoint's, with another": {Leased: true, Keep: true, Ask: other},
				"a cancellation's request":     {Keep: true},
			} {
				f.ok(says, s.Update(f.ctx, t, u))
				f.wantQuestions(s, t.ID, want...)
			}
			for _, due := range []time.Duration{0, long} { // a shutdown's, and a failed attempt's
				f.updateStatus(s, t, task.Working, task.Update{Leased: true, Due: due, Ask: other})
				f.wantQuestions(s, t.ID, want...)
				f.update(s, t, task.Update{Lease: long})
			}
			f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Keep: true, Ask: other})
			f.wantStatuses(s, t.ID, "key withdrawn", "other open")
		}},
	{"if one of Ask is decided it is ErrDecided, and nothing is written", func(f *fixture, s task.Store) {
		first, second := question("first", "user:bob"), question("second", "user:bob")
		t := f.addAsking(s, "alice", first, second)
		f.wake(s, t)
		f.decide(s, t.ID, "second")
		want := f.questions(s, t.ID)
		journal := f.entries(s, t.ID)
		given := clone(t)
		given.Status, given.Pending, given.Message = task.InputRequired, []byte("pending"), "waits"
		for _, asks := range [][]*task.Question{{first, second}, {second}, {question("third", "user:bob"), second}} {
			for _, u := range []task.Update{{Due: -1}, {Keep: true}} {
				u.Leased, u.Ask, u.Entries = true, asks, list("entry")
				f.wantUpdate(s, given, u, task.ErrDecided)
			}
		}
		f.wantLived(s, t)
		f.wantJournal(s, t.ID, journal...)
		f.wantQuestions(s, t.ID, want...)
		f.renew(s, t, long) // it still runs
		f.noneDue(s)
		asks := []*task.Question{first, second}
		f.update(s, t, task.Update{Leased: true, Keep: true, Ask: asks}) // and is not parked
		f.updateStatus(s, t, task.InputRequired, task.Update{Keep: true, Ask: asks})
		f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: -1, Ask: []*task.Question{first}})
		// A question that was decided and is no longer asked is in nobody's way.
		f.wantStatuses(s, t.ID, "first open", "second decided")
	}},
	{"ErrLeaseLost, ErrConflict and ErrEnded come before ErrDecided and ErrLate, and nothing is written",
		func(f *fixture, s task.Store) {
			asks := forBob("decided", "open")
			t := f.addAsking(s, "alice", asks...)
			f.wake(s, t)
			f.decide(s, t.ID, "decided")
			want := f.questions(s, t.ID)
			u := task.Update{Leased: true, Due: -1, Ask: asks, Answered: []string{"decided", "open"}}
			lost, stale := clone(t), clone(t)
			lost.Fence++
			stale.Version--
			lost.Status, stale.Status = task.InputRequired, task.InputRequired
			f.wantUpdate(s, lost, u, task.ErrLeaseLost)
			f.wantUpdate(s, stale, u, task.ErrConflict)
			u.Leased, u.Answered = false, []string{"open"}
			f.wantUpdate(s, stale, u, task.ErrConflict)
			f.wantQuestions(s, t.ID, want...)
			f.updateStatus(s, t, task.Cancelled, task.Update{Keep: true})
			ended := clone(t)
			ended.Status = task.InputRequired
			u.Leased, u.Answered = true, []string{"decided", "open"}
			f.wantUpdate(s, ended, u, task.ErrEnded)
			f.wantRow(s, t)
		}},
	{"when a task ends, however that comes, its open questions are withdrawn, and each leaves a notice",
		func(f *fixture, s task.Store) {
			f.listen(s, long)
			for _, end := range []struct {
				runs   bool
				status task.Status
				task.Update
			}{
				{true, task.Completed, task.Update{Leased: true, Due: -1}},
				{true, task.Failed, task.Update{Leased: true, Due: -1, Ask: forBob("open")}},
				{false, task.Cancelled, task.Update{}}, // while it waits
				{true, task.Cancelled, task.Update{Keep: true}},
				{false, task.Failed, task.Update{Due: -1}}, // as a task that has expired
			} {
				t := f.addAsking(s, "alice", append(forBob("decided", "open"), within(time.Millisecond, "timer"))...)
				f.decide(s, t.ID, "decided")
				t = f.get(s, t.ID)
				decided, open := f.question(s, t.ID, "decided"), f.question(s, t.ID, "open")
				if end.runs {
					f.wake(s, t)
				}
				f.updateStatus(s, t, end.status, end.Update)
				f.wantStatuses(s, t.ID, "decided decided", "open withdrawn", "timer withdrawn")
				f.wantQuestion(s, decided)
				f.wantChange(s, open, false, task.ErrConflict)
				f.wantChange(s, f.question(s, t.ID, "open"), false, task.ErrClosed)
				f.wantWaiting(s, task.QuestionFilter{})
				f.wantOverdue(s)
				f.wantRow(s, t)
				f.wantNotices(s, "asked decided", "asked open", "decided decided", "ended decided", "ended open")
				for f.tryClaim(s, "", long) != nil { // its worker cleans up
				}
			}
		}},
	{"when a task is deleted so are its questions, and a new task with the same id has its own",
		func(f *fixture, s task.Store) {
			stays := f.addAsking(s, "alice", question("key", "user:bob"))
			for removed, remove := range []func(){ // the questions are there again, and are another task's
				func() { f.purge(s, 0, 10, 1) },
				func() { f.evict(s, "alice", 0, 1, 1) },
			} {
				t := f.past().addAsking(s, "alice", forBob("decided", "withdrawn")...)
				f.edit(s, t.ID, "decided", func(q *task.Question) { q.Voters, q.Decision = []string{"bob"}, []byte("decision") })
				t = f.get(s, t.ID)
				q := f.question(s, t.ID, "withdrawn")
				f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
				f.wantHistory(s, task.QuestionHistory{Voter: "bob"}, "decided")
				f.tick(s, t.Updated)
				remove()
				f.wantQuestions(s, t.ID)
				f.wantHistory(s, task.QuestionHistory{Voter: "bob"})
				f.wantHistory(s, task.QuestionHistory{Principal: "alice"}, "key")
				all, _ := f.changes(s, nil)
				f.check(len(all) == 1+removed, "after deletion %d there are %d questions", removed, len(all))
				f.wantChange(s, q, false, task.ErrNotFound)
				again := newTask("bob")
				again.ID = t.ID
				f.createWith(s, again, long)
				f.wantQuestions(s, t.ID)
				f.park(s, again, question("decided", "user:bob"))
				got := f.question(s, t.ID, "decided")
				f.check(got.Status == task.QuestionOpen && got.Principal == "bob",
					"the question of the new task is %s, of %q", got.Status, got.Principal)
				f.wantStatuses(s, stays.ID, "key open")
			}
		}},
	{"what questions hold does not count in a quota", func(f *fixture, s task.Store) {
		quota := task.Quota{Unfinished: 1, Kept: 1, Bytes: 10}
		t := newTask("alice")
		f.ok("Create", s.Create(f.ctx, t, long, long, []byte("call"), nil, quota))
		q := question("key", "user:bob")
		q.Content = make([]byte, 1000)
		f.ok("Update", s.Update(f.ctx, t, task.Update{Leased: true, Keep: true, Quota: quota, Entries: list("123")}))
		t.Status = task.InputRequired
		f.ok("Update", s.Update(f.ctx, t, task.Update{Leased: true, Due: -1, Quota: quota, Ask: []*task.Question{q}}))
		q = f.question(s, t.ID, "key")
		q.Votes, q.Decision = make([]byte, 1000), make([]byte, 1000)
		f.change(s, q)
		t = f.get(s, t.ID)
		f.ok("Update", s.Update(f.ctx, t, task.Update{Keep: true, Quota: quota, Entries: list("456")}))
		f.wantFull("Update", s.Update(f.ctx, t, task.Update{Keep: true, Quota: quota, Entries: list("7")}),
			task.Quota{Bytes: quota.Bytes})
	}},
	{"a parked task that a decision wakes is parked again only by a worker that has seen the decision",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 2)
			asks := forBob("a", "b", "c")
			for range 40 {
				t := f.addAsking(s, "alice", asks...)
				f.wake(s, t)
				given := clone(t)
				given.Status = task.InputRequired
				made := f.decideMeanwhile(handles, t.ID, task.ErrDecided, func(s task.Store) error {
					return s.Update(f.ctx, given, task.Update{Leased: true, Due: -1, Ask: asks})
				})
				f.wantStatuses(s, t.ID, "a decided", "b decided", "c decided")
				got := f.get(s, t.ID).Status
				f.require(got == task.Working, "the task is %s, and its questions are decided", got)
				if !slices.Contains(made, "") { // its worker has it still, which runs it again
					f.wantLived(s, t)
					f.release(s, t)
				}
				f.claimThis(s, t.ID, long)
			}
		}},
}

// What the answer of a task's client does with questions.
var answeredTests = []test{
	{"Answered withdraws open questions, in every kind of update, and ignores what the task does not have",
		func(f *fixture, s task.Store) {
			other := f.addAsking(s, "alice", question("b", "user:bob"))
			t := f.addAsking(s, "alice", forBob("a", "b", "c")...)
			before := f.questions(s, t.ID)
			unknown := []string{"", "d", "A", "a ", "' OR ''='", "\xff", "a\x00"}
			f.update(s, t, task.Update{Keep: true, Answered: append(unknown, "a")})
			f.wantStatuses(s, t.ID, "a withdrawn", "b open", "c open")
			f.updateStatus(s, t, task.Working, task.Update{Lease: long, Answered: []string{"b"}, Entries: list("answer")})
			after := f.questions(s, t.ID)
			for i := range 2 {
				before[i].Status = task.QuestionWithdrawn
				f.check(after[i].Version > before[i].Version,
					"the Version is %d, and was %d before", after[i].Version, before[i].Version)
				before[i].Version = after[i].Version
			}
			f.wantQuestions(s, t.ID, before...)
			f.wantStatuses(s, other.ID, "b open")
			f.update(s, t, task.Update{Leased: true, Keep: true, Answered: []string{"c"}})
			f.wantStatuses(s, t.ID, "a withdrawn", "b withdrawn", "c withdrawn")
			f.wantUpdate(s, newTask("alice"), task.Update{Answered: []string{"a"}}, task.ErrNotFound)
		}},
	{"Answered is ErrLate for a question that is not open or whose deadline has passed, and nothing is written",
		func(f *fixture, s task.Store) {
			t := f.addAsking(s, "alice", forBob("decided", "withdrawn", "late", "open")...)
			f.miss(s, t.ID, "late")
			f.update(s, t, task.Update{Keep: true, Answered: []string{"withdrawn"}})
			f.decide(s, t.ID, "decided")
			t = f.get(s, t.ID)
			want := f.questions(s, t.ID)
			for _, key := range []string{"decided", "withdrawn", "late"} {
				for _, answered := range [][]string{{key}, {"open", key}, {key, "unknown", "open"}} {
					given := clone(t)
					given.Message, given.Pending = "answered", []byte("pending")
					f.wantUpdate(s, given, task.Update{Lease: long, Answered: answered, Entries: list("answer")}, task.ErrLate)
				}
			}
			f.wantRow(s, t)
			f.wantJournal(s, t.ID)
			f.wantQuestions(s, t.ID, want...)
			f.update(s, t, task.Update{Keep: true, Answered: []string{"open"}})
			f.wantStatuses(s, t.ID, "decided decided", "late open", "open withdrawn", "withdrawn withdrawn")
		}},
	{"of an answer of the client and a decision one is taken", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		for round := range 40 {
			t := f.addAsking(s, "alice", question("key", "user:bob"))
			if round%2 == 0 {
				f.wake(s, t) // and while it runs
			}
			made := f.decideMeanwhile(handles, t.ID, task.ErrLate, func(s task.Store) error {
				return s.Update(f.ctx, clone(t), task.Update{Keep: true, Answered: []string{"key"}})
			})
			f.require(len(made) == 1, "%q were taken, want one", made)
			f.wantStatuses(s, t.ID, map[string]string{"key": "key decided", "": "key withdrawn"}[made[0]])
			f.updateStatus(s, f.get(s, t.ID), task.Cancelled, task.Update{Due: -1})
		}
	}},
}

// What ChangeQuestion does.
var changeTests = []test{
	{"it writes For, Deadline, Votes and Decision, raises the Version, in q too, and leaves the rest",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 2)
			t := f.addAsking(s, "alice", forBob("key", "other")...)
			want, other := f.question(s, t.ID, "key"), f.question(s, t.ID, "other")
			for i, change := range []func(q *task.Question){
				func(q *task.Question) { q.Votes = everyByte },
				func(q *task.Question) { q.Deadline = q.Asked.Add(long) },
				func(q *task.Question) { q.For = []string{"user:carol", "group:a"} },
				func(q *task.Question) { q.Decision = []byte{} },
				func(q *task.Question) { q.Votes, q.Deadline, q.For = nil, time.Time{}, []string{"user:dave"} },
				func(q *task.Question) { q.Decision, q.Votes = everyByte, []byte("votes") },
			} {
				given := *want
				change(want)
				change(&given)
				given.Principal, given.Target, given.Equal = "mallory", "x", "y"
				given.Content, given.Asked = []byte("another"), time.Unix(1, 0)
				given.Status, given.Within, given.Remind = task.QuestionWithdrawn, long, long
				f.change(handles[i%2], &given)
				f.check(given.Version > want.Version, "the Version is %d, and was %d before", given.Version, want.Version)
				want.Version = given.Version
				if until := want.Deadline.Add(task.AfterDeadline); until.After(t.Expires) {
					t.Expires = until
				}
				if len(want.Decision) > 0 {
					want.Status = task.QuestionDecided
				} else {
					f.wantRow(s, t)
					f.noneDue(s)
				}
				f.check(given.Status == want.Status, "its Status is %s in q, want %s", given.Status, want.Status)
				for _, s := range handles {
					f.wantQuestions(s, t.ID, want, other)
				}
			}
		}},
	{"its errors come in their order, and it does not write anything or change q", func(f *fixture, s task.Store) {
		t := f.addAsking(s, "alice", append(forBob("decided", "withdrawn", "late", "open"), question("without"))...)
		f.update(s, t, task.Update{Keep: true, Answered: []string{"withdrawn"}})
		f.edit(s, t.ID, "open", func(q *task.Question) { q.Deadline = q.Asked.Add(long) })
		f.miss(s, t.ID, "late")
		f.expire(s, t.ID, "decided")
		t = f.get(s, t.ID)
		f.updateStatus(s, t, task.InputRequired, task.Update{Due: -1})
		want := f.questions(s, t.ID)
		for _, c := range []struct {
			key     string
			expired bool
			want    error
		}{
			{"decided", false, task.ErrClosed}, {"decided", true, task.ErrClosed},
			{"withdrawn", false, task.ErrClosed}, {"withdrawn", true, task.ErrClosed},
			{"late", false, task.ErrLate}, {"open", true, task.ErrEarly}, {"without", true, task.ErrEarly},
		} {
			q := f.question(s, t.ID, c.key)
			q.For, q.Voters = []string{"user:mallory"}, []string{"mallory"}
			q.Votes, q.Decision = []byte("refused"), []byte("refused")
			q.Deadline = q.Asked.Add(2 * long) // it is the stored one that counts
			if c.want == task.ErrEarly {
				q.Deadline = q.Asked
			}
			f.wantChange(s, q, c.expired, c.want)
			for _, version := range []int64{q.Version - 1, q.Version + 1, -1} {
				stale := *q
				stale.Version = version
				f.wantChange(s, &stale, c.expired, task.ErrConflict)
			}
			for _, place := range [][2]string{{t.ID, c.key + " "}, {t.ID, ""}, {newID(), c.key}, {"", c.key},
				{strings.ToUpper("a" + t.ID), c.key}} {
				unknown := *q
				unknown.Task, unknown.Key = place[0], place[1]
				f.wantChange(s, &unknown, c.expired, task.ErrNotFound)
			}
		}
		f.wantHistory(s, task.QuestionHistory{Voter: "mallory"})
		f.wantQuestions(s, t.ID, want...)
		f.wantRow(s, t)
		f.noneDue(s)
	}},
	{"a decision makes a parked task working and due at once, with what its client is asked as it is",
		func(f *fixture, s task.Store) {
			other := f.instances(s, 2)[1]
			bystander := f.addAsking(s, "alice", question("key", "user:bob"))
			for _, due := range []time.Duration{-1, long} {
				t := f.addRunning(s, "alice")
				t.Pending, t.Message, t.Round, t.Attempts, t.Stopped = []byte("pending"), "waits", 3, 7, true
				asks := append(forBob("first", "second"), within(time.Millisecond, "timer"))
				f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: due, Ask: asks, Entries: list("entry")})
				f.tick(s, t.Updated)
				for i, key := range []string{"first", "timer"} {
					q := f.question(s, t.ID, key)
					q.Decision = []byte("decision")
					f.eventually("the timer is overdue", func() bool { return len(f.overdue(s, 1)) == 1 })
					f.wantChange(s, q, key == "timer", nil)
					f.wantQuestion(s, q)
					got := f.get(other, t.ID)
					f.check(got.Updated.After(t.Updated), "Updated is %v, and was %v before", got.Updated, t.Updated)
					t.Status, t.Attempts, t.Version, t.Updated = task.Working, 0, t.Version+1, got.Updated
					t.Expires = got.Updated.Add(long)
					f.wantSame(got, t)
					f.wantStatuses(s, t.ID, "first decided", "second open", []string{"timer open", "timer decided"}[i])
					f.wantJournal(s, t.ID, "entry")
					t = f.claimThis(other, t.ID, long)
					f.noneDue(s)
					f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: due, Ask: asks[1 : 3-i]})
					f.tick(s, t.Updated)
				}
			}
			f.wantRow(s, bystander)
			f.wantStatuses(s, bystander.ID, "key open")
		}},
	{"a decision leaves a task that is not parked as it is", func(f *fixture, s task.Store) {
		t := f.addAsking(s, "alice", forBob("a", "b", "c")...)
		f.wake(s, t)
		decide := func(key string) {
			f.decide(s, t.ID, key)
			f.wantLived(s, t)
			f.noneDue(s)
		}
		decide("a")
		f.append(s, t.ID, t.Claim, "under the lease")
		f.renew(s, t, long)
		f.updateStatus(s, t, task.Working, task.Update{Leased: true, Due: long}) // an attempt that failed
		decide("b")
		f.updateStatus(s, t, task.Working, task.Update{Due: -1})
		decide("c")
	}},
	{"a deadline that is over makes answers late, and a deadline can be moved before", func(f *fixture, s task.Store) {
		start := time.Now()
		t := f.addAsking(s, "alice", within(60*time.Millisecond, "key", "user:bob"))
		f.eventually("the deadline has passed", func() bool { return len(f.overdue(s, 10)) == 1 })
		f.wantPassed(start, 60*time.Millisecond)
		q := f.question(s, t.ID, "key")
		f.wantChange(s, q, false, task.ErrLate)
		f.wantWaiting(s, task.QuestionFilter{}, "key") // open until somebody says otherwise
		q.Deadline = q.Deadline.Add(long)
		f.wantChange(s, q, false, task.ErrLate)
		f.wantChange(s, q, true, nil)
		f.wantChange(s, q, true, task.ErrEarly)
		f.wantOverdue(s)
		q.Deadline = q.Asked
		f.change(s, q)
		f.wantOverdue(s, "key")
		f.wantChange(s, q, false, task.ErrLate)
		q.Deadline = time.Time{}
		f.wantChange(s, q, true, nil)
		f.wantOverdue(s)
		f.wantChange(s, q, true, task.ErrEarly)
		f.decide(s, t.ID, "key")
	}},
	{"a question that is handed over waits for those that have it now", func(f *fixture, s task.Store) {
		t := f.addAsking(s, "alice", question("key", "user:bob", "group:release"))
		q := f.question(s, t.ID, "key")
		for _, names := range [][]string{{"user:carol"}, {"user:carol", "user:bob"}, nil, {"group:release"}} {
			q.For = names
			f.change(s, q)
			for _, name := range []string{"user:bob", "group:release", "user:carol"} {
				var want []string
				if slices.Contains(names, name) {
					want = []string{"key"}
				}
				f.wantWaiting(s, task.QuestionFilter{For: []string{name}}, want...)
				f.wantWaiting(s, task.QuestionFilter{For: []string{name}, Targets: []string{"deploy"}}, want...)
			}
			f.wantWaiting(s, task.QuestionFilter{}, []string{"key"}[:min(len(names), 1)]...)
		}
	}},
	{"of changes with the same version exactly one is written", func(f *fixture, s task.Store) {
		handles := f.instances(s, 3)
		for range 10 {
			t := f.addAsking(s, "alice", question("key", "user:bob"))
			q := f.question(s, t.ID, "key")
			for round := range 4 {
				written := succeed(&f.suite, 6, task.ErrConflict, func(i int) (*task.Question, error) {
					given := *q
					given.Votes = fmt.Appendf(nil, "round %d, writer %d", round, i)
					if round == 3 {
						given.Decision = given.Votes
					}
					return &given, handles[i%3].ChangeQuestion(f.ctx, &given, false)
				})
				f.require(len(written) == 1, "%d changes of the same version were written", len(written))
				q = written[0]
				f.wantQuestion(s, q)
			}
			got := f.get(s, t.ID)
			f.check(got.Version == t.Version+1,
				"the Version of the task is %d after one decision, and was %d before", got.Version, t.Version)
			f.updateStatus(s, f.get(s, t.ID), task.Cancelled, task.Update{Due: -1})
		}
	}},
}

// What Questions, Waiting and Overdue read.
var waitingTests = []test{
	{"Questions returns the questions of the task with this name, in the order in which they were asked",
		func(f *fixture, s task.Store) {
			none := f.addRunning(s, "alice")
			f.wantQuestions(s, none.ID)
			f.park(s, none)
			f.wantQuestions(s, none.ID)
			f.wantQuestions(s, newID())
			t := f.addRunning(s, "alice")
			for _, keys := range [][]string{{"c", "a"}, {"b", "z"}, {"0"}} {
				f.tick(s, t.Updated)
				f.park(s, t, forBob(keys...)...)
				f.wake(s, t)
			}
			f.decide(s, t.ID, "0")
			for _, s := range f.instances(s, 2) {
				f.wantKeys("Questions", f.questions(s, t.ID), []string{"a", "c", "b", "z", "0"})
				qs, err := s.Questions(f.ctx, t.ID)
				f.check(len(qs) == 0 && err == nil, "by the ID there are %d questions, %v", len(qs), err)
			}
		}},
	{"Questions reads the questions of all tasks whose names begin alike, task by task", func(f *fixture, s task.Store) {
		const common = 3 // characters of the name; so many names have them that two are soon found
		t, ids := newTask("alice"), make(map[string]string)
		lower := func(name string) bool { return strings.ToLower(name) == name } // which digits are
		for ; ids[task.Name(t.ID)[:common]] == "" || lower(task.Name(t.ID)[:common]); t.ID = newID() {
			ids[task.Name(t.ID)[:common]] = t.ID
		}
		beginning := task.Name(t.ID)[:common]
		apart := newTask("alice")
		for strings.HasPrefix(task.Name(apart.ID), beginning) {
			apart.ID = newID()
		}
		other := newTask("bob")
		other.ID = ids[beginning]
		var want []string
		for _, t := range []*task.Task{t, other, apart} {
			f.createWith(s, t, long)
			f.park(s, t, question("b", "user:bob"), question("a"))
			if t != apart {
				want = append(want, task.Name(t.ID)+" a", task.Name(t.ID)+" b")
			}
		}
		slices.Sort(want)
		f.decide(s, other.ID, "b")
		read := func(s task.Store, name string) (got []string) {
			qs := must(s.Questions(f.ctx, name))(f, "Questions")
			for _, q := range qs {
				got = append(got, task.Name(q.Task)+" "+q.Key)
			}
			return got
		}
		for _, s := range f.instances(s, 2) {
			f.wantEqual("the questions of names that begin with "+beginning, read(s, beginning), want)
			whole := []string{task.Name(t.ID) + " a", task.Name(t.ID) + " b"}
			f.wantEqual("the questions of a whole name", read(s, task.Name(t.ID)), whole)
			for _, none := range []string{strings.ToLower(beginning), "___", "%", beginning + "~", task.Name(t.ID) + "A"} {
				got := read(s, none)
				f.check(got == nil, "the questions of %q: %q", none, got)
			}
		}
	}},
	{"Waiting has what every field of the filter lets pass, and never what is closed or for nobody",
		func(f *fixture, s task.Store) {
			var mid time.Time
			for i, target := range []string{"deploy", "rollback", "deploy"} {
				t := newTask("alice")
				t.Target = target
				f.createWith(s, t, long)
				key := func(k string) string { return fmt.Sprint(k, i) }
				both, bob, timer := question(key("both"), "user:bob", "group:a"), question(key("bob"), "user:bob"),
					question(key("timer"))
				both.Equal, timer.Within, timer.Equal = "equal", time.Millisecond, "equal"
				bob.Within = long - time.Duration(i)*time.Minute // what was asked last is due first
				decided, withdrawn := question(key("decided"), "user:bob"), question(key("withdrawn"), "user:bob")
				decided.Equal, withdrawn.Equal = "equal", "equal"
				f.park(s, t, both, bob, timer, decided, withdrawn)
				f.decide(s, t.ID, key("decided"))
				t = f.get(s, t.ID)
				f.update(s, t, task.Update{Keep: true, Answered: []string{key("withdrawn")}})
				if f.tick(s, t.Updated); i == 1 {
					mid = f.question(s, t.ID, key("bob")).Asked
				}
			}
			all := []string{"bob0", "both0", "bob1", "both1", "bob2", "both2"}
			for _, c := range []struct {
				filter task.QuestionFilter
				want   []string
			}{
				{task.QuestionFilter{}, all},
				{task.QuestionFilter{For: []string{"user:bob"}}, all},
				{task.QuestionFilter{For: []string{"group:a", "user:bob", "group:none", "user:bob"}}, all},
				{task.QuestionFilter{For: []string{"group:a"}}, []string{"both0", "both1", "both2"}},
				{task.QuestionFilter{For: []string{"group:b"}}, nil},
				{task.QuestionFilter{For: []string{"user:bo", "USER:BOB", "user:bob ", "%", ""}}, nil},
				{task.QuestionFilter{For: []string{}}, nil},
				{task.QuestionFilter{Targets: []string{"rollback", "none"}}, []string{"bob1", "both1"}},
				{task.QuestionFilter{Targets: []string{"rollback", "deploy", "rollback"}}, all},
				{task.QuestionFilter{Targets: []string{}}, nil},
				{task.QuestionFilter{Equal: "equal"}, []string{"both0", "both1", "both2"}},
				{task.QuestionFilter{Equal: "Equal"}, nil},
				{task.QuestionFilter{Before: mid}, []string{"bob0", "both0"}},
				{task.QuestionFilter{Before: mid.Add(time.Millisecond)}, all[:4]},
				{task.QuestionFilter{ByDeadline: true}, []string{"bob2", "bob1", "bob0"}},
				{task.QuestionFilter{ByDeadline: true, Before: mid}, []string{"bob0"}},
				{task.QuestionFilter{ByDeadline: true, For: []string{"group:a"}}, nil},
				{task.QuestionFilter{For: []string{"group:a"}, Targets: []string{"deploy"}, Equal: "equal",
					Before: mid.Add(time.Hour)}, []string{"both0", "both2"}},
				{task.QuestionFilter{For: []string{"user:bob"}, Targets: []string{"deploy"}, ByDeadline: true},
					[]string{"bob2", "bob0"}},
				{task.QuestionFilter{For: []string{"group:a"}, Targets: []string{"none"}}, nil},
				{task.QuestionFilter{For: []string{"group:b"}, Equal: "equal"}, nil},
			} {
				for _, s := range f.instances(s, 2) {
					f.wantWaiting(s, c.filter, c.want...)
				}
			}
		}},
	{"Waiting is in the order that the filter says, within one time by task and key, in pages of any size",
		func(f *fixture, s task.Store) {
			names := []string{"user:bob", "group:a", "group:b"}
			for i := range 6 { // each has several of one time
				t := f.addRunning(s, "alice")
				if i%3 == 0 {
					f.tick(s, t.Created)
				}
				var asks []*task.Question
				for n := range 5 {
					q := question(fmt.Sprint("key", 9-n), names[n%3:]...)
					if n > 0 {
						q.Within = time.Duration(1+(n+i)%3) * long
					}
					asks = append(asks, q)
				}
				f.park(s, t, asks...)
			}
			inOrder := func(times int, a, b *task.Question) int {
				return times*4 + strings.Compare(a.Task, b.Task)*2 + strings.Compare(a.Key, b.Key)
			}
			asked := func(a, b *task.Question) int { return inOrder(a.Asked.Compare(b.Asked), a, b) }
			newest := func(a, b *task.Question) int { return asked(b, a) }
			due := func(a, b *task.Question) int { return inOrder(a.Deadline.Compare(b.Deadline), a, b) }
			for _, who := range [][]string{nil, names, {"group:a", "group:b"}, {"user:bob"}} {
				for _, order := range []struct {
					filter task.QuestionFilter
					all    int // of anybody
					before func(a, b *task.Question) int
				}{
					{task.QuestionFilter{For: who}, 30, asked},
					{task.QuestionFilter{For: who, Newest: true}, 30, newest},
					{task.QuestionFilter{For: who, ByDeadline: true}, 24, due},
				} {
					filter, all := order.filter, f.waiting(s, order.filter)
					f.require(len(all) > 0 && (who != nil || len(all) == order.all), "with %+v %d questions wait", filter, len(all))
					for i, q := range all[1:] {
						f.check(order.before(all[i], q) < 0, "with %+v the question %q comes twice, or in another order", filter, q.Key)
					}
					for _, size := range []int{1, 2, 7, len(all) - 1, len(all), len(all) + 1} {
						f.wantPages(s, filter, size, all)
					}
				}
			}
		}},
	{"a page begins after a place, whether a question is there or not", func(f *fixture, s task.Store) {
		for i := range 3 {
			t := f.addAsking(s, "alice", within(long-time.Duration(i)*time.Minute, "k", "user:bob"))
			f.tick(s, t.Updated)
		}
		mid := f.waiting(s, task.QuestionFilter{})[1]
		move := func(d time.Duration, id string) func(q *task.Question) {
			return func(q *task.Question) { q.Asked, q.Deadline, q.Task = q.Asked.Add(d), q.Deadline.Add(d), id }
		}
		for says, c := range map[string]struct {
			change func(q *task.Question)
			want   int // how many come after it
		}{
			"the question":        {func(*task.Question) {}, 1},
			"a lower key":         {func(q *task.Question) { q.Key = "j" }, 2},
			"a higher key":        {func(q *task.Question) { q.Key = "l" }, 1},
			"a lower task":        {func(q *task.Question) { q.Task, q.Key = "0", "l" }, 2},
			"a higher task":       {func(q *task.Question) { q.Task, q.Key = "z", "j" }, 1},
			"an earlier time":     {move(-time.Millisecond, "z"), 2},
			"a later time":        {move(time.Millisecond, "0"), 1},
			"one that is unknown": {func(q *task.Question) { q.Task, q.Status, q.Version = "z", "", -1 }, 1},
		} {
			after := *mid
			c.change(&after)
			for _, filter := range []task.QuestionFilter{{}, {ByDeadline: true}, {For: []string{"user:bob", "user:carol"}}} {
				got := must(s.Waiting(f.ctx, filter, &after, 10))(f, "Waiting")
				f.check(len(got) == c.want,
					"after %s by deadline %v come %d questions, want %d", says, filter.ByDeadline, len(got), c.want)
			}
		}
	}},
	{"Overdue has open questions whose deadline has passed, timers too, the one that passed first at first",
		func(f *fixture, s task.Store) {
			var want []string
			for i, minutes := range []time.Duration{7, 3, 5, 1} {
				key := func(k string) string { return fmt.Sprint(k, i) }
				timer, others := within(long, key("timer")), forBob(key("soon"), key("none"))
				others[0].Within = long
				all := append(others, timer, within(long, key("decided"), "user:bob"), within(long, key("withdrawn"), "user:bob"))
				t := f.addAsking(s, "alice", all...)
				for n, k := range []string{"timer", "soon", "decided", "withdrawn"} {
					f.edit(s, t.ID, key(k), func(q *task.Question) {
						q.Deadline = q.Asked.Add(time.Duration(n)*time.Millisecond - minutes*time.Minute)
					})
				}
				f.wantChange(s, f.decision(s, t.ID, key("decided")), true, nil)
				f.park(s, f.claimThis(s, t.ID, long), append(others, timer)...)
				want = append(want, key("timer"), key("soon"))
			}
			want = []string{want[0], want[1], want[4], want[5], want[2], want[3], want[6], want[7]}
			for _, s := range f.instances(s, 2) {
				f.wantOverdue(s, want...)
				for _, limit := range []int{1, 3, 8, 9} {
					got := f.overdue(s, limit)
					f.check(len(got) == min(limit, 8) && got[0].Key == want[0],
						"with a limit of %d there are %d overdue questions", limit, len(got))
				}
			}
		}},
}

// question returns a question to ask.
func question(key string, names ...string) *task.Question {
	return &task.Question{Key: key, For: names, Content: []byte("content of " + key)}
}

func forBob(keys ...string) (qs []*task.Question) {
	for _, key := range keys {
		qs = append(qs, question(key, "user:bob"))
	}
	return qs
}

func within(d time.Duration, key string, names ...string) *task.Question {
	q := question(key, names...)
	q.Within = d
	return q
}

// addRunning creates a task that the caller has claimed.
func (f *fixture) addRunning(s task.Store, principal string) *task.Task {
	t := f.createWith(s, newTask(principal), long)
	return t
}

// wantLived requires that the row is want, except that a decision has made it live longer.
func (f *fixture) wantLived(s task.Store, want *task.Task) {
	got := f.get(s, want.ID)
	if !got.Expires.Before(want.Expires) {
		want.Expires = got.Expires
	}
	f.wantSame(got, want)
}

// park parks a task, which the caller has claimed, until one of these questions is decided.
func (f *fixture) park(s task.Store, t *task.Task, asks ...*task.Question) {
	f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: -1, Ask: asks})
}

// addAsking creates a task that is parked until one of these questions is decided.
func (f *fixture) addAsking(s task.Store, principal string, asks ...*task.Question) *task.Task {
	t := f.addRunning(s, principal)
	f.park(s, t, asks...)
	return t
}

// wake lets a parked task run, claimed by the caller, for another reason than a decision.
func (f *fixture) wake(s task.Store, t *task.Task) {
	f.updateStatus(s, t, task.Working, task.Update{Lease: long})
}

// decide decides a question of a task.
func (f *fixture) decide(s task.Store, id, key string) { f.change(s, f.decision(s, id, key)) }

// decision returns a question with a decision to write.
func (f *fixture) decision(s task.Store, id, key string) *task.Question {
	q := f.question(s, id, key)
	q.Decision = []byte("decision")
	return q
}

// decideMeanwhile decides all questions of a task while something else is done to it, which may give an error. It
// returns the keys of those whose decision was taken, and an empty one if the other thing was done.
func (f *fixture) decideMeanwhile(handles []task.Store, id string, may error, do func(s task.Store) error) []string {
	open := f.questions(handles[0], id)
	return succeed(&f.suite, 1+len(open), task.ErrConflict, func(i int) (string, error) {
		s := handles[i%len(handles)]
		if i == len(open) {
			err := do(s)
			if errors.Is(err, may) {
				err = task.ErrConflict
			}
			return "", err
		}
		open[i].Decision = []byte("decision")
		return open[i].Key, s.ChangeQuestion(f.ctx, open[i], false)
	})
}

// miss moves the deadline of a question into the past; expire also decides it as one that nobody answered.
func (f *fixture) miss(s task.Store, id, key string) {
	f.edit(s, id, key, func(q *task.Question) { q.Deadline = q.Asked })
}

func (f *fixture) expire(s task.Store, id, key string) {
	f.miss(s, id, key)
	f.wantChange(s, f.decision(s, id, key), true, nil)
}

// edit changes a question whose deadline has not passed, and returns it.
func (f *fixture) edit(s task.Store, id, key string, edit func(q *task.Question)) *task.Question {
	q := f.question(s, id, key)
	edit(q)
	f.change(s, q)
	return q
}

// change changes a question whose deadline has not passed.
func (f *fixture) change(s task.Store, q *task.Question) {
	f.wantChange(s, q, false, nil)
}

// wantChange requires that ChangeQuestion gives an error, and then leaves q in the caller's hands as it was.
func (f *fixture) wantChange(s task.Store, q *task.Question, expired bool, want error) {
	before := *q
	f.wantError(fmt.Sprintf("ChangeQuestion of %.100q", q.Key), s.ChangeQuestion(f.ctx, q, expired), want)
	if want != nil {
		f.wantEqual("the question after an error", q, &before)
	}
}

func (f *fixture) questions(s task.Store, id string) []*task.Question {
	return must(s.Questions(f.ctx, task.Name(id)))(f, "Questions")
}

func (f *fixture) question(s task.Store, id, key string) *task.Question {
	for _, q := range f.questions(s, id) {
		if q.Key == key {
			return q
		}
	}
	f.Fatalf("task %s has no question %.100q", id, key)
	return nil
}

// waiting reads what waits, from the start.
func (f *fixture) waiting(s task.Store, filter task.QuestionFilter) []*task.Question {
	return must(s.Waiting(f.ctx, filter, nil, 1000))(f, "Waiting")
}

func (f *fixture) overdue(s task.Store, limit int) []*task.Question {
	return must(s.Overdue(f.ctx, limit))(f, "Overdue")
}

// sameQuestion compares questions, except for the time of the last change.
var sameQuestion = cmpopts.IgnoreFields(task.Question{}, "Changed")

func (f *fixture) wantQuestions(s task.Store, id string, want ...*task.Question) {
	f.wantEqual("the questions", f.questions(s, id), want, sameQuestion)
}

func (f *fixture) wantQuestion(s task.Store, want *task.Question) {
	f.wantEqual("the question", f.question(s, want.Task, want.Key), want, sameQuestion)
}

// wantStatuses requires that a task has these questions, each with its status, sorted by key.
func (f *fixture) wantStatuses(s task.Store, id string, want ...string) {
	got := each(f.questions(s, id), func(q *task.Question) string { return q.Key + " " + string(q.Status) })
	slices.Sort(got)
	f.wantEqual("the questions", got, want)
}

// wantWaiting requires that these questions wait, in this order.
func (f *fixture) wantWaiting(s task.Store, filter task.QuestionFilter, keys ...string) {
	f.wantKeys(fmt.Sprintf("Waiting with %.200q", fmt.Sprint(filter)), f.waiting(s, filter), keys)
}

// wantOverdue requires that the deadlines of these questions have passed, in this order.
func (f *fixture) wantOverdue(s task.Store, keys ...string) {
	f.wantKeys("Overdue", f.overdue(s, 1000), keys)
}

func (f *fixture) wantKeys(what string, qs []*task.Question, want []string) {
	f.wantEqual(what, each(qs, func(q *task.Question) string { return q.Key }), want)
}

// wantPages requires that pages of this size give all questions that the filter lets pass.
func (f *fixture) wantPages(s task.Store, filter task.QuestionFilter, size int, all []*task.Question) {
	f.pages(size, all, func(after *task.Question) ([]*task.Question, error) {
		return s.Waiting(f.ctx, filter, after, size)
	})
}
