package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// votesToDecide is how many votes decide a question.
const votesToDecide = 3

// voteUntilKilled asks, votes, and copies decisions into the journals of their tasks. It prints a line for each thing
// done, once the store has said that it is.
func voteUntilKilled(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), unkilled)
	defer cancel()
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	for {
		open, err := s.Waiting(ctx, task.QuestionFilter{For: []string{"user:alice"}}, nil, 5)
		if err != nil {
			return err
		}
		if len(open) < 2 {
			if err := askOneMore(ctx, s); err != nil {
				return err
			}
			continue
		}
		if err := vote(ctx, s, open[mathrand.IntN(len(open))]); err != nil {
			return err
		}
		if err := copyDecision(ctx, s); err != nil {
			return err
		}
	}
}

func askOneMore(ctx context.Context, s *Store) error {
	t := newTask("alice")
	if err := s.Create(ctx, t, time.Hour, time.Hour, []byte("call"), nil, task.Quota{}); err != nil {
		return err
	}
	t.Status = task.InputRequired
	return s.Update(ctx, t, task.Update{Leased: true, Due: -1, Ask: []*task.Question{
		{Key: "approve.1", For: []string{"user:alice"}, Content: []byte("content")},
	}})
}

// vote adds one vote to a question, until that is done or the question is closed.
func vote(ctx context.Context, s *Store, q *task.Question) error {
	mine := rand.Text()
	for {
		q.Votes = append(q.Votes, mine+" "...)
		what := "voted"
		if len(strings.Fields(string(q.Votes))) == votesToDecide {
			q.Decision, what = q.Votes, "decided"
		}
		err := s.ChangeQuestion(ctx, q, false)
		if err == nil {
			fmt.Println(what, q.Task, mine)
			return nil
		}
		if !errors.Is(err, task.ErrConflict) {
			return err
		}
		now, err := s.Questions(ctx, task.Name(q.Task))
		if err != nil || now[0].Status != task.QuestionOpen {
			return err
		}
		q = now[0]
	}
}

// copyDecision runs the task of a decided question, if one is due.
func copyDecision(ctx context.Context, s *Store) error {
	t, err := claimOne(s, ctx, "", nil, 100*time.Millisecond)
	if err != nil || t == nil {
		return err
	}
	questions, err := s.Questions(ctx, task.Name(t.ID))
	if err != nil {
		return err
	}
	t.Status = task.Completed
	err = s.Update(ctx, t, task.Update{Leased: true, Due: -1, Entries: [][]byte{questions[0].Decision}})
	if errors.Is(err, task.ErrLeaseLost) { // the machine was busy
		return nil
	}
	if err == nil {
		fmt.Println("copied", t.ID, 0)
	}
	return err
}

// A vote that was acknowledged is there, and no vote is there twice, though its process is killed between votes, or
// with the deciding one; and each decision gets into the journal once.
func TestKilledVoters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	turn := 0
	last := []string{"voted", "decided", "copied"}
	killProcesses(t, path, "votes", func(lines <-chan string) string {
		turn++
		for line := range lines {
			if strings.HasPrefix(line, last[turn%len(last)]) {
				return line
			}
		}
		return ""
	}, func(acknowledged []string) {
		t.Helper()
		checkVotes(t, path, acknowledged)
	})
	s := open(t, path)
	defer s.Close()
	for deadline := time.Now().Add(20 * time.Second); ; { // those whose workers were killed
		expect.Check(t, copyDecision(t.Context(), s))
		left := query[int](t, s.conn, `SELECT count(*) FROM task WHERE NOT ended
			AND seq IN (SELECT task FROM question WHERE status = 'decided')`)
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks whose questions were decided have not ended", left)
		}
	}
	checkVotes(t, path, nil)
}

// checkVotes requires that the votes are there that the store has acknowledged, and none twice.
func checkVotes(t *testing.T, path string, acknowledged []string) {
	t.Helper()
	s := open(t, path)
	defer s.Close()
	if got := query[string](t, s.conn, "PRAGMA integrity_check"); got != "ok" {
		t.Fatalf("integrity_check: %s", got)
	}
	said := make(map[string][]string) // the lines of each task
	for _, line := range acknowledged {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("the line %q", line)
		}
		said[fields[1]] = append(said[fields[1]], line)
	}
	tasks, err := s.Select(t.Context(), task.Filter{}, "", 1_000_000)
	expect.Check(t, err)
	for _, tk := range tasks {
		// The journal is read first: the other process goes on.
		_, entries, err := s.Journal(t.Context(), tk.ID, -1)
		expect.Check(t, err)
		questions, err := s.Questions(t.Context(), task.Name(tk.ID))
		expect.Check(t, err)
		if len(questions) == 0 { // its process was killed before it asked
			continue
		}
		q := questions[0]
		votes := strings.Fields(string(q.Votes))
		once := slices.Clone(votes)
		slices.Sort(once)
		decided := q.Status == task.QuestionDecided
		if len(slices.Compact(once)) != len(votes) || decided != (len(votes) == votesToDecide) ||
			decided != (string(q.Decision) == string(q.Votes) && len(votes) > 0) {
			t.Errorf("the question is %s with the votes %q and the decision %q", q.Status, votes, q.Decision)
		}
		if len(entries) > 1 || len(entries) == 1 && string(entries[0]) != string(q.Decision) {
			t.Errorf("the journal has %q, and the decision is %q", entries, q.Decision)
		}
		for _, line := range said[tk.ID] {
			fields := strings.Fields(line)
			switch {
			case fields[0] == "copied" && len(entries) == 0:
				t.Errorf("%s, but the journal is empty", line)
			case fields[0] != "copied" && !slices.Contains(votes, fields[2]):
				t.Errorf("%s, but the votes are %q", line, votes)
			}
		}
		delete(said, tk.ID)
	}
	if len(said) > 0 {
		t.Errorf("%d tasks of acknowledged votes are gone", len(said))
	}
}
