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
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// named is a server whose callers are named by a header.
func named(t *testing.T, ring *seal.Ring) http.Handler {
	return harness.NewServer(t, &askback.Options{
		Keys: ring,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil
		},
	}, harness.AddRounds).HTTPHandler(nil)
}

// answersOf returns the entries with answers that a state carries.
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

// A state has with each answer who gave it, when, and through which channel.
func TestStatesHaveWhoAnswered(t *testing.T) {
	ring := harness.NewRing(t)
	h := named(t, ring)
	r := harness.Request{Target: "rounds", Header: http.Header{"X-User": {"alice"}}}
	r.State = r.Send(t, h).Asked(t, "login", "roots")
	when := make(map[string]time.Time)
	for _, round := range []struct{ responses, asks string }{{roundsFirst, "model"}, {roundsSecond, "second"}} {
		r.Responses = round.responses
		began := time.Now().Truncate(time.Millisecond)
		r.State = r.Send(t, h).Asked(t, round.asks)
		for _, e := range answersOf(t, ring, r.State) {
			if len(e.By) != 1 {
				t.Fatalf("the answer to %s is by %v", e.Key, e.By)
			}
			at, earlier := when[e.Key]
			if got := e.By[0].When; earlier && !got.Equal(at) || !earlier && (got.Before(began) || got.After(time.Now())) {
				t.Errorf("the answer to %s came at %v; before, it came at %v", e.Key, got, at)
			}
			when[e.Key] = e.By[0].When
			want := input.Provenance{Who: "alice", When: e.By[0].When, Channel: input.ChannelHost}
			if diff := cmp.Diff(want, e.By[0]); diff != "" {
				t.Error(diff)
			}
		}
	}
	if len(when) != 3 {
		t.Errorf("%d answers in the states", len(when))
	}
	r.Responses = roundsThird
	if got := r.Send(t, h).Text(t); !strings.HasPrefix(got, "octocat file:///src hi hubot ") {
		t.Errorf("the result is %q", got)
	}
}

func TestTasksHaveWhoAnswered(t *testing.T) {
	store := new(task.MemoryStore)
	s := harness.NewTaskServerOn(t, store, nil, harness.AddEcho)
	id := s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	s.Get(harness.WithExtension, id, "input_required")
	s.Result(harness.WithExtension, "tasks/update", id,
		harness.Answered(id, `"echo_input":{"action":"accept","content":{"input":"hello"}}`))
	s.Get(harness.WithExtension, id, "completed")
	_, entries, err := store.Journal(t.Context(), id, -1)
	if err != nil || len(entries) == 0 {
		t.Fatal(len(entries), err)
	}
	e, err := journal.DecodeEntry(entries[0])
	if err != nil || e.Key != "echo_input" || len(e.By) != 1 || e.By[0].Channel != input.ChannelHost {
		t.Errorf("the answer is %+v, %v", e, err)
	}
}

// Calls that were begun with states of this version continue in every later release. The states are of the tool of
// harness.AddRounds, sealed at the time that begins a bubble of synctest, each with the responses to its questions.
func TestStatesStayTheSame(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
		h := named(t, ring)
		for _, s := range kept.States {
			r := harness.Request{
				Target: "rounds", State: s.State, Responses: s.Responses, Header: http.Header{"X-User": {s.Principal}},
			}
			if res := r.Send(t, h); s.Asks != "" {
				res.Asked(t, s.Asks)
			} else if got := res.Text(t); !strings.HasPrefix(got, "octocat file:///src hi hubot 1") {
				t.Errorf("the result is %q", got)
			}
		}
	})
}
