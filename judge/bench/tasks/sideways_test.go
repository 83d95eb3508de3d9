package tasks

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

// many is how many there are of what is large.
const many = 5000

// scene is a store with one question of alice's to bob, and what else there may be.
type scene struct {
	*testing.B
	store task.Store
	desk  *desk.Desk
	asked *task.Task // of the question, whose key is "release"
}

var (
	bob = desk.Person{Name: "bob", Groups: []string{"release"}}
	eve = desk.Person{Name: "eve", Groups: []string{"release"}}
)

// look is what a person or a server looks at.
type look struct {
	name string
	do   func(s *scene) error
}

var looks = []look{
	{"a card", func(s *scene) error {
		_, err := s.desk.Question(s.Context(), task.Name(s.asked.ID), "release", &bob)
		return err
	}},
	{"the task", func(s *scene) error { _, err := s.desk.Show(s.Context(), task.Name(s.asked.ID)); return err }},
	{"six letters of its name", func(s *scene) error {
		_, err := s.desk.Questions(s.Context(), task.Name(s.asked.ID)[:6], &bob)
		return err
	}},
	{"what waits for bob", func(s *scene) error { return first(s.desk.Waiting(s.Context(), desk.Waiting{As: &bob})) }},
	{"by deadline", func(s *scene) error {
		return first(s.desk.Waiting(s.Context(), desk.Waiting{As: &bob, ByDeadline: true}))
	}},
	{"what eve answered", func(s *scene) error { return first(s.desk.Answered(s.Context(), eve)) }},
	{"what alice began", func(s *scene) error { return first(s.desk.Began(s.Context(), desk.Person{Name: "alice"})) }},
	{"tasks/get", func(s *scene) error { _, err := s.store.Get(s.Context(), s.asked.ID); return err }},
	{"tasks/list", func(s *scene) error {
		_, err := s.store.List(s.Context(), "alice", "proposal", time.Time{}, "", 20)
		return err
	}},
	{"a new task", func(s *scene) error {
		t, quota := s.task("alice", task.Completed), task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40}
		return s.store.(task.Inserter).Insert(s.Context(), t, time.Hour, nil, task.Update{Due: -1}, quota)
	}},
	{"a claim", func(s *scene) error {
		due := s.add("zoe", 1, task.Working, nil)
		claimed, err := s.store.Claim(s.Context(), "yves", nil, time.Hour, 1)
		if err != nil || len(claimed) != 1 || claimed[0].ID != due[0].ID {
			return fmt.Errorf("claimed %d tasks: %v", len(claimed), err)
		}
		claimed[0].Status = task.Completed
		return s.store.Update(s.Context(), claimed[0].Task, task.Update{Leased: true, Due: -1})
	}},
	{"a notice", func(s *scene) error {
		s.add("zoe", 1, task.InputRequired, []*task.Question{s.question("user:yves")})
		c := task.NoticeClaim{After: "yves", Lease: time.Hour, Free: 1}
		notices, err := s.store.Notices(s.Context(), c)
		if err != nil || len(notices) != 1 || notices[0].Question.Principal != "zoe" {
			return fmt.Errorf("took %d notices: %v", len(notices), err)
		}
		return s.store.Settle(s.Context(), notices[0], 0)
	}},
	{"what has changed", func(s *scene) error {
		_, now, err := s.store.Changes(s.Context(), nil, 0)
		if err == nil {
			_, _, err = s.store.Changes(s.Context(), &task.Question{Changed: now}, 50)
		}
		return err
	}},
}

// first reads a page.
func first(all iter.Seq2[*desk.Question, error]) error {
	n := 0
	for _, err := range all {
		if n++; err != nil || n == 20 {
			return err
		}
	}
	return nil
}

// side is something that is large beside what is looked at.
type side struct {
	name string
	grow func(s *scene)
}

var sides = []side{
	{"journal of 10 MB", func(s *scene) {
		for i := range 1000 {
			e := journal.Entry{Kind: journal.Step, Key: fmt.Sprint("step ", i), Value: bytes.Repeat([]byte("9"), 10_000)}
			s.asked.Status = task.Working
			u := task.Update{Entries: [][]byte{e.Append(nil)}, Keep: true}
			expect.Check(s, s.store.Update(s.Context(), s.asked, u))
		}
		s.asked.Status = task.InputRequired
		expect.Check(s, s.store.Update(s.Context(), s.asked, task.Update{Keep: true}))
	}},
	{"200 votes", func(s *scene) {
		for i := range 200 {
			voter := desk.Person{Name: fmt.Sprint("voter ", i), Groups: bob.Groups}
			a := desk.Answer{By: voter, Channel: "test", Action: "accept", Content: []byte(`{}`)}
			if _, err := s.desk.Answer(s.Context(), task.Name(s.asked.ID), "release", a); err != nil {
				s.Fatal(err)
			}
		}
	}},
	{"many ended of alice's", func(s *scene) { s.add("alice", many, task.Completed, nil) }},
	{"many decided by others", func(s *scene) {
		for range 10 { // at a time
			tasks := s.add("carl", many/10, task.InputRequired, []*task.Question{s.question("user:dora")})
			s.each(len(tasks), func(i int) error {
				q, err := s.store.Questions(s.Context(), task.Name(tasks[i].ID))
				if err != nil {
					return err
				}
				q[0].Decision, _ = stored.Encode(&stored.Decision{Action: "accept", When: time.Now()})
				q[0].Voters = []string{"dora"}
				if err := s.store.ChangeQuestion(s.Context(), q[0], false); err != nil {
					return err
				}
				t, err := s.store.Get(s.Context(), tasks[i].ID)
				if err != nil {
					return err
				}
				t.Status = task.Completed
				return s.store.Update(s.Context(), t, task.Update{Due: -1})
			})
		}
	}},
	{"many open of others", func(s *scene) {
		s.add("carl", many, task.InputRequired, []*task.Question{s.question("user:dora")})
	}},
	{"many open of bob's", func(s *scene) {
		s.add("carl", many, task.InputRequired, []*task.Question{s.question("user:bob")})
	}},
	{"many due", func(s *scene) { s.add("mallory", many, task.Working, nil) }},
}

func (s *scene) question(who ...string) *task.Question {
	content := expect.Must(stored.Encode(&stored.Asking{
		Key: "release", Digest: make([]byte, len(journal.Digest{})), Votes: 1000, Method: "elicitation/create",
		Params: []byte(`{"message":"Deploy?","requestedSchema":{"type":"object","properties":{}}}`),
	}))(s)
	return &task.Question{Key: "release", For: who, Content: content, Within: time.Hour}
}

func (s *scene) task(principal string, status task.Status) *task.Task {
	return &task.Task{ID: rand.Text(), Principal: principal, Method: "tools/call", Target: "deploy", Dialect: "proposal",
		Status: status}
}

// add adds so many tasks that are alike.
func (s *scene) add(principal string, n int, status task.Status, ask []*task.Question) []*task.Task {
	call := (&stored.Call{ID: "call", Params: []byte(`{"name":"deploy","arguments":{}}`)}).Append(nil)
	tasks := make([]*task.Task, n)
	u := task.Update{Due: -1, Ask: ask}
	if status == task.Working {
		u.Due = 0
	}
	s.each(n, func(i int) error {
		tasks[i] = s.task(principal, status)
		return s.store.(task.Inserter).Insert(s.Context(), tasks[i], time.Hour, call, u, task.Quota{})
	})
	return tasks
}

// each calls do with each number below n, many at once.
func (s *scene) each(n int, do func(i int) error) {
	var all sync.WaitGroup
	for worker := range min(n, 32) {
		all.Go(func() {
			for i := worker; i < n; i += 32 {
				if err := do(i); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if s.Failed() {
		s.FailNow()
	}
}

// BenchmarkSideways prints how many times as long each look takes while something else is large, as the median of
// passes beside a store in which nothing is.
func BenchmarkSideways(b *testing.B) {
	var dsn string
	for _, on := range []struct {
		name    string
		open    func(b *testing.B) (task.Store, error)
		analyze func(b *testing.B) // as the database itself does in the course of a minute
	}{
		{"sqlite", func(b *testing.B) (task.Store, error) {
			return sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "tasks.db"))
		}, func(*testing.B) {}},
		{"postgres", func(b *testing.B) (task.Store, error) {
			dsn = pgtest.DSN(b)
			return postgres.Open(b.Context(), dsn)
		}, func(b *testing.B) {
			conn := connect(b, dsn)
			defer conn.Close(b.Context())
			if _, err := conn.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		b.Run(on.name, func(b *testing.B) {
			rows := make([][]string, len(looks)+1)
			rows[0] = []string{on.name}
			for i, l := range looks {
				rows[i+1] = []string{l.name}
			}
			for _, beside := range sides {
				small, large := newScene(b, on.open), newScene(b, on.open)
				beside.grow(large)
				on.analyze(b)
				rows[0] = append(rows[0], beside.name)
				for i, l := range looks {
					rows[i+1] = append(rows[i+1], fmt.Sprintf("%.1f", ratio(l, small, large)))
				}
				small.store.Close()
				large.store.Close()
			}
			b.ReportMetric(0, "ns/op")
			for _, row := range rows {
				fmt.Printf("| %s |\n", strings.Join(row, " | "))
			}
		})
	}
}

// newScene opens an empty store, in which alice's call asks bob, and eve has answered another one.
func newScene(b *testing.B, open func(b *testing.B) (task.Store, error)) *scene {
	store := expect.Must(open(b))(b)
	s := &scene{B: b, store: store, desk: expect.Must(desk.Open(store, nil))(b)}
	expect.Check(b, store.Listen(b.Context(), time.Hour, 0, 0))
	toBob := []*task.Question{s.question("user:bob", "group:release")}
	s.asked = s.add("alice", 1, task.InputRequired, toBob)[0]
	declined := s.add("alice", 1, task.InputRequired, []*task.Question{s.question("user:eve")})[0]
	answer := desk.Answer{By: eve, Action: "decline"}
	expect.Must(s.desk.Answer(b.Context(), task.Name(declined.ID), "release", answer))(b)
	return s
}

// ratio is how many times as long a look takes in the large scene.
func ratio(l look, small, large *scene) float64 {
	var ratios []float64
	for pass := range 7 {
		var took [2]time.Duration
		for i, s := range []*scene{small, large} {
			start := time.Now()
			for range 10 {
				if err := l.do(s); err != nil {
					s.Fatalf("%s: %v", l.name, err)
				}
			}
			took[i] = time.Since(start)
		}
		if pass > 0 { // the first one warms up
			ratios = append(ratios, float64(took[1])/float64(took[0]))
		}
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
