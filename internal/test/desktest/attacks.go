package desktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// attack is one on carol's question, which two of the group release are asked. Unless something else is said, the
// question is afterwards as it was before: open, with nothing that counts.
type attack struct {
	says string
	do   func(s *scene) string // returns what was said to it
	want string                // a part of that

	status task.QuestionStatus // afterwards; empty is open
}

// Attacks attacks a server and its desk on a store, in every way of a table: through clients, and by what stands in the
// store. What a desk refuses by itself is for the tests of package desk. Each attack is refused, and after it, or
// while it goes on, a call of somebody else ends as the people who are asked decide.
func Attacks(t *testing.T, store task.Store) {
	w := build(t, store)
	t.Run("alone", func(t *testing.T) {
		for _, a := range slices.Concat(byClients, byRows) {
			t.Run(a.says, func(t *testing.T) { t.Parallel(); a.run(t, w) })
		}
	})
	t.Run("a consumer that refuses the notices of a principal", func(t *testing.T) {
		w.asked(t, w.call(t, "mallory", "deploy", "mallory's"))
		w.serves(t, "told")
		harness.Eventually(t, "notice of erin's call", func() bool {
			_, told := w.notified.Load("erin")
			return told
		})
	})
}

func (a *attack) run(t *testing.T, w *world) {
	s := &scene{T: t, world: w, version: a.says, id: w.call(t, "carol", "deploy", a.says)}
	s.name = w.asked(t, s.id)
	before := s.question()
	said := a.do(s)
	if !strings.Contains(said, a.want) || len(said) > 2000 {
		t.Errorf("it is told %.2000q, want %q", said, a.want)
	}
	w.serves(t, "erin's, after "+a.says)
	after := s.question()
	if after.Status != cmp.Or(a.status, task.QuestionOpen) || len(after.Count)+len(after.Earlier) != 0 ||
		after.Claim != nil || len(after.Events) != 0 || !after.Deadline.Equal(before.Deadline) {
		t.Errorf("carol's question was %+v, and is %+v", before, after)
	}
	if w.deployed(s.version) {
		t.Error("carol's version is deployed")
	}
	if _, err := w.Cancel(t.Context(), s.name, desk.Cancellation{By: "test", Reason: "it is over"}); err != nil &&
		!errors.Is(err, task.ErrEnded) && !errors.Is(err, task.ErrNotFound) {
		t.Error(err)
	}
}

// accepted are answers to all that could be a key of the question.
func accepted(s *scene, members string) string {
	var keys []string
	q := s.question()
	for _, key := range []string{
		"release", "release#2", "(put) release", "(timed) release", "(not shown) release", "(sleep) release",
		"(unfit) release", q.Call, s.name, s.id, "",
	} {
		keys = append(keys, harness.Quote(key)+`:{"action":"accept","content":{},"by":[{"who":"bob"}]}`)
	}
	return members + strings.Join(keys, ",")
}

// A client of the server.
var byClients = []attack{
	{says: "the caller's client answers", want: `"status":"working"`, do: func(s *scene) string {
		said := s.sends("carol", harness.WithExtension, "tasks/update", accepted(s, `,"inputResponses":{`)+"}")
		if strings.Contains(said, `"error"`) {
			return said
		}
		_, all := s.get(s.T, "carol", s.id)
		if strings.Contains(all, "inputRequests") {
			return "it is asked: " + all
		}
		return all
	}},
	{says: "the caller's client answers in the proposals' dialect", want: "context canceled", do: func(s *scene) string {
		said := s.send(s.Context(), "carol", harness.ProposalOnly, "tools/call", "deploy_task",
			arguments("deploy_task", s.version)+`,"task":{"ttl":3600000}`)
		id, _ := harness.At(harness.AsJSON(s, said), "result", "task", "taskId").(string)
		if id == "" {
			return said
		}
		name := s.asked(s.T, id)
		defer s.Cancel(s.Context(), name, desk.Cancellation{By: "test", Reason: "it is over"}) //nolint:errcheck
		s.send(s.Context(), "carol", harness.ProposalOnly, "tasks/input_response", id,
			`"taskId":`+harness.Quote(id)+accepted(s, `,"inputResponses":{`)+"}")
		ctx, cancel := context.WithCancel(s.Context()) // with a deadline a busy store would refuse it before
		defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
		said = s.send(ctx, "carol", harness.ProposalOnly, "tasks/result", id, `"taskId":`+harness.Quote(id))
		return fmt.Sprint(context.Cause(ctx), said)
	}},
	{says: "a retry without a state answers", want: "", do: func(s *scene) string {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		said := s.send(ctx, "carol", harness.AllCapabilities, "tools/call", "deploy",
			arguments("deploy", s.version)+accepted(s, `,"inputResponses":{`)+"}")
		if strings.Contains(said, "deployed") {
			return "it is deployed: " + strings.Repeat("!", 2000)
		}
		return said
	}},
	{says: "a retry with a state answers more than it was asked", want: `"status":"working"`, do: func(s *scene) string {
		said := s.send(s.Context(), "carol", harness.WithExtension, "tools/call", "both", arguments("both", s.version))
		state, _ := harness.At(harness.AsJSON(s, said), "result", "requestState").(string)
		if state == "" {
			return said
		}
		said = s.send(s.Context(), "carol", harness.WithExtension, "tools/call", "both", arguments("both", s.version)+
			`,"requestState":`+harness.Quote(state)+
			accepted(s, `,"inputResponses":{"ready":{"action":"accept","content":{"text":"yes"}},`)+"}")
		id, _ := harness.At(harness.AsJSON(s, said), "result", "taskId").(string)
		if id == "" {
			return said
		}
		defer s.Cancel(s.Context(), s.asked(s.T, id), desk.Cancellation{By: "test", Reason: "it is over"}) //nolint:errcheck
		_, said = s.get(s.T, "carol", id)
		return said
	}},
	{says: "the client of another principal", want: "not found", do: func(s *scene) string {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/result"} {
			members, capabilities := "", harness.WithExtension
			switch method {
			case "tasks/update":
				members = accepted(s, `,"inputResponses":{`) + "}"
			case "tasks/result":
				capabilities = harness.ProposalOnly
			}
			if said := s.sends("dave", capabilities, method, members); !strings.Contains(said, `"error"`) {
				return method + ": " + said
			}
		}
		return s.sends("dave", harness.WithExtension, "tasks/get", "")
	}},
	{says: "an anonymous caller with the name, or the ID", want: "not found", do: func(s *scene) string {
		for _, id := range []string{s.name, s.name[:6], s.id} {
			for _, user := range []string{"", "mallory"} {
				said := s.send(s.Context(), user, harness.WithExtension, "tasks/get", id, `"taskId":`+harness.Quote(id))
				if !strings.Contains(said, "not found") {
					return said
				}
			}
		}
		return "not found"
	}},
	{says: "the caller with the name in place of the ID", want: "not found", do: func(s *scene) string {
		return s.send(s.Context(), "carol", harness.WithExtension, "tasks/cancel", s.name, `"taskId":`+harness.Quote(s.name))
	}},
	{says: "a caller who asks for what a list cannot hold", want: "a question for somebody else has at most 65536",
		do: func(s *scene) string {
			return s.send(s.Context(), "mallory", harness.AllCapabilities, "tools/call", "deploy",
				arguments("deploy", strings.Repeat("x", 3<<20)))
		}},
	{says: "an anonymous caller who asks a group", want: "an anonymous caller's question cannot go to a group",
		do: func(s *scene) string {
			return s.send(s.Context(), "", harness.AllCapabilities, "tools/call", "deploy", arguments("deploy", s.version))
		}},
}

// What somebody who can write to the store leaves in it.
var byRows = []attack{
	{says: "votes that begin behind their end", want: "the stored votes begin at 7 of 1",
		do: func(s *scene) string {
			return s.forges(`{"votes":[{"who":"dave","action":"accept"}],"from":7}`, "")
		}},
	{says: "votes with content that names a member twice", want: "the stored votes of a question",
		do: func(s *scene) string {
			return s.forges(`{"votes":[{"who":"dave","action":"accept","content":{"a":1,"a":2}}]}`, "")
		}},
	{says: "votes that are deep", want: "the stored votes of a question", do: func(s *scene) string {
		return s.forges(strings.Repeat(`{"claim":`, 10_000)+"1"+strings.Repeat("}", 10_000), "")
	}},
	{says: "a decision that no release knows", status: task.QuestionDecided, want: "does not know the stored answer",
		do: func(s *scene) string { return s.forges("", `{"action":"delegate","by":[{"who":"dave"}]}`) }},
	{says: "a decision with content that is no object", status: task.QuestionDecided, want: "is no object",
		do: func(s *scene) string { return s.forges("", `{"action":"accept","content":"x","by":[{"who":"dave"}]}`) }},
	{says: "a decision that is no JSON", status: task.QuestionDecided, want: "the stored decision of a question",
		do: func(s *scene) string { return s.forges("", `{"action":"accept"`) }},
}

// forges writes votes or a decision to carol's question, and returns what the desk says of it then. Afterwards the
// votes are as they were.
func (s *scene) forges(votes, decision string) string {
	read := func() *task.Question {
		rows, err := s.store.Questions(s.Context(), s.name)
		if err != nil || len(rows) != 1 {
			s.Fatal(rows, err)
		}
		return rows[0]
	}
	row := read()
	row.Votes, row.Decision = []byte(votes), []byte(decision)
	expect.Check(s, s.store.ChangeQuestion(s.Context(), row, false))
	said := s.refused(approves("bob", "release"))
	if decision == "" {
		listed := 0
		bob := approves("bob", "release").By
		for q, err := range s.Waiting(s.Context(), desk.Waiting{As: &bob}) {
			if q == nil || err == nil && q.Name == s.name {
				s.Errorf("the list has %+v, %v", q, err)
			}
			listed++
		}
		if listed == 0 {
			s.Error("the list is empty")
		}
		s.serves(s.T, "meanwhile, "+s.version)
		row = read()
		row.Votes = nil
		expect.Check(s, s.store.ChangeQuestion(s.Context(), row, false))
		return said
	}
	s.serves(s.T, "meanwhile, "+s.version)
	if s.deployed(s.version) {
		s.Error("it is deployed")
	}
	return said
}
