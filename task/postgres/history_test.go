package postgres

import (
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/pgtest"
	"github.com/askback-mcp/askback/task"
)

// A store whose questions an unreleased version has asked has them in all lists, and votes on them go on.
func TestAStoreWithQuestionsButNoHistories(t *testing.T) {
	t.Parallel()
	url := pgtest.DSN(t)
	conn := connect(t, url)
	before := unmigrated(t, url)
	for i, s := range before.steps {
		if s.name == "histories" {
			before.steps = append(before.steps[:i:i], before.steps[i+1:]...)
			break
		}
	}
	if _, err := before.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, `
		INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated,
			expires, poll_interval, stopped, attempts, version, fence, entries, bytes, asks)
		VALUES ('old', 'alice', '', 'deploy', '', 'input_required', '', 0, now(), now(), 'infinity', 0, false, 0, 0, 0, 0, 0, 2);
		INSERT INTO askback.question (task, key, name, principal, target, equal, who, content, asked, status, expired, version)
		SELECT 'old', key, '`+task.Name("old")+`', 'alice', 'deploy', '', ARRAY['group:a'], '', now(), status, false, 1
		FROM (VALUES ('open', 'open'), ('withdrawn', 'withdrawn')) AS q (key, status)`)
	s, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waits, err := s.Waiting(t.Context(), task.QuestionFilter{ForOthers: []string{"group:a"}, Own: "bob"}, nil, 9)
	if err != nil || len(waits) != 1 || waits[0].Changed.IsZero() {
		t.Fatalf("%d questions wait, %v", len(waits), err)
	}
	own, err := s.Waiting(t.Context(), task.QuestionFilter{ForOthers: []string{"group:a"}, Own: "alice"}, nil, 9)
	if err != nil || len(own) != 0 {
		t.Errorf("%d of alice's questions wait for alice, %v", len(own), err)
	}
	if began, err := s.History(t.Context(), task.QuestionHistory{Principal: "alice"}, nil, 9); err != nil ||
		len(began) != 2 {
		t.Errorf("alice has asked %d, %v", len(began), err)
	}
	waits[0].Voters, waits[0].Decision = []string{"bob"}, []byte("yes")
	if err := s.ChangeQuestion(t.Context(), waits[0], false); err != nil {
		t.Fatal(err)
	}
	changed, _, err := s.Changes(t.Context(), nil, 9)
	if err != nil || len(changed) != 1 || changed[0].Key != "open" {
		t.Errorf("%d have changed, %v", len(changed), err)
	}
	if voted, err := s.History(t.Context(), task.QuestionHistory{Voter: "bob"}, nil, 9); err != nil || len(voted) != 1 {
		t.Errorf("bob has voted on %d, %v", len(voted), err)
	}
}

// A change whose transaction ends after that of a later one is told all the same.
func TestChangesInAnotherOrder(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	d, err := desk.Open(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second := parked(t, s, people("first")), parked(t, s, people("second"))
	told := make(chan string, 9)
	go func() {
		defer close(told)
		for q, err := range d.Changes(t.Context(), 0) {
			if q == nil {
				t.Error(err)
				return
			}
			told <- q.Key
		}
	}()
	next := func(want string) {
		t.Helper()
		select {
		case key := <-told:
			if key != want {
				t.Errorf("told of %q, want %q", key, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("never told of %q", want)
		}
	}
	vote := func(id string) {
		t.Helper()
		q := oneQuestion(t, s, id)
		q.Voters = []string{"bob"}
		if err := s.ChangeQuestion(t.Context(), q, false); err != nil {
			t.Fatal(err)
		}
	}
	// Once one is told, the first query was made.
	for began := false; !began; {
		vote(second.ID)
		select {
		case <-told:
			began = true
		case <-time.After(3 * time.Second):
		}
	}
	conn := connect(t, s.pool.Config().ConnString())
	mustExec(t, conn, `BEGIN; UPDATE askback.question SET voters = '{carol}', version = version + 1
		WHERE task = '`+first.ID+`'`)
	vote(second.ID)
	next("second")
	mustExec(t, conn, `COMMIT`)
	next("first")
}

// people returns a question for a group.
func people(key string) *task.Question {
	return &task.Question{Key: key, For: []string{"group:a"}, Content: []byte(`{"key":"` + key +
		`","digest":"AAAAAAAAAAAAAAAAAAAAAA==","votes":1}`)}
}
