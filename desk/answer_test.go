package desk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// with returns an accept of alice's with something else about it.
func with(change func(a *desk.Answer)) desk.Answer {
	a := accepts("alice", 9)
	change(&a)
	return a
}

// What is too large or no text is refused before anything is read, and somebody else is served.
func TestAnswersThatAreRefused(t *testing.T) {
	o := newOne(t, asking("q", 1, "group:release"))
	for _, c := range []struct {
		name, want string
		answer     desk.Answer
	}{
		{"nobody", "name of the person has 0 bytes", with(func(a *desk.Answer) { a.By.Name = "" })},
		{"a long name", "needs 1 to 256", with(func(a *desk.Answer) { a.By.Name = strings.Repeat("x", 257) })},
		{"a name of two lines", "without control characters", with(func(a *desk.Answer) { a.By.Name = "alice\nbob" })},
		{"a name that is no text", "needs 1 to 256", with(func(a *desk.Answer) { a.By.Name = "\xff" })},
		{"a name like the caller's", "space around it", with(func(a *desk.Answer) { a.By.Name = "carol " })},
		{"a group like another", "space around it", with(func(a *desk.Answer) { a.By.Groups = []string{"\u00a0release"} })},
		{"a group of two", "without control", with(func(a *desk.Answer) { a.By.Groups = []string{"a\x00release"} })},
		{"many groups", "at most 64", with(func(a *desk.Answer) { a.By.Groups = make([]string, 65) })},
		{"a long group", "needs 1 to 256", with(func(a *desk.Answer) { a.By.Groups = []string{strings.Repeat("x", 1<<20)} })},
		{"a group without a name", "group has 0 bytes", with(func(a *desk.Answer) { a.By.Groups = []string{""} })},
		{"a long reason", "at most 4096", with(func(a *desk.Answer) { a.Reason = strings.Repeat("x", 4097) })},
		{"a reason that clears the screen", "control", with(func(a *desk.Answer) { a.Reason = "\x1b[2J" })},
		{"a long channel", "needs 1 to 256", with(func(a *desk.Answer) { a.Channel = strings.Repeat("x", 257) })},
		{"no action", `must be "accept"`, with(func(a *desk.Answer) { a.Action = "" })},
		{"an action of its own", `must be "accept"`, with(func(a *desk.Answer) { a.Action = "unanswered" })},
		{"content of a decline", "only an accept", with(func(a *desk.Answer) { a.Action = "decline" })},
		{"10 MB", "at most 1048576", with(func(a *desk.Answer) {
			a.Content = fmt.Appendf(nil, `{"hour":9,"note":"%s"}`, bytes.Repeat([]byte("x"), 10<<20))
		})},
		{"no JSON", "the content: ", with(func(a *desk.Answer) { a.Content = []byte(`{"hour":9`) })},
		{"more than one value", "the content: ", with(func(a *desk.Answer) {
			a.Content = []byte(`{"hour":9},"action":"accept"`)
		})},
		{"a depth of 65", "the content: ", with(func(a *desk.Answer) {
			a.Content = []byte(strings.Repeat("[", 65) + strings.Repeat("]", 65))
		})},
		{"the same name twice", "the content: ", with(func(a *desk.Answer) { a.Content = []byte(`{"hour":1,"hour":9}`) })},
		{"an array", "must be an object", with(func(a *desk.Answer) { a.Content = []byte(`[9]`) })},
	} {
		_, err := o.answer(c.answer)
		if _, ok := errors.AsType[*desk.InvalidError](err); !ok || !strings.Contains(err.Error(), c.want) ||
			len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", c.name, err)
		}
	}
	if q := o.read(); len(q.Count)+len(q.Earlier) != 0 || q.Status != task.QuestionOpen {
		t.Errorf("%+v", q)
	}
	if q, err := o.answer(accepts("bob", 9)); err != nil || q.Decision == nil {
		t.Errorf("bob: %+v, %v", q, err)
	}
}

// A vote is kept with who gave it, as whom, when, through what and why.
func TestTheRecordOfAVote(t *testing.T) {
	o := newOne(t, asking("q", 2, "group:release", "group:oncall", "user:alice"))
	before := time.Now().Truncate(time.Millisecond)
	for _, a := range []desk.Answer{
		{By: person("alice", "eng", "oncall", "release", "oncall"), Reason: "tested\non staging", Channel: "chat"},
		{By: person("bob", "release")},
	} {
		a.Action, a.Content = "accept", []byte(`{"hour":9}`)
		expect.Must(o.answer(a))(t)
	}
	q := o.read()
	for i := range q.Count {
		if q.Count[i].When.Before(before) || q.Count[i].When.After(time.Now()) {
			t.Errorf("vote %d was given at %v", i, q.Count[i].When)
		}
		q.Count[i].When, q.Decision.By[i].When = time.Time{}, time.Time{}
	}
	content := json.RawMessage(`{"hour":9,"note":"none"}`)
	if diff := cmp.Diff([]desk.Vote{
		{Who: "alice", Groups: []string{"oncall", "release"}, Channel: "chat", Why: "tested\non staging",
			Action: "accept", Content: content},
		{Who: "bob", Groups: []string{"release"}, Channel: "desk", Action: "accept"},
	}, q.Count); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]input.Provenance{
		{Who: "alice", Channel: "chat", Why: "tested\non staging"}, {Who: "bob", Channel: "desk"},
	}, q.Decision.By); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(q.Proposal, content) || !bytes.Equal(q.Decision.Content, content) {
		t.Errorf("%s, %s", q.Proposal, q.Decision.Content)
	}
	if row, err := o.store.Get(t.Context(), "parked"); err != nil || row.Status != task.Working {
		t.Errorf("the task does not go on: %+v, %v", row, err)
	}
}

// One person who fills what is kept of a question loses their own, and others can still vote and decline.
func TestAFilledBallot(t *testing.T) {
	o := newOne(t, asking("q", 2, "group:release"))
	expect.Must(o.answer(accepts("bob", 1)))(t)
	expect.Must(o.HandOver(t.Context(), o.name, "q", person("bob", "release"), "mallory", time.Hour))(t)
	for i := range 150 {
		a := accepts("mallory", i%2)
		a.Reason = strings.Repeat("x", 4096)
		if i >= 145 {
			a.Content = fmt.Appendf(nil, `{"hour":%d,"note":"%s"}`, i%2, bytes.Repeat([]byte("x"), 512<<10))
		}
		expect.Must(o.answer(a))(t)
		expect.Must(o.Claim(t.Context(), o.name, "q", a.By, time.Duration(i%2)*time.Hour))(t)
	}
	rows, err := o.store.Questions(t.Context(), o.name)
	if err != nil || len(rows[0].Votes) > 2<<20 {
		t.Errorf("%d bytes are kept: %v", len(rows[0].Votes), err)
	}
	q := o.read()
	if n := len(q.Earlier) + len(q.Events); n > 256 || n < 2 {
		t.Errorf("%d votes and events are kept", n)
	}
	if q.Earlier[0].Who != "bob" || q.Events[0].Who != "bob" {
		t.Errorf("what bob did is lost: %+v, %+v", q.Earlier[0], q.Events[0])
	}
	for i, want := range []string{"1 of 2", "accept"} {
		got := ""
		if q, err = o.answer(accepts([]string{"bob", "dave"}[i], 1)); err == nil {
			if got = fmt.Sprintf("%d of %d", len(q.Count), q.Votes); q.Decision != nil {
				got = q.Decision.Action
			}
		}
		expect.Equal(t, fmt.Sprint("the second caller: ", err), got, want)
	}
}

// After the end of a question everybody is told how it ended.
func TestAnswersThatComeTooLate(t *testing.T) {
	unanswered := func(o *one) error {
		time.Sleep(2 * time.Hour)
		rows, err := o.store.Overdue(o.Context(), 1)
		if err != nil {
			return err
		}
		rows[0].Decision, _ = stored.Encode(&stored.Decision{Action: stored.Unanswered, When: time.Now()})
		return o.store.ChangeQuestion(o.Context(), rows[0], true)
	}
	for _, c := range []struct {
		name string
		ends func(o *one) error
		is   error
		want string
	}{
		{"the deadline is now", func(*one) error { time.Sleep(time.Hour); return nil }, task.ErrLate,
			"too late: the deadline of the question was 2000-01-01T01:00:00Z"},
		{"nobody answered", unanswered, task.ErrLate, "too late: the deadline of the question was 2000-01-01T01:00:00Z"},
		{"the task was cancelled", func(o *one) error {
			_, err := o.Cancel(o.Context(), o.name, desk.Cancellation{By: "operator", Reason: "maintenance"})
			return err
		}, task.ErrClosed, "its call has ended or no longer asks"},
		{"somebody was first", func(o *one) error { _, err := o.answer(declines("bob")); return err }, task.ErrClosed,
			`the question was decided at 2000-01-01T00:00:00Z: decline by "bob"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := asking("q", 2, "group:release")
				q.Within = time.Hour
				o := newOne(t, q)
				expect.Must(o.answer(accepts("dave", 9)))(t)
				expect.Check(t, c.ends(o))
				alice := person("alice", "release")
				_, err := o.answer(accepts("alice", 9))
				_, claim := o.Claim(t.Context(), o.name, "q", alice, time.Hour)
				_, extend := o.Extend(t.Context(), o.name, "q", alice, time.Now().Add(9*time.Hour), "")
				for what, err := range map[string]error{"Answer": err, "Claim": claim, "Extend": extend} {
					closed, ok := errors.AsType[*desk.ClosedError](err)
					if !ok || !errors.Is(err, c.is) || errors.Is(err, task.ErrLate) == errors.Is(err, task.ErrClosed) ||
						!strings.Contains(err.Error(), c.want) || closed.Decision != nil && closed.Decision.Content != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				if now := o.read(); len(now.Count)+len(now.Earlier) > 2 || now.Claim != nil || len(now.Events) > 0 {
					t.Errorf("%+v", now)
				}
			})
		})
	}
}

// losing is a store that fails while it changes a question, before or after it has done so.
type losing struct {
	*task.MemoryStore
	before, after error
}

func (l *losing) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	if l.before != nil {
		return l.before
	}
	return errors.Join(l.MemoryStore.ChangeQuestion(ctx, q, expired), l.after)
}

// What was written although the store's answer was lost is there once. What was not is an error, and can be given
// again.
func TestLostAnswersOfTheStore(t *testing.T) {
	lost := errors.New("the connection broke")
	for _, votes := range []int{1, 2} {
		q := asking("q", votes, "group:release")
		q.Within = time.Hour
		o := newOne(t, q)
		s := &losing{MemoryStore: o.store, before: lost}
		o.Desk = open(t, s)
		if _, err := o.answer(accepts("alice", 9)); !errors.Is(err, lost) || !strings.Contains(err.Error(), "give it again") {
			t.Errorf("what was not written: %v", err)
		}
		if q := o.read(); len(q.Count) != 0 {
			t.Errorf("what was not written is %+v", q)
		}
		for s.before, s.after = nil, lost; ; s.after = nil {
			q, err := o.answer(accepts("alice", 9))
			if err != nil || len(q.Count) != 1 || len(q.Earlier) != 0 || (q.Decision != nil) != (votes == 1) {
				t.Errorf("%d votes: %+v, %v", votes, q, err)
			}
			if s.after == nil {
				break
			}
		}
	}
	q := asking("q", 2, "group:release")
	q.Within = time.Hour
	o := newOne(t, q)
	o.Desk = open(t, &losing{MemoryStore: o.store, after: lost})
	alice, ctx := person("alice", "release"), t.Context()
	_, claim := o.Claim(ctx, o.name, "q", alice, time.Hour)
	_, extend := o.Extend(ctx, o.name, "q", alice, time.Now().Add(2*time.Hour), "")
	_, handOver := o.HandOver(ctx, o.name, "q", alice, "bob", time.Hour)
	if err := errors.Join(claim, extend, handOver); err != nil || len(o.read().Events) != 3 {
		t.Errorf("%+v, %v", o.read().Events, err)
	}
}

// A claim tells others to look elsewhere, and stops nobody.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOne(t, asking("q", 2, "group:release", "user:dave"))
		alice, bob := person("alice", "release"), person("bob", "release")
		claim := func(by desk.Person, d time.Duration) error {
			_, err := o.Claim(t.Context(), o.name, "q", by, d)
			return err
		}
		handOver := func(by desk.Person, to string, d time.Duration) error {
			_, err := o.HandOver(t.Context(), o.name, "q", by, to, d)
			return err
		}
		for i, c := range []struct {
			do    func() error
			wrong string // the error
			has   string // who has the claim after it
		}{
			{func() error { return claim(alice, 0) }, "", ""},
			{func() error { return claim(alice, 25*time.Hour) }, "at most 24h", ""},
			{func() error { return claim(alice, time.Hour) }, "", "alice"},
			{func() error { return claim(alice, 2*time.Hour) }, "", "alice"},
			{func() error { return claim(bob, time.Hour) }, `"alice" is about to answer it until 2000-01-01T02:00:00Z`, "alice"},
			{func() error { return claim(bob, -1) }, `"alice" is about to`, "alice"},
			{func() error { return handOver(bob, "bob", time.Hour) }, `"alice" is about to`, "alice"},
			{func() error { return handOver(alice, "carol", time.Hour) }, `not for "carol"`, "alice"}, // whose call it is
			{func() error { return handOver(alice, "", time.Hour) }, "has 0 bytes", "alice"},
			{func() error { return handOver(alice, "bob", 0) }, "more than zero", "alice"},
			{func() error { return handOver(alice, "bob", time.Hour) }, "", "bob"},
			{func() error { return handOver(alice, "bob", time.Hour) }, "", "bob"}, // the second delivery
			{func() error { return claim(bob, 0) }, "", ""},
			{func() error { return handOver(alice, "dave", time.Hour) }, "", "dave"},
			{func() error { time.Sleep(time.Hour); return nil }, "", ""}, // it has ended
			{func() error { return claim(bob, time.Hour) }, "", "bob"},
			{func() error { _, err := o.answer(accepts("alice", 9)); return err }, "", "bob"},
			{func() error { _, err := o.answer(accepts("bob", 10)); return err }, "", ""},
		} {
			err := c.do()
			if _, ok := errors.AsType[*desk.InvalidError](err); ok != (c.wrong != "") ||
				err != nil && (!ok || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("step %d: %v, want %q", i, err, c.wrong)
			}
			has := ""
			if claim := o.read().Claim; claim != nil {
				has = claim.By
			}
			if has != c.has {
				t.Errorf("after step %d %q has it, want %q", i, has, c.has)
			}
		}
		var events []string
		for _, e := range o.read().Events {
			events = append(events, e.Who+" "+e.Kind+" "+e.Text)
		}
		if diff := cmp.Diff([]string{
			"alice claimed until 2000-01-01T01:00:00Z",
			"alice claimed until 2000-01-01T02:00:00Z",
			`alice handed over to "bob" until 2000-01-01T01:00:00Z`,
			"bob released ",
			`alice handed over to "dave" until 2000-01-01T01:00:00Z`,
			"bob claimed until 2000-01-01T02:00:00Z",
		}, events); diff != "" {
			t.Error(diff)
		}
		o = newOne(t, asking("q", 1, "user:alice", "user:bob"))
		expect.Fails(t, "to a user who is not asked", handOver(person("alice"), "dave", time.Hour), `not for "dave"`)
	})
}

// A deadline moves to a later time only, and its task lives to see it.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, without := asking("q", 2, "group:release"), asking("without", 1, "group:release")
		q.Within = 30 * time.Minute
		o := newOne(t, q, without)
		alice := person("alice", "release")
		extend := func(key string, to time.Duration, reason string) error {
			_, err := o.Extend(t.Context(), o.name, key, alice, time.Now().Add(to), reason)
			return err
		}
		expect.Check(t, extend("q", 40*time.Minute, ""))
		if row, err := o.store.Get(t.Context(), "parked"); err != nil || row.Expires.Sub(row.Created) != time.Hour {
			t.Errorf("the task lives to %v, %v, which was an hour before", row.Expires, err)
		}
		for _, c := range []struct {
			key, reason string
			to          time.Duration
			want        string
		}{
			{"q", "", 35 * time.Minute, "can only be moved to a later time"},
			{"q", "", -time.Minute, "later than now"},
			{"q", "", 367 * 24 * time.Hour, "within 366 days"},
			{"q", "\x00", time.Hour, "control characters"},
			{"without", "", time.Hour, "no deadline"},
		} {
			expect.Fails(t, fmt.Sprint(c), extend(c.key, c.to, c.reason), c.want)
		}
		want := time.Now().Add(72 * time.Hour)
		expect.Check(t, extend("q", 72*time.Hour, "We meet on Monday."))
		now := o.read()
		if !now.Deadline.Equal(want) || len(now.Events) != 2 || now.Events[1].Kind != "extended" ||
			now.Events[1].Text != "until 2000-01-04T00:00:00Z: We meet on Monday." {
			t.Errorf("%+v", now)
		}
		row, err := o.store.Get(t.Context(), "parked")
		if err != nil || row.Expires.Before(want.Add(10*time.Minute)) || row.Status != task.InputRequired {
			t.Errorf("%+v, %v", row, err)
		}
		time.Sleep(48 * time.Hour)
		if _, err := o.answer(accepts("alice", 9)); err != nil {
			t.Errorf("an answer within what was added: %v", err)
		}
	})
}
