package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// What a transaction writes early and commits late is read after what was read before, and not skipped.
func TestAnEventThatIsCommittedLateIsNotSkipped(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	early, late := addLogged(t, s), addLogged(t, s)
	other, err := s.pool.Begin(t.Context())
	expect.Check(t, err)
	defer other.Rollback(t.Context()) //nolint:errcheck // if the test fails before
	end := inSchema(`UPDATE {schema}.task SET status = 'failed' WHERE id = $1`, s.schema)
	expect.Must(other.Exec(t.Context(), end, late.ID))(t)
	early.Status = task.Completed
	expect.Check(t, s.Update(t.Context(), early, task.Update{Due: -1}))
	first := readLog(t, s, 0, early.ID)
	expect.Check(t, other.Commit(t.Context()))
	readLog(t, s, first.Last.Position, late.ID)
	readLog(t, s, 0, early.ID, late.ID)
}

// A reader who meets a deletion that is not committed learns of it, although nobody has read what is deleted.
func TestAReaderLearnsOfADeletionThatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	read, unread := addLogged(t, s), addLogged(t, s)
	read.Status, unread.Status = task.Completed, task.Completed
	expect.Check(t, s.Update(t.Context(), read, task.Update{Due: -1}))
	before := readLog(t, s, 0, read.ID)
	expect.Check(t, s.Update(t.Context(), unread, task.Update{Due: -1}))
	other, err := s.pool.Begin(t.Context())
	expect.Check(t, err)
	defer other.Rollback(t.Context()) //nolint:errcheck // if the test fails before
	expect.Must(other.Exec(t.Context(), s.sql.purge, []string{unread.ID}))(t)
	page := make(chan *task.EventPage)
	go func() {
		p, err := s.Events(t.Context(), task.EventQuery{Readers: []string{"caller:alice"}, After: before.Last.Position,
			Limit: 9})
		if err != nil {
			t.Error(err)
		}
		page <- p
	}()
	const waits = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = (
		SELECT oid FROM pg_database WHERE datname = current_database()) OR NOT granted AND locktype = 'transactionid')`
	for blocked := false; !blocked; {
		expect.Check(t, s.pool.QueryRow(t.Context(), waits).Scan(&blocked))
	}
	expect.Check(t, other.Commit(t.Context()))
	if p := <-page; p == nil || len(p.Events) > 0 || p.Deleted <= before.Last.Position {
		t.Errorf("the reader at %d gets %+v", before.Last.Position, p)
	}
}

// Nobody numbers the events of a reader while another one, who reads them besides others, numbers those.
func TestEventsOfSeveralReadersAreNotSkipped(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	begin := func() pgx.Tx {
		tx, err := s.pool.Begin(t.Context())
		expect.Check(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // if the test fails before
		return tx
	}
	exec := func(tx pgx.Tx, sql string, args ...any) {
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Error(err)
		}
	}
	first := addLogged(t, s)
	first.Status = task.Completed
	expect.Check(t, s.Update(t.Context(), first, task.Update{Due: -1}))
	q := task.EventQuery{Readers: []string{"caller:alice", "user:carol"}, Limit: 9}
	got := make(chan *task.EventPage, 1)
	read := func() {
		page, err := s.Events(t.Context(), q)
		if err != nil {
			t.Error(err)
		}
		got <- page
	}
	holds, numbers := begin(), begin()
	exec(holds, inSchema(`SELECT FROM {schema}.event FOR UPDATE`, s.schema))
	go read() // it waits before it has a number for this event, and does not see the next one
	waiting := func() (n int) {
		const sql = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
		expect.Check(t, s.pool.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	for waiting() < 1 {
	}
	second := addLogged(t, s)
	second.Status = task.InputRequired
	ask := []*task.Question{{Key: "key", For: []string{"user:carol"}, Content: []byte("content")}}
	expect.Check(t, s.Update(t.Context(), second, task.Update{Leased: true, Due: -1, Ask: ask}))
	numbered := make(chan struct{})
	go func() {
		exec(numbers, s.sql.lockEvents, []string{"user:carol"})
		exec(numbers, s.sql.numberEvents, []string{"user:carol"})
		close(numbered)
	}()
	for done := false; !done && waiting() < 2; {
		select {
		case <-numbered:
			done = true
		default:
		}
	}
	exec(holds, `COMMIT`)
	page := <-got
	<-numbered
	exec(numbers, `COMMIT`)
	seen := page.Events
	if page.Last != nil {
		q.After = page.Last.Position
	}
	read()
	for _, e := range append(seen, (<-got).Events...) {
		if e.Reader == "user:carol" {
			return
		}
	}
	t.Errorf("after %+v, what carol is asked is skipped", page)
}

func addLogged(t *testing.T, s *Store) *task.Task {
	t.Helper()
	n := groupTask("alice")
	n.Events = true
	expect.Check(t, s.Create(t.Context(), n, time.Hour, time.Hour, nil, nil, task.Quota{}))
	return n
}

// readLog requires that the events after a position are of these tasks.
func readLog(t *testing.T, s *Store, after int64, tasks ...string) *task.EventPage {
	t.Helper()
	page, err := s.Events(t.Context(), task.EventQuery{Readers: []string{"caller:alice"}, After: after, Limit: 9})
	expect.Check(t, err)
	for i, id := range tasks {
		if len(page.Events) != len(tasks) || page.Events[i].Task != id {
			t.Fatalf("after %d there are %d events, want one of each of %q", after, len(page.Events), tasks)
		}
	}
	return page
}
