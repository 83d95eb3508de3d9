package taskrun_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// lines is the log of an engine.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Where nobody is authenticated, whoever has the ID of a task can read it. Therefore a log has its name.
func TestLogsNameTasks(t *testing.T) {
	for says, options := range map[string]*taskrun.Options{
		"an attempt failed": {Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			return taskrun.Verdict{}, errors.New("no")
		}},
		"giving up": {Settings: task.Settings{Attempts: 1},
			Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) { panic("no") }},
		"to other processes": {Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			return taskrun.Verdict{}, taskrun.ErrElsewhere
		}},
		"renewing a lease failed": {Handler: func(ctx context.Context, _ *taskrun.Work) (taskrun.Verdict, error) {
			<-ctx.Done()
			return taskrun.Verdict{}, nil
		}},
		"the outcome of a run was n": {
			Handler: completes},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &meddled{Store: silent{new(task.MemoryStore)}}
				switch says {
				case "renewing a lease failed":
					store.renew = func() error { return errors.New("no") }
				case "the outcome of a run was n":
					store.update = func(*task.Task, task.Update) error { return errors.New("no") }
				}
				log := new(lines)
				options.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				f := &fixture{t, store}
				e, stop := f.engine(options)
				created := f.create(e, &taskrun.New{Target: "tool"})
				time.Sleep(time.Minute)
				stop()
				if got := log.b.String(); !strings.Contains(got, says) || !strings.Contains(got, task.Name(created.ID)) ||
					strings.Contains(got, created.ID[:6]) {
					t.Errorf("task %s: %.3000s", created.ID, got)
				}
			})
		})
	}
}
