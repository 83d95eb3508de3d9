// Package tasks measures how many tasks a second the engine of package task runs on each store, and what each costs
// the database. [River], a queue of jobs in PostgreSQL, runs beside it as the measure.
//
//	cd judge/bench/tasks && go test -bench 'Tasks|Fleet' -benchtime 5x [-clients 32] [-workers 16] [-tasks 1000]
//	cd judge/bench/tasks && go test -bench 'Costs|Sideways' -benchtime 1x
//
// All subjects run in every round, one after the other, each on an empty database with fsync. A client creates its
// tasks one after the other. With a question it waits until a task asks, and answers; it never waits for the end. Rates
// count from the first create until the last outcome is stored, and ratios are medians over the rounds.
//
// [River]: https://github.com/riverqueue/river
package tasks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	driver "modernc.org/sqlite"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
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
	run  func(b *testing.B, v variant) cost
}

// variant is what the tasks of a round have in common.
type variant struct {
	asks      bool // each asks one question
	instances int
	costs     bool // each connection is listened to, which costs time
	held      bool // somebody holds a snapshot meanwhile, as a long report does
}

// cost is that of all tasks of a round.
type cost struct {
	took    time.Duration
	commits float64 // transactions that have written
	more    map[string]float64
}

var subjects = []subject{{"river", riverJobs}, {"postgres", onPostgres}, {"sqlite", onSQLite}}

func BenchmarkTasks(b *testing.B)        { compare(b, variant{instances: 1}) }
func BenchmarkTasksThatAsk(b *testing.B) { compare(b, variant{instances: 1, asks: true}) }

// With three instances, each of which has all the workers and connections.
func BenchmarkFleet(b *testing.B)         { compare(b, variant{instances: 3}) }
func BenchmarkFleetThatAsks(b *testing.B) { compare(b, variant{instances: 3, asks: true}) }

// What a task costs the database, which takes no notice of time.
func BenchmarkCosts(b *testing.B) { compare(b, variant{instances: 1, costs: true, held: true}) }
func BenchmarkCostsOfAsking(b *testing.B) {
	compare(b, variant{instances: 1, asks: true, costs: true, held: true})
}

// compare runs the subjects in turn, and reports medians: rates and their ratios to that of the first subject in the
// same round, or costs of a task.
func compare(b *testing.B, v variant) {
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
			if s.name == "sqlite" && v.instances > 1 { // it is for one machine
				continue
			}
			c := s.run(b, v)
			n := float64(*total)
			if v.costs {
				note(s.name+"-commits", c.commits/n)
				for _, unit := range slices.Sorted(maps.Keys(c.more)) {
					note(s.name+"-"+unit, c.more[unit]/n)
				}
				continue
			}
			rate := n / c.took.Seconds()
			note(s.name+"/s", rate)
			if i == 0 {
				first = rate
			} else {
				note(s.name+"-ratio", rate/first)
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
func onPostgres(b *testing.B, v variant) cost {
	return measured(b, v, func(dsn string) time.Duration {
		var stores []task.Store
		for range v.instances {
			store := expect.Must(postgres.Open(b.Context(), dsn))(b)
			defer store.Close()
			stores = append(stores, store)
		}
		return runTasks(b, stores, v.asks)
	})
}

// measured runs tasks on an empty database, and returns what they have cost it.
func measured(b *testing.B, v variant, run func(dsn string) time.Duration) cost {
	dsn := withConnections(b, pgtest.DSN(b))
	before := readCost(b, dsn)
	through, heard := dsn, new(listener)
	if v.costs {
		through = heard.listen(b, dsn)
	}
	letGo := func() {}
	if v.held {
		letGo = hold(b, dsn)
	}
	took := run(through)
	letGo()
	c := readCost(b, dsn).since(before, took)
	if v.costs {
		c.more["statements"], c.more["trips"] = float64(heard.statements.Load()), float64(heard.trips.Load())
	}
	return c
}

// hold holds a snapshot until letGo is called, so that no vacuum takes a row that dies meanwhile.
func hold(b *testing.B, dsn string) (letGo func()) {
	conn := connect(b, dsn)
	const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"
	expect.Must(conn.Exec(b.Context(), begin))(b)
	return func() { conn.Close(b.Context()) }
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
func onSQLite(b *testing.B, v variant) cost {
	commits := commitsOfSQLite()
	store := expect.Must(sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "tasks.db")))(b)
	before := commits.Load()
	took := runTasks(b, []task.Store{store}, v.asks)
	n := commits.Load() - before
	expect.Check(b, store.Close())
	return cost{took: took, commits: float64(n)}
}

// runTasks runs an engine on each store with its workers and clients in this process until all tasks have ended.
func runTasks(b *testing.B, stores []task.Store, asks bool) time.Duration {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var completed atomic.Int64
	var engines []*taskrun.Engine
	for _, store := range stores {
		engine := expect.Must(taskrun.NewEngine(counting(store, func() {
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
		}))(b)
		engines = append(engines, engine)
	}
	start := time.Now()
	var running sync.WaitGroup
	for _, engine := range engines {
		running.Go(func() { _ = engine.Run(ctx) })
	}
	atOnce(b, func(client, _ int) error {
		principal, engine := fmt.Sprint("client ", client), engines[client%len(engines)]
		t, err := engine.Create(b.Context(),
			&taskrun.New{Fresh: true, Principal: principal, Method: "tools/call", Target: "deploy", Call: callBytes})
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
	c := countingStore{store, store.(task.Inserter), completed}
	if w, ok := store.(task.Watcher); ok {
		return struct {
			countingStore
			task.Watcher
		}{c, w}
	}
	return c
}

type countingStore struct {
	task.Store
	task.Inserter
	completed func()
}

func (s countingStore) Update(ctx context.Context, t *task.Task, u task.Update) error {
	err := s.Store.Update(ctx, t, u)
	if err == nil && t.Status == task.Completed {
		s.completed()
	}
	return err
}

func (s countingStore) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) error {
	err := s.Inserter.Insert(ctx, t, ttl, call, u, quota)
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
func riverJobs(b *testing.B, v variant) cost {
	return measured(b, v, func(dsn string) time.Duration { return runJobs(b, dsn, v.instances) })
}

func runJobs(b *testing.B, dsn string, instances int) time.Duration {
	var clients []*river.Client[pgx.Tx]
	var ended sync.WaitGroup
	ended.Add(*total)
	for i := range instances {
		pool := expect.Must(pgxpool.New(b.Context(), dsn))(b)
		defer pool.Close()
		if i == 0 {
			migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				_, err = migrator.Migrate(b.Context(), rivermigrate.DirectionUp, nil)
			}
			expect.Check(b, err)
		}
		all := river.NewWorkers()
		river.AddWorker(all, jobWorker{})
		client := expect.Must(river.NewClient(riverpgxv5.New(pool), &river.Config{
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}},
			Workers: all,
			// The least that it takes: by default it fetches ten times a second, and no more jobs than there are workers.
			FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler),
		}))(b)
		jobs, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
			Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: *total,
		})
		defer unsubscribe()
		go func() {
			for range jobs {
				ended.Done()
			}
		}()
		expect.Check(b, client.Start(b.Context()))
		clients = append(clients, client)
	}
	start := time.Now()
	atOnce(b, func(client, _ int) error {
		_, err := clients[client%instances].Insert(b.Context(), job{callBytes}, nil)
		return err
	})
	ended.Wait()
	took := time.Since(start)
	for _, client := range clients {
		expect.Check(b, client.Stop(b.Context()))
	}
	return took
}

// withConnections adds the bound of connections to a URL.
func withConnections(b *testing.B, dsn string) string {
	u := expect.Must(url.Parse(dsn))(b)
	q := u.Query()
	q.Set("pool_max_conns", strconv.Itoa(connections))
	u.RawQuery = q.Encode()
	return u.String()
}

func connect(b *testing.B, dsn string) *pgx.Conn {
	config := expect.Must(pgx.ParseConfig(dsn))(b)
	delete(config.RuntimeParams, "pool_max_conns")
	conn := expect.Must(pgx.ConnectConfig(b.Context(), config))(b)
	return conn
}

// readCost reads what the server has counted, once nobody else is connected: a connection tells what it did at the
// latest when it is closed.
func readCost(b *testing.B, dsn string) (c cost) {
	conn := connect(b, dsn)
	defer conn.Close(b.Context())
	var wal, syncs, dead float64
	for others := 1; others > 0; {
		err := conn.QueryRow(b.Context(), `
			SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()),
				pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
				(SELECT wal_sync FROM pg_stat_wal), coalesce((SELECT sum(n_dead_tup) FROM pg_stat_user_tables), 0)`,
		).Scan(&others, &c.commits, &wal, &syncs, &dead)
		expect.Check(b, err)
	}
	c.more = map[string]float64{"WAL-bytes": wal, "syncs": syncs, "dead-rows": dead}
	return c
}

func (c cost) since(before cost, took time.Duration) cost {
	for unit := range c.more {
		c.more[unit] -= before.more[unit]
	}
	return cost{took, c.commits - before.commits, c.more}
}

// listener passes connections on to a database, and counts what clients send.
type listener struct {
	statements atomic.Int64
	trips      atomic.Int64 // how often a client waits for an answer
}

// listen returns the URL of the database through the listener.
func (l *listener) listen(b *testing.B, dsn string) string {
	u := expect.Must(url.Parse(dsn))(b)
	config := expect.Must(pgx.ParseConfig(dsn))(b)
	front := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(b)
	b.Cleanup(func() { front.Close() })
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	go func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				b.Error(err)
				return
			}
			go func() { io.Copy(client, server); client.Close() }()
			go func() { l.pass(client, server); server.Close() }()
		}
	}()
	u.Host = front.Addr().String()
	q := u.Query()
	q.Del("host")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// pass passes messages on (PostgreSQL, "Message Formats").
func (l *listener) pass(client, server net.Conn) {
	from := bufio.NewReader(client)
	for typed := false; ; typed = true { // only the first message has no type
		head := make([]byte, 4, 5)
		if typed {
			head = head[:5]
		}
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		if typed {
			switch head[0] {
			case 'E':
				l.statements.Add(1)
			case 'Q':
				l.statements.Add(1)
				l.trips.Add(1)
			case 'S':
				l.trips.Add(1)
			}
		}
		body := int64(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
		if _, err := io.Copy(server, io.MultiReader(bytes.NewReader(head), io.LimitReader(from, body))); err != nil {
			return
		}
	}
}
