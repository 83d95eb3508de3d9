package taskrun_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// receiver takes notices, and remembers them.
type receiver struct {
	t       *testing.T
	store   task.Store
	consume func(ctx context.Context, n *task.Notice) error // nil takes what comes
	within  time.Duration                                   // of the questions
	look    time.Duration                                   // of engines; zero means their default

	mu       sync.Mutex
	taken    map[string][]task.NoticeKind // by the ID of the task
	when     map[string]time.Time         // by principal, of the last one
	outcomes map[string]int
	log      strings.Builder
}

func newReceiver(t *testing.T) *receiver {
	return &receiver{t: t, store: new(task.MemoryStore), taken: make(map[string][]task.NoticeKind),
		when: make(map[string]time.Time), outcomes: make(map[string]int)}
}

// Write implements io.Writer, for the log.
func (r *receiver) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

// lines returns how many lines of the log have a text.
func (r *receiver) lines(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.log.String(), text)
}

func (r *receiver) notify(ctx context.Context, n *task.Notice) error {
	if r.consume != nil {
		if err := r.consume(ctx, n); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Question.Target != "ask" || string(n.Question.Notice) != "told" || !slices.Equal(n.Question.For, bob) {
		r.t.Errorf("a notice has the question %+v", n.Question)
	}
	r.taken[n.Question.Task] = append(r.taken[n.Question.Task], n.Kind)
	r.when[n.Question.Principal] = time.Now()
	return nil
}

var bob = []string{"user:bob"}

// start runs an engine whose tasks ask bob, and returns it with what stops it. Without deliver it delivers no notices.
func (r *receiver) start(deliver bool, settings task.Settings) (e *taskrun.Engine, stop func()) {
	r.t.Helper()
	settings.Workers = 1000
	opts := &taskrun.Options{
		Settings: settings, Look: r.look, Logger: slog.New(slog.NewTextHandler(r, nil)),
		Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if w.Task.Round > 0 || w.Stopped {
				return taskrun.Verdict{Status: task.Completed, Round: w.Task.Round}, nil
			}
			q := &task.Question{Key: "approve", For: bob, Content: []byte("?"), Notice: []byte("told"), Within: r.within}
			return taskrun.Verdict{Status: task.InputRequired, Ask: []*task.Question{q}, Round: 1}, nil
		},
		Expire: func(q *task.Question) error { q.Decision = []byte("unanswered"); return nil },
		Delivered: func(_ context.Context, n *task.Notice, _ time.Time, outcome string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.outcomes[outcome+" of "+n.Question.Principal]++
		},
	}
	if deliver {
		opts.Notify = r.notify
	}
	e = expect.Must(taskrun.NewEngine(r.store, opts))(r.t)
	stop = running(r.t, e)
	synctest.Wait()
	return e, stop
}

func (r *receiver) create(e *taskrun.Engine, principal string, ttl time.Duration) string {
	r.t.Helper()
	created := expect.Must(e.Create(r.t.Context(), &taskrun.New{Principal: principal, Target: "ask", TTL: ttl}))(r.t)
	return created.ID
}

// outcome returns how many deliveries have ended in a way.
func (r *receiver) outcome(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcomes[text]
}

// takenOf returns the notices of a task that were taken.
func (r *receiver) takenOf(id string) []task.NoticeKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.taken[id])
}

// A receiver that was away for less than three days gets each notice, long after the tasks are gone, in the order of
// each task. One that was away for longer is told of in the log, once for each notice. Both hold for tasks that live
// for a minute and for anonymous callers, and the tasks go in their time.
func TestNoticesOutliveTheirTasks(t *testing.T) {
	for _, away := range []time.Duration{70 * time.Hour, 80 * time.Hour} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReceiver(t)
				r.within, r.look = 30*time.Second, 20*time.Second
				back := time.Now().Add(away)
				r.consume = func(context.Context, *task.Notice) error {
					if time.Now().Before(back) {
						return errors.New("not at home")
					}
					return nil
				}
				e, stop := r.start(true, task.Settings{})
				want := make(map[string][]task.NoticeKind)
				for i := range 30 {
					lives := map[string]time.Duration{"": time.Minute, "alice": time.Minute, "bob": 24 * time.Hour}
					for principal, ttl := range lives {
						want[r.create(e, principal, ttl)] = []task.NoticeKind{
							task.NoticeAsked, task.NoticeUnanswered, task.NoticeEnded,
						}
					}
					if i == 15 {
						<-time.After(20 * time.Minute)
					}
				}
				<-time.After(time.Until(back) - time.Minute)
				for id := range want {
					if row, err := r.store.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
						t.Fatalf("while the receiver is away the task is kept: %+v, %v", row, err)
					}
				}
				<-time.After(2 * time.Hour)
				const gaveUp = "level=ERROR msg=\"task: giving up on a notice"
				for id, want := range want {
					got := r.takenOf(id)
					if away < 72*time.Hour && !slices.Equal(got, want) {
						t.Fatalf("%q were taken, want %q", got, want)
					}
					if away > 72*time.Hour && (len(got) > 0 || r.lines(gaveUp) == 0) {
						t.Fatalf("%q were taken", got)
					}
					if name := "task=" + task.Name(id) + " "; away > 72*time.Hour {
						for _, kind := range want {
							r.mu.Lock()
							lines := slices.DeleteFunc(strings.Split(r.log.String(), "\n"), func(line string) bool {
								return !strings.Contains(line, gaveUp) || !strings.Contains(line, name) ||
									!strings.Contains(line, "notice="+string(kind)+" ")
							})
							r.mu.Unlock()
							if len(lines) != 1 {
								t.Fatalf("the end of a notice is told in the lines %q", lines)
							}
						}
					}
				}
				if away < 72*time.Hour && r.lines(gaveUp) > 0 {
					t.Error("a notice was given up")
				}
				stop()
			})
		})
	}
}

// However long the notices of one caller take, and however many there are, others' are delivered within seconds, by one
// instance or several.
func TestSlowDeliveriesOfOneCaller(t *testing.T) {
	for _, instances := range []int{1, 3} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReceiver(t)
				r.consume = func(ctx context.Context, n *task.Notice) error {
					if n.Question.Principal != "mallory" {
						return nil
					}
					select {
					case <-time.After(30 * time.Second):
					case <-ctx.Done():
					}
					return ctx.Err()
				}
				var engines []*taskrun.Engine
				for range instances {
					e, stop := r.start(true, task.Settings{})
					defer stop()
					engines = append(engines, e)
				}
				for range 1000 {
					r.create(engines[0], "mallory", 0)
				}
				for i := range 20 {
					for _, principal := range []string{"alice", "", "zoe"} {
						id := r.create(engines[i%instances], principal, 0)
						<-time.After(5 * time.Second)
						synctest.Wait()
						if len(r.takenOf(id)) != 1 {
							t.Fatalf("after 5 seconds nobody has told of the question of %q", principal)
						}
					}
				}
			})
		})
	}
}

// A caller with as many notices as its quota allows gets no more, and the log and the metrics say so. Others get
// theirs, and so does the caller once the receiver is back.
func TestQuotaOfNotices(t *testing.T) {
	for _, flood := range []string{"mallory", ""} {
		t.Run(flood, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReceiver(t)
				var home atomic.Bool
				r.consume = func(_ context.Context, n *task.Notice) error {
					if n.Question.Principal == flood && !home.Load() {
						return errors.New("not at home")
					}
					return nil
				}
				quota := task.Quota{Notices: 5}
				e, stop := r.start(true, task.Settings{PerPrincipal: quota, Anonymous: quota})
				defer stop()
				for range 20 {
					r.create(e, flood, 0)
				}
				<-time.After(time.Minute)
				id := r.create(e, "alice", 0)
				<-time.After(5 * time.Second)
				expect.Equal(t, "another's notice was not delivered", len(r.takenOf(id)), 1)
				lines := r.lines("level=ERROR msg=\"task: notices were not kept")
				named := r.lines("principal="+flood+" ") + r.lines(`principal=""`)
				if lines == 0 || named != lines ||
					r.outcome("refused of "+flood) != 15 || r.outcome("refused of alice") != 0 {
					t.Errorf("%d lines, and %v", lines, r.outcomes)
				}
				home.Store(true)
				<-time.After(10 * time.Minute)
				expect.Equal(t, "notices were delivered that were kept", r.outcome("completed of "+flood), 5)
				id = r.create(e, flood, 0)
				<-time.After(5 * time.Second)
				expect.Equal(t, "with room again there is no notice", len(r.takenOf(id)), 1)
			})
		})
	}
}

// Notices that nobody delivers any more do not stay for ever: an instance without a consumer gives them up.
func TestNoticesThatNobodyDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		r.look = time.Minute
		r.consume = func(context.Context, *task.Notice) error { return errors.New("not at home") }
		e, stop := r.start(true, task.Settings{})
		for range 150 {
			r.create(e, "alice", time.Minute)
		}
		<-time.After(time.Hour)
		stop()
		_, stop = r.start(false, task.Settings{})
		<-time.After(3*24*time.Hour + 20*time.Hour)
		if r.lines("giving up on a notice") > 0 {
			t.Error("notices were given up within the time in which somebody may deliver them")
		}
		<-time.After(6 * time.Hour)
		stop()
		lines := r.lines("level=ERROR msg=\"task: giving up on a notice")
		if lines != 300 || r.outcome("given_up of alice") != 300 {
			t.Errorf("%d lines, and %v", lines, r.outcomes)
		}
	})
}

// slowClock has a clock that is days behind the clock of this process.
type slowClock struct{ *task.MemoryStore }

func (s slowClock) Notices(ctx context.Context, c task.NoticeClaim) ([]*task.Notice, error) {
	notices, err := s.MemoryStore.Notices(ctx, c)
	for _, n := range notices {
		n.Written = n.Written.Add(-5 * 24 * time.Hour)
	}
	return notices, err
}

// The clock of the store says when a notice is given up.
func TestTheStoreTellsHowOldANoticeIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, attempts := newReceiver(t), 0
		r.store = slowClock{new(task.MemoryStore)}
		r.consume = func(context.Context, *task.Notice) error {
			if attempts++; attempts < 3 {
				return errors.New("not at home")
			}
			return nil
		}
		e, stop := r.start(true, task.Settings{})
		defer stop()
		id := r.create(e, "alice", 0)
		<-time.After(time.Minute)
		if len(r.takenOf(id)) != 1 || r.lines("giving up on a notice") > 0 {
			t.Error("it was given up within a minute")
		}
	})
}
