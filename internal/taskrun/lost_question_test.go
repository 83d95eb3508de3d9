package taskrun_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// losingPark is a store that loses the answer to the first update which parks a task, after the update was made or
// before. Then something happens.
type losingPark struct {
	*task.MemoryStore
	before bool
	then   func(t *task.Task)
	lost   atomic.Bool
}

func (l *losingPark) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if u.Ask == nil || !l.lost.CompareAndSwap(false, true) {
		return l.MemoryStore.Update(ctx, t, u)
	}
	if !l.before {
		if err := l.MemoryStore.Update(ctx, new(*t), u); err != nil {
			return err
		}
	}
	l.then(t)
	return errLost
}

// Whatever comes between the parking of a task that waits for people and its repetition, because the answer of the
// store was lost: nothing of it is taken for the worker's own write, and nothing is lost. The task ends by the
// decision, and its handler runs as often as it would have.
func TestWhatComesBetweenALostParkingAndItsRepetition(t *testing.T) {
	const soon = 3 * time.Second
	for _, c := range []struct {
		says    string
		between func(t *testing.T, s *task.MemoryStore, parked *task.Task)
		want    task.Status
	}{
		{"nothing", func(*testing.T, *task.MemoryStore, *task.Task) {}, task.InputRequired},
		{"a vote that decides nothing", func(t *testing.T, s *task.MemoryStore, parked *task.Task) {
			decide(t, s, parked, "", false)
		}, task.InputRequired},
		{"a decision", func(t *testing.T, s *task.MemoryStore, parked *task.Task) {
			decide(t, s, parked, "accept", false)
		}, task.Completed},
		{"its deadline", func(t *testing.T, s *task.MemoryStore, parked *task.Task) {
			time.Sleep(soon)
			decide(t, s, parked, "unanswered", true)
		}, task.Completed},
		{"an extension", func(t *testing.T, s *task.MemoryStore, parked *task.Task) {
			change(t, s, parked, func(*task.Task) {}, task.Update{Keep: true, TTL: 100 * time.Hour})
		}, task.InputRequired},
		{"a cancellation", func(t *testing.T, s *task.MemoryStore, parked *task.Task) {
			change(t, s, parked, func(now *task.Task) { now.Status, now.Stopped = task.Cancelled, true }, task.Update{})
		}, task.Cancelled},
	} {
		for _, before := range []bool{false, true} {
			name, want, within := c.says+" after it was made", c.want, time.Hour
			if c.says == "its deadline" && !before {
				within = soon
			}
			if before {
				name = c.says + " before it was made"
			}
			if before && want == task.Completed { // there is no question yet
				want = task.InputRequired
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					plain := new(task.MemoryStore)
					f := &fixture{t, &losingPark{MemoryStore: plain, before: before,
						then: func(parked *task.Task) { c.between(t, plain, parked) }}}
					e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: 24 * time.Hour, Workers: 1},
						Look: time.Second, Handler: asksPeople(plain, within)})
					created := f.create(e, new(taskrun.New))
					time.Sleep(time.Minute)
					now := f.until(e, created, want)
					if want == task.InputRequired {
						decide(t, plain, now, "accept", false)
						e.Changed(now.ID)
						now = f.until(e, created, task.Completed)
					}
					stop()
					if questions, err := plain.Questions(t.Context(), task.Name(created.ID)); err != nil ||
						len(questions) > 1 || now.Status == task.Completed && len(questions) != 1 {
						t.Errorf("the task has the questions %v, %v", questions, err)
					}
					if now.Status == task.Completed && now.Round != 1 {
						t.Errorf("it is %s in round %d", now.Status, now.Round)
					}
				})
			})
		}
	}
}

// asksPeople parks a task until its question is decided, and completes it with the decision.
func asksPeople(s *task.MemoryStore, within time.Duration) taskrun.Handler {
	return func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		questions, err := s.Questions(ctx, task.Name(w.Task.ID))
		if err != nil || w.Stopped {
			return taskrun.Verdict{}, err
		}
		if len(questions) > 0 && questions[0].Status == task.QuestionDecided {
			return taskrun.Verdict{Status: task.Completed, Outcome: questions[0].Decision, Round: w.Task.Round}, nil
		}
		return taskrun.Verdict{Status: task.InputRequired, Round: w.Task.Round + 1, Ask: []*task.Question{
			{Key: "approve", For: []string{"group:release"}, Content: []byte("?"), Within: within},
		}}, nil
	}
}

// decide changes the question of a task, if it was put.
func decide(t *testing.T, s *task.MemoryStore, parked *task.Task, decision string, expired bool) {
	t.Helper()
	questions, err := s.Questions(t.Context(), task.Name(parked.ID))
	if err != nil {
		t.Error(err)
	}
	for _, q := range questions {
		q.Votes, q.Decision = []byte("a vote"), []byte(decision)
		if err := s.ChangeQuestion(t.Context(), q, expired); err != nil {
			t.Error(err)
		}
	}
}

func change(t *testing.T, s *task.MemoryStore, parked *task.Task, edit func(*task.Task), u task.Update) {
	t.Helper()
	now, err := s.Get(t.Context(), parked.ID)
	if err != nil {
		t.Error(err)
		return
	}
	edit(now)
	if err := s.Update(t.Context(), now, u); err != nil {
		t.Error(err)
	}
}
