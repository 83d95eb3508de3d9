package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

var noticeTests = []test{
	{"while nobody listens no write leaves a notice, and none comes later", func(f *fixture, s task.Store) {
		soon := reminding(time.Millisecond, "soon", "user:bob")
		t := f.addAsking(s, "alice", append(forBob("decided", "withdrawn"), soon)...)
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
			timer := func(key string) *task.Question { return reminding(time.Millisecond, key) }
			asks := append(forBob("decided", "open"), question("expired", "group:a"))
			f.wantNotices(reader)
			f.park(writer, t, append(asks, timer("t1"), timer("t2"), timer("t3"), timer("t4"))...)
			f.wantNotices(reader, "asked decided", "asked expired", "asked open")
			f.update(writer, t, task.Update{Keep: true})
			f.wake(writer, t)
			f.park(writer, t, append(asks, timer("t1"), timer("t2"), timer("t3"))...)
			f.wantNotices(reader)

			f.edit(writer, t.ID, "decided", func(q *task.Question) { q.Votes = []byte("votes") })
			f.wantNotices(reader)
			f.decide(writer, t.ID, "decided")
			f.wantNotices(reader, "decided decided")
			f.expire(writer, t.ID, "expired")
			f.expire(writer, t.ID, "t1")
			f.wantNotices(reader, "unanswered expired")
			f.decide(writer, t.ID, "t2")

			t = f.claimThis(writer, t.ID, long)
			f.park(writer, t)
			f.wantNotices(reader, "ended open")
			f.wake(writer, t)
			answered := question("answered", "user:bob")
			f.park(writer, t, asks[1], answered, timer("t3"))
			f.wantNotices(reader, "asked answered")
			f.updateStatus(writer, t, task.Working, task.Update{Lease: long, Answered: []string{"answered", "t3"}})
			f.wantNotices(reader, "ended answered")
			f.park(writer, t, asks[1], answered, question("last", "user:bob"), timer("t4"))
			f.wantNotices(reader, "asked last")
			f.updateStatus(writer, t, task.Cancelled, task.Update{Due: 0})
			f.wantNotices(reader, "ended decided", "ended expired", "ended last")
			f.updateStatus(writer, t, task.Cancelled, task.Update{Due: -1})
			f.wantNotices(reader)
		}},
	{"a write that is refused leaves none", func(f *fixture, s task.Store) {
		t := f.addAsking(s, "alice", forBob("decided", "open")...)
		f.wake(s, t)
		f.decide(s, t.ID, "decided")
		f.listen(s, long)
		ask := clone(t)
		ask.Status = task.InputRequired
		f.wantUpdate(s, ask, task.Update{Leased: true, Due: -1, Ask: forBob("new", "decided")}, task.ErrDecided)
		ask.Status = task.Completed
		f.wantUpdate(s, ask, task.Update{Due: -1, Answered: []string{"open", "decided"}}, task.ErrLate)
		ask.Version--
		f.wantUpdate(s, ask, task.Update{Due: -1}, task.ErrConflict)
		q := f.decision(s, t.ID, "open")
		f.wantChange(s, q, true, task.ErrEarly)
		q.Version--
		f.wantChange(s, q, false, task.ErrConflict)
		f.wantNotices(s)
	}},
	{"Listen ends after its time, and a shorter one does not end it before", func(f *fixture, s task.Store) {
		leaves := func() bool {
			f.addAsking(s, "alice", question("key", "user:bob"))
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
		f.check(leaves(), "a shorter time has ended a longer one")
	}},
	{"a notice has what it tells as it was when it was written, the time of that, and how often it was taken",
		func(f *fixture, s task.Store) {
			f.listen(s, long)
			q := within(long, "key", "user:bob", "group:a")
			q.Equal, q.Notice = "equal", everyByte
			t := f.addAsking(s, "alice", q)
			f.tick(s, t.Updated)
			told := func(q *task.Question) *task.Question {
				return &task.Question{Task: t.ID, Key: "key", Principal: "alice", Target: t.Target, For: slices.Clone(q.For),
					Notice: everyByte, Asked: q.Asked, Deadline: q.Deadline}
			}
			q = f.question(s, t.ID, "key")
			f.check(q.Notice == nil, "a question that was read has what its notices tell: %q", q.Notice)
			before := told(q)
			q.For, q.Votes, q.Decision = []string{"user:carol"}, everyByte, []byte("decision")
			q.Deadline = q.Deadline.Add(time.Hour)
			f.change(s, q)
			for i, want := range []*task.Notice{
				{Kind: task.NoticeAsked, Written: t.Updated, Attempts: 1, Question: before},
				{Kind: task.NoticeDecided, Written: f.get(s, t.ID).Updated, Attempts: 1, Question: told(q)},
			} {
				n := f.notice(s, long)
				f.check(n.Age >= 0 && n.Age <= long && (i > 0 || n.Age > 0), "written at %v, it has the age %v", n.Written, n.Age)
				f.wantEqual("the notice", n, want, sameQuestion, cmpopts.IgnoreFields(task.Notice{}, "Age"))
				n.Question.For[0], n.Question.Notice[0] = "user:mallory", 'X'
				f.wantQuestion(s, q)
				f.settle(s, n, time.Millisecond)
				n = f.nextNotice(s, long)
				want.Attempts = 2
				f.wantEqual("the notice", n, want, sameQuestion, cmpopts.IgnoreFields(task.Notice{}, "Age"))
				f.settle(s, n, 0)
			}
			f.wantNotices(s)
		}},
	{"of each task only the first one is taken, and of several tasks the one that has been due longest is first",
		func(f *fixture, s task.Store) {
			f.listen(s, long)
			var ids []string
			for range 3 {
				t := f.addAsking(s, "alice", question("key", "user:bob"))
				ids = append(ids, t.ID)
				f.tick(s, t.Updated)
			}
			for _, id := range []string{ids[2], ids[1], ids[0]} {
				f.decide(s, id, "key")
			}
			take := func(limit int, lease time.Duration, want ...string) (taken []*task.Notice) {
				taken = f.notices(s, lease, limit)
				f.wantEqual("the notices", each(taken, func(n *task.Notice) string {
					return fmt.Sprint(n.Kind, slices.Index(ids, n.Question.Task))
				}), want)
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
		t := f.addAsking(s, "alice", question("key", "user:bob"))
		f.decide(s, t.ID, "key")
		const lease = 60 * time.Millisecond
		start := time.Now()
		f.wantNotice(f.notice(f.instances(s, 2)[1], lease), task.NoticeAsked, 1)
		n := f.nextNotice(s, lease)
		f.wantNotice(n, task.NoticeAsked, 2)
		f.wantPassed(start, lease)
		start = time.Now()
		f.settle(s, n, lease)
		f.wantNotice(f.nextNotice(s, long), task.NoticeAsked, 3)
		f.wantPassed(start, lease)
	}},
	{"Settle does nothing for a notice that was taken again since, or that does not exist",
		func(f *fixture, s task.Store) {
			other := f.instances(s, 2)[1]
			f.listen(s, long)
			t := f.addAsking(s, "alice", question("a", "user:bob"))
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
			f.wantNotice(decided, task.NoticeDecided, 1)
			unknown := *decided
			for _, place := range [][2]string{{newID(), "a"}, {t.ID, "b"}, {"", ""}} {
				unknown.Question = &task.Question{Task: place[0], Key: place[1]}
				f.settle(s, &unknown, 0)
			}
			unknown = *decided
			unknown.Kind = task.NoticeEnded
			f.settle(s, &unknown, 0)
			f.settle(s, decided, time.Millisecond)
			f.wantNotice(f.nextNotice(s, long), task.NoticeDecided, 2)
		}},
	{"due_soon is left when Remind has passed for a question that is open then, once", func(f *fixture, s task.Store) {
		f.listen(s, long)
		const remind = 60 * time.Millisecond
		asks := []*task.Question{reminding(remind, "soon", "user:bob"), reminding(long/2, "later", "user:bob"),
			within(long, "never", "user:bob"), reminding(remind, "timer"), reminding(remind, "decided", "user:bob"),
			reminding(remind, "withdrawn", "user:bob")}
		start := time.Now()
		t := f.addAsking(s, "alice", asks...)
		f.decide(s, t.ID, "decided")
		f.park(s, f.claimThis(s, t.ID, long), asks[:4]...)
		got := f.settleAll(s)
		f.eventually("the deadline is near", func() bool {
			got = append(got, f.settleAll(s)...)
			return slices.Contains(got, "due_soon soon")
		})
		f.wantPassed(start, remind)
		f.tick(s, f.question(s, t.ID, "soon").Asked.Add(remind))
		got = append(got, f.settleAll(s)...)
		slices.Sort(got)
		f.wantEqual("the notices", got, []string{"asked decided", "asked later", "asked never", "asked soon",
			"asked withdrawn", "decided decided", "due_soon soon", "ended withdrawn"})
	}},
	{"the time of due_soon moves with the deadline, and may come before somebody listens", func(f *fixture, s task.Store) {
		before := f.addAsking(s, "alice", reminding(time.Millisecond, "soon", "user:bob"))
		f.tick(s, before.Updated.Add(time.Millisecond))
		f.wantNotices(s)
		f.listen(s, long)
		f.wantNotices(s, "due_soon soon")
		shortened := reminding(long, "shortened", "user:bob")
		shortened.Within = 2 * long
		t := f.addAsking(s, "alice", reminding(time.Millisecond, "extended", "user:bob"), shortened,
			reminding(time.Millisecond, "without", "user:bob"))
		f.edit(s, t.ID, "extended", func(q *task.Question) { q.Deadline = q.Deadline.Add(long) })
		f.edit(s, t.ID, "shortened", func(q *task.Question) { q.Deadline = q.Deadline.Add(-long) })
		f.edit(s, t.ID, "without", func(q *task.Question) { q.Deadline = time.Time{} })
		f.tick(s, t.Updated.Add(time.Millisecond))
		f.wantNotices(s, "asked extended", "asked shortened", "asked without", "due_soon shortened")
	}},
	{"notices outlive their task, whether it is purged or evicted, and can be settled", func(f *fixture, s task.Store) {
		f.listen(s, long)
		for _, principal := range []string{"alice", ""} {
			q := question("key", "user:bob")
			q.Notice = []byte("told")
			t := f.past().addAsking(s, principal, q)
			asked := f.notice(s, time.Millisecond)
			if f.updateStatus(s, t, task.Cancelled, task.Update{Due: -1}); principal == "" {
				f.tick(s, t.Updated.Add(time.Millisecond))
				f.evict(s, principal, 0, 10, 1)
			} else {
				f.purge(s, 0, 10, 1)
			}
			f.wantGone(s, t.ID)
			f.settle(s, asked, time.Millisecond)
			for i, kind := range []task.NoticeKind{task.NoticeAsked, task.NoticeEnded} {
				n := f.nextNotice(s, long)
				f.wantNotice(n, kind, 2-i)
				f.wantEqual("the question of a task that is gone", n.Question, &task.Question{Task: t.ID, Key: "key",
					Principal: principal, Target: t.Target, For: q.For, Asked: asked.Question.Asked, Notice: q.Notice})
				f.settle(s, n, 0)
			}
			f.settle(s, asked, 0)
			f.settle(s, asked, time.Millisecond)
			f.wantNotices(s)
		}
	}},
	{"another task with the ID of one that is gone has notices of its own, after those", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.past().addAsking(s, "alice", question("key", "user:bob"))
		f.updateStatus(s, t, task.Cancelled, task.Update{Due: -1})
		f.purge(s, 0, 10, 1)
		again := newTask("bob")
		again.ID = t.ID
		f.park(s, f.createWith(s, again, long), question("key", "user:bob"))
		for _, want := range []string{"alice asked", "alice ended", "bob asked"} {
			n := f.nextNotice(s, long)
			got := n.Question.Principal + " " + string(n.Kind)
			f.require(got == want, "the notice is %q, want %q", got, want)
			f.settle(s, n, 0)
		}
		f.wantNotices(s)
	}},
	{"principals take turns, and each gets another only while it has fewer than are free", func(f *fixture, s task.Store) {
		f.listen(s, long)
		for principal, n := range map[string]int{"alice": 40, "bob": 6, "": 1} {
			for range n {
				f.addAsking(s, principal, question("key", "user:bob"))
			}
		}
		want := func(c task.NoticeClaim, want string) {
			c.Lease = long
			taken := f.takeNotices(s, c)
			got := each(taken, func(n *task.Notice) string { return n.Question.Principal })
			f.require(strings.Join(got, " ") == want, "with %+v the notices of %q were taken, want %q", c, got, want)
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
		f.addAsking(s, "zoe", question("key", "user:bob"))
		want(task.NoticeClaim{Free: 1, Delivering: map[string]int{"alice": 16, "bob": 8, "": 1}}, "zoe")
		want(task.NoticeClaim{Free: 0}, "")
	}},
	{"a backlog does not hold up the newest notice of another principal", func(f *fixture, s task.Store) {
		f.listen(s, long)
		for range 300 {
			f.addAsking(s, "alice", question("key", "user:bob"))
		}
		f.addAsking(s, "zoe", question("key", "user:bob"))
		taken := f.takeNotices(s, task.NoticeClaim{After: "alice", Free: 2, Lease: long})
		f.check(len(taken) > 0 && taken[0].Question.Principal == "zoe", "%d were taken, zoe's not first", len(taken))
	}},
	{"Age leaves out what was written less long ago", func(f *fixture, s task.Store) {
		f.listen(s, long)
		t := f.addAsking(s, "alice", question("key", "user:bob"))
		got := f.takeNotices(s, task.NoticeClaim{Free: 10, Lease: long, Age: long})
		f.check(len(got) == 0, "%d were taken that are newer", len(got))
		f.tick(s, t.Updated.Add(2*time.Millisecond))
		got = f.takeNotices(s, task.NoticeClaim{Free: 10, Lease: long, Age: time.Millisecond})
		f.check(len(got) == 1, "%d were taken of one that is older", len(got))
	}},
	{"of a principal no more are left than the bounds allow, of all others they are, and Refused tells what was not",
		func(f *fixture, s task.Store) {
			f.ok("Listen", s.Listen(f.ctx, long, 5, 1))
			f.ok("Listen", f.instances(s, 2)[1].Listen(f.ctx, time.Millisecond, 3, 2))
			rows := make(map[string]*task.Task)
			for _, principal := range []string{"alice", "bob", ""} {
				t := f.addRunning(s, principal)
				rows[principal] = t
				asks := forBob("key 0", "key 1", "key 2", "key 3")[:map[string]int{"alice": 4, "bob": 3, "": 3}[principal]]
				for _, q := range asks {
					q.Notice = []byte("told")
				}
				f.park(s, t, asks...)
			}
			wantRefused := func(limit int, want ...string) {
				refused := must(s.Refused(f.ctx, limit))(f, "Refused")
				f.wantEqual("Refused", each(refused, func(n *task.Notice) string {
					return n.Question.Principal + " " + string(n.Kind)
				}), want)
				for _, n := range refused {
					q := n.Question
					f.check(q.Task == rows[q.Principal].ID && strings.HasPrefix(q.Key, "key") && q.Notice == nil &&
						q.Target == "deploy" && !n.Written.Before(rows[q.Principal].Created),
						"a refused notice is %+v", n)
				}
			}
			wantRefused(0)
			wantRefused(1, "alice asked")
			wantRefused(10, " asked")
			wantRefused(10)
			got := f.settleAll(s)
			f.require(len(got) == 3+3+2, "the notices are %q", got)
			f.wake(s, rows["alice"]) // there is room again
			f.park(s, rows["alice"], question("key 4", "user:bob"))
			f.updateStatus(s, rows[""], task.Cancelled, task.Update{Due: -1})
			got = f.settleAll(s)
			f.check(len(got) == 3+2, "the notices are %q", got)
			refused := must(s.Refused(f.ctx, 100))(f, "Refused")
			f.check(len(refused) == 5-3+3-2, "%d were refused", len(refused))
		}},
	{"of what a principal was refused the first 1,000 are kept, and refused ones of another are, too",
		func(f *fixture, s task.Store) {
			f.ok("Listen", s.Listen(f.ctx, long, 1, 1))
			for _, ask := range []struct {
				principal string
				questions int
			}{{"alice", 1 + task.RefusedKept + 50}, {"bob", 3}} {
				var asks []*task.Question
				for i := range ask.questions {
					asks = append(asks, question(fmt.Sprint("key ", i), "user:bob"))
				}
				f.addAsking(s, ask.principal, asks...)
			}
			refused := must(s.Refused(f.ctx, 10_000))(f, "Refused")
			of := make(map[string]int)
			for _, n := range refused {
				of[n.Question.Principal]++
			}
			f.wantEqual("what was refused", of, map[string]int{"alice": task.RefusedKept, "bob": 2})
		}},
	{"instances that take notices at the same time get each once, and the notices of a task in order",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 3)
			f.listen(s, long)
			const tasks = 20
			want := make(map[string][]string)
			for range tasks {
				t := f.addAsking(s, "alice", question("a", "user:bob"))
				f.decide(s, t.ID, "a")
				f.updateStatus(s, f.get(s, t.ID), task.Failed, task.Update{Due: -1})
				want[t.ID] = []string{"asked", "decided", "ended"}
			}
			got := make(map[string][]string)
			var left atomic.Int64
			left.Store(3 * tasks)
			for _, n := range together(&f.suite, 6, func(i int, add func(*task.Notice)) error {
				s := handles[i%3]
				for deadline := time.Now().Add(patience); left.Load() > 0 && time.Now().Before(deadline); {
					taken, err := s.Notices(f.ctx, task.NoticeClaim{Free: 1 + i, Lease: long})
					if err != nil {
						return err
					}
					for _, n := range taken {
						add(n)
						if err := s.Settle(f.ctx, n, 0); err != nil {
							return err
						}
						left.Add(-1)
					}
				}
				return nil
			}) {
				got[n.Question.Task] = append(got[n.Question.Task], string(n.Kind))
			}
			f.wantEqual("the notices of each task", got, want)
			f.wantNotices(s)
		}},
	{"what is decided while its task ends stays so, the rest is withdrawn, and each leaves its notices once",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 3)
			f.listen(s, long)
			for round := range 40 {
				t := f.addAsking(s, "alice", forBob("a", "b", "c")...)
				decided := f.decideMeanwhile(slices.Concat(handles[round%3:], handles[:round%3]), t.ID, task.ErrConflict,
					func(s task.Store) error {
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
				status := f.get(s, t.ID).Status
				f.require(status == task.Cancelled, "the task is %s, want it cancelled", status)
				got := f.settleAll(s)
				for _, q := range f.questions(s, t.ID) {
					key := " " + q.Key
					status, want := task.QuestionWithdrawn, []string{"asked" + key, "ended" + key}
					if slices.Contains(decided, q.Key) {
						status, want = task.QuestionDecided, []string{"asked" + key, "decided" + key, "ended" + key}
					}
					f.check(q.Status == status, "the question %q is %s, want it %s", q.Key, q.Status, status)
					f.wantEqual("its notices", slices.DeleteFunc(slices.Clone(got), func(n string) bool {
						return !strings.HasSuffix(n, key)
					}), want)
				}
			}
			f.noneDue(s)
		}},
}

// reminding returns a question whose deadline is an hour away, and near after this time.
func reminding(d time.Duration, key string, names ...string) *task.Question {
	q := within(long, key, names...)
	q.Remind = d
	return q
}

func (f *fixture) wantNotice(n *task.Notice, kind task.NoticeKind, attempts int) {
	f.require(n.Kind == kind && n.Attempts == attempts, "the notice is %s, taken %d times; want %s and %d",
		n.Kind, n.Attempts, kind, attempts)
}

func (f *fixture) listen(s task.Store, d time.Duration) {
	f.ok("Listen", s.Listen(f.ctx, d, 0, 0))
}

func (f *fixture) notices(s task.Store, lease time.Duration, limit int) []*task.Notice {
	return f.takeNotices(s, task.NoticeClaim{Free: limit, Lease: lease})
}

func (f *fixture) takeNotices(s task.Store, c task.NoticeClaim) []*task.Notice {
	notices := must(s.Notices(f.ctx, c))(f, "Notices")
	f.require(len(notices) <= c.Free, "Notices took %d, and %d were free", len(notices), c.Free)
	return notices
}

// notice takes the notice that is due.
func (f *fixture) notice(s task.Store, lease time.Duration) *task.Notice {
	notices := f.notices(s, lease, 10)
	f.require(len(notices) == 1, "Notices took %d, want one", len(notices))
	return notices[0]
}

// nextNotice waits until a notice is due, and takes it.
func (f *fixture) nextNotice(s task.Store, lease time.Duration) (n *task.Notice) {
	f.eventually("a notice is due", func() bool {
		if notices := f.notices(s, lease, 1); len(notices) > 0 {
			n = notices[0]
		}
		return n != nil
	})
	return n
}

func (f *fixture) settle(s task.Store, n *task.Notice, retry time.Duration) {
	f.ok("Settle", s.Settle(f.ctx, n, retry))
}

// settleAll takes and settles what is due until there is nothing more, and returns the kinds with the questions.
func (f *fixture) settleAll(s task.Store) (all []string) {
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
	got := f.settleAll(s)
	slices.Sort(got)
	slices.Sort(want)
	f.wantEqual("the notices", got, want)
}
