package desktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// attack is one on carol's question, which two of the group release are asked. Unless something else is said, the
// question is afterwards as it was before: open, with nothing that counts.
type attack struct {
	says string
	do   func(s *scene) string // returns what was said to it
	want string                // a part of that

	votes  int                 // how many count afterwards
	status task.QuestionStatus // afterwards; empty is open
}

// Attacks attacks a server and its desk on a store, in every way of a table. Each attack is refused, and after it, or
// while it goes on, a call of somebody else ends as the people who are asked decide.
func Attacks(t *testing.T, store task.Store) {
	w := build(t, store, askback.DeskOptions{Wait: 20 * time.Second})
	t.Run("alone", func(t *testing.T) {
		for _, group := range [][]attack{byOthers, byNames, byAnswers, byTime, byClients, byReaders, byRows} {
			for _, a := range group {
				t.Run(a.says, func(t *testing.T) { t.Parallel(); a.run(t, w) })
			}
		}
	})
	t.Run("a principal who fills the list of a person", w.crowds)
	t.Run("a principal who fills the pool of those who wait", w.fills)
	t.Run("a caller who asks people for what a list cannot hold", w.asksTooMuch)
	t.Run("a consumer that refuses the notices of a principal", func(t *testing.T) {
		w.serves(t, "told")
		harness.Eventually(t, "notice of erin's call", func() bool { return w.tellsOf("erin") })
	})
}

func (a *attack) run(t *testing.T, w *world) {
	version := a.says
	s := &scene{T: t, world: w, version: version, id: w.call(t, "carol", "deploy", version)}
	s.name = w.asked(t, s.id)
	before := s.question()
	said := a.do(s)
	if !strings.Contains(said, a.want) || len(said) > 2000 {
		t.Errorf("it is told %.2000q, want %q", said, a.want)
	}
	w.serves(t, "erin's, after "+a.says)
	after := s.question()
	if after.Status != cmp.Or(a.status, task.QuestionOpen) || len(after.Count) != a.votes || len(after.Earlier) != 0 ||
		after.Claim != nil || len(after.Events) != 0 || !after.Deadline.Equal(before.Deadline) {
		t.Errorf("carol's question was %+v, and is %+v", before, after)
	}
	if w.deployed(version) {
		t.Error("carol's version is deployed")
	}
	if _, err := w.Cancel(t.Context(), s.name, desk.Cancellation{By: "test", Reason: "it is over"}); err != nil &&
		!errors.Is(err, task.ErrEnded) && !errors.Is(err, task.ErrNotFound) {
		t.Error(err)
	}
}

const unknown = "there is no such question, or it is not for this person"

// Somebody who is not asked.
var byOthers = []attack{
	{says: "another group", want: unknown, do: func(s *scene) string { return s.refused(approves("eve", "oncall")) }},
	{says: "the caller, with a second token of the group", want: "the call is your own", do: func(s *scene) string {
		return s.refused(approves("carol", "oncall", "release"))
	}},
	{says: "the caller, through what looks like the host", want: "the call is your own", do: func(s *scene) string {
		a := approves("carol", "release")
		a.Channel = "host"
		return s.refused(a)
	}},
	{says: "the caller, with a space behind the name", want: "space around it", do: func(s *scene) string {
		return s.refused(approves("carol ", "release"))
	}},
	{says: "a user who is called like the group", want: unknown, do: func(s *scene) string {
		return s.refused(approves("release"))
	}},
	{says: "a user who is called like the entry", want: unknown, do: func(s *scene) string {
		return s.refused(approves("group:release"))
	}},
	{says: "a group that is called like the entry", want: unknown, do: func(s *scene) string {
		return s.refused(approves("mallory", "group:release", "user:bob", "user:carol"))
	}},
	{says: "groups that look alike", want: unknown, do: func(s *scene) string {
		return s.refused(approves("mallory", "Release", "rele\u0430se", "release\u200b", "rel\u00e9ase", "release/x"))
	}},
	{says: "a group with a control character", want: "control characters", do: func(s *scene) string {
		return s.refused(approves("mallory", "oncall\x00release"))
	}},
	{says: "nobody", want: "has 0 bytes", do: func(s *scene) string { return s.refused(approves("", "release")) }},
	{says: "somebody who claims what they are not asked", want: unknown, do: func(s *scene) string {
		_, err := s.Claim(s.Context(), s.name, "release", approves("eve", "oncall").By, time.Hour)
		return errorText(err)
	}},
	{says: "the caller, to whom the question is handed over", want: `is not for "carol"`, do: func(s *scene) string {
		_, err := s.HandOver(s.Context(), s.name, "release", approves("bob", "release").By, "carol", time.Hour)
		return errorText(err)
	}},
}

// A name or a key that is changed or guessed.
var byNames = []attack{
	{says: "edited keys", want: unknown, do: func(s *scene) string {
		for _, key := range []string{
			"", "Release", "release ", "release\x00", "release#2", "(put) release", "(timed) release", "release\u200b",
		} {
			if said := s.refusedAt(s.name, key, approves("bob", "release")); !strings.Contains(said, unknown) {
				return fmt.Sprintf("%q: %s", key, said)
			}
		}
		return unknown
	}},
	{says: "edited names", want: "not found", do: func(s *scene) string {
		other := []byte(s.name)
		if other[25]++; other[25] > 'Z' {
			other[25] = 'A'
		}
		for _, name := range []string{
			"", string(other), strings.ToLower(s.name), s.name + "A", s.name[:5], s.id, s.id[:6], "' OR 1=1 --", "%", "______",
			s.name[:6] + "%", "\x00\x00\x00\x00\x00\x00", strings.Repeat("A", 1<<20),
		} {
			if said := s.refusedAt(name, "release", approves("bob", "release")); !strings.Contains(said, "not found") {
				return fmt.Sprintf("%.80q: %s", name, said)
			}
		}
		return "not found"
	}},
	{says: "the key of another call's question", want: unknown, do: func(s *scene) string {
		id := s.call(s.T, "mallory", "many", "")
		defer s.Cancel(s.Context(), s.asked(s.T, id), desk.Cancellation{By: "test", Reason: "it is over"}) //nolint:errcheck
		if said := s.refusedAt(s.name, "q1", approves("alice")); !strings.Contains(said, unknown) {
			return said
		}
		return s.refusedAt(task.Name(id), "release", approves("alice"))
	}},
	{says: "the beginning of a name, by somebody who is not asked", want: unknown, do: func(s *scene) string {
		is := s.refusedAt(s.name[:8], "release", approves("mallory", "oncall"))
		if isNot := s.refusedAt("AAAAAAAA", "release", approves("mallory", "oncall")); is != isNot {
			return fmt.Sprintf("%q differs from %q", is, isNot)
		}
		return is
	}},
	{says: "a question that is listed for nobody but those asked", want: "nothing", do: func(s *scene) string {
		mallory := desk.Person{Name: "mallory", Groups: []string{"oncall"}}
		for q, err := range s.Waiting(s.Context(), desk.Waiting{As: &mallory}) {
			return fmt.Sprint(q, err)
		}
		return "nothing"
	}},
}

// An answer that cannot be taken.
var byAnswers = []attack{
	{says: "10 MB", want: "at most 1048576", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Content = fmt.Appendf(nil, `{"x":"%s"}`, bytes.Repeat([]byte("x"), 10<<20))
		return s.refused(a)
	}},
	{says: "a depth of 100,000", want: "the content: ", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Content = []byte(strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000))
		return s.refused(a)
	}},
	{says: "content that ends the record", want: "the content: ", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Content = []byte(`{}},"by":[{"who":"dave"}],"x":{"y":{}`)
		return s.refused(a)
	}},
	{says: "a decision in place of an answer", want: "the action must be", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Action, a.Content = "unanswered", nil
		return s.refused(a)
	}},
	{says: "a veto with content", want: "only an accept has content", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Action = "decline"
		return s.refused(a)
	}},
	{says: "a reason that writes to the terminal", want: "control characters", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Reason = "\x1b]52;c;cm0gLXJm\a"
		return s.refused(a)
	}},
	{says: "a reason of 10 MB", want: "at most 4096", do: func(s *scene) string {
		a := approves("bob", "release")
		a.Reason = strings.Repeat("x", 10<<20)
		return s.refused(a)
	}},
	{says: "the same person again and again", votes: 1, want: "1 of 2", do: func(s *scene) string {
		for i := range 5 {
			a := approves("bob", "release", "oncall")
			a.Channel, a.Reason = fmt.Sprint("channel ", i), fmt.Sprint("reason ", i)
			q, err := s.Answer(s.Context(), s.name, "release", a)
			if err != nil || q.Decision != nil {
				return fmt.Sprintf("%+v %v", q, err)
			}
		}
		return "1 of 2"
	}},
	{says: "the same person at several desks at once", votes: 1, want: "1 of 2", do: func(s *scene) string {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				q, err := s.Answer(s.Context(), s.name, "release", approves("bob", "release"))
				if err != nil || q.Decision != nil {
					s.Errorf("%+v %v", q, err)
				}
			})
		}
		all.Wait()
		return "1 of 2"
	}},
}

// What comes too late, or moves the time.
var byTime = []attack{
	{says: "a vote after a veto", votes: 1, status: task.QuestionDecided, want: `decline by "dave"`,
		do: func(s *scene) string {
			veto := approves("dave", "release")
			veto.Action, veto.Content = "decline", nil
			if _, err := s.Answer(s.Context(), s.name, "release", veto); err != nil {
				s.Error(err)
			}
			return s.refused(approves("bob", "release"))
		}},
	{says: "a vote after the call was cancelled", status: task.QuestionWithdrawn, want: "is withdrawn",
		do: func(s *scene) string {
			s.sends("carol", harness.WithExtension, "tasks/cancel", "")
			return s.refused(approves("bob", "release"))
		}},
	{says: "a vote after the deadline", want: "too late", do: func(s *scene) string {
		id := s.call(s.T, "carol", "hurry", "in a hurry")
		name := s.asked(s.T, id)
		harness.Eventually(s, "deadline", func() bool {
			q, err := s.Question(s.Context(), name, "release", nil)
			return err == nil && q.Status == task.QuestionDecided
		})
		_, err := s.Extend(s.Context(), name, "release", approves("bob", "release").By, time.Now().Add(time.Hour), "")
		if !errors.Is(err, task.ErrLate) {
			return fmt.Sprint("it is extended: ", err)
		}
		if said := s.refusedAt(name, "release", approves("bob", "release")); !strings.Contains(said, "too late") {
			return said
		}
		said := s.refusedAt(name, "release", approves("dave", "release"))
		if s.deployed("in a hurry") {
			return "it is deployed"
		}
		return said
	}},
	{says: "a deadline in a hundred years", want: "within 366 days", do: func(s *scene) string {
		_, err := s.Extend(s.Context(), s.name, "release", approves("bob", "release").By, time.Now().AddDate(100, 0, 0), "")
		return errorText(err)
	}},
	{says: "a deadline that has passed", want: "later than now", do: func(s *scene) string {
		_, err := s.Extend(s.Context(), s.name, "release", approves("bob", "release").By, time.Now().Add(-time.Hour), "")
		return errorText(err)
	}},
	{says: "a nearer deadline", want: "can only be moved to a later time", do: func(s *scene) string {
		_, err := s.Extend(s.Context(), s.name, "release", approves("bob", "release").By, time.Now().Add(time.Minute), "")
		return errorText(err)
	}},
	{says: "the caller who extends", want: "the call is your own", do: func(s *scene) string {
		_, err := s.Extend(s.Context(), s.name, "release", approves("carol", "release").By, time.Now().Add(2*time.Hour), "")
		return errorText(err)
	}},
	{says: "a claim for a year", want: "at most 24h", do: func(s *scene) string {
		_, err := s.Claim(s.Context(), s.name, "release", approves("bob", "release").By, 366*24*time.Hour)
		return errorText(err)
	}},
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
	{says: "the caller's client answers in the proposals' dialect", want: "deadline exceeded", do: func(s *scene) string {
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
		ctx, cancel := context.WithTimeout(s.Context(), 300*time.Millisecond)
		defer cancel()
		return s.send(ctx, "carol", harness.ProposalOnly, "tasks/result", id, `"taskId":`+harness.Quote(id))
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
	if err := s.store.ChangeQuestion(s.Context(), row, false); err != nil {
		s.Fatal(err)
	}
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
		if err := s.store.ChangeQuestion(s.Context(), row, false); err != nil {
			s.Fatal(err)
		}
		return said
	}
	s.serves(s.T, "meanwhile, "+s.version)
	if s.deployed(s.version) {
		s.Error("it is deployed")
	}
	return said
}
