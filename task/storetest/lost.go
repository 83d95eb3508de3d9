package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// A connection may break between a write and the answer to it. The engine then repeats the write, and tells by the
// answer whether it was made: so a store owes that a write is made whole or not at all, and that its repetition is
// refused whole.
var lostTests = []test{
	{"an update that is repeated because its answer was lost is ErrConflict, and nothing more is written",
		func(f *fixture, s task.Store) {
			c := f.addLeased(s)
			c.Status, c.Outcome = task.Completed, []byte("outcome")
			done := clone(c)
			u := task.Update{Leased: true, Due: -1, Entries: list("last")}
			f.update(s, done, u)
			f.wantError("the same Update again", s.Update(f.ctx, c, u), task.ErrConflict)
			u.Due = 0
			f.wantError("with Due 0", s.Update(f.ctx, c, u), task.ErrConflict)
			u.Keep = true
			f.wantError("with Keep", s.Update(f.ctx, c, u), task.ErrConflict)
			f.wantRow(s, done)
			f.wantJournal(s, c.ID, "last")
			f.noneDue(s)
		}},
	{"a task that is created again because the answer was lost is ErrExists, and stays as it is",
		func(f *fixture, s task.Store) {
			t := newTask("alice")
			f.create(s, t, "one")
			f.update(s, t, task.Update{Due: -1})
			again := clone(t)
			again.Message = "again"
			f.wantError("Create", s.Create(f.ctx, again, long, 0, []byte("other"), list("two"), task.Quota{}), task.ErrExists)
			f.wantRow(s, t)
			f.wantJournal(s, t.ID, "one")
			f.noneDue(s)
		}},
	{"an update that asks and is repeated because its answer was lost is ErrConflict, and asks nothing twice",
		func(f *fixture, s task.Store) {
			t := f.addRunning(s, "alice")
			t.Status = task.InputRequired
			first := question("first", "user:bob")
			u := task.Update{Leased: true, Due: -1, Ask: []*task.Question{first, question("second", "user:bob")}}
			again := clone(t)
			f.update(s, t, u)
			want := f.questions(s, t.ID)
			f.wantError("the same Update again", s.Update(f.ctx, clone(again), u), task.ErrConflict)
			f.wantQuestions(s, t.ID, want...)
			f.decide(s, t.ID, "first") // which is why the task runs, and not that it has to
			f.wantError("the same Update after a decision", s.Update(f.ctx, clone(again), u), task.ErrConflict)
			c := f.claimThis(s, t.ID, long)
			f.wantError("the same Update under a lost lease", s.Update(f.ctx, clone(again), u), task.ErrLeaseLost)
			f.wantRow(s, c)

			answer := task.Update{Keep: true, Answered: []string{"second"}, Entries: list("answer")}
			again = clone(c)
			f.update(s, c, answer)
			f.wantError("the same answer again", s.Update(f.ctx, again, answer), task.ErrConflict)
			f.wantJournal(s, t.ID, "answer")
		}},
	{"a change of a question that is repeated because its answer was lost is ErrConflict, and nothing more is written",
		func(f *fixture, s task.Store) {
			t := f.addRunning(s, "alice")
			f.park(s, t, question("key", "user:bob"))
			for _, decision := range []string{"", "decision"} {
				q := f.question(s, t.ID, "key")
				q.Votes, q.Decision = append(q.Votes, "vote"...), []byte(decision)
				again := *q
				f.change(s, q)
				t = f.get(s, t.ID)
				f.wantChange(s, &again, false, task.ErrConflict)
				f.wantQuestion(s, q)
				f.wantRow(s, t)
			}
			f.claimThis(s, t.ID, long)
			f.noneDue(s)
		}},
	{"an engine that loses every fourth answer runs no task that has ended, and asks and records nothing twice",
		losesAnswers},
	{"an engine that loses every fourth answer waits for people and deadlines, and has each decision once",
		losesDecisions},
}

func losesAnswers(f *fixture, s task.Store) {
	losing := &losingStore{Store: s}
	const tasks = 12
	var mu sync.Mutex
	ended := make(map[string]string) // outcomes, once they were seen
	runs := 0
	handler := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		mu.Lock()
		runs++
		outcome := fmt.Sprintf("outcome of run %d", runs)
		if known, ok := ended[w.Task.ID]; ok {
			f.Errorf("task %s runs again after its outcome %q", w.Task.ID, known)
		}
		mu.Unlock()
		steps := map[string]bool{}
		for _, e := range w.Entries {
			steps[string(e)] = true
		}
		for _, step := range []string{"reserve", "pay"} {
			if steps[step] {
				continue
			}
			if err := w.Record(ctx, []byte(step)); err != nil {
				return taskrun.Verdict{}, err
			}
		}
		if !steps["answer"] {
			return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: w.Task.Round + 1}, nil
		}
		return taskrun.Verdict{Status: task.Completed, Outcome: []byte(outcome), Round: w.Task.Round}, nil
	}
	e, err := taskrun.NewEngine(losing, &taskrun.Options{
		Settings: task.Settings{Lease: 2 * time.Second, Workers: 4},
		Handler:  handler, Look: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	f.ok("NewEngine", err)
	// The client's side loses nothing: what it sees is what is stored.
	client, err := taskrun.NewEngine(s, nil)
	f.ok("NewEngine", err)
	ctx, cancel := context.WithCancel(f.ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	defer all.Wait()
	defer cancel()

	var ids []string
	for range tasks {
		ids = append(ids, f.add(s, "alice").ID)
	}
	for _, id := range ids {
		f.eventually("each task asks", func() bool { return f.get(s, id).Status == task.InputRequired })
		_, err := client.Change(f.ctx, "alice", id, func(t *task.Task) (*task.Update, error) {
			t.Status, t.Pending = task.Working, nil
			return &task.Update{Entries: list("answer")}, nil
		})
		f.ok("Change", err)
	}
	for _, id := range ids {
		f.eventually("each task ends", func() bool {
			t := f.get(s, id)
			if t.Status.Terminal() {
				mu.Lock()
				ended[id] = string(t.Outcome)
				mu.Unlock()
			}
			return t.Status.Terminal()
		})
	}
	f.eventually("nothing is written any more", func() bool {
		before := losing.writes.Load()
		time.Sleep(50 * time.Millisecond)
		return losing.writes.Load() == before
	})
	cancel()
	all.Wait()
	f.noneDue(s)
	for _, id := range ids {
		t := f.get(s, id)
		if t.Status != task.Completed || string(t.Outcome) != ended[id] || t.Round != 1 {
			f.Errorf("task %s is %s in round %d with %q, want it completed in round 1 with %q", id, t.Status, t.Round,
				t.Outcome, ended[id])
		}
		f.wantJournal(s, id, "reserve", "pay", "answer")
	}
	if losing.lost.Load() == 0 {
		f.Error("no answer was lost")
	}
}

func losesDecisions(f *fixture, s task.Store) {
	losing := &losingStore{Store: s}
	e, err := taskrun.NewEngine(losing, &taskrun.Options{
		Settings: task.Settings{Lease: 2 * time.Second, Workers: 4},
		Handler:  waitsForDecisions(s), Look: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Expire: func(q *task.Question) error {
			q.Decision = []byte("unanswered")
			return nil
		},
	})
	f.ok("NewEngine", err)
	ctx, cancel := context.WithCancel(f.ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	defer all.Wait()
	defer cancel()
	const tasks = 12
	var ids []string
	for range tasks {
		ids = append(ids, f.add(s, "alice").ID)
	}
	decided := 0
	f.eventually("people have decided", func() bool {
		waits := f.waiting(s, task.QuestionFilter{For: []string{"user:bob"}})
		for _, q := range waits {
			q.Decision = []byte("approved")
			f.change(s, q)
			decided++
		}
		return decided >= tasks
	})
	for _, id := range ids {
		f.eventually("each task ends", func() bool { return f.get(s, id).Status.Terminal() })
		got := f.entries(s, id)
		slices.Sort(got)
		if want := []string{"people approved", "timer unanswered"}; !slices.Equal(got, want) {
			f.Errorf("task %s has the entries %q, want %q", id, got, want)
		}
	}
	if losing.lost.Load() == 0 || decided != tasks {
		f.Errorf("%d answers were lost, and people have decided %d times, want some and %d", losing.lost.Load(), decided,
			tasks)
	}
}

// waitsForDecisions returns a handler that waits for people and for a deadline, and records their decisions.
func waitsForDecisions(s task.Store) taskrun.Handler {
	return func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		recorded, decisions := make(map[string]bool), make(map[string]string)
		for _, e := range w.Entries {
			recorded[strings.Fields(string(e))[0]] = true
		}
		all, err := s.Questions(ctx, task.Name(w.Task.ID))
		if err != nil {
			return taskrun.Verdict{}, err
		}
		for _, q := range all {
			decisions[q.Key] = string(q.Decision)
		}
		var asks []*task.Question
		for key, within := range map[string]time.Duration{"people": long, "timer": 20 * time.Millisecond} {
			switch {
			case recorded[key]:
			case decisions[key] != "":
				if err := w.Record(ctx, []byte(key+" "+decisions[key])); err != nil {
					return taskrun.Verdict{}, err
				}
			default:
				ask := question(key)
				if ask.Within = within; key == "people" {
					ask.For = []string{"user:bob"}
				}
				asks = append(asks, ask)
			}
		}
		if len(asks) > 0 {
			return taskrun.Verdict{Status: task.InputRequired, Ask: asks}, nil
		}
		return taskrun.Verdict{Status: task.Completed, Outcome: []byte("done")}, nil
	}
}

// losingStore makes the writes that an engine asks for, and loses every fourth answer.
type losingStore struct {
	task.Store
	writes, lost atomic.Int64
}

func (s *losingStore) answer(err error) error {
	if err != nil {
		return err
	}
	s.writes.Add(1)
	if rand.IntN(4) == 0 {
		s.lost.Add(1)
		return errors.New("storetest: the answer was lost")
	}
	return nil
}

func (s *losingStore) Update(ctx context.Context, t *task.Task, u task.Update) error {
	written := clone(t)
	err := s.answer(s.Store.Update(ctx, written, u))
	if err == nil {
		*t = *written
	}
	return err
}

func (s *losingStore) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	return s.answer(s.Store.ChangeQuestion(ctx, q, expired))
}

func (s *losingStore) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	return s.answer(s.Store.Append(ctx, id, claim, there, entry))
}

func (s *losingStore) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	t, err := s.Store.Claim(ctx, after, load, lease, limit)
	if t == nil || err != nil {
		return t, err
	}
	if err := s.answer(nil); err != nil {
		return nil, err
	}
	return t, nil
}

func (s *losingStore) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	version, err := s.Store.Renew(ctx, leases, lease)
	return version, s.answer(err)
}
