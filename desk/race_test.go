package desk_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// gated is a store that lets its callers go on one at a time, in an order that somebody else chooses.
type gated struct {
	*task.MemoryStore
	mu      sync.Mutex
	waiting []chan struct{}
	commits []string // the votes that were written, in their order
}

func (g *gated) pass() {
	c := make(chan struct{})
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	<-c
}

// let lets the one at a place go on, if somebody waits.
func (g *gated) let(place int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return false
	}
	place %= len(g.waiting)
	close(g.waiting[place])
	g.waiting = slices.Delete(g.waiting, place, place+1)
	return true
}

func (g *gated) Questions(ctx context.Context, name string) ([]*task.Question, error) {
	g.pass()
	return g.MemoryStore.Questions(ctx, name)
}

func (g *gated) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	g.pass()
	err := g.MemoryStore.ChangeQuestion(ctx, q, expired)
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.commits = append(g.commits, ctx.Value(voteKey{}).(string))
	}
	return err
}

type voteKey struct{}

// oracle decides on votes of the form "WHO CONTENT" or "WHO no", one after the other: how many agree at the end, and
// what the decision is.
func oracle(votes int, all []string) (agree int, decision string) {
	var content string
	var who []string
	for _, v := range all {
		name, said, _ := strings.Cut(v, " ")
		switch {
		case said == "no":
			return 1, "decline " + name
		case said != content:
			content, who = said, nil
		}
		if !slices.Contains(who, name) {
			who = append(who, name)
		}
		if len(who) == votes {
			return votes, "accept " + content + " " + strings.Join(who, ",")
		}
	}
	return len(who), ""
}

// However the reads and writes of several people interleave, the outcome is that of their votes one after the other in
// the order in which they were written, and no vote is missing from it that was not too late or there already.
func TestAnyInterleavingIsASequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		votes := rapid.IntRange(1, 3).Draw(rt, "votes")
		said := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string {
			return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "who") + " " +
				rapid.SampledFrom([]string{"8", "8", "9", "no"}).Draw(rt, "what")
		}), 1, 7).Draw(rt, "answers")
		order := rapid.SliceOfN(rapid.IntRange(0, 6), 100, 100).Draw(rt, "order")
		synctest.Test(t, func(t *testing.T) {
			s := &gated{MemoryStore: new(task.MemoryStore)}
			name, err := asks(t.Context(), s, task.Task{ID: "task"}, asking("q", votes, "group:release"))
			if err != nil {
				t.Fatal(err)
			}
			d := open(t, s)
			results := make([]string, len(said))
			var all sync.WaitGroup
			for i, v := range said {
				who, what, _ := strings.Cut(v, " ")
				a := declines(who)
				if what != "no" {
					a = desk.Answer{By: person(who, "release"), Action: "accept", Content: []byte(`{"hour":` + what + `}`)}
				}
				all.Go(func() {
					q, err := d.Answer(context.WithValue(t.Context(), voteKey{}, v), name, "q", a)
					results[i] = state(q, err)
				})
			}
			for i := 0; ; i++ {
				synctest.Wait()
				if !s.let(order[i%len(order)]) {
					if !slices.Contains(results, "") {
						break
					}
					time.Sleep(time.Second) // they pause before they begin again
				}
			}
			all.Wait()
			agree, want := oracle(votes, s.commits)
			got, err := open(t, s.MemoryStore).Question(t.Context(), name, "q", nil)
			if err != nil {
				t.Fatal(err)
			}
			decision := ""
			if got.Decision != nil {
				hour := strings.NewReplacer(`{"hour":`, "", `,"note":"none"}`, " ").Replace(string(got.Decision.Content))
				_, by, _ := strings.Cut(state(got, nil), string(got.Decision.Content)+" ")
				decision = got.Decision.Action + " " + hour + strings.TrimSpace(by)
			}
			if decision != want || len(got.Count) != agree || len(got.Count)+len(got.Earlier) != len(s.commits) {
				t.Fatalf("%q of %d votes in the order %q is %q and %d agree; want %q and %d",
					said, votes, s.commits, decision, len(got.Count), want, agree)
			}
			for i, v := range said {
				if slices.Contains(s.commits, v) || strings.HasPrefix(results[i], "closed: ") && want != "" {
					continue
				}
				t.Fatalf("of %q, written as %q, %q is missing: it got %q", said, s.commits, v, results[i])
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// FuzzAnswer gives a desk what it may get from a web page: whatever it is, it is refused, or is a vote of this person
// on this question, and the question can be read after it.
func FuzzAnswer(f *testing.F) {
	f.Add("q", "alice", "release", "accept", []byte(`{"hour":9}`), "why", "desk")
	f.Add("q", "alice", "release", "accept", []byte(`{"hour":9},"action":"decline","x":{}`), "", "")
	f.Add("q", "alice", "release", "decline", []byte{}, "\x1b[2J", "\x00")
	f.Add("r\x00", "user:alice", "group:release", "cancel", []byte(`null`), "\xff", "host")
	f.Add("q", "carol", "release", "accept", []byte(`{"note":"\ud800","hour":1e0}`), "", "")
	f.Fuzz(func(t *testing.T, key, who, group, action string, content []byte, reason, channel string) {
		s := new(task.MemoryStore)
		name, err := asks(t.Context(), s, task.Task{ID: "task", Principal: "carol"},
			asking("q", 2, "group:release"), asking("other", 2, "user:bob"))
		expect.Check(t, err)
		d := open(t, s)
		_, err = d.Answer(t.Context(), name, key, desk.Answer{
			By: person(who, group), Action: action, Content: content, Reason: reason, Channel: channel,
		})
		all, readErr := d.Questions(t.Context(), name, nil)
		if readErr != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, readErr)
		}
		for _, q := range all {
			switch n := len(q.Count) + len(q.Earlier); {
			case q.Key != key || err != nil:
				if n != 0 || q.Status != task.QuestionOpen {
					t.Fatalf("%+v after %v", q, err)
				}
			case n != 1 || q.Count[0].Who != who || q.Count[0].Action != action || q.Count[0].Why != reason ||
				(q.Decision != nil) != (action != "accept") || (key == "q") != (group == "release" && who != "carol"):
				t.Fatalf("%+v", q)
			}
		}
	})
}
