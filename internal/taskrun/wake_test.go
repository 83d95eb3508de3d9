package taskrun_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// waiting is a handler that asks, and waits 2 seconds for the answer. It completes with what was recorded.
func waiting(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
	if len(w.Entries) == 0 {
		return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("question"), Wait: 2 * time.Second}, nil
	}
	return completed(string(w.Entries[0])), nil
}

// expire records that no answer came in time, and lets the task continue.
func expire(_ context.Context, t *task.Task) (*task.Update, error) {
	t.Status, t.Pending = task.Working, nil
	return &task.Update{Entries: [][]byte{[]byte("too late")}}, nil
}

func TestAParkedTaskWakesAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t, new(task.MemoryStore)}
		first, stop := f.engine(&taskrun.Options{Handler: waiting, Wake: expire, Look: time.Second})
		parked := f.until(first, f.create(first, &taskrun.New{Principal: "a"}), task.InputRequired)
		began := time.Now()
		stop() // whoever parked it is gone when it wakes
		second, _ := f.engine(&taskrun.Options{Handler: waiting, Wake: expire, Look: time.Second})
		done := f.until(second, parked, task.Completed)
		if took := time.Since(began); string(done.Outcome) != "too late" || took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the outcome is %q after %v", done.Outcome, took)
		}
	})
}

// The first commit wins: after an answer the time does not come, and an answer that comes between the look at a task
// and its waking counts.
func TestAnAnswerIsBeforeTheTime(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fixture{t, new(task.MemoryStore)}
			var e *taskrun.Engine
			answer := func(id string) {
				_, err := e.Change(t.Context(), "a", id, func(now *task.Task) (*task.Update, error) {
					now.Status, now.Pending = task.Working, nil
					return &task.Update{Entries: [][]byte{[]byte("yes")}}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			var log bytes.Buffer
			e, _ = f.engine(&taskrun.Options{
				Handler: waiting, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Wake: func(ctx context.Context, now *task.Task) (*task.Update, error) {
					if !late {
						t.Error("it wakes although it was answered")
					}
					answer(now.ID)
					return expire(ctx, now)
				}})
			parked := f.until(e, f.create(e, &taskrun.New{Principal: "a"}), task.InputRequired)
			if !late {
				time.Sleep(time.Second)
				answer(parked.ID)
			}
			if done := f.until(e, parked, task.Completed); string(done.Outcome) != "yes" {
				t.Errorf("the outcome is %q", done.Outcome)
			}
			_, entries, err := e.Journal(t.Context(), parked.ID)
			if err != nil || len(entries) != 1 {
				t.Errorf("entries %q, %v", entries, err)
			}
			time.Sleep(time.Minute)
			if log.Len() > 0 {
				t.Errorf("logged %s", &log)
			}
		})
	}
}

// A task that cannot be woken now does not keep others from waking, and wakes later.
func TestATaskThatDoesNotWakeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t, new(task.MemoryStore)}
		var tries atomic.Int32
		e, _ := f.engine(&taskrun.Options{Handler: waiting,
			Wake: func(ctx context.Context, now *task.Task) (*task.Update, error) {
				if tries.Add(1) < 3 {
					now.Pending = []byte("half changed")
					return nil, errors.New("not now")
				}
				if string(now.Pending) != "question" {
					t.Errorf("the question has become %q", now.Pending)
				}
				return expire(ctx, now)
			}})
		began := time.Now()
		f.until(e, f.create(e, &taskrun.New{Principal: "a"}), task.InputRequired)
		time.Sleep(3 * time.Minute)
		if n := tries.Load(); n != 3 {
			t.Errorf("%d tries in %v", n, time.Since(began))
		}
	})
}

// An engine that does not know what to do with a task whose time has come leaves it to those that do.
func TestATaskIsNotWokenByWhoeverCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t, new(task.MemoryStore)}
		other, stop := f.engine(&taskrun.Options{Handler: waiting})
		parked := f.until(other, f.create(other, &taskrun.New{Principal: "a"}), task.InputRequired)
		time.Sleep(time.Minute)
		if now, err := other.Get(t.Context(), "a", parked.ID); err != nil || now.Version != parked.Version {
			t.Errorf("the task is %+v, %v", now, err)
		}
		stop()
		e, _ := f.engine(&taskrun.Options{Handler: waiting, Wake: expire})
		f.until(e, parked, task.Completed)
	})
	if _, err := taskrun.NewEngine(silent{new(task.MemoryStore)}, &taskrun.Options{Wake: expire}); err == nil {
		t.Error("an engine wakes the tasks of a store that cannot")
	}
}

// A task that pauses holds no worker, and continues at its time.
func TestATaskPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t, new(task.MemoryStore)}
		e, _ := f.engine(&taskrun.Options{
			Settings: task.Settings{Workers: 1},
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if w.Task.Principal == "other" || len(w.Entries) > 0 {
					return completed("done"), nil
				}
				return taskrun.Verdict{Status: task.Working, Wait: time.Hour}, w.Record(ctx, []byte("slept"))
			}})
		began := time.Now()
		pausing := f.create(e, &taskrun.New{Principal: "a"})
		synctest.Wait()
		f.until(e, f.create(e, &taskrun.New{Principal: "other"}), task.Completed)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the other task waits %v", took)
		}
		time.Sleep(time.Hour - 2*time.Second)
		if now, err := e.Get(t.Context(), "a", pausing.ID); err != nil || now.Status != task.Working {
			t.Errorf("before its time the task is %+v, %v", now, err)
		}
		time.Sleep(4 * time.Second)
		if now, err := e.Get(t.Context(), "a", pausing.ID); err != nil || now.Status != task.Completed {
			t.Errorf("after its time the task is %+v, %v", now, err)
		}
	})
}
