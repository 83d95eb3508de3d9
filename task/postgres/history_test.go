package postgres

import (
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A change whose transaction ends after that of a later one is told all the same.
func TestChangesInAnotherOrder(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	d, err := desk.Open(s, nil)
	expect.Check(t, err)
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
			expect.Equal(t, "told", key, want)
		case <-time.After(2 * time.Minute):
			t.Errorf("never told of %q", want)
		}
	}
	vote := func(id string) {
		t.Helper()
		q := oneQuestion(t, s, id)
		q.Voters = []string{"bob"}
		expect.Check(t, s.ChangeQuestion(t.Context(), q, false))
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
