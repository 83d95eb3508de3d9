package postgres_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

var (
	call    = bytes.Repeat([]byte("c"), 500)
	entry   = bytes.Repeat([]byte("e"), 200)
	outcome = bytes.Repeat([]byte("o"), 300)
)

// bare returns what a program has that writes its SQL itself.
func bare(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	expect.Check(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func database(b *testing.B) (*postgres.Store, *pgxpool.Pool) {
	b.Helper()
	dsn := pgtest.DSN(b)
	s := open(b, dsn)
	return s, bare(b, dsn)
}

func newTask() *task.Task {
	return &task.Task{
		ID: rand.Text(), Principal: "alice", Method: "tools/call", Target: "deploy", Dialect: "extension",
		Status: task.Working, PollInterval: time.Second,
	}
}

func create(t testing.TB, s *postgres.Store, new *task.Task, entries ...[]byte) *task.Task {
	t.Helper()
	expect.Check(t, s.Create(t.Context(), new, time.Hour, 0, call, entries, task.Quota{}))
	return new
}

func bareGet(ctx context.Context, pool *pgxpool.Pool, id string) error {
	var t task.Task
	var status string
	var poll int64
	return pool.QueryRow(ctx, `
		SELECT id, principal, method, target, dialect, status, message, pending, outcome, round,
			created, updated, expires, poll_interval, stopped, attempts, version, fence
		FROM askback.task WHERE id = $1`, id).
		Scan(&t.ID, &t.Principal, &t.Method, &t.Target, &t.Dialect, &status, &t.Message, &t.Pending, &t.Outcome, &t.Round,
			&t.Created, &t.Updated, &t.Expires, &poll, &t.Stopped, &t.Attempts, &t.Version, &t.Fence)
}

func bareCreate(ctx context.Context, pool *pgxpool.Pool, id string, notify bool) error {
	var batch pgx.Batch
	batch.Queue(`
		INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
			due,
			poll_interval, stopped, attempts, version, fence, entries)
		VALUES ($1, 'alice', 'tools/call', 'deploy', 'extension', 'working', '', 0, now(), now(), now() + interval '1 hour',
			now(),
			1000000000, false, 0, 0, 0, 0)`, id)
	batch.Queue(`INSERT INTO askback.journal (id, seq, body) VALUES ($1, 0, $2)`, id, call)
	if notify {
		batch.Queue(`SELECT pg_notify('askback', $1)`, id)
	}
	return pool.SendBatch(ctx, &batch).Close()
}

func bareComplete(ctx context.Context, pool *pgxpool.Pool, id string) error {
	var batch pgx.Batch
	batch.Queue(`
		UPDATE askback.task SET status = 'completed', outcome = $2, version = version + 1, updated = now(), due = NULL,
			entries = entries + 1
		WHERE id = $1 AND version = 0`, id, outcome)
	batch.Queue(`INSERT INTO askback.journal (id, seq, body) VALUES ($1, 1, $2)`, id, entry)
	batch.Queue(`SELECT pg_notify('askback', $1)`, id)
	return pool.SendBatch(ctx, &batch).Close()
}

// compare runs two things in turn, so that both meet the same machine, and reports the
// median time of each and by how much the second takes longer.
func compare(b *testing.B, first, second string, do func(n int) (func(), func())) {
	b.Helper()
	var took [2][]time.Duration
	for n := 0; b.Loop(); n++ {
		one, two := do(n)
		for i, f := range []func(){one, two} {
			start := time.Now()
			f()
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	a, c := took[0][len(took[0])/2], took[1][len(took[1])/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(a.Microseconds()), first+"-µs")
	b.ReportMetric(float64(c.Microseconds()), second+"-µs")
	b.ReportMetric(float64(c)/float64(a), "ratio")
}

func BenchmarkGet(b *testing.B) {
	s, pool := database(b)
	ctx := b.Context()
	get := func(id string) func() {
		return func() {
			if _, err := s.Get(ctx, id); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("store", func(b *testing.B) {
		id := create(b, s, newTask()).ID
		compare(b, "bare", "store", func(int) (func(), func()) {
			return func() {
				expect.Check(b, bareGet(ctx, pool, id))
			}, get(id)
		})
	})
	b.Run("journal", func(b *testing.B) {
		kb := bytes.Repeat([]byte("x"), 1024)
		small, large := create(b, s, newTask(), kb), create(b, s, newTask(), slices.Repeat([][]byte{kb}, 1024)...)
		compare(b, "1KB", "1MB", func(int) (func(), func()) { return get(small.ID), get(large.ID) })
	})
}

func BenchmarkCreate(b *testing.B) {
	for _, quota := range []int{0, 100} {
		b.Run(fmt.Sprintf("quota=%d", quota), func(b *testing.B) {
			s, pool := database(b)
			ctx := b.Context()
			compare(b, "bare", "store", func(n int) (func(), func()) {
				mine := newTask()
				mine.Principal = fmt.Sprint("user ", n/50)
				return func() {
						expect.Check(b, bareCreate(ctx, pool, rand.Text(), true))
					}, func() {
						expect.Check(b, s.Create(ctx, mine, time.Hour, 0, call, nil, task.Quota{Unfinished: quota}))
					}
			})
		})
	}
}

func BenchmarkComplete(b *testing.B) {
	s, pool := database(b)
	ctx := b.Context()
	compare(b, "bare", "store", func(int) (func(), func()) {
		theirs, mine := create(b, s, newTask()), create(b, s, newTask())
		mine.Status, mine.Outcome = task.Completed, outcome
		return func() {
				expect.Check(b, bareComplete(ctx, pool, theirs.ID))
			}, func() {
				expect.Check(b, s.Update(ctx, mine, task.Update{Leased: true, Due: -1, Entries: [][]byte{entry}}))
			}
	})
}

// NOTIFY lets one transaction commit at a time.
func BenchmarkNotify(b *testing.B) {
	for _, clients := range []int{1, 16} {
		for _, notify := range []bool{false, true} {
			b.Run(fmt.Sprintf("clients=%d/notify=%v", clients, notify), func(b *testing.B) {
				dsn := pgtest.DSN(b)
				open(b, dsn)
				pool := bare(b, with(dsn, "pool_max_conns=16"))
				ctx := b.Context()
				var left atomic.Int64
				left.Store(int64(b.N))
				done := make(chan error)
				b.ResetTimer()
				for range clients {
					go func() {
						var err error
						for err == nil && left.Add(-1) >= 0 {
							err = bareCreate(ctx, pool, rand.Text(), notify)
						}
						done <- err
					}()
				}
				for range clients {
					expect.Check(b, <-done)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}

// park fills the table with tasks that wait for input.
func park(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO askback.task (id, principal, method, target, dialect, status, message, pending, round, created, updated,
			expires,
			poll_interval, stopped, attempts, version, fence, entries)
		SELECT 'parked ' || md5(i::text), CASE WHEN i % 2 = 0 THEN 'alice' ELSE 'user ' || i % 1000 END, 'tools/call',
			'deploy', 'extension', 'input_required', '',
			convert_to(repeat('p', 300), 'UTF8'), 1, now(), now(), now() + interval '1 day',
			1000000000, false, 0, 1, 1, 3
		FROM generate_series(1, $1::int) i`, n); err != nil {
		t.Fatal(err)
	}
}

// A task that waits for input is woken, claimed and parked again, beside others that wait
// and came when the store had made its plans.
func BenchmarkWake(b *testing.B) {
	ctx := b.Context()
	waker := func(parked int) func() {
		s, pool := database(b)
		t := create(b, s, newTask())
		wake := func() {
			expect.Check(b, s.Update(ctx, t, task.Update{Due: 0}))
			c, err := claimOne(s, ctx, "", nil, time.Minute)
			if err != nil || c == nil {
				b.Fatalf("Claim: %v, %v", c, err)
			}
			expect.Check(b, s.Update(ctx, c, task.Update{Leased: true, Due: -1}))
			t = c
		}
		for range 10 {
			wake()
		}
		park(b, pool, parked)
		return wake
	}
	alone, among := waker(0), waker(100_000)
	b.Run("parked", func(b *testing.B) {
		compare(b, "0", "100000", func(int) (func(), func()) { return alone, among })
	})
}

// Tasks that never had a question: what triggers cost when they end, and what it costs to park beside other updates.
func BenchmarkWithoutQuestions(b *testing.B) {
	ctx := b.Context()
	update := func(s *postgres.Store, status task.Status) func() {
		mine := create(b, s, newTask())
		mine.Status = status
		return func() {
			expect.Check(b, s.Update(ctx, mine, task.Update{Leased: true, Due: -1, Entries: [][]byte{entry}}))
		}
	}
	b.Run("end", func(b *testing.B) {
		without, pool := database(b)
		if _, err := pool.Exec(ctx, "ALTER TABLE askback.task DISABLE TRIGGER task_stops_asking"); err != nil {
			b.Fatal(err)
		}
		with, _ := database(b)
		compare(b, "without", "with", func(int) (func(), func()) {
			return update(without, task.Completed), update(with, task.Completed)
		})
	})
	b.Run("park", func(b *testing.B) {
		s, _ := database(b)
		compare(b, "plain", "asking", func(int) (func(), func()) {
			return update(s, task.Working), update(s, task.InputRequired)
		})
	})
}

// Tasks whose deadlines have passed in one moment are decided by 8 goroutines.
func BenchmarkOverdue(b *testing.B) {
	const tasks, deciders = 10_000, 8
	ctx := b.Context()
	for b.Loop() {
		b.StopTimer()
		s, pool := database(b)
		if _, err := pool.Exec(ctx, `
			INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated,
				expires, poll_interval, stopped, attempts, version, fence, entries, asks)
			SELECT md5(i::text), 'alice', 'tools/call', 'deploy', 'extension', 'input_required', '', 1, now(), now(),
				now() + interval '1 day', 1000000000, false, 0, 1, 1, 3, 2
			FROM generate_series(1, $1::int) i`, tasks); err != nil {
			b.Fatal(err)
		}
		if _, err := pool.Exec(ctx, `
			INSERT INTO askback.question (task, key, name, principal, target, equal, who, content, asked, deadline, status,
				expired, version)
			SELECT md5(i::text), 'key', md5(i::text), 'user 1', 'deploy', '', ARRAY['user:' || i % 997], '', now(), now(),
				'open', false, 0
			FROM generate_series(1, $1::int) i`, tasks); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for done := 0; done < tasks; {
			overdue, err := s.Overdue(ctx, 500)
			if err != nil || len(overdue) == 0 {
				b.Fatal(len(overdue), err)
			}
			var next atomic.Int64
			decided := make(chan error)
			for range deciders {
				go func() {
					var err error
					for i := next.Add(1); err == nil && int(i) <= len(overdue); i = next.Add(1) {
						overdue[i-1].Decision = outcome
						err = s.ChangeQuestion(ctx, overdue[i-1], true)
					}
					decided <- err
				}()
			}
			for range deciders {
				expect.Check(b, <-decided)
			}
			done += len(overdue)
		}
	}
	b.ReportMetric(float64(b.N*tasks)/b.Elapsed().Seconds(), "decisions/s")
}

// What a log of events costs a write that is one.
func BenchmarkEvents(b *testing.B) {
	s, _ := database(b)
	ctx := b.Context()
	compare(b, "bare", "logged", func(int) (func(), func()) {
		end := func(logged bool) func() {
			t := newTask()
			t.Events = logged
			create(b, s, t)
			t.Status = task.Completed
			return func() {
				expect.Check(b, s.Update(ctx, t, task.Update{Due: -1}))
			}
		}
		return end(false), end(true)
	})
}
