package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// compare alternates between two ways, so that whatever else the machine does hits both,
// and reports the time of each and the ratio of the first to the second. Of the times it
// takes the median: a sync now and then takes a hundred times longer than others. Each
// way prepares outside of the time and returns what is to be measured.
func compare(b *testing.B, what, than string, a, z func(i int) func() error) {
	var times [2][]time.Duration
	for i := 0; b.Loop(); i++ {
		for w, way := range []func(int) func() error{a, z} {
			do := way(i)
			start := time.Now()
			err := do()
			times[w] = append(times[w], time.Since(start))
			expect.Check(b, err)
		}
	}
	median := func(ts []time.Duration) float64 {
		slices.SortFunc(ts, cmp.Compare[time.Duration])
		return float64(ts[len(ts)/2].Nanoseconds())
	}
	first, second := median(times[0]), median(times[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(first/1000, what+"-µs")
	b.ReportMetric(second/1000, than+"-µs")
	b.ReportMetric(first/second, "ratio")
}

// bare is what a hand would write with database/sql for a store's file: the statements
// prepared, the pragmas the same, no checks and no words about errors.
type bare struct {
	db, readers                        *sql.DB
	create, call, entry, get, complete *sql.Stmt
}

func openBare(b *testing.B) *bare {
	path := filepath.Join(b.TempDir(), "bare.db")
	expect.Check(b, open(b, path).Close())
	db, err := sql.Open("sqlite", dsn(path, "synchronous(FULL)")+"&_txlock=immediate")
	expect.Check(b, err)
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	prepare := func(db *sql.DB, query string) *sql.Stmt {
		stmt, err := db.PrepareContext(b.Context(), query)
		expect.Check(b, err)
		return stmt
	}
	readers := raw(b, path)
	return &bare{
		db:      db,
		readers: readers,
		create: prepare(db,
			`INSERT INTO task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
			poll, stopped, attempts, version, fence, due, ended) VALUES (?, ?, ?, ?, ?, ?, '', 0, ?, ?, ?, ?, 0, 0, 0, 0, ?,
				0)`),
		call:  prepare(db, `INSERT INTO journal (task, n, entry) VALUES (?, 0, ?)`),
		entry: prepare(db, `INSERT INTO journal (task, n, entry) VALUES (?, ?, ?)`),
		get: prepare(readers,
			`SELECT id, principal, method, target, dialect, status, message, round, created, updated, expires,
			poll, stopped, attempts, version, fence, pending, outcome FROM task WHERE id = ?`),
		complete: prepare(db,
			`UPDATE task SET status = 'completed', ended = 1, message = ?, pending = NULL, outcome = ?, round = ?, expires = ?,
			stopped = 0, attempts = 0, updated = ?, due = NULL, wake = NULL, version = version + 1 WHERE id = ?
				AND version = ?`),
	}
}

func (b *bare) add(ctx context.Context, t *task.Task, call, entry []byte) error {
	now := time.Now().UnixMilli()
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	result, err := tx.StmtContext(ctx, b.create).ExecContext(ctx, t.ID, t.Principal, t.Method, t.Target, t.Dialect,
		string(t.Status),
		now, now, now+3600000, 1000, now)
	if err != nil {
		return err
	}
	seq, err := result.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, b.call).ExecContext(ctx, seq, call); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, b.entry).ExecContext(ctx, seq, 1, entry); err != nil {
		return err
	}
	return tx.Commit()
}

func newTask(principal string) *task.Task {
	return &task.Task{ID: rand.Text(), Principal: principal, Method: "tools/call", Target: "deploy", Dialect: "proposal",
		Status: task.Working, PollInterval: time.Second}
}

var (
	benchCall  = make([]byte, 500)
	benchEntry = make([]byte, 200)
)

func BenchmarkCreate(b *testing.B) {
	ctx := b.Context()
	s, bare := open(b, filepath.Join(b.TempDir(), "tasks.db")), openBare(b)
	defer s.Close()
	compare(b, "store", "bare", func(i int) func() error {
		t := newTask(fmt.Sprint(i % 1000))
		return func() error {
			return s.Create(ctx, t, time.Hour, 0, benchCall, [][]byte{benchEntry}, task.Quota{Unfinished: 100})
		}
	}, func(i int) func() error {
		t := newTask(fmt.Sprint(i % 1000))
		return func() error { return bare.add(ctx, t, benchCall, benchEntry) }
	})
}

func BenchmarkComplete(b *testing.B) {
	ctx := b.Context()
	s, bare := open(b, filepath.Join(b.TempDir(), "tasks.db")), openBare(b)
	defer s.Close()
	outcome := make([]byte, 500)
	compare(b, "store", "bare", func(int) func() error {
		t := newTask("alice")
		expect.Check(b, s.Create(ctx, t, time.Hour, 0, benchCall, [][]byte{benchEntry}, task.Quota{}))
		t.Status, t.Outcome = task.Completed, outcome
		return func() error { return s.Update(ctx, t, task.Update{Leased: true, Due: -1}) }
	}, func(int) func() error {
		t := newTask("alice")
		expect.Check(b, bare.add(ctx, t, benchCall, benchEntry))
		return func() error {
			now := time.Now().UnixMilli()
			_, err := bare.complete.ExecContext(ctx, "", outcome, 0, now+3600000, now, t.ID, 0)
			return err
		}
	})
}

func BenchmarkGet(b *testing.B) {
	ctx := b.Context()
	s, bare := open(b, filepath.Join(b.TempDir(), "tasks.db")), openBare(b)
	defer s.Close()
	var ids []string
	for range 1000 {
		t := newTask("alice")
		ids = append(ids, t.ID)
		expect.Check(b, s.Create(ctx, t, time.Hour, 0, benchCall, [][]byte{benchEntry}, task.Quota{}))
		expect.Check(b, bare.add(ctx, t, benchCall, benchEntry))
	}
	compare(b, "store", "bare", func(i int) func() error {
		return func() error {
			_, err := s.Get(ctx, ids[i%len(ids)])
			return err
		}
	}, func(i int) func() error {
		return func() error {
			var t task.Task
			var created, updated, expires, poll int64
			return bare.get.QueryRowContext(ctx, ids[i%len(ids)]).Scan(&t.ID, &t.Principal, &t.Method, &t.Target, &t.Dialect,
				&t.Status, &t.Message,
				&t.Round, &created, &updated, &expires, &poll, &t.Stopped, &t.Attempts, &t.Version, &t.Fence, &t.Pending,
				&t.Outcome)
		}
	})
}

// claimOne claims one task. Without one that is due both results are nil.
func claimOne(s task.Store, ctx context.Context, after string, skip []string, lease time.Duration) (*task.Task, error) {
	var load []task.Load
	for _, p := range skip { // each has its share of one worker
		load = append(load, task.Load{Principal: p, Tasks: 1})
	}
	claimed, err := s.Claim(ctx, after, load, lease, 1)
	if len(claimed) == 0 || err != nil {
		return nil, err
	}
	return claimed[0].Task, nil
}

// BenchmarkCount counts 10,000 tasks that wait beside 100,000 that have ended, and alone.
func BenchmarkCount(b *testing.B) {
	count := func(ended int) func(int) func() error {
		s := open(b, filepath.Join(b.TempDir(), "tasks.db"))
		park(b, s, 10_000+ended)
		mustExec(b, s.conn, "UPDATE task SET status = 'completed', ended = 1 WHERE seq > 10000")
		return func(int) func() error {
			return func() error {
				counts, err := s.Count(b.Context())
				if err == nil && counts[task.InputRequired] != 10_000 {
					err = fmt.Errorf("counted %v", counts)
				}
				return err
			}
		}
	}
	compare(b, "beside", "alone", count(100_000), count(0))
}

// park adds n parked tasks of n/100 principals, with journals.
func park(b *testing.B, s *Store, n int) {
	b.Helper()
	mustExec(b, s.conn, `WITH RECURSIVE i (i) AS (SELECT 0 UNION ALL SELECT i+1 FROM i LIMIT ?1)
		INSERT INTO task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
			poll, stopped, attempts, version, fence, ended, pending)
		SELECT lower(hex(randomblob(16))), 'principal ' || i % (?1 / 100), 'tools/call', 'deploy', 'proposal',
			'input_required', 'which one?', 1,
			?2, ?2, ?2 + 3600000, 1000, 0, 0, 3, 1, 0, randomblob(300) FROM i WHERE i < ?1`, n, time.Now().UnixMilli())
	mustExec(b, s.conn, `INSERT INTO journal SELECT seq, 0, randomblob(300) FROM task`)
	mustExec(b, s.conn, `PRAGMA wal_checkpoint(TRUNCATE)`)
}

// What a log of events costs a write that is one.
func BenchmarkEvents(b *testing.B) {
	ctx := b.Context()
	s := open(b, filepath.Join(b.TempDir(), "tasks.db"))
	end := func(logged bool) func(int) func() error {
		return func(int) func() error {
			t := newTask("alice")
			t.Events = logged
			expect.Check(b, s.Create(ctx, t, time.Hour, 0, benchCall, nil, task.Quota{}))
			t.Status = task.Completed
			return func() error { return s.Update(ctx, t, task.Update{Due: -1}) }
		}
	}
	compare(b, "logged", "bare", end(true), end(false))
}
