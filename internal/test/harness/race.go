package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// RaceAtDesks has five people answer one question at the same time, at the desks of several handles on one store, again
// and again: one, two or three votes are needed, some answers differ, and now and then one is a veto. It requires that
// there is one decision, that each vote counts once, that none is lost whose voter was told that it is recorded, and
// that everybody is told who was first.
func RaceAtDesks(t testing.TB, stores []task.Store, races int) {
	t.Helper()
	desks := make([]*desk.Desk, len(stores))
	for i, s := range stores {
		var err error
		if desks[i], err = desk.Open(s, nil); err != nil {
			t.Fatal(err)
		}
	}
	began, recorded, late := time.Now(), 0, 0
	for race := range races {
		votes, differ, veto := 1+race%3, race/3%2 == 1, race%7 == 6
		name := askRelease(t, stores[race%len(stores)], fmt.Sprint("task ", race), votes)
		var (
			all   sync.WaitGroup
			told  [5]*desk.Decision
			voted [5]bool
		)
		for i := range told {
			all.Go(func() {
				a := desk.Answer{By: desk.Person{Name: fmt.Sprint("person ", i), Groups: []string{"release"}}, Action: "accept"}
				switch {
				case veto && i == 4:
					a.Action = "decline"
				case differ:
					a.Content = fmt.Appendf(nil, `{"hour":%d}`, i%2)
				}
				q, err := desks[i%len(desks)].Answer(t.Context(), name, "release", a)
				if closed, ok := errors.AsType[*desk.ClosedError](err); ok {
					told[i] = closed.Decision
				} else if err != nil {
					t.Errorf("race %d, person %d: %v", race, i, err)
				} else {
					told[i], voted[i] = q.Decision, true
				}
			})
		}
		all.Wait()
		q, err := desks[0].Question(t.Context(), name, "release", nil)
		if err != nil {
			t.Fatalf("race %d: %v", race, err)
		}
		n := checkVoters(t, fmt.Sprint("race ", race), q, voted[:])
		recorded, late = recorded+n, late+len(voted)-n
		checkRace(t, fmt.Sprintf("race %d of %d votes", race, votes), q, differ, told[:])
	}
	t.Logf("%d races in %v: %d votes are recorded, and %d people were told that it is decided", races,
		time.Since(began).Round(time.Millisecond), recorded, late)
}

// checkVoters requires that those have voted who were told so, each once, and returns how many they are.
func checkVoters(t testing.TB, race string, q *desk.Question, voted []bool) int {
	var want, got []string
	for i, has := range voted {
		if has {
			want = append(want, fmt.Sprint("person ", i))
		}
	}
	for _, v := range append(slices.Clone(q.Count), q.Earlier...) {
		got = append(got, v.Who)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: there are votes of %q, and %q were told that theirs is recorded", race, got, want)
	}
	return len(want)
}

func checkRace(t testing.TB, race string, q *desk.Question, differ bool, told []*desk.Decision) {
	seen := make(map[string]bool)
	for _, v := range q.Count {
		if seen[v.Who] {
			t.Errorf("%s: %s counts twice", race, v.Who)
		}
		seen[v.Who] = true
	}
	d := q.Decision
	if d == nil {
		if !differ || len(q.Count)+len(q.Earlier) != len(told) { // they say the same, or a vote is lost
			t.Errorf("%s: there is no decision of %+v", race, q)
		}
		return
	}
	want := q.Votes
	if d.Action == "decline" {
		want = 1
	}
	if len(d.By) != want || len(seen) != want {
		t.Errorf("%s: %+v with the votes of %v", race, d, seen)
	}
	for i, is := range told {
		same := func(a, b input.Provenance) bool { return a.Who == b.Who && a.When.Equal(b.When) }
		if is != nil && (!is.When.Equal(d.When) || is.Action != d.Action || !slices.EqualFunc(is.By, d.By, same)) {
			t.Errorf("%s: person %d was told %+v, and it is %+v", race, i, is, d)
		}
	}
}

// askRelease adds a parked task that asks the group release, and returns its name.
func askRelease(t testing.TB, s task.Store, id string, votes int) string {
	t.Helper()
	content, err := stored.Encode(&stored.Asking{
		Key: "release", Digest: make([]byte, len(journal.Digest{})), Method: input.MethodElicit, Votes: votes,
		Params: json.RawMessage(`{"mode":"form","message":"Go on?","requestedSchema":` +
			`{"type":"object","properties":{"hour":{"type":"integer"}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	row := &task.Task{ID: id, Principal: "carol", Target: "deploy", Status: task.Working}
	call := stored.Call{ID: id, Params: []byte(`{"name":"deploy"}`)}
	if err := s.Create(t.Context(), row, time.Hour, time.Minute, call.Append(nil), nil, task.Quota{}); err != nil {
		t.Fatal(err)
	}
	row.Status = task.InputRequired
	q := &task.Question{Key: "release", For: []string{"group:release"}, Content: content}
	if err := s.Update(t.Context(), row, task.Update{Leased: true, Due: -1, Ask: []*task.Question{q}}); err != nil {
		t.Fatal(err)
	}
	return task.Name(id)
}
