package askback_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/harness"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// versioned is a server that writes journals in this version, whose callers are named by a header.
func versioned(t *testing.T, ring *seal.Ring, version int) http.Handler {
	return harness.NewServer(t, &askback.Options{
		Keys: ring, JournalVersion: version,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil
		},
	}, harness.AddRounds).HTTPHandler(nil)
}

// answers returns the entries with answers that a state carries.
func answersOf(t *testing.T, ring *seal.Ring, state string) (answers []journal.Entry) {
	t.Helper()
	opened, err := ring.Inspect(state)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Decode(opened.Payload)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range j.Entries {
		if e.Kind == journal.Answer || e.Kind == journal.Unread {
			answers = append(answers, e)
		}
	}
	return answers
}

var (
	roundsFirst  = `{"login":{"action":"accept","content":{"name":"octocat"}},"roots":{"roots":[{"uri":"file:///src"}]}}`
	roundsSecond = `{"model":{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}}`
	roundsThird  = `{"second":{"action":"accept","content":{"name":"hubot"}}}`
)

// A server writes who gave an answer once it is told to, and every server reads it, so that a fleet can be switched
// instance by instance.
func TestJournalVersion(t *testing.T) {
	ring := harness.NewRing(t)
	first, second := versioned(t, ring, 0), versioned(t, ring, 2)
	r := harness.Request{Target: "rounds", Header: http.Header{"X-User": {"alice"}}}
	r.State = r.Send(t, first).Asked(t, "login", "roots")

	r.Responses = roundsFirst
	for _, e := range answersOf(t, ring, r.Send(t, first).Asked(t, "model")) {
		if e.By != nil {
			t.Errorf("version 1 says who answered %s: %v", e.Key, e.By)
		}
	}
	began := time.Now().Truncate(time.Millisecond)
	r.State = r.Send(t, second).Asked(t, "model")
	answers := answersOf(t, ring, r.State)
	if len(answers) != 2 {
		t.Fatalf("%d answers", len(answers))
	}
	for _, e := range answers {
		if len(e.By) != 1 || e.By[0].When.Before(began) || e.By[0].When.After(time.Now()) {
			t.Fatalf("the answer to %s is by %v", e.Key, e.By)
		}
		want := input.Provenance{Who: "alice", When: e.By[0].When, Channel: input.ChannelHost}
		if diff := cmp.Diff(want, e.By[0]); diff != "" {
			t.Error(diff)
		}
	}

	r.Responses = roundsSecond
	r.State = r.Send(t, first).Asked(t, "second")
	for _, e := range answersOf(t, ring, r.State) {
		if recorded := e.By != nil; recorded != (e.Key != "model") {
			t.Errorf("the answer to %s is by %v", e.Key, e.By)
		}
	}
	r.Responses = roundsThird
	if got := r.Send(t, second).Text(t); !strings.HasPrefix(got, "octocat file:///src hi hubot ") {
		t.Errorf("the result is %q", got)
	}
}

func TestJournalVersionOfTasks(t *testing.T) {
	for version, recorded := range map[int]bool{0: false, 1: false, 2: true} {
		store := new(task.MemoryStore)
		s := harness.NewTaskServerOn(t, store, &askback.Options{JournalVersion: version}, harness.AddEcho)
		id := s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
		s.Get(harness.WithExtension, id, "input_required")
		s.Result(harness.WithExtension, "tasks/update", id,
			harness.Answered(id, `"echo_input":{"action":"accept","content":{"input":"hello"}}`))
		s.Get(harness.WithExtension, id, "completed")
		_, entries, err := store.Journal(t.Context(), id)
		if err != nil || len(entries) == 0 {
			t.Fatal(len(entries), err)
		}
		e, err := journal.DecodeEntry(entries[0])
		if err != nil || e.Key != "echo_input" || (e.By != nil) != recorded ||
			recorded && e.By[0].Channel != input.ChannelHost {
			t.Errorf("version %d: the answer is %+v, %v", version, e, err)
		}
	}
}

func TestJournalVersionThatIsUnknown(t *testing.T) {
	for _, version := range []int{-1, 3} {
		m := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
		if _, err := askback.New(m, &askback.Options{JournalVersion: version}); err == nil ||
			!strings.Contains(err.Error(), "JournalVersion") {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// Calls that the release before this one began, continue. Commit 17e539f sealed the states, at the time that begins a
// bubble of synctest: each is a state of the tool of harness.AddRounds, and the responses to its questions.
func TestStatesOfTheReleaseBefore(t *testing.T) {
	data, err := os.ReadFile("testdata/states.json")
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		Key    string
		States []struct{ Principal, State, Responses, Asks string }
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.ParseRing(kept.Key)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.States) != 6 {
		t.Errorf("%d states", len(kept.States))
	}
	for _, version := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			h := versioned(t, ring, version)
			for _, s := range kept.States {
				r := harness.Request{Target: "rounds", State: s.State, Responses: s.Responses}
				if s.Principal != "" {
					r.Header = http.Header{"X-User": {s.Principal}}
				}
				if res := r.Send(t, h); s.Asks != "" {
					res.Asked(t, s.Asks)
				} else if got := res.Text(t); !strings.HasPrefix(got, "octocat file:///src hi hubot 1") {
					t.Errorf("the result is %q", got)
				}
			}
		})
	}
}
