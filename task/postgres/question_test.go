package postgres

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
)

// parked returns a new task that is parked with these questions, under a lease.
func parked(t testing.TB, s *Store, ask ...*task.Question) *task.Task {
	t.Helper()
	n := groupTask("alice")
	expect.Check(t, s.Create(t.Context(), n, time.Hour, time.Hour, []byte("call"), nil, task.Quota{}))
	n.Status = task.InputRequired
	expect.Check(t, s.Update(t.Context(), n, task.Update{Leased: true, Due: -1, Ask: ask}))
	return n
}

func oneQuestion(t testing.TB, s *Store, id string) *task.Question {
	t.Helper()
	all, err := s.Questions(t.Context(), task.Name(id))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d questions, %v", len(all), err)
	}
	return all[0]
}

// What is done to a task is done to its questions, through indexes, whatever a session has been told of these.
func TestQuestionsFollowTheirTask(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	conn := connect(t, s.pool.Config().ConnString())
	mustExec(t, conn, inSchema(insertTasks("1, 3")+"; ANALYZE", s.schema)) // so small that a scan would be quicker
	n := parked(t, s, &task.Question{Key: "a", For: []string{"user:bob"}}, &task.Question{Key: "timer", Within: time.Hour})
	decided := oneQuestion(t, s, parked(t, s, &task.Question{Key: "b", For: []string{"user:bob"}}).ID)
	decided.Decision = []byte("yes")
	expect.Check(t, s.ChangeQuestion(t.Context(), decided, false))
	var notices []string
	take := func() {
		t.Helper()
		for {
			taken, err := s.Notices(t.Context(), task.NoticeClaim{Free: 9, Lease: time.Hour})
			expect.Check(t, err)
			if len(taken) == 0 {
				return
			}
			for _, n := range taken {
				if n.Question.Principal == "alice" {
					notices = append(notices, fmt.Sprint(n.Kind, " ", n.Question.Key))
				}
				expect.Check(t, s.Settle(t.Context(), n, 0))
			}
		}
	}
	expect.Check(t, s.Listen(t.Context(), time.Hour, 0, 0))
	const scans = `SELECT count(*) FROM pg_stat_xact_user_tables
		WHERE seq_scan > 0 AND relname IN ('question', 'question_list', 'notice', 'listening')`
	for _, c := range []struct{ says, sql string }{
		{"ends", `UPDATE askback.task SET status = 'completed', version = version + 1, due = NULL WHERE id = '%s'`},
		{"deletes", `DELETE FROM askback.task WHERE id = '%s'`},
	} {
		tx, err := conn.Begin(t.Context())
		expect.Check(t, err)
		for _, id := range []string{n.ID, decided.Task} {
			expect.Must(tx.Exec(t.Context(), fmt.Sprintf(c.sql, id)))(t)
		}
		if n := query[int](t, conn, scans); n > 0 {
			t.Errorf("when it %s a task, %d tables are read whole", c.says, n)
		}
		expect.Check(t, tx.Commit(t.Context()))
		take()
		var got []string
		for _, id := range []string{n.ID, decided.Task} {
			all, err := s.Questions(t.Context(), task.Name(id))
			expect.Check(t, err)
			for _, q := range all {
				got = append(got, fmt.Sprintf("%s %s %d", q.Key, q.Status, q.Version))
			}
		}
		want := []string{"a withdrawn 1", "timer withdrawn 1", "b decided 1"}
		if c.says == "deletes" {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("it %s a task, and its questions are (-want +got):\n%s", c.says, diff)
		}
		if waits, err := s.Waiting(t.Context(), task.QuestionFilter{For: []string{"user:bob"}}, nil, 9); err != nil ||
			len(waits) > 0 {
			t.Errorf("it %s a task, and bob still finds %d questions, %v", c.says, len(waits), err)
		}
	}
	expect.Diff(t, "the notices that it leaves", []string{"ended a", "ended b"}, notices)
	if n := query[int](t, conn, `SELECT (SELECT count(*) FROM askback.question_list AS l
		WHERE NOT EXISTS (SELECT FROM askback.question AS q WHERE (q.task, q.key) = (l.task, l.key)))
		+ (SELECT count(*) FROM askback.notice WHERE kind = 'ended')`); n > 0 {
		t.Errorf("%d rows are left of questions that are gone", n)
	}
}

// An answer that comes before the deadline and then waits for a lock until after it is late.
func TestAnAnswerIsLateWhenItWaitedForALock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says, lock string
		answer     func(s *Store, n *task.Task, q *task.Question) error
	}{
		{"a vote", `SELECT FROM askback.question WHERE task = $1 FOR UPDATE`,
			func(s *Store, _ *task.Task, q *task.Question) error {
				q.Votes = []byte("yes")
				return s.ChangeQuestion(context.Background(), q, false)
			}},
		{"a decision", `SELECT FROM askback.task WHERE id = $1 FOR UPDATE`,
			func(s *Store, _ *task.Task, q *task.Question) error {
				q.Decision = []byte("yes")
				return s.ChangeQuestion(context.Background(), q, false)
			}},
		{"a decision that waits for the question", `SELECT FROM askback.question WHERE task = $1 FOR UPDATE`,
			func(s *Store, _ *task.Task, q *task.Question) error {
				q.Decision = []byte("yes")
				return s.ChangeQuestion(context.Background(), q, false)
			}},
		{"an answer of the client", `SELECT FROM askback.task WHERE id = $1 FOR UPDATE`,
			func(s *Store, n *task.Task, q *task.Question) error {
				n.Status = task.Working
				return s.Update(context.Background(), n, task.Update{Answered: []string{q.Key}})
			}},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			s := openPrivate(t)
			conn := connect(t, s.pool.Config().ConnString())
			n := parked(t, s, &task.Question{Key: "key", For: []string{"user:bob"}, Within: time.Second})
			q := oneQuestion(t, s, n.ID)
			tx, err := conn.Begin(t.Context())
			expect.Check(t, err)
			expect.Must(tx.Exec(t.Context(), c.lock, n.ID))(t)
			answered := make(chan error, 1)
			go func() { answered <- c.answer(s, n, q) }()
			waits(t, s, answered)
			for !query[bool](t, conn, `SELECT clock_timestamp() > $1`, q.Deadline) {
			}
			expect.Check(t, tx.Rollback(t.Context()))
			expect.Is(t, "the error", <-answered, task.ErrLate)
			if got := oneQuestion(t, s, n.ID); got.Version != 0 || got.Status != task.QuestionOpen {
				t.Errorf("the question is %s, version %d", got.Status, got.Version)
			}
		})
	}
}

// Workers park tasks while people vote on and decide what they ask, and others end the tasks, on three instances. A
// task never stays parked for a question that is decided, and nobody waits in a circle, those who take notices neither.
func TestParkingMeetsDecisions(t *testing.T) {
	t.Parallel()
	url := pgtest.DSN(t)
	var instances []*Store
	for range 3 {
		s := openAt(t, url)
		instances = append(instances, s)
	}
	expect.Check(t, instances[0].Listen(t.Context(), time.Hour, 0, 0))
	done := make(chan struct{})
	var takers sync.WaitGroup
	for _, s := range instances {
		takers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				notices, err := s.Notices(t.Context(), task.NoticeClaim{Free: 5, Lease: time.Hour})
				if err != nil {
					t.Errorf("taking notices: %v", err)
				}
				for _, n := range notices {
					if err := s.Settle(t.Context(), n, time.Duration(rand.N(2))); err != nil {
						t.Errorf("settling a notice: %v", err)
					}
				}
			}
		})
	}
	const rounds, tasks = 25, 16
	var mu sync.Mutex
	count := make(map[string]int)
	counted := func(what string) {
		mu.Lock()
		count[what]++
		mu.Unlock()
	}
	for range rounds {
		var all sync.WaitGroup
		var ids []string
		for i := range tasks {
			people := []string{"user:bob"}
			first, second := &task.Question{Key: "first", For: people}, &task.Question{Key: "second", For: people}
			n := parked(t, instances[i%3], first, second)
			ids = append(ids, n.ID)
			n.Status = task.Working
			expect.Check(t, instances[0].Update(t.Context(), n, task.Update{Keep: true}))
			questions, err := instances[0].Questions(t.Context(), task.Name(n.ID))
			if err != nil || len(questions) != 2 {
				t.Fatal(len(questions), err)
			}
			all.Go(func() {
				n := *n
				n.Status = task.InputRequired
				err := instances[rand.N(3)].Update(t.Context(), &n, task.Update{Leased: true, Due: -1,
					Ask: []*task.Question{second, first}})
				switch {
				case err == nil:
					counted("parked")
				case errors.Is(err, task.ErrDecided):
					counted("decided first")
				case errors.Is(err, task.ErrConflict) && i%8 == 0:
					counted("ended first")
				default:
					t.Errorf("parking: %v", err)
				}
			})
			for k, q := range questions {
				all.Go(func() {
					q.Votes = []byte("vote")
					if k == i%2 {
						q.Decision = []byte("yes")
					}
					if err := instances[rand.N(3)].ChangeQuestion(t.Context(), q, false); err != nil && i%8 != 0 {
						t.Errorf("a change: %v", err)
					}
				})
			}
			if i%8 == 0 {
				all.Go(func() {
					n := *n
					n.Status = task.Cancelled
					if err := instances[rand.N(3)].Update(t.Context(), &n, task.Update{Due: -1}); err == nil {
						counted("ended")
					} else if !errors.Is(err, task.ErrConflict) {
						t.Errorf("ending: %v", err)
					}
				})
			}
		}
		all.Wait()
		for _, id := range ids {
			n, err := instances[0].Get(t.Context(), id)
			expect.Check(t, err)
			questions, err := instances[0].Questions(t.Context(), task.Name(id))
			expect.Check(t, err)
			for _, q := range questions {
				if n.Status == task.InputRequired && q.Status != task.QuestionOpen {
					t.Errorf("a task is parked, and its question %q is %s", q.Key, q.Status)
				}
				if n.Status.Terminal() && q.Status == task.QuestionOpen {
					t.Errorf("a task has ended, and its question %q is open", q.Key)
				}
			}
		}
	}
	if _, err := instances[0].Purge(t.Context(), -2*time.Hour, 1000); err != nil {
		t.Errorf("purging: %v", err)
	}
	close(done)
	takers.Wait()
	t.Logf("%v", count)
	if count["parked"] == 0 || count["decided first"] == 0 {
		t.Error("they did not meet")
	}
	conn := connect(t, url)
	mustExec(t, conn, "SELECT pg_stat_clear_snapshot()")
	if n := query[int](t, conn,
		`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n > 0 {
		t.Errorf("%d times some waited in a circle", n)
	}
}

// A vote does not wait for whoever writes to its task, and nobody else waits for a question that is locked.
func TestAVoteDoesNotWaitForItsTask(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := parked(t, s, &task.Question{Key: "key", For: []string{"user:bob"}})
	other := parked(t, s, &task.Question{Key: "key", For: []string{"user:bob"}})
	lock := func(sql, id string) pgx.Tx {
		tx, err := connect(t, s.pool.Config().ConnString()).Begin(ctx)
		expect.Check(t, err)
		expect.Must(tx.Exec(ctx, sql, id))(t)
		return tx
	}
	its := oneQuestion(t, s, other.ID)
	watching := openAt(t, s.pool.Config().ConnString())
	tx := lock(`SELECT FROM askback.task WHERE id = $1 FOR UPDATE`, n.ID)
	q := oneQuestion(t, s, n.ID)
	q.Votes = []byte("yes")
	if err := s.ChangeQuestion(ctx, q, false); err != nil {
		t.Errorf("while its task is locked: %v", err)
	}
	expect.Check(t, tx.Rollback(ctx))
	tx = lock(`SELECT FROM askback.question WHERE task = $1 FOR UPDATE`, n.ID)
	var waiting sync.WaitGroup
	for i := range 9 {
		mine := *q
		if mine.Votes = []byte("more"); i == 0 {
			mine.Decision = []byte("yes")
		}
		waiting.Go(func() { _ = s.ChangeQuestion(ctx, &mine, false) })
	}
	waits(t, watching, nil)
	its.Decision = []byte("yes")
	if err := s.ChangeQuestion(ctx, its, false); err != nil {
		t.Errorf("a decision of another task, while a question is locked: %v", err)
	}
	expect.Check(t, tx.Rollback(ctx))
	waiting.Wait()
}

// The longest names fit into the indexes.
func TestLongNamesOfQuestions(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	long := func(n int) (text string) { // cannot be compressed
		for len(text) < n {
			text += crand.Text()
		}
		return text[:n]
	}
	n := groupTask("alice")
	n.ID, n.Principal = long(1024), long(1500)
	expect.Check(t, s.Create(t.Context(), n, time.Hour, time.Hour, nil, nil, task.Quota{}))
	who, equal := long(1024), long(1024)
	n.Status = task.InputRequired
	expect.Check(t, s.Update(t.Context(), n, task.Update{Leased: true, Due: -1, Ask: []*task.Question{
		{Key: long(512), For: []string{who}, Equal: equal, Within: time.Hour},
	}}))
	for _, f := range []task.QuestionFilter{{For: []string{who}}, {Equal: equal}, {For: []string{who}, ByDeadline: true}} {
		expect.Equal(t, "found", len(expect.Must(s.Waiting(t.Context(), f, nil, 9))(t)), 1)
	}
	q := oneQuestion(t, s, n.ID)
	q.Voters = []string{long(1024)}
	expect.Check(t, s.ChangeQuestion(t.Context(), q, false))
	for _, of := range []task.QuestionHistory{{Voter: q.Voters[0]}, {Principal: n.Principal}} {
		expect.Equal(t, "found", len(expect.Must(s.History(t.Context(), of, nil, 9))(t)), 1)
	}
}

// While the first notice of a task is not due, nobody reads those behind it, whenever they were left.
func TestNoticesBehindTheFirst(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	ctx := t.Context()
	conn := connect(t, s.pool.Config().ConnString())
	expect.Check(t, s.Listen(ctx, time.Hour, 0, 0))
	people := []string{"user:bob"}
	n := parked(t, s, &task.Question{Key: "a", For: people}, &task.Question{Key: "b", For: people})
	take := func(want string) (taken *task.Notice) {
		t.Helper()
		notices, err := s.Notices(ctx, task.NoticeClaim{Free: 9, Lease: time.Hour})
		if err != nil || len(notices) != 1 || string(notices[0].Kind) != want || notices[0].Attempts != 1 {
			t.Fatalf("took %+v, %v, want one %q", notices, err, want)
		}
		if due := query[int](t, conn, `SELECT count(*) FROM askback.notice WHERE due <= clock_timestamp()`); due > 0 {
			t.Errorf("%d notices are due behind one that was taken", due)
		}
		return notices[0]
	}
	settle := func(n *task.Notice, retry time.Duration) {
		t.Helper()
		expect.Check(t, s.Settle(ctx, n, retry))
	}
	first := take("asked")
	questions, err := s.Questions(ctx, task.Name(n.ID))
	expect.Check(t, err)
	for _, q := range questions {
		q.Decision = []byte("yes")
		expect.Check(t, s.ChangeQuestion(ctx, q, false))
	}
	if due := query[int](t, conn, `SELECT count(*) FROM askback.notice WHERE due <= clock_timestamp()`); due > 0 {
		t.Errorf("%d notices are due that were left behind one that was taken", due)
	}
	settle(first, 2*time.Hour)
	if due := query[int](t, conn, `SELECT count(*) FROM askback.notice
		WHERE due < clock_timestamp() + interval '90 minutes'`); due > 0 {
		t.Errorf("%d notices are due before the first", due)
	}
	settle(first, 0)
	for _, kind := range []string{"asked", "decided", "decided"} {
		settle(take(kind), 0)
	}
}
