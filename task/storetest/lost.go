package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// A connection may break between a write and the answer to it. The engine then repeats the write, and tells by the answer
// whether it was made: so a store owes that a write is made whole or not at all, and that its repetition is refused whole.
var lostTests = []test{
	{"an update that is repeated because its answer was lost is ErrConflict, and nothing more is written", func(f *fixture) {
		s := f.open()
		f.add(s, "alice")
		c := f.claim(s, "", long)
		done := clone(c)
		done.Status, done.Outcome = task.Completed, []byte("outcome")
		u := task.Update{Leased: true, Due: -1, Entries: list([]string{"last"})}
		f.update(s, done, u)
		again := clone(c)
		again.Status, again.Outcome = task.Completed, []byte("outcome")
		f.wantError("the same Update again", s.Update(f.ctx, again, u), task.ErrConflict)
		u.Due = 0
		f.wantError("with Due 0", s.Update(f.ctx, again, u), task.ErrConflict)
		u.Keep = true
		f.wantError("with Keep", s.Update(f.ctx, again, u), task.ErrConflict)
		f.wantRow(s, done)
		f.wantJournal(s, c.ID, "last")
		f.noneDue(s)
	}},

	{"a task that is created again because the answer was lost is ErrExists, and stays as it is", func(f *fixture) {
		s := f.open()
		t := newTask("alice")
		f.create(s, t, "one")
		f.update(s, t, task.Update{Due: -1})
		again := clone(t)
		again.Message = "again"
		f.wantError("Create", s.Create(f.ctx, again, long, []byte("other"), list([]string{"two"}), 0), task.ErrExists)
		f.wantRow(s, t)
		f.wantJournal(s, t.ID, "one")
		f.noneDue(s)
	}},

	{"an engine to which every fourth answer is lost runs no task that has ended, asks nothing twice, and records nothing twice", func(f *fixture) {
		s := &losingStore{Store: f.open(), chance: rand.New(rand.NewPCG(1, 2))}
		const tasks = 12
		var mu sync.Mutex
		ended := make(map[string]string) // outcomes, once they were seen
		runs := 0
		handler := func(ctx context.Context, w *task.Work) (task.Verdict, error) {
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
					return task.Verdict{}, err
				}
			}
			if !steps["answer"] {
				return task.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: w.Task.Round + 1}, nil
			}
			return task.Verdict{Status: task.Completed, Outcome: []byte(outcome), Round: w.Task.Round}, nil
		}
		e, err := task.NewEngine(s, &task.Options{
			Settings: task.Settings{Lease: 2 * time.Second, Workers: 4},
			Handler:  handler, Look: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			f.Fatal(err)
		}
		ctx, cancel := context.WithCancel(f.ctx)
		var all sync.WaitGroup
		all.Go(func() { _ = e.Run(ctx) })
		defer all.Wait()
		defer cancel()

		// The client's side loses nothing: what it sees is what is stored.
		var ids []string
		for range tasks {
			t := f.add(s.Store, "alice")
			ids = append(ids, t.ID)
		}
		for _, id := range ids {
			f.eventually("each task asks", func() bool { return f.get(s.Store, id).Status == task.InputRequired })
			for answered := false; !answered; {
				t := f.get(s.Store, id)
				t.Status, t.Pending = task.Working, nil
				err := s.Store.Update(f.ctx, t, task.Update{Entries: list([]string{"answer"})})
				if answered = err == nil; !answered && !errors.Is(err, task.ErrConflict) {
					f.Fatalf("Update: %v", err)
				}
			}
		}
		for _, id := range ids {
			f.eventually("each task ends", func() bool {
				t := f.get(s.Store, id)
				if t.Status.Terminal() {
					mu.Lock()
					ended[id] = string(t.Outcome)
					mu.Unlock()
				}
				return t.Status.Terminal()
			})
		}
		f.eventually("nothing is written any more", func() bool {
			before := s.written()
			time.Sleep(50 * time.Millisecond)
			return s.written() == before
		})
		cancel()
		all.Wait()
		f.noneDue(s.Store)
		for _, id := range ids {
			t := f.get(s.Store, id)
			if t.Status != task.Completed || string(t.Outcome) != ended[id] || t.Round != 1 {
				f.Errorf("task %s is %s in round %d with %q, want it completed in round 1 with %q", id, t.Status, t.Round, t.Outcome, ended[id])
			}
			f.wantJournal(s.Store, id, "reserve", "pay", "answer")
		}
		if s.lost == 0 {
			f.Error("no answer was lost")
		}
	}},
}

// losingStore makes what an engine asks for, and loses every fourth answer.
type losingStore struct {
	task.Store

	mu           sync.Mutex
	chance       *rand.Rand
	writes, lost int
}

func (s *losingStore) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *losingStore) answer(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	s.writes++
	if s.chance.IntN(4) == 0 {
		s.lost++
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

func (s *losingStore) Append(ctx context.Context, id string, fence int64, entry []byte) error {
	return s.answer(s.Store.Append(ctx, id, fence, entry))
}

func (s *losingStore) Claim(ctx context.Context, after string, lease time.Duration) (*task.Task, error) {
	t, err := s.Store.Claim(ctx, after, lease)
	if t == nil || err != nil {
		return t, err
	}
	if err := s.answer(nil); err != nil {
		return nil, err
	}
	return t, nil
}

func (s *losingStore) Renew(ctx context.Context, id string, fence int64, lease time.Duration) (int64, error) {
	version, err := s.Store.Renew(ctx, id, fence, lease)
	return version, s.answer(err)
}
