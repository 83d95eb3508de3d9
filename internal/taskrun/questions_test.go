package taskrun_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// asker is a store whose questions are what do makes of them.
type asker struct {
	task.Store
	do func(ctx context.Context) error
}

func (a asker) Questions(ctx context.Context, _ string) ([]*task.Question, error) {
	return nil, a.do(ctx)
}
func (a asker) Waiting(
	ctx context.Context, _ task.QuestionFilter, _ *task.Question, _ int,
) ([]*task.Question, error) {
	return nil, a.do(ctx)
}
func (a asker) History(
	ctx context.Context, _ task.QuestionHistory, _ *task.Question, _ int,
) ([]*task.Question, error) {
	return nil, a.do(ctx)
}
func (a asker) Changes(ctx context.Context, _ *task.Question, _ int) ([]*task.Question, time.Time, error) {
	return nil, time.Time{}, a.do(ctx)
}
func (a asker) ChangeQuestion(ctx context.Context, _ *task.Question, _ bool) error { return a.do(ctx) }
func (a asker) Overdue(ctx context.Context, _ int) ([]*task.Question, error)       { return nil, a.do(ctx) }

// A store that panics or has gone silent over a question costs the caller an error and no more.
func TestQuestionsOfAStoreThatFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		store task.Store
		want  string
	}{
		{"panics", asker{new(task.MemoryStore), func(context.Context) error { panic("broken") }},
			"the store panicked: broken"},
		{"is silent", asker{new(task.MemoryStore), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			"the store did not answer within 5s"},
		{"refuses", asker{new(task.MemoryStore), func(context.Context) error { return task.ErrLate }}, task.ErrLate.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := expect.Must(taskrun.NewEngine(c.store, &taskrun.Options{Logger: slog.New(slog.DiscardHandler)}))(t)
			for method, err := range map[string]error{
				"Questions": expect.Err(e.Questions(t.Context(), "NAME")),
				"Waiting":   expect.Err(e.Waiting(t.Context(), task.QuestionFilter{}, nil, 1)),
				"History":   expect.Err(e.History(t.Context(), task.QuestionHistory{}, nil, 1)),
				"Changes":   errorOfChanges(e.Changes(t.Context(), nil, 1)),
				"Change":    e.ChangeQuestion(t.Context(), &task.Question{Task: "task"}, false),
			} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s of a store that %s: %v", method, c.name, err)
				}
			}
		})
	}
}

func errorOfChanges(_ []*task.Question, _ time.Time, err error) error { return err }

// The instance at which a question is decided runs its task at once.
func TestADecisionWakesTheWorkers(t *testing.T) {
	f := newFixture(t)
	plain := f.store
	var created *task.Task
	f.store = asker{plain, func(ctx context.Context) error {
		now, err := plain.Get(ctx, created.ID)
		if err != nil {
			return err
		}
		return plain.Update(ctx, now, answer(now))
	}}
	e, _ := f.engine(&taskrun.Options{Look: time.Hour, Handler: asking(new(atomic.Int32))})
	created = f.create(e, &taskrun.New{})
	f.until(e, created, task.InputRequired)
	expect.Check(t, e.ChangeQuestion(t.Context(), &task.Question{Task: created.ID, Decision: []byte("yes")}, false))
	f.until(e, created, task.Completed)
}
