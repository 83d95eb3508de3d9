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
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A notice is delivered until the consumer takes it, in order for a task, whatever other tasks' notices do. One that is
// not taken for days is given up, loudly.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		asks := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			q := &task.Question{Task: w.Task.ID, Key: "approve", Target: w.Task.Target, For: []string{"user:bob"},
				Content: []byte("?"), Within: time.Minute}
			if w.Task.Round > 0 {
				return taskrun.Verdict{Status: task.Completed, Round: w.Task.Round}, nil
			}
			return taskrun.Verdict{Status: task.InputRequired, Ask: []*task.Question{q}, Round: 1}, nil
		}
		var mu sync.Mutex
		taken := make(map[string][]task.NoticeKind)
		refusals, attempts := 3, 0
		delivered := make(map[string]int)
		var log strings.Builder
		e := expect.Must(taskrun.NewEngine(store, &taskrun.Options{
			Settings: task.Settings{MaxTTL: 30 * 24 * time.Hour, TTL: 30 * 24 * time.Hour},
			Look:     10 * time.Second, Handler: asks, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Expire: func(q *task.Question) error { q.Decision = []byte("unanswered"); return nil },
			Delivered: func(_ context.Context, n *task.Notice, began time.Time, outcome string) {
				mu.Lock()
				defer mu.Unlock()
				delivered[n.Question.Target+" "+outcome]++
				if !began.Equal(time.Now()) {
					t.Errorf("a delivery that takes no time began at %v", began)
				}
			},
			Notify: func(_ context.Context, n *task.Notice) error {
				mu.Lock()
				defer mu.Unlock()
				switch target := n.Question.Target; {
				case target == "never":
					attempts++
					return errors.New("not at home")
				case target == "late" && refusals > 0:
					refusals--
					return errors.New("not yet")
				default:
					taken[target] = append(taken[target], n.Kind)
					return nil
				}
			},
		}))(t)
		stop := running(t, e)
		synctest.Wait()
		for _, target := range []string{"never", "late", "now"} {
			expect.Must(e.Create(t.Context(), &taskrun.New{Principal: "alice", Target: target}))(t)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		mu.Lock()
		for _, target := range []string{"late", "now"} {
			want := []task.NoticeKind{task.NoticeAsked, task.NoticeUnanswered, task.NoticeEnded}
			if got := taken[target]; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
				t.Errorf("%s takes %q, want %q", target, got, want)
			}
		}
		mu.Unlock()
		<-time.After(4 * 24 * time.Hour)
		synctest.Wait()
		stop()
		if attempts < 3*24 || attempts > 3*3*30 || strings.Count(log.String(), "giving up on a notice") == 0 {
			t.Errorf("after %d attempts the log has\n%.2000s", attempts, log.String())
		}
		mu.Lock()
		defer mu.Unlock()
		failed, givenUp := delivered["never failed"], delivered["never given_up"]
		if givenUp == 0 || failed+givenUp != attempts || delivered["late failed"] != 3 || delivered["late completed"] != 3 ||
			delivered["now completed"] != 3 || len(delivered) != 5 {
			t.Errorf("after %d attempts these are delivered: %v", attempts, delivered)
		}
		left, err := store.Notices(t.Context(), task.NoticeClaim{Free: 10, Lease: time.Minute})
		if err != nil || len(left) > 0 {
			t.Errorf("%d notices are left, %v", len(left), err)
		}
	})
}

// deafStore fails for a while to take that somebody listens.
type deafStore struct {
	task.Store
	fails int
}

func (s *deafStore) Listen(ctx context.Context, d time.Duration, named, anonymous int) error {
	if s.fails--; s.fails >= 0 {
		return errors.New("the connection broke")
	}
	return s.Store.Listen(ctx, d, named, anonymous)
}

// Nothing is asked before the store knows that somebody listens: nobody would be told of it.
func TestNothingIsAskedUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan task.NoticeKind, 1)
		e := expect.Must(taskrun.NewEngine(&deafStore{new(task.MemoryStore), 3}, &taskrun.Options{
			Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
				q := &task.Question{Key: "approve", For: []string{"user:bob"}, Content: []byte("?")}
				return taskrun.Verdict{Status: task.InputRequired, Ask: []*task.Question{q}, Round: 1}, nil
			},
			Notify: func(_ context.Context, n *task.Notice) error { told <- n.Kind; return nil },
			Logger: slog.New(slog.DiscardHandler),
		}))(t)
		expect.Must(e.Create(t.Context(), &taskrun.New{Principal: "alice"}))(t)
		stop := running(t, e)
		select {
		case kind := <-told:
			expect.Equal(t, "the first notice", kind, task.NoticeAsked)
		case <-time.After(time.Hour):
			t.Error("nobody was told of the question")
		}
		stop()
	})
}

// A consumer that never returns for the notices of one caller keeps neither the others' waiting nor the engine from
// stopping.
func TestAConsumerThatHangsForOneCaller(t *testing.T) {
	synctest.Test(t, testAConsumerThatHangsForOneCaller)
}

func testAConsumerThatHangsForOneCaller(t *testing.T) {
	store := new(task.MemoryStore)
	taken := make(chan string, 100)
	hang := make(chan struct{})
	defer close(hang)
	e := expect.Must(taskrun.NewEngine(store, &taskrun.Options{
		Look: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			q := &task.Question{Key: "approve", For: []string{"user:bob"}, Content: []byte("?")}
			return taskrun.Verdict{Status: task.InputRequired, Ask: []*task.Question{q}, Round: 1}, nil
		},
		Notify: func(_ context.Context, n *task.Notice) error {
			if n.Question.Principal == "mallory" {
				<-hang
			}
			taken <- n.Question.Principal
			return nil
		},
	}))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	expect.Check(t, store.Listen(t.Context(), time.Hour, 0, 0))
	for range 10 {
		expect.Must(e.Create(t.Context(), &taskrun.New{Principal: "mallory", Target: "x"}))(t)
	}
	for range 5 {
		expect.Must(e.Create(t.Context(), &taskrun.New{Principal: "alice", Target: "x"}))(t)
	}
	for range 5 {
		select {
		case who := <-taken:
			expect.Equal(t, "'s notice is taken", who, "alice")
		case <-time.After(2 * time.Minute):
			t.Fatal("alice's notices wait for mallory's")
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the engine waits for a consumer that does not return")
	}
}
