// Command deadlines measures what it costs that tasks wait for a time: the processor time and the memory of a server
// while very many deadlines are pending, beside the time and memory of as many tasks that wait without one, and how
// long it takes to decide many that fall due in one second.
//
//	go run ./judge/deadlines                      # 100,000 tasks, of which 10,000 fall due, in memory
//	go run ./judge/deadlines -store sqlite
//	go run ./judge/deadlines -store postgres      # on a PostgreSQL of its own
//
// What PostgreSQL itself needs is not counted. It exits with 1 if the pending deadlines cost more than a hundredth of a
// processor on top of the parked tasks, or if those that fall due are not decided within a minute.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

func main() {
	m := measurement{}
	store := flag.String("store", "memory", "`STORE` of the tasks: memory, sqlite or postgres")
	flag.IntVar(&m.tasks, "tasks", 100_000, "`NUMBER` of tasks that wait")
	flag.IntVar(&m.due, "due", 10_000, "`NUMBER` of tasks whose deadlines pass in one second")
	flag.DurationVar(&m.idle, "idle", 20*time.Second, "`TIME` for which each cost is measured")
	flag.Parse()
	if err := m.run(*store); err != nil {
		fmt.Fprintln(os.Stderr, "deadlines:", err)
		os.Exit(1)
	}
}

type measurement struct {
	tasks, due int
	idle       time.Duration
	woken      atomic.Int64 // tasks that run again after their deadline
}

// open opens a store that nobody has used.
func open(ctx context.Context, kind, dir string) (s task.Store, stop func(), err error) {
	stop = func() {}
	switch kind {
	case "memory":
		return new(task.MemoryStore), stop, nil
	case "sqlite":
		s, err = sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
		return s, stop, err
	case "postgres":
		server, stop, err := pgtest.Open()
		if err == nil {
			s, err = postgres.Open(ctx, server.DSN())
		}
		return s, stop, err
	}
	return nil, stop, fmt.Errorf("-store %q: want memory, sqlite or postgres", kind)
}

// cost is what waiting costs: processors, as a share of one, and bytes of the heap.
type cost struct {
	cpu  float64
	heap int64
}

func (m *measurement) run(kind string) error {
	dir, err := os.MkdirTemp("", "deadlines-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	var costs []cost
	for _, within := range []time.Duration{0, 24 * time.Hour} {
		s, stop, err := open(ctx, kind, dir)
		if err != nil {
			return err
		}
		if err := m.park(ctx, s, "waiting", m.tasks, func() time.Duration { return within }); err != nil {
			return err
		}
		end, err := m.work(ctx, s)
		if err != nil {
			return err
		}
		c := m.measure()
		costs = append(costs, c)
		fmt.Printf("%s: %d parked tasks, deadline in %v: %.2f%% of a processor, heap of %.1f MB\n", kind, m.tasks, within,
			100*c.cpu, float64(c.heap)/1e6)
		if within > 0 {
			err = m.fallDue(ctx, s)
		}
		end()
		s.Close()
		stop()
		if err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if more := costs[1].cpu - costs[0].cpu; more > 0.01 {
		return fmt.Errorf("pending deadlines cost %.2f%% of a processor: want at most 1%%", 100*more)
	}
	return nil
}

// work runs the engine that a server has.
func (m *measurement) work(ctx context.Context, s task.Store) (end func(), err error) {
	e, err := taskrun.NewEngine(s, &taskrun.Options{
		Logger: slog.New(slog.DiscardHandler), Expire: tasks.Expire,
		Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			m.woken.Add(1)
			return taskrun.Verdict{Status: task.Completed}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "deadlines: running tasks:", err)
		}
	})
	return func() { cancel(); running.Wait() }, nil
}

// park adds tasks that wait, each until its deadline if within is more than zero.
func (m *measurement) park(ctx context.Context, s task.Store, name string, n int, within func() time.Duration) error {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	numbers := make(chan int)
	for range 64 {
		all.Go(func() {
			for i := range numbers {
				t := &task.Task{ID: fmt.Sprintf("%s %d", name, i), Principal: fmt.Sprint("principal ", i%1000),
					Method: "tools/call", Target: "deploy", Status: task.Working}
				err := s.Create(ctx, t, 48*time.Hour, time.Hour, make([]byte, 300), nil, task.Quota{})
				if err == nil {
					t.Status = task.InputRequired
					u := task.Update{Leased: true, Due: -1}
					if d := within(); d > 0 {
						u.Ask = []*task.Question{{Key: "key", Content: make([]byte, 100), Within: d}}
					}
					err = s.Update(ctx, t, u)
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// measure measures what waiting costs this process.
func (m *measurement) measure() (c cost) {
	time.Sleep(2 * time.Second) // what the tasks left behind has ended
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	before, began := processorTime(), time.Now()
	time.Sleep(m.idle)
	return cost{float64(processorTime()-before) / float64(time.Since(began)), int64(mem.HeapAlloc)}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fallDue adds tasks whose deadlines pass within one second, and waits until all are decided and run.
func (m *measurement) fallDue(ctx context.Context, s task.Store) error {
	at := time.Now().Add(time.Duration(m.due)*2*time.Millisecond + 5*time.Second)
	var n atomic.Int64
	err := m.park(ctx, s, "due", m.due, func() time.Duration {
		return max(time.Until(at)+time.Duration(n.Add(1))*time.Second/time.Duration(m.due), time.Millisecond)
	})
	if err != nil {
		return err
	}
	if late := time.Since(at); late > 0 {
		return fmt.Errorf("adding the tasks took %v too long: give fewer with -due", late)
	}
	time.Sleep(time.Until(at))
	for deadline := at.Add(3 * time.Minute); m.woken.Load() < int64(m.due); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d tasks have run 3 minutes after their deadlines", m.woken.Load(), m.due)
		}
	}
	took := time.Since(at)
	fmt.Printf("%d deadlines in one second, beside %d others: decided, and their tasks run, in %v\n", m.due, m.tasks,
		took.Round(100*time.Millisecond))
	if took > time.Minute {
		return fmt.Errorf("that is more than a minute")
	}
	return nil
}
