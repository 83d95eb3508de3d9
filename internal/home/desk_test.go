package home_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// release asks two of a group, or bob, whether to deploy. If nobody decides it returns since when it was asked.
func release(c *call.Call, key string, within time.Duration) (string, error) {
	q, err := question.FormOf("Deploy "+key+"?", reflect.TypeFor[name]())
	if err != nil {
		return "", err
	}
	q.Address([]string{"group:release", "user:bob"}, 2)
	q.Within, q.Preview, q.Markdown = within, "# v4", true
	record, err := c.Ask(key, q)
	if late, ok := errors.AsType[*journal.UnansweredError](err); ok {
		return fmt.Sprintf("%s: nobody in %v", key, late.Deadline.Sub(late.Asked)), nil
	}
	var by []string
	for _, p := range c.Answers(key) {
		by = append(by, p.Who)
	}
	return fmt.Sprintf("%s: %s by %s", key, record, strings.Join(by, " and ")), err
}

// releases asks several at once, for an hour each.
func releases(keys ...string) handler {
	return func(_ context.Context, c *call.Call) (mcp.Result, error) {
		var all []string
		var open error
		for _, key := range keys {
			got, err := release(c, key, time.Hour)
			all, open = append(all, got), cmp.Or(open, err)
		}
		return text(strings.Join(all, "; ")), open
	}
}

// questions returns the open questions of a task by their keys.
func (w *worker) questions(row *task.Task) map[string]*task.Question {
	w.t.Helper()
	rows, err := w.Questions(w.t.Context(), task.Name(row.ID))
	if err != nil {
		w.t.Fatal(err)
	}
	open := make(map[string]*task.Question)
	for _, q := range rows {
		if q.Status == task.QuestionOpen {
			open[q.Key] = q
		}
	}
	return open
}

// open checks which questions of a task are open.
func (w *worker) open(row *task.Task, want ...string) {
	w.t.Helper()
	var got []string
	for key := range w.questions(row) {
		got = append(got, key)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		w.t.Errorf("open are %q, want %q", got, want)
	}
}

// decide lets bob and carol decide a question, after a minute, and returns the task as it comes to rest.
func (w *worker) decide(row *task.Task, key string, d *stored.Decision) *task.Task {
	w.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	encoded, err := stored.Encode(d)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.decideAs(row, key, encoded)
}

func (w *worker) decideAs(row *task.Task, key string, decision []byte) *task.Task {
	w.t.Helper()
	q := w.questions(row)[key]
	if q == nil {
		w.t.Fatalf("%q is not open", key)
	}
	q.Decision = decision
	if err := w.ChangeQuestion(w.t.Context(), q, false); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return w.row(row.ID)
}

// outcome is the text of the result of a task.
func outcome(row *task.Task) string {
	var r mcp.CallToolResult
	if err := json.Unmarshal(row.Outcome, &r); err != nil || len(r.Content) == 0 {
		return fmt.Sprintf("%s: %s", row.Status, row.Message)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// A question for people goes to the desk with all that they need to answer it, and with nothing of it in what notices
// tell but its message. The task says who is awaited, and lives long enough.
func TestAQuestionForPeopleIsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, new(task.MemoryStore), releases("v4"))
		w.people, w.desk.Remind, w.desk.Keeps = new(call.Desk), 0.5, 72*time.Hour
		began := time.Now()
		row := w.settled(w.create("alice", `{"n":1}`))
		q := w.questions(row)["v4"]
		if q == nil || !slices.Equal(q.For, []string{"group:release", "user:bob"}) ||
			!q.Deadline.Equal(began.Add(time.Hour)) {
			t.Fatalf("the question is %+v", q)
		}
		about := expect.Must(stored.DecodeAsking(q.Content))(t)
		asked := input.Question{Key: about.Key, Method: about.Method, Params: about.Params}
		if err := asked.Parse(); err != nil || asked.Message != "Deploy v4?" || asked.Schema == nil {
			t.Errorf("people are asked %+v, %v", asked, err)
		}
		id := journal.Derived("call", "id")
		expect.Equal(t, "the digest of what is shown", len(about.Shown), sha256.Size)
		about.Params, about.Digest, about.Shown = nil, nil, nil
		want := &stored.Asking{Key: "v4", Method: input.MethodElicit, Votes: 2, Preview: "# v4", Markdown: true, Call: id}
		if diff := gocmp.Diff(want, about); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		var kinds []task.NoticeKind
		for _, n := range w.notices {
			kinds = append(kinds, n.Kind)
			notice, err := stored.DecodeAnnouncement(n.Question.Notice)
			if want := (stored.Announcement{Message: "Deploy v4?", Votes: 2, Call: id}); err != nil || *notice != want {
				t.Errorf("a notice tells %+v, %v", notice, err)
			}
		}
		if !slices.Equal(kinds, []task.NoticeKind{task.NoticeAsked, task.NoticeDueSoon}) {
			t.Errorf("after half of the time the notices are %q", kinds)
		}
		message := "Waiting for 2 of group:release, user:bob until " + q.Deadline.UTC().Format(question.TimeFormat) + "."
		if row.Message != message || row.Pending != nil {
			t.Errorf("the task says %q, and asks its client %s", row.Message, row.Pending)
		}
		if row.Expires.Before(began.Add(72 * time.Hour)) {
			t.Errorf("the task lives until %v", row.Expires.Sub(began))
		}
		// The operator's setting does not prolong what a stranger left.
		w.handler = func(_ context.Context, c *call.Call) (mcp.Result, error) {
			q, err := question.FormOf("Deploy?", reflect.TypeFor[name]())
			if err == nil {
				q.Address([]string{"user:bob"}, 1)
				_, err = c.Ask("v4", q)
			}
			return text("done"), err
		}
		anonymous := w.settled(w.create("", ""))
		if now := time.Now(); !anonymous.Expires.Before(now.Add(72*time.Hour)) || len(w.questions(anonymous)) != 1 {
			t.Errorf("an anonymous caller's task lives for %v", anonymous.Expires.Sub(now))
		}
	})
}

// Equal calls of one principal are known as such to whoever groups them; others are not.
func TestEqualCallsAtTheDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, new(task.MemoryStore), func(_ context.Context, c *call.Call) (mcp.Result, error) {
			q, err := question.FormOf("Deploy?", reflect.TypeFor[name]())
			if err == nil {
				q.Address([]string{"user:bob"}, 1)
				_, err = c.Ask("v4", q)
			}
			return text("done"), err
		})
		w.people = new(call.Desk)
		equal := func(principal, arguments string) string {
			return w.questions(w.settled(w.create(principal, arguments)))["v4"].Equal
		}
		first := equal("alice", `{"n":1,"m":2}`)
		if first == "" || equal("alice", `{"m":2,"n":1e0}`) != first {
			t.Error("two equal calls differ")
		}
		expect.Equal(t, "no arguments differ from empty ones", equal("alice", ""), equal("alice", `{}`))
		for _, other := range []string{equal("bob", `{"n":1,"m":2}`), equal("alice", `{"n":1,"m":3}`), equal("alice", "")} {
			if other == first || other == "" {
				t.Errorf("another call has %q", other)
			}
		}
		expect.Equal(t, "an anonymous call", equal("", `{"n":1,"m":2}`), "")
	})
}

// Each end of a question reaches the handler as what it was, and the operator with the votes that made it.
func TestDecisionsReachTheHandler(t *testing.T) {
	by := []input.Provenance{{Who: "bob", Channel: "desk"}, {Who: "carol", Channel: "desk"}}
	ballot, err := stored.Encode(&stored.Ballot{Votes: []stored.Vote{
		{Who: "bob", Channel: "desk", Why: "tested", Action: "accept"}, {Who: "carol", Channel: "page", Action: "decline"},
	}})
	expect.Check(t, err)
	votes := []string{"voted v4 group:release,user:bob bob desk accept tested",
		"voted v4 group:release,user:bob carol page decline "}
	for _, c := range []struct {
		says     string
		decision stored.Decision // none waits for the deadline
		votes    []byte
		want     string
		told     []string
		outcome  string
	}{
		{"accepted with content", stored.Decision{Action: "accept", Content: []byte(`{"name":"Ada"}`), By: by}, ballot,
			`v4: {"action":"accept","content":{"name":"Ada"}} by bob and carol`,
			append(slices.Clone(votes), "decided v4 group:release,user:bob   accept "), "accept"},
		{"declined", stored.Decision{Action: "decline", By: by[:1]}, nil, `v4: {"action":"decline"} by bob`,
			[]string{"decided v4 group:release,user:bob   decline "}, "decline"},
		{"with votes that nobody can read", stored.Decision{Action: "cancel", By: by[:1]}, []byte(`{"from":9}`),
			`v4: {"action":"cancel"} by bob`, []string{"decided v4 group:release,user:bob   cancel "}, "cancel"},
		{"not decided in time", stored.Decision{}, ballot, "v4: nobody in 1h0m0s",
			append(slices.Clone(votes), "unanswered v4 group:release,user:bob    "), "unanswered"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorker(t, new(task.MemoryStore), releases("v4"))
			w.people = new(call.Desk)
			row := w.settled(w.create("alice", ""))
			q := w.questions(row)["v4"]
			if q.Votes = c.votes; w.ChangeQuestion(t.Context(), q, false) != nil {
				t.Fatal("the votes are not stored")
			}
			waited := 30 * time.Second // until the decision, which the task finds later
			if c.decision.Action == "" {
				waited = time.Hour
				time.Sleep(waited + 2*time.Second)
				synctest.Wait()
				row = w.row(row.ID)
			} else {
				c.decision.When = q.Asked.Add(waited)
				row = w.decide(row, "v4", &c.decision)
			}
			expect.Equal(t, c.says, outcome(row), c.want)
			if diff := gocmp.Diff(c.told, w.told); diff != "" {
				t.Errorf("%s: the operator is told (-want +got)\n%s", c.says, diff)
			}
			if len(w.ended) != 1 || w.ended[0].Outcome != c.outcome || w.ended[0].Waited != waited ||
				!w.ended[0].Deadline.Equal(q.Deadline) || !slices.Equal(w.ended[0].Asked, []string{"v4"}) {
				t.Errorf("%s: observed are %+v", c.says, w.ended)
			}
		})
	}
}

// A run finds what people have decided of several questions, and leaves open the ones that they have not. A question to
// the client comes before new ones to people, and takes none away that they have.
func TestQuestionsStayAtTheDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, new(task.MemoryStore), func(_ context.Context, c *call.Call) (mcp.Result, error) {
			first, open1 := release(c, "first", time.Hour)
			second, open2 := release(c, "second", 0)
			if open1 != nil {
				return nil, cmp.Or(open1, open2)
			}
			who, open3 := ask(c, "who", "Who?")
			third, open4 := release(c, "third", time.Hour)
			return text(first + "; " + second + "; " + who + "; " + third), cmp.Or(open2, open3, open4)
		})
		w.people = new(call.Desk)
		row := w.settled(w.create("alice", ""))
		w.open(row, "first", "second")
		deadline := w.questions(row)["first"].Deadline
		if want := "Waiting for 2 of group:release, user:bob and for 2 of group:release, user:bob until " +
			deadline.UTC().Format(question.TimeFormat) + "."; row.Message != want {
			t.Errorf("the task says %q, want %q", row.Message, want)
		}
		q := w.questions(row)["second"]
		no := &stored.Decision{Action: "decline", By: []input.Provenance{{Who: "bob"}}}
		row = w.decide(row, "first", no)
		w.open(row, "second")
		if row.Message != "" || len(row.Pending) == 0 {
			t.Errorf("beside its own question the client reads %q, and is asked %s", row.Message, row.Pending)
		}
		if now := w.questions(row)["second"]; !now.Asked.Equal(q.Asked) {
			t.Errorf("the second was asked at %v, and then at %v", q.Asked, now.Asked)
		}
		// It does not wait for its client to be decided.
		row = w.decide(row, "second", no)
		w.open(row)
		expect.Equal(t, "the task", row.Status, task.InputRequired)
		// What the client answers lets the third go to people.
		row = w.answer(row, "who", `{"action":"accept","content":{"name":"Ada"}}`)
		w.open(row, "third")
		row = w.decide(row, "third", no)
		if want := `first: {"action":"decline"} by bob; second: {"action":"decline"} by bob; Ada; ` +
			`third: {"action":"decline"} by bob`; outcome(row) != want {
			t.Errorf("the result is %s", outcome(row))
		}
	})
}

// answer gives a task the answer of its client to the only question that it asks.
func (w *worker) answer(row *task.Task, key, raw string) *task.Task {
	w.t.Helper()
	_, err := w.Change(w.t.Context(), row.Principal, row.ID, func(t *task.Task) (*task.Update, error) {
		open, err := stored.DecodeQuestions(t.Pending)
		if err != nil || len(open) != 1 || open[0].Wire != key {
			return nil, fmt.Errorf("the client is asked %+v, %v", open, err)
		}
		e := journal.Entry{Kind: journal.Unread, Key: open[0].Key, Digest: journal.Digest(open[0].Digest), Value: []byte(raw)}
		t.Status, t.Pending = task.Working, nil
		return &task.Update{Entries: [][]byte{e.Append(nil)}}, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return w.row(row.ID)
}

// A deadline that an operator has moved is the one that the task tells.
func TestTheTaskTellsAMovedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, new(task.MemoryStore), releases("first", "second"))
		w.people = new(call.Desk)
		row := w.settled(w.create("alice", ""))
		q := w.questions(row)["second"]
		q.Deadline = q.Deadline.Add(24 * time.Hour)
		expect.Check(t, w.ChangeQuestion(t.Context(), q, false))
		row = w.decide(row, "first", &stored.Decision{Action: "decline"})
		expect.Contains(t, "the task", row.Message, q.Deadline.UTC().Format(question.TimeFormat))
	})
}

// A question that the caller's host cannot show goes to the caller's desk, and the task says so.
func TestAQuestionThatFallsBackSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, new(task.MemoryStore), func(_ context.Context, c *call.Call) (mcp.Result, error) {
			c.Can = 0
			who, err := ask(c, "who", "Who?")
			return text("hello " + who), err
		})
		w.people = &call.Desk{Fallback: true}
		row := w.settled(w.create("alice", ""))
		expect.Equal(t, "the task", row.Message, "Waiting for user:alice"+question.AtDesk+".")
		about, err := stored.DecodeAsking(w.questions(row)["who"].Content)
		if err != nil || !about.Fallback {
			t.Errorf("the desk has %+v, %v", about, err)
		}
		yes := &stored.Decision{Action: "accept", Content: []byte(`{"name":"Ada"}`)}
		expect.Equal(t, "the result", outcome(w.decide(row, "who", yes)), "hello Ada")
	})
}

// A sleep is at no desk: nobody is told of it, it costs no round, and it ends at its time.
func TestATaskSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWorker(t, new(task.MemoryStore), func(_ context.Context, c *call.Call) (mcp.Result, error) {
			for i := range 7 { // more than it has rounds
				if _, err := c.Ask(fmt.Sprint("nap ", i), question.Timer(time.Hour)); err != nil {
					if _, over := errors.AsType[*journal.UnansweredError](err); !over {
						return nil, err
					}
				}
			}
			who, err := ask(c, "who", "Who?")
			return text(who), err
		})
		row := w.settled(w.create("", ""))
		if w.open(row, "nap 0"); row.Status != task.InputRequired || row.Message != "" || row.Pending != nil {
			t.Errorf("the task sleeps as %+v", row)
		}
		time.Sleep(7*time.Hour + 20*time.Second)
		synctest.Wait()
		row = w.row(row.ID)
		if row.Status != task.InputRequired || len(row.Pending) == 0 {
			t.Errorf("after %v the task is %s: %s", time.Since(began), row.Status, row.Message)
		}
		if len(w.told)+len(w.ended)+len(w.notices) > 0 {
			t.Errorf("told are %q, %v, %v", w.told, w.ended, w.notices)
		}
	})
}

// A question of a task to its client has its deadline in the store, and, where answers are measured, the time at which
// it was first asked, which another run of the task does not change.
func TestAQuestionToTheClientIsTimedInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, new(task.MemoryStore), func(_ context.Context, c *call.Call) (mcp.Result, error) {
			who, open1 := askWithin(c, "who", time.Hour)
			what, open2 := ask(c, "what", "What?")
			approved, open3 := release(c, "v4", 10*time.Minute)
			return text(who + ", " + what + ", " + approved), cmp.Or(open1, open2, open3)
		})
		w.people, w.desk.Measures = new(call.Desk), true
		began := time.Now()
		row := w.settled(w.create("alice", ""))
		pending := func() (who, what stored.Question) {
			open, err := stored.DecodeQuestions(row.Pending)
			if err != nil || len(open) != 2 {
				t.Fatalf("open are %s, %v", row.Pending, err)
			}
			return open[0], open[1]
		}
		who, what := pending()
		if who.Row == "" || what.Row != "" || !who.AskedAt().Equal(began) || !what.AskedAt().Equal(began) {
			t.Errorf("open are %+v and %+v", who, what)
		}
		w.open(row, who.Row)
		if q := w.questions(row)[who.Row]; len(q.For) > 0 || q.Notice != nil || !q.Deadline.Equal(began.Add(time.Hour)) {
			t.Errorf("the desk has %+v", q)
		}
		time.Sleep(time.Hour + 2*time.Second) // it runs again
		synctest.Wait()
		row = w.row(row.ID)
		if left, err := stored.DecodeQuestions(row.Pending); err != nil || len(left) != 1 || left[0].Wire != "what" ||
			!left[0].AskedAt().Equal(began) {
			t.Errorf("an hour later it asks %s, %v", row.Pending, err)
		}
	})
}

// questionless is a store that cannot read questions for a while.
type questionless struct {
	*task.MemoryStore
	until time.Time
}

func (s *questionless) Questions(ctx context.Context, name string) ([]*task.Question, error) {
	if time.Now().Before(s.until) {
		return nil, errors.New("no connection")
	}
	return s.MemoryStore.Questions(ctx, name)
}

// A run that cannot read what people have decided says nothing, whatever its handler makes of the error: the task runs
// again. So does one that finds a decision which it does not know.
func TestADecisionThatCannotBeRead(t *testing.T) {
	deaf := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		got, err := release(c, "v4", time.Hour)
		if err != nil && !errors.Is(err, journal.ErrInputRequired) {
			return text("gave up: " + err.Error()), nil
		}
		return text(got), err
	}
	t.Run("for a while", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &questionless{MemoryStore: new(task.MemoryStore)}
			w := newWorker(t, store, deaf)
			w.people = new(call.Desk)
			row := w.settled(w.create("alice", ""))
			q, err := store.MemoryStore.Questions(t.Context(), task.Name(row.ID))
			if err != nil || len(q) != 1 {
				t.Fatal(q, err)
			}
			store.until = time.Now().Add(10 * time.Second)
			q[0].Decision = []byte(`{"action":"decline"}`)
			expect.Check(t, w.ChangeQuestion(t.Context(), q[0], false))
			synctest.Wait()
			if now := w.row(row.ID); now.Status != task.Working {
				t.Errorf("without a connection the task is %s", outcome(now))
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			expect.Equal(t, "the outcome after that", outcome(w.row(row.ID)), `v4: {"action":"decline"} by `)
		})
	})
	t.Run("an unknown one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorker(t, new(task.MemoryStore), deaf)
			w.people = new(call.Desk)
			row := w.settled(w.create("alice", ""))
			row = w.decideAs(row, "v4", []byte(`{"action":"delegate"}`))
			time.Sleep(time.Minute)
			synctest.Wait()
			if row = w.row(row.ID); row.Status != task.Working || w.runs < 3 || len(w.told) > 0 {
				t.Errorf("after %d runs the task is %s; told is %q", w.runs, outcome(row), w.told)
			}
		})
	})
}
