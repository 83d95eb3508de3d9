package taskrun_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A handler's context is done while no other worker can have the task, however late the store's answers are.
func TestTheContextEndsBeforeTheLease(t *testing.T) {
	const lease = 10 * time.Second
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tt := range []struct {
		name  string
		store func(s *slow)
	}{
		{"the store is silent", func(s *slow) { s.renew = hang }},
		{"the store is out of reach", func(s *slow) { s.renew = func(context.Context) error { return errLost } }},
		{"the claim is answered late", func(s *slow) {
			s.claimed = func(ctx context.Context) { time.Sleep(4 * time.Second) }
			s.renew = hang
		}},
		{"a renewal is answered late", func(s *slow) {
			var renewals atomic.Int32
			s.renewed = func(ctx context.Context) { time.Sleep(3 * time.Second) }
			s.renew = func(ctx context.Context) error {
				if renewals.Add(1) > 1 {
					return hang(ctx)
				}
				return nil
			}
		}},
		{"after a renewal the row cannot be read", func(s *slow) {
			var renewals atomic.Int32
			s.get = hang
			s.renew = func(ctx context.Context) error {
				if renewals.Add(1) == 1 { // somebody answers, so that the worker reads the row
					now, _ := s.Store.Get(ctx, s.id)
					_ = s.Store.Update(ctx, now, task.Update{Keep: true})
					return nil
				}
				return hang(ctx)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{Store: new(task.MemoryStore)}
				tt.store(s)
				f := &fixture{t, silent{s}}
				client := expect.Must(taskrun.NewEngine(s.Store, nil))(t)
				s.id = f.create(client, new(taskrun.New)).ID
				ended := make(chan struct{}, 10)
				_, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: lease, Workers: 1},
					Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
						<-ctx.Done()
						expect.Is(t, "the cause", context.Cause(ctx), task.ErrLeaseLost)
						if other, err := claimOne(s.Store, context.Background(), "", nil, lease); other != nil || err != nil {
							t.Errorf("another worker could have claimed the task already: %v, %v", other, err)
						}
						ended <- struct{}{}
						return taskrun.Verdict{}, nil
					}})
				begun := time.Now()
				<-ended
				if took := time.Since(begun); took < lease/2 {
					t.Errorf("it ended after %v already", took)
				}
				stop()
			})
		})
	}
}

// slow is a store whose answers are late.
type slow struct {
	task.Store
	id         string
	claimed    func(ctx context.Context)       // after a Claim
	renewed    func(ctx context.Context)       // after a Renew
	renew, get func(ctx context.Context) error // before it
}

func (s *slow) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	t, err := s.Store.Claim(ctx, after, load, lease, limit)
	if s.claimed != nil && t != nil {
		s.claimed(ctx)
	}
	return t, err
}

func (s *slow) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	if s.renew != nil {
		if err := s.renew(ctx); err != nil {
			return nil, err
		}
	}
	renewed, err := s.Store.Renew(ctx, leases, lease)
	if s.renewed != nil {
		s.renewed(ctx)
	}
	return renewed, err
}

func (s *slow) Get(ctx context.Context, id string) (*task.Task, error) {
	if s.get != nil {
		if err := s.get(ctx); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, id)
}

// A process that was stopped goes on before its timers do: the context must tell by the clocks that the lease is over,
// and by both. The monotonic one may stand still while the machine is suspended, and the wall clock may be set back.
func TestTheContextLooksAtTheClocks(t *testing.T) {
	for _, tt := range []struct {
		name            string
		monotonic, wall time.Duration // since the lease was taken
		over            bool
	}{
		{"just claimed", 0, 0, false},
		{"a little before its end", 50 * time.Minute, 50 * time.Minute, false},
		{"at its end, to be on the safe side", 59 * time.Minute, 59 * time.Minute, true},
		{"the machine was suspended", 0, 2 * time.Hour, true},
		{"the wall clock was set back", 2 * time.Hour, -time.Hour, true},
		{"the wall clock was set back a little", 50 * time.Minute, 40 * time.Minute, false},
	} {
		ctx, stop := taskrun.UnderLease(t.Context(), time.Hour, before(t, tt.monotonic, tt.wall))
		if over := ctx.Err() != nil; over != tt.over || over && context.Cause(ctx) != task.ErrLeaseLost {
			t.Errorf("%s: Err returns %v, because %v", tt.name, ctx.Err(), context.Cause(ctx))
		}
		stop()
	}
}

// before returns a time since which each clock has gone on by another duration. The package time has no way to make
// one.
func before(t *testing.T, monotonic, wall time.Duration) time.Time {
	t.Helper()
	at := time.Now().Add(-wall) // shifts both readings
	reading := (*int64)(reflect.ValueOf(&at).Elem().FieldByName("ext").Addr().UnsafePointer())
	*reading += int64(wall - monotonic)
	by := func(since, want time.Duration) bool { return (since - want).Abs() < time.Minute }
	if !by(time.Since(at), monotonic) || !by(time.Now().Round(0).Sub(at.Round(0)), wall) {
		t.Fatal("time.Time is not made as this test assumes")
	}
	return at
}

// A handler that does not return although its context is done keeps neither the worker nor the task, and cannot record.
func TestAHandlerThatDoesNotReturnIsAbandoned(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(e *taskrun.Engine, id string, stop func())
	}{
		{"cancelled", func(e *taskrun.Engine, id string, _ func()) { _, _ = e.Cancel(context.Background(), "", id) }},
		{"shutdown", func(_ *taskrun.Engine, _ string, stop func()) { stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lease = 10 * time.Second
				var log bytes.Buffer
				f := newFixture(t)
				started, release, recorded := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				cleaned := make(chan int64, 1)
				opts := &taskrun.Options{
					Settings: task.Settings{Lease: lease, Workers: 1},
					Logger:   slog.New(slog.NewTextHandler(&log, nil)),
					Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
						switch {
						case w.Task.Target != "stubborn":
							return completed(""), nil
						case w.Stopped:
							cleaned <- w.Task.Fence
							return taskrun.Verdict{}, nil
						case w.Task.Fence > 1:
							return completed("the second worker's"), nil
						}
						close(started)
						<-release
						recorded <- w.Record(ctx, []byte("late"))
						return completed("too late"), nil
					},
				}
				e, stop := f.engine(opts)
				created := f.create(e, &taskrun.New{Target: "stubborn"})
				<-started
				begun := time.Now()
				tt.end(e, created.ID, stop)
				if tt.name == "cancelled" {
					f.until(e, f.create(e, &taskrun.New{Target: "other"}), task.Completed) // the worker is free
				} else if took := time.Since(begun); took > 2*lease {
					t.Errorf("shutting down took %v", took)
				}
				close(release)
				if err := <-recorded; !errors.Is(err, task.ErrLeaseLost) { // even before another worker has the task
					t.Errorf("Record of the abandoned handler: %v", err)
				}
				if tt.name == "cancelled" {
					expect.Equal(t, "it is cleaned up under fence", <-cleaned, 2)
				} else {
					next, _ := f.engine(opts)
					f.until(next, created, task.Completed)
				}
				if _, entries, _ := e.Journal(t.Context(), created.ID, -1); len(entries) != 0 {
					t.Errorf("it recorded %q", entries)
				}
				synctest.Wait()
				if s := log.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "does not return") ||
					!strings.Contains(s, "target=stubborn") {
					t.Errorf("the log has %s", s)
				}
			})
		})
	}
}

// A database that is down must not fill the disk with lines that say so.
func TestAStoreThatFailsFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &meddled{Store: new(task.MemoryStore)}
		f := &fixture{t, silent{store}}
		e, stop := f.engine(&taskrun.Options{
			Look: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				time.Sleep(time.Second)
				w.Report("working")
				time.Sleep(time.Second)
				return completed(""), w.Record(ctx, []byte("step"))
			},
		})
		for range 16 {
			f.create(e, new(taskrun.New))
		}
		time.Sleep(time.Second)
		store.down.Store(true)
		time.Sleep(time.Minute)
		stop()
		lines := strings.Count(log.String(), "\n")
		if lines > 60 || lines < 10 || !strings.Contains(log.String(), "suppressed=") {
			t.Errorf("%d lines in a minute, want one of each kind in five seconds:\n%.2000s", lines, &log)
		}
	})
}
