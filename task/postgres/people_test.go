package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/desktest"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

// desksOf opens a desk on each of three instances of one database.
func desksOf(t *testing.T, dsn string) (stores []*postgres.Store, desks []*desk.Desk) {
	t.Helper()
	for range 3 {
		s := open(t, dsn)
		d, err := desk.Open(s, nil)
		expect.Check(t, err)
		stores, desks = append(stores, s), append(desks, d)
	}
	return stores, desks
}

// approval parks a new task that asks a group, and returns its name. The error is one of the store.
func approval(ctx context.Context, s *postgres.Store, votes int) (name string, err error) {
	content, err := stored.Encode(&stored.Asking{
		Key: "approve", Digest: make([]byte, len(journal.Digest{})), Votes: votes, Method: input.MethodElicit, Call: "CALL",
		Params: []byte(`{"mode":"form","message":"Deploy?","requestedSchema":{"type":"object","properties":{}}}`),
	})
	if err != nil {
		return "", err
	}
	n := newTask()
	call := []byte(`{"version":1,"call":"CALL","can":0,"params":{"name":"deploy","arguments":{}}}`)
	if err := s.Create(ctx, n, time.Hour, time.Hour, call, nil, task.Quota{}); err != nil {
		return "", err
	}
	n.Status = task.InputRequired
	ask := []*task.Question{{Key: "q", For: []string{"group:release"}, Content: content}}
	return task.Name(n.ID), s.Update(ctx, n, task.Update{Leased: true, Due: -1, Ask: ask})
}

func approve(person int) desk.Answer {
	return desk.Answer{By: desk.Person{Name: fmt.Sprint("person ", person), Groups: []string{"release"}}, Action: "accept",
		Content: []byte(`{}`)}
}

// checkVotes fails unless each that was told that their vote was recorded is in the question once, and nobody is twice.
func checkVotes(t *testing.T, q *desk.Question, votes int, recorded []string) {
	t.Helper()
	var got []string
	for _, v := range append(q.Count, q.Earlier...) {
		got = append(got, v.Who)
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("the votes are those of %q", got)
	}
	for _, who := range recorded {
		if !slices.Contains(got, who) {
			t.Errorf("the vote of %q is lost: there are those of %q", who, got)
		}
	}
	if q.Status != task.QuestionDecided || q.Decision == nil || len(q.Decision.By) != votes || len(got) != votes {
		t.Errorf("%d of %d votes: it is %s, %+v", len(got), votes, q.Status, q.Decision)
	}
}

func TestAttacksOnTheDesk(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.DSN(t))
	desktest.Attacks(t, s)
}

// Connections are killed while people answer. Whoever was told that their vote was recorded finds it, once; and a task
// whose question is decided runs.
func TestVotesOutliveConnections(t *testing.T) {
	t.Parallel()
	const kills, people = 40, 5
	dsn := pgtest.DSN(t)
	stores, desks := desksOf(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin, err := pgx.Connect(ctx, dsn)
	expect.Check(t, err)
	defer admin.Close(context.Background())
	done := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	lost, questions := 0, 0
	answer := func(d *desk.Desk, name string, a desk.Answer) (recorded bool) {
		for ctx.Err() == nil {
			_, err := d.Answer(ctx, name, "q", a)
			if closed, ok := errors.AsType[*desk.ClosedError](err); err == nil || ok && closed.Decision != nil {
				return err == nil
			}
			if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
				t.Error(invalid)
				return false
			}
			mu.Lock()
			lost++
			mu.Unlock()
		}
		t.Errorf("no answer for %s", a.By.Name)
		return false
	}
	for first := range 3 {
		all.Go(func() {
			for round := first; ; round++ {
				select {
				case <-done:
					return
				default:
				}
				votes := 1 + round%3
				name, err := approval(ctx, stores[round%3], votes)
				if err != nil {
					continue // of which nobody was told
				}
				var answers sync.WaitGroup
				var recorded []string
				for i := range people {
					answers.Go(func() {
						a := approve(i)
						if answer(desks[i%3], name, a) {
							mu.Lock()
							recorded = append(recorded, a.By.Name)
							mu.Unlock()
						}
					})
				}
				answers.Wait()
				q, err := desks[0].Question(ctx, name, "q", nil)
				for err != nil && ctx.Err() == nil {
					q, err = desks[0].Question(ctx, name, "q", nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
				checkVotes(t, q, votes, recorded)
				mu.Lock()
				questions++
				mu.Unlock()
			}
		})
	}
	for killed := 0; killed < kills && ctx.Err() == nil; {
		var ok bool
		err := admin.QueryRow(ctx, `
			SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'
				AND query ~ 'UPDATE .*question'
			ORDER BY random() LIMIT 1`).Scan(&ok)
		switch {
		case err == nil && ok:
			killed++
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			t.Error(err)
			cancel()
		}
	}
	close(done)
	all.Wait()
	if ctx.Err() != nil {
		t.Fatalf("it took too long, or failed: %v", ctx.Err())
	}
	var parked int
	err = admin.QueryRow(t.Context(), `
		SELECT count(*) FROM askback.task AS t JOIN askback.question AS q ON q.task = t.id
		WHERE t.status = 'input_required' AND q.status = 'decided'`).Scan(&parked)
	if err != nil || parked > 0 {
		t.Errorf("%d tasks are parked for a question that is decided, %v", parked, err)
	}
	t.Logf("%d questions; %d answers were lost and given again", questions, lost)
	if lost == 0 {
		t.Error("no answer was lost")
	}
}
