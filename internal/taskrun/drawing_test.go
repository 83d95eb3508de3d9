package taskrun_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// transitions is a store that records how the statuses of its tasks change.
type transitions struct {
	task.Store
	mu   sync.Mutex
	seen map[string]bool
}

func (s *transitions) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	err := s.Store.Create(ctx, t, ttl, lease, call, entries, quota)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[" to "+string(t.Status)] = true
	}
	return err
}

func (s *transitions) Update(ctx context.Context, t *task.Task, u task.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.Get(ctx, t.ID)
	if err != nil {
		return err
	}
	if err := s.Store.Update(ctx, t, u); err != nil {
		return err
	}
	if !before.Status.Terminal() || t.Status != before.Status { // a task that has ended may still clean up
		s.seen[string(before.Status)+" to "+string(t.Status)] = true
	}
	return nil
}

// The arrows of docs/drawings/task.svg are the transitions that tasks make, and there are no others.
func TestDrawingOfStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &transitions{Store: new(task.MemoryStore), seen: make(map[string]bool)}
		f := &fixture{t, store}
		e, stop := f.engine(&taskrun.Options{Look: time.Second,
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				asks := taskrun.Verdict{Status: task.InputRequired, Pending: []byte("question"), Round: 1}
				switch call := string(w.Call); {
				case call == "waits":
					<-ctx.Done()
					return taskrun.Verdict{}, context.Cause(ctx)
				case call == "fails":
					return taskrun.Verdict{Status: task.Failed}, nil
				case call == "goes on" && len(w.Entries) == 0:
					return taskrun.Verdict{Status: task.Working}, w.Record(ctx, []byte("checkpoint"))
				case call == "asks" && len(w.Entries) == 0:
					return asks, nil
				}
				return completed(""), nil
			}})
		answer := func(created *task.Task, status task.Status) {
			t.Helper()
			expect.Must(e.Change(t.Context(), "", created.ID, func(now *task.Task) (*task.Update, error) {
				if now.Status = status; status == task.Working {
					now.Pending = nil
				}
				return &task.Update{Entries: [][]byte{[]byte("answer")}, Keep: status == task.InputRequired}, nil
			}))(t)
		}
		cancel := func(created *task.Task) {
			t.Helper()
			expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
		}
		start := func(call string) *task.Task { return f.create(e, &taskrun.New{Call: []byte(call), TTL: time.Minute}) }

		f.until(e, start("goes on"), task.Completed)
		f.until(e, start("fails"), task.Failed)
		cancel(start("waits"))
		parked := f.until(e, start("asks"), task.InputRequired)
		answer(parked, task.InputRequired) // the answer to one question of two
		answer(parked, task.Working)
		f.until(e, parked, task.Completed)
		cancel(f.until(e, start("asks"), task.InputRequired))
		forgotten := f.until(e, start("asks"), task.InputRequired)
		time.Sleep(time.Hour) // its time to live
		synctest.Wait()
		if now, err := e.Get(t.Context(), "", forgotten.ID); err == nil && now.Status != task.Failed ||
			err != nil && !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a task whose time to live is over: %v, %v", now, err)
		}
		stop()

		drawing := expect.Must(os.ReadFile("../../docs/drawings/task.svg"))(t)
		drawn := make(map[string]bool)
		arrows := regexp.MustCompile(`data-from="(\w*)" data-to="(\w+)"`)
		for _, arrow := range arrows.FindAllStringSubmatch(string(drawing), -1) {
			drawn[fmt.Sprintf("%s to %s", arrow[1], arrow[2])] = true
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(store.seen)), slices.Sorted(maps.Keys(drawn))); diff != "" {
			t.Errorf("the drawing (+) and the engine (-):\n%s", diff)
		}
	})
}
