package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

var noticeTests = []test{
	{"while nobody listens no write leaves a notice, and none comes later", func(f *fixture, s task.Store) {
		t := f.addRunning(s, "alice")
		soon := question("soon", "user:bob")
		soon.Within, soon.Remind = long, time.Millisecond
		f.park(s, t, question("decided", "user:bob"), question("withdrawn", "user:bob"), soon)
		f.decide(s, t.ID, "decided")
		t = f.claimThis(s, t.ID, long)
		f.park(s, t, soon)
		f.tick(s, f.question(s, t.ID, "soon").Asked.Add(time.Millisecond))
		f.wantNotices(s)
		f.updateStatus(s, t, task.Cancelled, task.Update{Due: 0})
		f.listen(s, long)
		f.wantNotices(s)
		f.updateStatus(s, t, task.Cancelled, task.Update{Due: -1}) // it has ended before
		f.wantNotices(s)
	}},
	{"each kind is left once for a question, by the write that makes it so, and none for a timer",
		func(f *fixture, s task.Store) {
			writer, reader := f.instances(s, 3)[1], f.instances(s, 3)[2]
			f.listen(s, long)
			t := f.addRunning(writer, "alice")
			timer := func(key string) *task.Question {
				q := question(key)
				q.Within, q.Remind = long, time.Millisecond
				return q
			}
			decided, expired := question("decided", "user:bob"), question("expired", "group:a")
			open := question("open", "user:bob")
			f.wantNotices(reader)
			f.park(writer, t, decided, expired, open, timer("t1"), timer("t2"), timer("t3"), timer("t4"))
			f.wantNotices(reader, "asked decided", "asked expired", "asked open")
			f.update(writer, t, task.Update{Keep: true})
			f.wake(writer, t)
			f.park(writer, t, decided, expired, open, timer("t1"), timer("t2"), timer("t3"))
			f.wantNotices(reader)

			q := f.question(writer, t.ID, "decided")
			q.Votes = []byte("votes")
			f.change(writer, q)
			f.wantNotices(reader)
			q.Decision = []byte("decision")
			f.change(writer, q)
			f.wantNotices(reader, "decided decided")
			for _, key := range []string{"expired", "t1"} {
				q = f.question(writer, t.ID, key)
				q.Deadline = q.Asked
				f.change(writer, q)
				q.Decision = []byte("decision")
				f.wantChange(writer, q, true, nil)
			}
			f.wantNotices(reader, "unanswered expired")
			f.decide(writer, t.ID, "t2")

			t = f.claimThis(writer, t.ID, long)
			f.park(writer, t)
			f.wantNotices(reader, "ended open")
			f.wake(writer, t)
			answered := question("answered", "user:bob")
			f.park(writer, t, open, answered, timer("t3"))
			f.wantNotices(reader, "asked answered")
			f.updateStatus(writer, t, task.Working, task.Update{Lease: long, Answered: []string{"answered", "t3"}})
			f.wantNotices(reader, "ended answered")
			f.park(writer, t, open, answered, question("last", "user:bob"), timer("t4"))
			f.wantNotices(reader, "asked last")
			f.updateStatus(writer, t, task.Cancelled, task.Update{Due: 0})
			f.wantNotices(reader, "ended decided", "ended expired", "ended last")
			f.updateStatus(writer, t, task.Cancelled, task.Update{Due: -1})
			f.wantNotices(reader)
		}},
	{"a write that is refused leaves none", func(f *fixture, s task.Store) {
		t := f.addRunning(s, "alice")
		f.park(s, t, question("decided", "user:bob"), question("open", "user:bob"))
		f.wake(s, t)
		f.decide(s, t.ID, "decided")
		f.listen(s, long)
		ask := clone(t)
		ask.Status = task.InputRequired
		u := task.Update{Leased: true, Due: -1, Ask: []*task.Question{question("new", "user:bob"),
			question("decided", "user:bob")}}
		f.wantError("Update", s.Update(f.ctx, ask, u), task.ErrDecided)
		ask.Status = task.Completed
		u = task.Update{Due: -1, Answered: []string{"open", "decided"}}
		f.wantError("Update", s.Update(f.ctx, ask, u), task.ErrLate)
		ask.Version--
		f.wantError("Update", s.Update(f.ctx, ask, task.Update{Due: -1}), task.ErrConflict)
		q := f.question(s, t.ID, "open")
		q.Decision = []byte("decision")
		f.wantChange(s, q, true, task.ErrEarly)
		q.Version--
		f.wantChange(s, q, false, task.ErrConflict)
		f.wantNotices(s)
	}},
	{"Listen ends after its time, and a shorter one does not end it before", func(f *fixture, s task.Store) {
		leaves := func() bool {
			f.Helper()
			t := f.addRunning(s, "alice")
			f.park(s, t, question("key", "user:bob"))
			return len(f.settleAll(s)) > 0
		}
		const listens = 80 * time.Millisecond
		start := time.Now()
		f.listen(s, listens)
		f.listen(f.instances(s, 2)[1], time.Millisecond)
		f.eventually("nobody listens", func() bool { return !leaves() })
		f.wantPassed(start, listens)
		f.listen(s, long)
		f.listen(s, time.Millisecond)
		mark := f.addParked(s, "bob")
		f.update(s, mark, task.Update{Due: 10 * time.Millisecond})
		f.claimNext(s)
		if !leaves() {
			f.Error("a shorter time has ended a longer one")
		}
	}},
	{"a notice has what it tells as it was when it was written, the time of that, and how often it was taken",
		func(f *fixture, s task.Store) {
			f.listen(s, long)
			t := f.addRunning(s, "alice")
			q := question("key", "user:bob", "group:a")
			q.Equal, q.Within, q.Notice = "equal", long, everyByte
			f.park(s, t, q)
			asked := t.Updated
			f.tick(s, asked)
			told := func(q *task.Question) *task.Question {
				return &task.Question{Task: t.ID, Key: "key", Principal: "alice", Target: t.Target, For: slices.Clone(q.For),
					Notice: everyByte, Asked: q.Asked, Deadline: q.Deadline}
			}
			q = f.question(s, t.ID, "key")
			if q.Notice != nil {
				f.Errorf("a question that was read has what its notices tell: %q", q.Notice)
			}
			before := told(q)
			q.For, q.Votes, q.Decision = []string{"user:carol"}, everyByte, []byte("decision")
			q.Deadline = q.Deadline.Add(time.Hour)
			f.change(s, q)
			for i, want := range []*task.Notice{
				{Kind: task.NoticeAsked, Written: asked, Attempts: 1, Question: before},
				{Kind: task.NoticeDecided, Written: f.get(s, t.ID).Updated, Attempts: 1, Question: told(q)},
			} {
				n := f.notice(s, long)
				if n.Age < 0 || n.Age > long || i == 0 && n.Age == 0 {
					f.Errorf("the notice that was written at %v has the age %v", n.Written, n.Age)
				}
				if diff := cmp.Diff(want, n, sameQuestion, cmpopts.IgnoreFields(task.Notice{}, "Age")); diff != "" {
					f.Errorf("not the notice that it should be (-want +got):\n%s", diff)
				}
				n.Question.For[0], n.Question.Notice[0] = "user:mallory", 'X'
				f.wantQuestion(s, q)
				f.settle(s, n, time.Millisecond)
				n = f.nextNotice(s, long)
				if n.Kind != want.Kind || n.Attempts != 2 || n.Question.Notice[0] == 'X' || n.Question.For[0] == "user:mallory" {
					f.Errorf("notice %d is %s, taken %d times, want %s and 2", i, n.Kind, n.Attempts, want.Kind)
				}
				f.settle(s, n, 0)
			}
			f.wantNotices(s)
		}},
	{"of each task only the first one is taken, and of several tasks the one that has been due longest is first",
		func(f *fixture, s task.Store) {
			f.listen(s, long)
			var ids []string
			for range 3 {
				t := f.addRunning(s, "alice")
				f.park(s, t, question("key", "user:bob"))
				ids = append(ids, t.ID)
				f.tick(s, t.Updated)
			}
			for _, id := range []string{ids[2], ids[1], ids[0]} {
				f.decide(s, id, "key")
			}
			take := func(limit int, lease time.Duration, want ...string) (taken []*task.Notice) {
				f.Helper()
				taken = f.notices(s, lease, limit)
				var got []string
				for _, n := range taken {
					got = append(got, fmt.Sprint(n.Kind, slices.Index(ids, n.Question.Task)))
				}
				if !slices.Equal(got, want) {
					f.Fatalf("the notices %q were taken, want %q", got, want)
				}
				return taken
			}
			take(0, long)
			first := take(4, long, "asked0", "asked1")
			f.settle(s, first[0], 0)
			f.settle(s, first[1], long) // to be tried again, which holds back what its task has decided
			rest := take(10, long, "asked2", "decided0")
			take(10, long)
			f.settle(s, rest[0], 0)
			f.settle(s, take(10, long, "decided2")[0], 0)
			f.settle(s, rest[1], 0)
			take(10, long)
		}},
	{"a notice that is not settled is taken again when its lease ends, and not before", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.addRunning(s, "alice")
		f.park(s, t, question("key", "user:bob"))
		f.decide(s, t.ID, "key")
		const lease = 60 * time.Millisecond
		want := func(n *task.Notice, attempts int) {
			f.Helper()
			if n.Kind != task.NoticeAsked || n.Attempts != attempts {
				f.Fatalf("the notice is %s, taken %d times; want asked and %d", n.Kind, n.Attempts, attempts)
			}
		}
		start := time.Now()
		want(f.notice(f.instances(s, 2)[1], lease), 1)
		n := f.nextNotice(s, lease)
		want(n, 2)
		f.wantPassed(start, lease)
		start = time.Now()
		f.settle(s, n, lease)
		want(f.nextNotice(s, long), 3)
		f.wantPassed(start, lease)
	}},
	{"Settle does nothing for a notice that was taken again since, or that does not exist",
		func(f *fixture, s task.Store) {
			other := f.instances(s, 2)[1]
			f.listen(s, long)
			t := f.addRunning(s, "alice")
			f.park(s, t, question("a", "user:bob"))
			f.decide(s, t.ID, "a")
			stale := f.notice(s, time.Millisecond)
			again := f.nextNotice(other, long)
			f.settle(s, stale, 0)
			f.settle(s, stale, time.Millisecond)
			f.tick(s, f.get(s, t.ID).Updated.Add(5*time.Millisecond))
			f.wantNotices(s)
			f.settle(other, again, 0)
			f.settle(other, again, 0)
			f.settle(other, again, time.Millisecond) // of the notice that follows it is none
			decided := f.notice(s, long)
			if decided.Kind != task.NoticeDecided || decided.Attempts != 1 {
				f.Errorf("the next notice is %s, taken %d times", decided.Kind, decided.Attempts)
			}
			unknown := *decided
			for _, place := range [][2]string{{newID(), "a"}, {t.ID, "b"}, {"", ""}} {
				unknown.Question = &task.Question{Task: place[0], Key: place[1]}
				f.settle(s, &unknown, 0)
			}
			unknown = *decided
			unknown.Kind = task.NoticeEnded
			f.settle(s, &unknown, 0)
			f.settle(s, decided, time.Millisecond)
			if n := f.nextNotice(s, long); n.Kind != task.NoticeDecided || n.Attempts != 2 {
				f.Errorf("the notice is %s, taken %d times, want decided and 2", n.Kind, n.Attempts)
			}
		}},
	{"due_soon is left when Remind has passed for a question that is open then, once", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.addRunning(s, "alice")
		var asks []*task.Question
		const remind = 60 * time.Millisecond
		for _, key := range []string{"soon", "decided", "withdrawn", "later", "never", "timer"} {
			q := question(key, "user:bob")
			q.Within, q.Remind = long, remind
			asks = append(asks, q)
		}
		asks[3].Remind, asks[4].Remind, asks[5].For = long/2, 0, nil
		start := time.Now()
		f.park(s, t, asks...)
		f.decide(s, t.ID, "decided")
		t = f.claimThis(s, t.ID, long)
		f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: -1, Ask: slices.Concat(asks[:1], asks[3:])})
		got := f.settleAll(s)
		f.eventually("the deadline is near", func() bool {
			got = append(got, f.settleAll(s)...)
			return slices.Contains(got, "due_soon soon")
		})
		f.wantPassed(start, remind)
		f.tick(s, f.question(s, t.ID, "soon").Asked.Add(remind))
		got = append(got, f.settleAll(s)...)
		for _, notice := range got {
			if strings.HasPrefix(notice, "due_soon") && notice != "due_soon soon" {
				f.Errorf("the notice %q was left", notice)
			}
		}
		if len(got) != 5+2+1 {
			f.Errorf("the notices are %q", got)
		}
		f.wantNotices(s)
	}},
	{"due_soon is left by Notices while somebody listens, also if nobody did when the time came",
		func(f *fixture, s task.Store) {
			t := f.addRunning(s, "alice")
			q := question("soon", "user:bob")
			q.Within, q.Remind = long, time.Millisecond
			f.park(s, t, q)
			f.tick(s, t.Updated.Add(time.Millisecond))
			f.wantNotices(s)
			f.listen(s, long)
			f.wantNotices(s, "due_soon soon")
			f.wantNotices(s)
		}},
	{"the time of due_soon moves with the deadline", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.addRunning(s, "alice")
		var asks []*task.Question
		for _, key := range []string{"extended", "shortened", "without"} {
			q := question(key, "user:bob")
			q.Within, q.Remind = 2*long, long
			asks = append(asks, q)
		}
		asks[0].Remind, asks[2].Remind = time.Millisecond, time.Millisecond
		f.park(s, t, asks...)
		for key, by := range map[string]time.Duration{"extended": long, "shortened": -long} {
			q := f.question(s, t.ID, key)
			q.Deadline = q.Deadline.Add(by)
			f.change(s, q)
		}
		q := f.question(s, t.ID, "without")
		q.Deadline = time.Time{}
		f.change(s, q)
		f.tick(s, t.Updated.Add(time.Millisecond))
		f.wantNotices(s, "asked extended", "asked shortened", "asked without", "due_soon shortened")
	}},
	{"notices outlive their task, whether it is purged or evicted, and can be settled", func(f *fixture, s task.Store) {
		f.listen(s, long)
		for _, principal := range []string{"alice", ""} {
			t := f.past(func() *task.Task { return f.addRunning(s, principal) })
			q := question("key", "user:bob")
			q.Notice = []byte("told")
			f.park(s, t, q)
			asked := f.notice(s, time.Millisecond)
			if principal == "" {
				f.updateStatus(s, t, task.Failed, task.Update{Due: -1})
				f.tick(s, t.Updated.Add(time.Millisecond))
				if n, err := s.Evict(f.ctx, principal, 0, 10); n != 1 || err != nil {
					f.Fatalf("%d tasks were evicted, %v", n, err)
				}
			} else {
				f.updateStatus(s, t, task.Cancelled, task.Update{Due: -1})
				f.purge(s, 0, 10, 1)
			}
			f.wantGone(s, t.ID)
			f.settle(s, asked, time.Millisecond)
			var kinds []task.NoticeKind
			for attempts := range 2 {
				n := f.nextNotice(s, long)
				kinds = append(kinds, n.Kind)
				if n.Question.Task != t.ID || n.Question.Principal != principal || string(n.Question.Notice) != "told" ||
					n.Question.Target != t.Target || n.Attempts != 2-attempts {
					f.Errorf("after its task is gone the notice is %+v", n)
				}
				f.settle(s, n, 0)
			}
			if !slices.Equal(kinds, []task.NoticeKind{task.NoticeAsked, task.NoticeEnded}) {
				f.Errorf("the notices are %q", kinds)
			}
			f.settle(s, asked, 0)
			f.settle(s, asked, time.Millisecond)
			f.wantNotices(s)
		}
	}},
	{"another task with the ID of one that is gone has notices of its own, after those", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.past(func() *task.Task { return f.addRunning(s, "alice") })
		f.park(s, t, question("key", "user:bob"))
		f.updateStatus(s, t, task.Cancelled, task.Update{Due: -1})
		f.purge(s, 0, 10, 1)
		again := newTask("bob")
		again.ID = t.ID
		f.ok("Create", s.Create(f.ctx, again, long, long, []byte("call"), nil, task.Quota{}))
		f.park(s, again, question("key", "user:bob"))
		for _, want := range []string{"alice asked", "alice ended", "bob asked"} {
			n := f.nextNotice(s, long)
			if got := n.Question.Principal + " " + string(n.Kind); got != want {
				f.Fatalf("the notice is %q, want %q", got, want)
			}
			f.settle(s, n, 0)
		}
		f.wantNotices(s)
	}},
	{"principals take turns, and each gets another only while it has fewer than are free", func(f *fixture, s task.Store) {
		f.listen(s, long)
		ask := func(principal string, n int) {
			for range n {
				t := f.addRunning(s, principal)
				f.park(s, t, question("key", "user:bob"))
			}
		}
		for principal, n := range map[string]int{"alice": 40, "bob": 6, "": 1} {
			ask(principal, n)
		}
		want := func(c task.NoticeClaim, want string) {
			f.Helper()
			c.Lease = long
			var got []string
			taken := f.takeNotices(s, c)
			for _, n := range taken {
				got = append(got, n.Question.Principal)
			}
			if strings.Join(got, " ") != want {
				f.Fatalf("with %+v the notices of %q were taken, want %q", c, got, want)
			}
			for _, n := range taken { // nobody has taken it
				f.settle(s, n, time.Millisecond)
				f.tick(s, n.Written)
			}
			f.tick(s, f.addParked(s, "clock").Updated.Add(2*time.Millisecond))
		}
		want(task.NoticeClaim{Free: 1, After: "alice"}, "bob")
		want(task.NoticeClaim{Free: 1, After: "bob"}, "")
		want(task.NoticeClaim{Free: 2, After: "zoe", Delivering: map[string]int{"": 1}}, "alice bob")
		want(task.NoticeClaim{Free: 1, Delivering: map[string]int{"": 1, "alice": 1, "bob": 1}}, "")
		want(task.NoticeClaim{Free: 4, After: "", Delivering: map[string]int{"": 4, "bob": 3}}, "alice alice")
		want(task.NoticeClaim{Free: 8, After: "alice"}, "bob  alice bob alice bob")
		ask("zoe", 1)
		want(task.NoticeClaim{Free: 1, Delivering: map[string]int{"alice": 16, "bob": 8, "": 1}}, "zoe")
		want(task.NoticeClaim{Free: 0}, "")
	}},
	{"a backlog does not hold up the newest notice of another principal", func(f *fixture, s task.Store) {
		f.listen(s, long)
		for range 300 {
			t := f.addRunning(s, "alice")
			f.park(s, t, question("key", "user:bob"))
		}
		t := f.addRunning(s, "zoe")
		f.park(s, t, question("key", "user:bob"))
		taken := f.takeNotices(s, task.NoticeClaim{After: "alice", Free: 2, Lease: long})
		if len(taken) == 0 || taken[0].Question.Principal != "zoe" {
			f.Errorf("%d were taken, and zoe's is not the first", len(taken))
		}
	}},
	{"Age leaves out what was written less long ago", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.addRunning(s, "alice")
		f.park(s, t, question("key", "user:bob"))
		if got := f.takeNotices(s, task.NoticeClaim{Free: 10, Lease: long, Age: long}); len(got) > 0 {
			f.Errorf("a notice was taken that was written at %v", got[0].Written)
		}
		f.tick(s, t.Updated.Add(2*time.Millisecond))
		if got := f.takeNotices(s, task.NoticeClaim{Free: 10, Lease: long, Age: time.Millisecond}); len(got) != 1 {
			f.Errorf("%d were taken of one that is older", len(got))
		}
	}},
	{"of a principal no more are left than the bounds allow, of all others they are, and Refused tells what was not",
		func(f *fixture, s task.Store) {
			f.ok("Listen", s.Listen(f.ctx, long, 5, 1))
			f.ok("Listen", f.instances(s, 2)[1].Listen(f.ctx, time.Millisecond, 3, 2))
			rows := make(map[string]*task.Task)
			for _, principal := range []string{"alice", "bob", ""} {
				t := f.addRunning(s, principal)
				rows[principal] = t
				var asks []*task.Question
				for i := range map[string]int{"alice": 4, "bob": 3, "": 3}[principal] {
					asks = append(asks, question(fmt.Sprint("key ", i), "user:bob"))
					asks[i].Notice = []byte("told")
				}
				f.park(s, t, asks...)
			}
			wantRefused := func(limit int, want ...string) {
				f.Helper()
				refused, err := s.Refused(f.ctx, limit)
				f.ok("Refused", err)
				var got []string
				for _, n := range refused {
					got = append(got, n.Question.Principal+" "+string(n.Kind))
					if q := n.Question; q.Task != rows[q.Principal].ID || !strings.HasPrefix(q.Key, "key") || q.Notice != nil ||
						q.Target != "deploy" || n.Written.Before(rows[q.Principal].Created) {
						f.Errorf("a refused notice is %+v", n)
					}
				}
				if !slices.Equal(got, want) {
					f.Fatalf("%q were refused, want %q", got, want)
				}
			}
			wantRefused(0)
			wantRefused(1, "alice asked")
			wantRefused(10, " asked")
			wantRefused(10)
			if got := f.settleAll(s); len(got) != 3+3+2 {
				f.Fatalf("the notices are %q", got)
			}
			f.wake(s, rows["alice"]) // there is room again
			f.park(s, rows["alice"], question("key 4", "user:bob"))
			f.updateStatus(s, rows[""], task.Cancelled, task.Update{Due: -1})
			got := f.settleAll(s)
			if len(got) != 3+2 {
				f.Errorf("the notices are %q", got)
			}
			refused, err := s.Refused(f.ctx, 100)
			if f.ok("Refused", err); len(refused) != 5-3+3-2 {
				f.Errorf("%d were refused", len(refused))
			}
		}},
	{"of what a principal was refused the first 1,000 are kept, and refused ones of another are, too",
		func(f *fixture, s task.Store) {
			f.ok("Listen", s.Listen(f.ctx, long, 1, 1))
			for _, ask := range []struct {
				principal string
				questions int
			}{{"alice", 1 + task.RefusedKept + 50}, {"bob", 3}} {
				t := f.addRunning(s, ask.principal)
				var asks []*task.Question
				for i := range ask.questions {
					asks = append(asks, question(fmt.Sprint("key ", i), "user:bob"))
				}
				f.park(s, t, asks...)
			}
			refused, err := s.Refused(f.ctx, 10_000)
			f.ok("Refused", err)
			of := make(map[string]int)
			for _, n := range refused {
				of[n.Question.Principal]++
			}
			if of["alice"] != task.RefusedKept || of["bob"] != 2 || len(of) != 2 {
				f.Errorf("%v were refused", of)
			}
		}},
	{"instances that take notices at the same time get each once, and the notices of a task in order",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 3)
			f.listen(s, long)
			const tasks = 20
			want := make(map[string][]string)
			for range tasks {
				t := f.addRunning(s, "alice")
				f.park(s, t, question("a", "user:bob"))
				f.decide(s, t.ID, "a")
				f.updateStatus(s, f.get(s, t.ID), task.Failed, task.Update{Due: -1})
				want[t.ID] = []string{"asked", "decided", "ended"}
			}
			got := make(map[string][]string)
			var mu sync.Mutex
			var left atomic.Int64
			left.Store(3 * tasks)
			together(&f.suite, 6, func(i int, _ func(any)) error {
				s := handles[i%3]
				for deadline := time.Now().Add(patience); left.Load() > 0 && time.Now().Before(deadline); {
					taken, err := s.Notices(f.ctx, task.NoticeClaim{Free: 1 + i, Lease: long})
					if err != nil {
						return err
					}
					for _, n := range taken {
						mu.Lock()
						got[n.Question.Task] = append(got[n.Question.Task], string(n.Kind))
						mu.Unlock()
						if err := s.Settle(f.ctx, n, 0); err != nil {
							return err
						}
						left.Add(-1)
					}
				}
				return nil
			})
			if diff := cmp.Diff(want, got); diff != "" {
				f.Errorf("not the notices of each task (-want +got):\n%s", diff)
			}
			f.wantNotices(s)
		}},
	{"what is decided while its task ends stays so, the rest is withdrawn, and each leaves its notices once",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 3)
			f.listen(s, long)
			keys := []string{"a", "b", "c"}
			for round := range 40 {
				t := f.addRunning(s, "alice")
				f.park(s, t, question("a", "user:bob"), question("b", "user:bob"), question("c", "user:bob"))
				open := f.questions(s, t.ID)
				decided := together(&f.suite, 1+len(keys), func(i int, add func(string)) error {
					s := handles[(i+round)%3]
					if i < len(keys) {
						open[i].Decision = []byte("decision")
						err := s.ChangeQuestion(f.ctx, open[i], false)
						if err == nil {
							add(open[i].Key)
						}
						return except(task.ErrConflict, err)
					}
					for {
						got, err := s.Get(f.ctx, t.ID)
						if err != nil {
							return err
						}
						got.Status = task.Cancelled
						if err = s.Update(f.ctx, got, task.Update{Due: -1}); !errors.Is(err, task.ErrConflict) {
							return err
						}
					}
				})
				if got := f.get(s, t.ID); got.Status != task.Cancelled {
					f.Fatalf("the task is %s, want it cancelled", got.Status)
				}
				got := f.settleAll(s)
				for _, key := range keys {
					status, want := task.QuestionWithdrawn, []string{"asked " + key, "ended " + key}
					if slices.Contains(decided, key) {
						status, want = task.QuestionDecided, []string{"asked " + key, "decided " + key, "ended " + key}
					}
					f.wantStatus(s, t.ID, key, status)
					its := slices.DeleteFunc(slices.Clone(got), func(n string) bool { return !strings.HasSuffix(n, " "+key) })
					if !slices.Equal(its, want) {
						f.Fatalf("the question %q is %s with the notices %q, want %q", key, status, its, want)
					}
				}
			}
			f.noneDue(s)
		}},
}

func (f *fixture) listen(s task.Store, d time.Duration) {
	f.Helper()
	f.ok("Listen", s.Listen(f.ctx, d, 0, 0))
}

func (f *fixture) notices(s task.Store, lease time.Duration, limit int) []*task.Notice {
	f.Helper()
	return f.takeNotices(s, task.NoticeClaim{Free: limit, Lease: lease})
}

func (f *fixture) takeNotices(s task.Store, c task.NoticeClaim) []*task.Notice {
	f.Helper()
	notices, err := s.Notices(f.ctx, c)
	f.ok("Notices", err)
	if len(notices) > c.Free {
		f.Fatalf("Notices took %d, and %d were free", len(notices), c.Free)
	}
	return notices
}

// notice takes the notice that is due.
func (f *fixture) notice(s task.Store, lease time.Duration) *task.Notice {
	f.Helper()
	notices := f.notices(s, lease, 10)
	if len(notices) != 1 {
		f.Fatalf("Notices took %d, want one", len(notices))
	}
	return notices[0]
}

// nextNotice waits until a notice is due, and takes it.
func (f *fixture) nextNotice(s task.Store, lease time.Duration) (n *task.Notice) {
	f.Helper()
	f.eventually("a notice is due", func() bool {
		if notices := f.notices(s, lease, 1); len(notices) > 0 {
			n = notices[0]
		}
		return n != nil
	})
	return n
}

func (f *fixture) settle(s task.Store, n *task.Notice, retry time.Duration) {
	f.Helper()
	f.ok("Settle", s.Settle(f.ctx, n, retry))
}

// settleAll takes and settles what is due until there is nothing more, and returns the kinds with the questions.
func (f *fixture) settleAll(s task.Store) (all []string) {
	f.Helper()
	for {
		notices := f.notices(s, long, 7)
		if len(notices) == 0 {
			return all
		}
		for _, n := range notices {
			all = append(all, string(n.Kind)+" "+n.Question.Key)
			f.settle(s, n, 0)
		}
	}
}

// wantNotices requires that these notices can be taken. Notices of one write are in any order.
func (f *fixture) wantNotices(s task.Store, want ...string) {
	f.Helper()
	got := f.settleAll(s)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Fatalf("the notices are %q, want %q", got, want)
	}
}
