package taskrun_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// slowStore answers after a second, unless it has an error or a panic of its own.
type slowStore struct {
	task.Store
	err      error
	panicked bool
}

func (s *slowStore) Get(ctx context.Context, id string) (*task.Task, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, errors.New("interrupted")
	}
	if s.panicked {
		panic("no page")
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Get(ctx, id)
}

// Each call of the store is told with its method and its time. It has failed if the store did not answer, and not if
// the store refused, or if the caller went away.
func TestCallsOfTheStoreAreTold(t *testing.T) {
	broken := errors.New("the disk is full")
	for _, c := range []struct {
		says  string
		store slowStore
		given time.Duration // that the caller has
		want  func(err error) bool
		takes time.Duration
	}{
		{"a refusal", slowStore{}, time.Minute, func(err error) bool { return err == nil }, time.Second},
		{"a failure", slowStore{err: broken}, time.Minute, func(err error) bool { return errors.Is(err, broken) },
			time.Second},
		{"a panic", slowStore{panicked: true}, time.Minute, func(err error) bool { return err != nil }, time.Second},
		{"a caller that goes away", slowStore{}, time.Millisecond, func(err error) bool { return err == context.Canceled },
			time.Millisecond},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.store.Store = new(task.MemoryStore)
				told := 0
				e := expect.Must(taskrun.NewEngine(&c.store, &taskrun.Options{
					Logger: slog.New(slog.DiscardHandler),
					Called: func(_ context.Context, method string, began time.Time, err error) {
						told++
						if method != "Get" || time.Since(began) != c.takes || !c.want(err) {
							t.Errorf("told of %s after %v: %v", method, time.Since(began), err)
						}
					},
				}))(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(c.given, cancel)
				if _, err := e.Get(ctx, "", "unknown"); err == nil {
					t.Error("no error")
				}
				expect.Equal(t, "told times", told, 1)
			})
		})
	}
}

// A store that is silent has failed, and no caller went away.
func TestASilentStoreHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		e, err := taskrun.NewEngine(&slowStore{Store: new(task.MemoryStore)}, &taskrun.Options{
			Settings: task.Settings{StoreTimeout: time.Millisecond},
			Logger:   slog.New(slog.DiscardHandler),
			Called:   func(_ context.Context, _ string, _ time.Time, err error) { told = err },
		})
		expect.Check(t, err)
		_, err = e.Get(t.Context(), "", "unknown")
		if told == nil || !errors.Is(err, told) || errors.Is(told, context.Canceled) {
			t.Errorf("told %v of %v", told, err)
		}
	})
}
