package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// raceDetector is set where the tests run under it.
var raceDetector bool

// manyParked is how many tasks are parked beside the one that is looked at.
const manyParked = 100_000

// parkedTasks is an engine on a store of tasks that are all parked.
type parkedTasks struct {
	engine *taskrun.Engine
	store  *watchedStore
	tasks  []parkedTask   // about a thousand of them
	began  chan time.Time // when a handler did
}

type parkedTask struct{ id, principal string }

// watchedStore tells what its engine does.
type watchedStore struct {
	task.Store
	idle   chan struct{} // receives if a claim found nothing
	parked chan struct{}
}

func (s *watchedStore) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	t, err := s.Store.Claim(ctx, after, load, lease, limit)
	if t == nil && err == nil {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
	return t, err
}

func (s *watchedStore) Update(ctx context.Context, t *task.Task, u task.Update) error {
	err := s.Store.Update(ctx, t, u)
	if err == nil && t.Status == task.InputRequired {
		s.parked <- struct{}{}
	}
	return err
}

// park lets an engine park one task, and makes n of it, each with a journal of its own.
func park(tb testing.TB, n int, look time.Duration) *parkedTasks {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "tasks.db")
	store, err := sqlite.Open(tb.Context(), path)
	expect.Check(tb, err)
	tb.Cleanup(func() { _ = store.Close() })
	p := &parkedTasks{began: make(chan time.Time, 1)}
	p.store = &watchedStore{Store: store, idle: make(chan struct{}), parked: make(chan struct{}, 1)}
	p.engine, err = taskrun.NewEngine(p.store, &taskrun.Options{
		Look: look, Logger: slog.New(slog.DiscardHandler),
		Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			p.began <- time.Now()
			return taskrun.Verdict{Status: task.InputRequired, Message: "Which one?", Pending: make([]byte, 300), Round: 1}, nil
		},
	})
	expect.Check(tb, err)
	first, err := p.engine.Create(tb.Context(), &taskrun.New{
		Principal: "principal 0", Method: "tools/call", Target: "deploy", Call: make([]byte, 300),
		Entries: [][]byte{make([]byte, 200)},
	})
	expect.Check(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.engine.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() { cancel(); running.Wait() })
	<-p.began
	<-p.store.parked
	p.tasks = multiply(tb, path, first, n)
	return p
}

// multiply copies the row and the journal of a task as they are, except id and
// principal, until there are n. One by one each would take two writes to the disk.
func multiply(tb testing.TB, path string, first *task.Task, n int) (some []parkedTask) {
	tb.Helper()
	db, err := sql.Open("sqlite",
		(&url.URL{Scheme: "file", OmitHost: true, Path: path,
			RawQuery: "_pragma=busy_timeout(10000)&_pragma=cache_size(-262144)"}).String())
	expect.Check(tb, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	var columns string
	expect.Check(tb, db.QueryRow(`SELECT group_concat(name) FROM pragma_table_info('task')
		WHERE name NOT IN ('seq', 'id', 'principal')`).Scan(&columns))
	for _, query := range []string{
		fmt.Sprintf(`INSERT INTO task (id, principal, %s) SELECT hex(randomblob(13)), 'principal ' || value %% 1000, %s
			FROM generate_series, task WHERE task.id = ?1`, columns, columns),
		`INSERT INTO journal SELECT task.seq, journal.n, journal.entry FROM task, journal
			WHERE task.id <> ?1 AND journal.task = (SELECT seq FROM task WHERE id = ?1)`,
	} {
		series := fmt.Sprintf(`(WITH RECURSIVE s (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s LIMIT %d) SELECT value
			FROM s WHERE value < %d)`, n, n)
		if _, err := db.Exec(strings.Replace(query, "generate_series", series, 1), first.ID); err != nil {
			tb.Fatal(err)
		}
	}
	var stored int
	if err := db.QueryRow(`SELECT count(*) FROM task WHERE status = ? AND due IS NULL AND wake IS NULL`,
		task.InputRequired).Scan(&stored); err != nil || stored != n {
		tb.Fatalf("%d tasks are parked, want %d (%v)", stored, n, err)
	}
	rows, err := db.Query(`SELECT id, principal FROM task WHERE id = ?1 OR seq % max(1, ?2 / 1000) = 0`, first.ID, n)
	expect.Check(tb, err)
	defer rows.Close()
	for rows.Next() {
		var t parkedTask
		expect.Check(tb, rows.Scan(&t.id, &t.principal))
		some = append(some, t)
	}
	expect.Check(tb, rows.Err())
	return some
}

// wake makes one of the tasks due, and returns how long it took until its handler began.
// It returns when the task is parked again.
func (p *parkedTasks) wake(tb testing.TB) time.Duration {
	t := p.tasks[rand.IntN(len(p.tasks))]
	start := time.Now()
	_, err := p.engine.Change(tb.Context(), t.principal, t.id, func(t *task.Task) (*task.Update, error) {
		t.Status, t.Message, t.Pending = task.Working, "", nil
		return &task.Update{}, nil
	})
	expect.Check(tb, err)
	took := (<-p.began).Sub(start)
	<-p.store.parked
	return took
}

// footprint is the least that the process needs while the engine looks for work again
// and again: the least, because what is counted comes and goes with each look.
func (p *parkedTasks) footprint() (goroutines int, heap uint64) {
	const looks = 20
	for i := range looks {
		<-p.store.idle
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if n := runtime.NumGoroutine(); i == 0 || n < goroutines {
			goroutines = n
		}
		if i == 0 || m.HeapAlloc < heap {
			heap = m.HeapAlloc
		}
	}
	return goroutines, heap
}

func TestAParkedTaskIsARowAndNothingElse(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's memory is not the program's; the run without it has this test")
	}
	measure := func(n int) (goroutines int, heap uint64) {
		ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := park(t, n, 10*time.Millisecond)
			goroutines, heap = p.footprint()
			p.wake(t) // the tasks are there, and the engine is awake
		})
		if !ok {
			t.FailNow()
		}
		return goroutines, heap
	}
	measure(1) // what is made once in a process is made now
	goroutines, heap := measure(1)
	const many = manyParked / 5
	more, bigger := measure(many)
	t.Logf("with one parked task: %d goroutines, %d bytes of heap; with %d: %d and %d", goroutines, heap, many,
		more, bigger)
	if more > goroutines {
		t.Errorf("%d goroutines with %d parked tasks, want %d as with one", more, many, goroutines)
	}
	if most := heap + 1<<20; bigger > most {
		t.Errorf("the heap has %d bytes with %d parked tasks, want at most %d", bigger, many, most)
	}
}

// Waking one among many takes as long as waking the only one.
func BenchmarkWake(b *testing.B) {
	both := []*parkedTasks{park(b, 1, time.Second), park(b, manyParked, time.Second)}
	times := make([][]time.Duration, len(both))
	for i := 0; b.Loop(); i++ {
		for j := range both {
			k := (i + j) % len(both) // neither always comes first
			times[k] = append(times[k], both[k].wake(b))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Nanoseconds())
	}
	alone, among := median(times[0]), median(times[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(alone/1000, "alone-µs")
	b.ReportMetric(among/1000, "among-µs")
	b.ReportMetric(among/alone, "ratio")
}
