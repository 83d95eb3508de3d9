package chat_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// wall is a chat in memory: a wall with notes. It is as much as a service of one's own needs.
type wall struct {
	mu    sync.Mutex
	notes []chat.Message
	// before, if set, is called before a note is written, and can refuse it.
	before func(ctx context.Context, m *chat.Message) error
	click  *chat.Click // what Receive returns
}

func (w *wall) Post(ctx context.Context, m *chat.Message) (ref string, err error) {
	if w.before != nil {
		if err := w.before(ctx, m); err != nil {
			return "", err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, *m)
	return fmt.Sprint(len(w.notes) - 1), nil
}

func (w *wall) Update(ctx context.Context, ref string, m *chat.Message) error {
	if w.before != nil {
		if err := w.before(ctx, m); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.notes {
		if fmt.Sprint(i) == ref {
			w.notes[i] = *m
			return nil
		}
	}
	return chat.ErrGone
}

func (w *wall) Receive(*http.Request) (*chat.Click, error) { return w.click, nil }

func (w *wall) note(i int) (m chat.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i < len(w.notes) {
		m = w.notes[i]
	}
	return m
}

// asked is a store with the question of a call of carol to a group.
func asked(t *testing.T, notify func(context.Context, desk.Notice) error) (d *desk.Desk, name string) {
	t.Helper()
	store := new(task.MemoryStore)
	srv := harness.NewTaskServerOn(t, store, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Tasks:     &askback.Tasks{}, Desk: &askback.DeskOptions{Notify: notify},
	}, harness.AddText("ask", nil, func(_ context.Context, call *askback.Call) (string, error) {
		return "done", askback.Approve(call, "ask", askback.Question{
			Message: "Go on?", For: []string{askback.Group("release")}, Votes: 2, Within: time.Hour,
		})
	}))
	d, err := desk.Open(store, nil)
	expect.Check(t, err)
	id := srv.Result(harness.WithExtension, "tools/call", "ask", `"name":"ask","arguments":{}`)["taskId"].(string)
	harness.Eventually(t, "a question", func() bool {
		_, err := d.Question(context.Background(), task.Name(id), "ask", nil)
		return err == nil
	})
	return d, task.Name(id)
}

func person(_ context.Context, a chat.Account) (desk.Person, error) {
	if a.User == "" {
		panic("an account without a user")
	}
	return desk.Person{Name: a.User, Groups: []string{"release"}}, nil
}

func open(t *testing.T, d *desk.Desk, s chat.Service, store state.Store) *chat.Chat {
	t.Helper()
	c, err := chat.Open(d, s, chat.Options{Name: "wall", Store: store, Person: person,
		Channel: func(*desk.Question) string { return "hall" }})
	expect.Check(t, err)
	return c
}

func vote(t *testing.T, d *desk.Desk, name, by string) {
	t.Helper()
	_, err := d.Answer(context.Background(), name, "ask", desk.Answer{
		By: desk.Person{Name: by, Groups: []string{"release"}}, Action: "accept",
	})
	if err != nil {
		t.Error(err)
	}
}

func notice(kind task.NoticeKind, name string, attempt int) desk.Notice {
	return desk.Notice{Kind: kind, Name: name, Key: "ask", Attempt: attempt, Target: "ask", Message: "Go on?",
		For: []string{"group:release"}, Votes: 2}
}

// Two instances that show different states reach the chat in the wrong order. The message shows the last state all the
// same.
func TestInstancesInTheWrongOrder(t *testing.T) {
	d, name := asked(t, nil)
	w, states := new(wall), new(state.MemoryStore)
	first, second := open(t, d, w, states), open(t, d, w, states)
	expect.Check(t, first.Notify(t.Context(), notice(task.NoticeAsked, name, 1)))
	vote(t, d, name, "bob")
	stalled, release := make(chan struct{}), make(chan struct{})
	var waits atomic.Bool
	w.before = func(context.Context, *chat.Message) error {
		if waits.CompareAndSwap(false, true) {
			close(stalled)
			<-release
		}
		return nil
	}
	ended := make(chan error)
	go func() { ended <- first.Notify(t.Context(), notice(task.NoticeAsked, name, 2)) }()
	<-stalled // with the vote of bob
	vote(t, d, name, "dora")
	expect.Check(t, second.Notify(t.Context(), notice(task.NoticeDecided, name, 1)))
	expect.Equal(t, "before the first instance writes", w.note(0).Standing, "Accepted by bob and dora.")
	close(release)
	expect.Check(t, <-ended)
	if got := w.note(0); got.Standing != "Accepted by bob and dora." || got.Open {
		t.Errorf("the message shows %q", got.Standing)
	}
}

// What a chat does not take is shown later, and a second question does not wait for it.
func TestFailedMessages(t *testing.T) {
	d, name := asked(t, nil)
	w, states := new(wall), new(state.MemoryStore)
	c := open(t, d, w, states)
	w.before = func(context.Context, *chat.Message) error { return errors.New("closed") }
	if err := c.Notify(t.Context(), notice(task.NoticeAsked, name, 1)); err == nil {
		t.Error("a message that was not posted is no error")
	}
	var again bool
	w.before = func(_ context.Context, m *chat.Message) error { again = again || m.Again; return nil }
	if err := c.Notify(t.Context(), notice(task.NoticeAsked, name, 2)); err != nil || !again {
		t.Errorf("again is %v: %v", again, err)
	}
	vote(t, d, name, "bob")
	w.before = func(context.Context, *chat.Message) error { return errors.New("closed") }
	if err := c.Notify(t.Context(), notice(task.NoticeDueSoon, name, 1)); err == nil {
		t.Error("a message that was not changed is no error")
	}
	w.before = nil
	if err := c.Notify(t.Context(), notice(task.NoticeDueSoon, name, 2)); err != nil {
		t.Error(err)
	}
	if n := w.note(0); n.Standing != "Open: 1 of 2 votes, bob." {
		t.Errorf("the message shows %q", n.Standing)
	}
	if n := w.note(1); n.ReplyTo != "0" || !n.Again {
		t.Errorf("the reminder is %+v", n)
	}
	// A question whose task has been deleted, that was posted, and one that nobody has seen.
	other, posted := asked(t, nil)
	c = open(t, other, w, states)
	expect.Check(t, c.Notify(t.Context(), notice(task.NoticeAsked, posted, 1)))
	empty, err := desk.Open(new(task.MemoryStore), nil)
	expect.Check(t, err)
	c = open(t, empty, w, states)
	for _, gone := range []string{posted, "AAAAAA"} {
		if err := c.Notify(t.Context(), notice(task.NoticeUnanswered, gone, 1)); err != nil {
			t.Error(err)
		}
	}
	if n := w.note(2); n.Open || n.Standing != "Unanswered: the deadline has passed." || w.note(3).Name != "" {
		t.Errorf("the message shows %q", n.Standing)
	}
}

// Run shows a vote that no notice tells, and tries again what has failed.
func TestRunShowsVotes(t *testing.T) { synctest.Test(t, testRunShowsVotes) }

func testRunShowsVotes(t *testing.T) {
	d, name := asked(t, nil)
	w, states := new(wall), new(state.MemoryStore)
	c := open(t, d, w, states)
	expect.Check(t, c.Notify(t.Context(), notice(task.NoticeAsked, name, 1)))
	var failures atomic.Int32
	w.before = func(context.Context, *chat.Message) error {
		if failures.Add(-1) >= 0 {
			return errors.New("closed")
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	shows := func(after time.Duration, want string) {
		t.Helper()
		time.Sleep(after)
		if got := w.note(0).Standing; !strings.Contains(got, want) {
			t.Errorf("after %v it says %q, want %q", after, got, want)
		}
	}
	synctest.Wait() // Run shows what comes after its first look
	by := desk.Person{Name: "bob", Groups: []string{"release"}}
	expect.Must(d.Claim(t.Context(), name, "ask", by, time.Hour))(t)
	shows(10*time.Second, "bob is about to answer")
	failures.Store(2)
	vote(t, d, name, "bob")
	shows(time.Minute, "Open: 1 of 2 votes, bob")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An account that belongs to nobody is told so. If the operator's function fails, the account is asked to try again.
func TestWhoseAccount(t *testing.T) {
	for name, tt := range map[string]struct {
		person  func(ctx context.Context, a chat.Account) (desk.Person, error)
		told    string
		invalid bool
		after   time.Duration
	}{
		"nobody's": {func(context.Context, chat.Account) (desk.Person, error) { return desk.Person{}, nil },
			"is not known", false, 0},
		"an error": {func(context.Context, chat.Account) (desk.Person, error) {
			return desk.Person{Name: "bob"}, errors.New("the directory is down")
		}, "cannot tell now", true, 0},
		"a panic": {func(context.Context, chat.Account) (desk.Person, error) { panic("no directory") },
			"cannot tell now", true, 0},
		"no answer": {func(ctx context.Context, _ chat.Account) (desk.Person, error) {
			<-ctx.Done()
			return desk.Person{}, ctx.Err()
		}, "cannot tell now", true, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, err := desk.Open(new(task.MemoryStore), nil)
			expect.Check(t, err)
			var got chat.Reply
			w := &wall{click: &chat.Click{ID: "1", Account: chat.Account{User: "bob"}, Name: "AAAAAA", Key: "ask",
				Answer: desk.Answer{Action: "accept"},
				Reply:  func(_ context.Context, _ http.ResponseWriter, r *chat.Reply) error { got = *r; return nil }}}
			c, err := chat.Open(d, w, chat.Options{Name: "wall", Store: new(state.MemoryStore), Person: tt.person,
				Channel: func(*desk.Question) string { return "hall" }, Log: slog.New(slog.DiscardHandler)})
			expect.Check(t, err)
			began, r := time.Now(), httptest.NewRecorder()
			c.ServeHTTP(r, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("")))
			if r.Code != http.StatusOK || !strings.Contains(got.Refused, tt.told) || got.Invalid != tt.invalid ||
				time.Since(began) != tt.after {
				t.Errorf("%s: %d, %+v after %v", name, r.Code, got, time.Since(began))
			}
		})
	}
}

// An account decides as the person whom the operator names, and a function that panics names nobody.
func TestClicks(t *testing.T) {
	d, name := asked(t, nil)
	w, states := new(wall), new(state.MemoryStore)
	c := open(t, d, w, states)
	press := func(id string, a chat.Account, name string) (status int, told string) {
		w.click = &chat.Click{ID: id, Account: a, Name: name, Key: "ask", Answer: desk.Answer{
			By: desk.Person{Name: "mallory"}, Channel: "forged", Action: "accept",
		}}
		w.click.Reply = func(_ context.Context, _ http.ResponseWriter, r *chat.Reply) error { told = r.Refused; return nil }
		r := httptest.NewRecorder()
		c.ServeHTTP(r, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("")))
		return r.Code, told
	}
	for id, tt := range map[string]struct {
		account chat.Account
		name    string
		status  int
		told    string
	}{
		"1": {chat.Account{}, name, http.StatusOK, "cannot tell now"},
		"2": {chat.Account{User: "carol"}, name, http.StatusOK, "your own"},
		"3": {chat.Account{User: "bob"}, "AAAAAA", http.StatusOK, "gone"},
		"4": {chat.Account{User: "bob"}, name, http.StatusOK, ""},
		"5": {chat.Account{User: " "}, name, http.StatusOK, "Nothing was answered"},
	} {
		if status, told := press(id, tt.account, tt.name); status != tt.status || !strings.Contains(told, tt.told) ||
			(told == "") != (tt.told == "") {
			t.Errorf("%+v: %d, %q", tt, status, told)
		}
		if status, _ := press(id, tt.account, tt.name); status != http.StatusConflict {
			t.Errorf("%+v: a replay has the status %d", tt, status)
		}
	}
	q, err := d.Question(t.Context(), name, "ask", nil)
	if err != nil || len(q.Count) != 1 || q.Count[0].Who != "bob" || q.Count[0].Channel != "wall" {
		t.Errorf("the votes are %+v, %v", q.Count, err)
	}
	w.click = nil
	r := httptest.NewRecorder()
	c.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/", nil))
	expect.Equal(t, "GET has the status", r.Code, http.StatusMethodNotAllowed)
}

// The click that decides changes the message once, to all that is known of the question.
func TestADecisionIsShownWhole(t *testing.T) {
	d, name := asked(t, nil)
	w := new(wall)
	c := open(t, d, w, new(state.MemoryStore))
	expect.Check(t, c.Notify(t.Context(), notice(task.NoticeAsked, name, 1)))
	vote(t, d, name, "bob")
	var shown []chat.Message
	w.before = func(_ context.Context, m *chat.Message) error { shown = append(shown, *m); return nil }
	w.click = &chat.Click{ID: "1", Account: chat.Account{User: "dora"}, Name: name, Key: "ask", Ref: "0",
		Answer: desk.Answer{Action: "accept"},
		Reply:  func(context.Context, http.ResponseWriter, *chat.Reply) error { return nil }}
	c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("")))
	if len(shown) != 1 || shown[0].Standing != "Accepted by bob and dora." || shown[0].Arguments != "{}" {
		t.Errorf("the message is changed to %+v", shown)
	}
}

func TestOptions(t *testing.T) {
	d, err := desk.Open(new(task.MemoryStore), nil)
	expect.Check(t, err)
	whole := chat.Options{Name: "wall", Store: new(state.MemoryStore), Person: person,
		Channel: func(*desk.Question) string { return "" }}
	for want, change := range map[string]func(o *chat.Options){
		"Name":    func(o *chat.Options) { o.Name = "" },
		"Store":   func(o *chat.Options) { o.Store = nil },
		"Person":  func(o *chat.Options) { o.Person = nil },
		"Channel": func(o *chat.Options) { o.Channel = nil },
		"Page":    func(o *chat.Options) { o.Page = "inbox" },
	} {
		o := whole
		change(&o)
		if _, err := chat.Open(d, new(wall), o); err == nil || !strings.Contains(err.Error(), "Options."+want) {
			t.Errorf("without %s: %v", want, err)
		}
	}
	if _, err := chat.Open(d, new(wall), whole); err != nil {
		t.Error(err)
	}
	if _, err := chat.Open(nil, new(wall), whole); err == nil {
		t.Error("a chat needs a desk")
	}
}
