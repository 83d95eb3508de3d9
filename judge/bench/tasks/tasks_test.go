package tasks

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	driver "modernc.org/sqlite"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

var (
	clients = flag.Int("clients", 32, "clients that create tasks at once")
	workers = flag.Int("workers", 16, "workers of each subject")
	total   = flag.Int("tasks", 1000, "tasks of a round")
)

// connections bounds those of a subject to PostgreSQL.
const connections = 16

// Sizes of an ordinary task: its call, its question, its answer and its outcome.
var callBytes, pendingBytes, answerBytes, outcomeBytes = make([]byte, 400), make([]byte, 300), make([]byte,
	150), make([]byte, 200)

// A subject runs so many tasks on an empty database, and returns what they cost.
type subject struct {
	name string
	run  func(b *testing.B) cost
}

// cost is that of all tasks of a round.
type cost struct {
	took    time.Duration
	commits float64 // transactions; in PostgreSQL also those that only read
	writes  float64 // transactions that have written
	syncs   float64 // of the log to the disk; PostgreSQL only
}

func BenchmarkTasks(b *testing.B) {
	compare(b, []subject{
		{"river", riverJobs},
		{"postgres", func(b *testing.B) cost { return onPostgres(b, false) }},
		{"sqlite", func(b *testing.B) cost { return onSQLite(b, false) }},
	})
}

func BenchmarkTasksThatAsk(b *testing.B) {
	compare(b, []subject{
		{"river", riverJobs},
		{"postgres", func(b *testing.B) cost { return onPostgres(b, true) }},
		{"sqlite", func(b *testing.B) cost { return onSQLite(b, true) }},
	})
}

// compare runs the subjects in turn, and reports medians: rates, costs of a task, and the ratios of rates to that of
// the first subject in the same round.
func compare(b *testing.B, subjects []subject) {
	figures := make(map[string][]float64)
	var units []string
	note := func(unit string, figure float64) {
		if figures[unit] == nil {
			units = append(units, unit)
		}
		figures[unit] = append(figures[unit], figure)
	}
	for b.Loop() {
		var first float64
		for i, s := range subjects {
			c := s.run(b)
			n := float64(*total)
			rate := n / c.took.Seconds()
			note(s.name+"/s", rate)
			if i == 0 {
				first = rate
			} else {
				note(s.name+"-ratio", rate/first)
			}
			note(s.name+"-commits", c.commits/n)
			if c.writes > 0 {
				note(s.name+"-writes", c.writes/n)
				note(s.name+"-syncs", c.syncs/n)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, unit := range units {
		all := slices.Sorted(slices.Values(figures[unit]))
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// onPostgres runs the engine on PostgreSQL.
func onPostgres(b *testing.B, asks bool) cost {
	dsn := withConnections(b, pgtest.DSN(b))
	before := readCost(b, dsn)
	store, err := postgres.Open(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	took := runTasks(b, store, asks)
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	return readCost(b, dsn).since(before, took)
}

// commitsOfSQLite counts the transactions of this process that have written.
var commitsOfSQLite = sync.OnceValue(func() *atomic.Int64 {
	n := new(atomic.Int64)
	driver.RegisterConnectionHook(func(conn driver.ExecQuerierContext, _ string) error {
		conn.(driver.HookRegisterer).RegisterCommitHook(func() int32 { n.Add(1); return 0 })
		return nil
	})
	return n
})

// onSQLite runs the engine on SQLite, where each commit that writes is one sync.
func onSQLite(b *testing.B, asks bool) cost {
	commits := commitsOfSQLite()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "tasks.db"))
	if err != nil {
		b.Fatal(err)
	}
	before := commits.Load()
	took := runTasks(b, store, asks)
	n := commits.Load() - before
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	return cost{took: took, commits: float64(n)}
}

// runTasks runs an engine with its workers and clients in this process until all tasks have ended.
func runTasks(b *testing.B, store task.Store, asks bool) time.Duration {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var completed atomic.Int64
	engine, err := taskrun.NewEngine(counting(store, func() {
		if completed.Add(1) == int64(*total) {
			stop()
		}
	}), &taskrun.Options{
		Settings: task.Settings{Workers: *workers},
		Logger:   slog.New(slog.DiscardHandler),
		Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if asks && len(w.Entries) == 0 {
				return taskrun.Verdict{Status: task.InputRequired, Pending: pendingBytes, Round: 1}, nil
			}
			return taskrun.Verdict{Status: task.Completed, Outcome: outcomeBytes}, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	atOnce(b, func(client, _ int) error {
		principal := fmt.Sprint("client ", client)
		t, err := engine.Create(b.Context(),
			&taskrun.New{Principal: principal, Method: "tools/call", Target: "deploy", Call: callBytes})
		if err != nil {
			return err
		}
		if !asks {
			return nil
		}
		for t.Status != task.InputRequired {
			if t, err = engine.Wait(b.Context(), principal, t.ID, t.Version); err != nil {
				return err
			}
		}
		_, err = engine.Change(b.Context(), principal, t.ID, func(t *task.Task) (*task.Update, error) {
			t.Status, t.Pending = task.Working, nil
			return &task.Update{Entries: [][]byte{answerBytes}}, nil
		})
		return err
	})
	running.Wait()
	return time.Since(start)
}

// counting returns the store, which calls completed after each outcome that it has stored.
func counting(store task.Store, completed func()) task.Store {
	c := countingStore{store, completed}
	if w, ok := store.(task.Watcher); ok {
		return struct {
			task.Store
			task.Watcher
		}{c, w}
	}
	return c
}

type countingStore struct {
	task.Store
	completed func()
}

func (s countingStore) Update(ctx context.Context, t *task.Task, u task.Update) error {
	err := s.Store.Update(ctx, t, u)
	if err == nil && t.Status == task.Completed {
		s.completed()
	}
	return err
}

// atOnce calls do for each task, by clients that take turns of their own.
func atOnce(b *testing.B, do func(client, i int) error) {
	var all sync.WaitGroup
	var next atomic.Int64
	for client := range *clients {
		all.Go(func() {
			for i := next.Add(1); i <= int64(*total); i = next.Add(1) {
				if err := do(client, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// job is one of River's, with as many bytes as a call.
type job struct{ Call []byte }

func (job) Kind() string { return "deploy" }

type jobWorker struct{ river.WorkerDefaults[job] }

func (jobWorker) Work(context.Context, *river.Job[job]) error { return nil }

// riverJobs runs as many jobs of River, which nobody asks anything.
func riverJobs(b *testing.B) cost {
	dsn := withConnections(b, pgtest.DSN(b))
	before := readCost(b, dsn)
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = migrator.Migrate(b.Context(), rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	all := river.NewWorkers()
	river.AddWorker(all, jobWorker{})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}},
		Workers: all,
		// The least that it takes: by default it fetches ten times a second, and no more jobs than there are workers.
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ended, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: *total,
	})
	defer unsubscribe()
	if err := client.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	atOnce(b, func(int, int) error {
		_, err := client.Insert(b.Context(), job{callBytes}, nil)
		return err
	})
	for range *total {
		<-ended
	}
	took := time.Since(start)
	if err := client.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
	pool.Close()
	return readCost(b, dsn).since(before, took)
}

// withConnections adds the bound of connections to a URL.
func withConnections(b *testing.B, dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		b.Fatal(err)
	}
	q := u.Query()
	q.Set("pool_max_conns", strconv.Itoa(connections))
	u.RawQuery = q.Encode()
	return u.String()
}

// readCost reads what the server has counted, once nobody else is connected: a connection tells its transactions at the
// latest when it is closed.
func readCost(b *testing.B, dsn string) (c cost) {
	config, err := pgx.ParseConfig(dsn)
	if err == nil {
		delete(config.RuntimeParams, "pool_max_conns")
		var conn *pgx.Conn
		if conn, err = pgx.ConnectConfig(b.Context(), config); err == nil {
			defer conn.Close(b.Context())
			for others := 1; err == nil && others > 0; {
				err = conn.QueryRow(b.Context(), `
					SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()),
						(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
						pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
						(SELECT wal_sync FROM pg_stat_wal)`).Scan(&others, &c.commits, &c.writes, &c.syncs)
			}
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (c cost) since(before cost, took time.Duration) cost {
	return cost{took, c.commits - before.commits, c.writes - before.writes, c.syncs - before.syncs}
}
