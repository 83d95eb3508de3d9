package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/slack"
	"github.com/askback-mcp/askback/slack/slacktest"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // most tests wait for Slack
	m.Run()
}

const (
	token   = "xoxb-hunter2-of-the-bot"
	secret  = "hunter2-of-the-signatures"
	channel = "C1"
	page    = "https://inbox.example.com/"
)

var (
	bob    = slacktest.User{ID: "U1", Team: "T1"}
	dora   = slacktest.User{ID: "U2", Team: "T1"}
	carol  = slacktest.User{ID: "U3", Team: "T1"} // whose calls they are
	erin   = slacktest.User{ID: "U4", Team: "T1"} // known, and not asked
	nobody = slacktest.User{ID: "U9", Team: "T1"}
	guest  = slacktest.User{ID: "U1", Team: "T2", Home: "T1"} // has the ID of bob in another workspace
)

// person is an operator's directory.
func person(_ context.Context, a chat.Account) (desk.Person, error) {
	known := map[chat.Account]desk.Person{
		{Workspace: "T1", User: "U1"}: {Name: "bob", Groups: []string{"release"}},
		{Workspace: "T1", User: "U2"}: {Name: "dora", Groups: []string{"release"}},
		{Workspace: "T1", User: "U3"}: {Name: "carol", Groups: []string{"release"}},
		{Workspace: "T1", User: "U4"}: {Name: "erin"},
	}
	return known[a], nil
}

// scene is a server whose questions are posted to a channel.
type scene struct {
	t         *testing.T
	srv       *harness.TaskServer
	people    *desk.Desk
	slack     *slacktest.Server
	base, app string
	talk      *chat.Chat
	states    *state.MemoryStore
	log       *harness.Log
	logger    *slog.Logger
	working   atomic.Int32 // requests of Slack
	down      atomic.Bool  // the directory
	// before, if set, serves a request of the API in place of the server.
	before atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler)]
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{t: t, states: new(state.MemoryStore)}
	s.logger, s.log = harness.Logs()
	s.slack = slacktest.New(slacktest.Options{Token: token, SigningSecret: secret, Channels: []string{channel}})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := s.before.Load(); before != nil {
			(*before)(w, r, s.slack)
			return
		}
		s.slack.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	s.base = api.URL
	store := new(task.MemoryStore)
	var err error
	if s.people, err = desk.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	s.talk = s.instance()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.working.Add(1)
		defer s.working.Add(-1)
		s.talk.ServeHTTP(w, r)
	}))
	t.Cleanup(app.Close)
	s.app = app.URL
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.talk.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	opts := &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Tasks:     &askback.Tasks{}, Desk: &askback.DeskOptions{Notify: s.talk.Notify}, Logger: s.logger,
	}
	s.srv = harness.NewTaskServerOn(t, store, opts, register)
	return s
}

// instance is a chat on the same stores, as another process has it.
func (s *scene) instance() *chat.Chat {
	s.t.Helper()
	app, err := slack.New(slack.Options{Token: token, SigningSecret: secret, API: s.base + "/api/"})
	expect.Check(s.t, err)
	talk, err := chat.Open(s.people, app, chat.Options{
		Name: "slack", Store: s.states, Channel: func(*desk.Question) string { return channel }, Page: page, Log: s.logger,
		Person: func(ctx context.Context, a chat.Account) (desk.Person, error) {
			if s.down.Load() {
				return desk.Person{}, errors.New("the directory does not answer")
			}
			return person(ctx, a)
		},
	})
	expect.Check(s.t, err)
	return talk
}

type payment struct {
	To    string `json:"to"`
	Votes int    `json:"votes,omitempty"`
	Form  bool   `json:"form,omitempty"`
	MS    int    `json:"ms,omitempty"`
}

type terms struct {
	Amount int      `json:"amount" minimum:"1" maximum:"100"`
	Speed  string   `json:"speed" enum:"slow|fast"`
	Notify bool     `json:"notify,omitempty"`
	Copies []string `json:"copies,omitempty" enum:"bank|tax"`
	Note   string   `json:"note,omitempty" maxLength:"50"`
	Day    string   `json:"day,omitempty" format:"date"`
}

func register(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "pay"}, func(_ context.Context, call *askback.Call, in payment) (string, error) {
		q := askback.Question{Message: "Pay " + in.To + "?", For: []string{askback.Group("release")}, Votes: in.Votes,
			Within: time.Duration(in.MS) * time.Millisecond}
		if in.Form {
			got, err := askback.ElicitWith[terms](call, "pay", q)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d %s %v %v %q %s", got.Amount, got.Speed, got.Notify, got.Copies, got.Note, got.Day), nil
		}
		return "paid", askback.Approve(call, "pay", q)
	})
}

// call calls the tool, and returns the ID of the task and the message.
func (s *scene) call(in payment) (id string, m slacktest.Message) {
	s.t.Helper()
	before := len(s.slack.Messages())
	raw, err := json.Marshal(in)
	expect.Check(s.t, err)
	members := `"name":"pay","arguments":` + string(raw)
	id = s.srv.Result(harness.WithExtension, "tools/call", "pay", members)["taskId"].(string)
	harness.Eventually(s.t, "a message", func() bool { return len(s.slack.Messages()) > before })
	return id, s.slack.Messages()[before]
}

func (s *scene) press(by slacktest.User, m slacktest.Message, button string) *slacktest.Pressed {
	s.t.Helper()
	for _, b := range m.Buttons() {
		if b.Text == button {
			p, err := s.slack.Press(context.Background(), s.app, s.base, by, m, b)
			expect.Check(s.t, err)
			harness.Eventually(s.t, "the work on a click", func() bool { return s.working.Load() == 0 })
			p.Told = s.slack.Told(p)
			return p
		}
	}
	s.t.Fatalf("the message has no button %q: %s", button, m.Blocks)
	return nil
}

func (s *scene) submit(by slacktest.User, view json.RawMessage, values map[string]any) *slacktest.Pressed {
	s.t.Helper()
	p, err := s.slack.Submit(context.Background(), s.app, by, view, values)
	expect.Check(s.t, err)
	return p
}

func (s *scene) result(id string) any {
	s.t.Helper()
	return harness.Content(s.srv.Get(harness.WithExtension, id, "completed")["result"].(map[string]any))
}

// question reads the question of a task.
func (s *scene) question(id string) *desk.Question {
	s.t.Helper()
	q, err := s.people.Question(context.Background(), task.Name(id), "pay", nil)
	expect.Check(s.t, err)
	return q
}

// shows waits until a message has a text and, if it is closed, no button that answers.
func (s *scene) shows(ts, text string, closed bool) {
	s.t.Helper()
	harness.Eventually(s.t, "the message shows "+text, func() bool {
		for _, m := range s.slack.Messages() {
			if m.TS == ts && strings.Contains(m.Words(), text) {
				return !closed || len(m.Buttons()) == 1
			}
		}
		return false
	})
}

func text(value string) any { return map[string]any{"type": "plain_text_input", "value": value} }

func picked(value string) any {
	return map[string]any{"type": "static_select", "selected_option": map[string]any{"value": value}}
}

func TestAnApproval(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice"})
	q := s.question(id)
	for _, want := range []string{"A question of the tool pay", "Pay alice?", "Asked by\ncarol", "For\ngroup:release",
		"Task\n" + q.Name, `"to": "alice"`, "SHA-256 ", "Open."} {
		if !strings.Contains(m.Words(), want) {
			t.Errorf("the message lacks %q:\n%s", want, m.Words())
		}
	}
	if b := m.Buttons(); len(b) != 3 || b[2].URL != page+"q/"+q.Name+"/pay" {
		t.Errorf("the buttons are %+v", b)
	}
	if p := s.press(bob, m, "Accept"); p.Status != http.StatusOK || p.Told != "" {
		t.Errorf("%+v", p)
	}
	q = s.question(id)
	if len(q.Count) != 1 || q.Count[0].Who != "bob" || q.Count[0].Channel != "slack" {
		t.Errorf("the votes are %+v", q.Count)
	}
	s.shows(m.TS, "Accepted by bob.", true)
	if p := s.press(dora, m, "Accept"); !strings.Contains(p.Told, "Nothing was answered") {
		t.Errorf("after the decision: %+v", p)
	}
	expect.Equal(t, "the call", s.result(id), "paid")
	harness.NoSecrets(t, s.log, "hunter2")
}

func TestADeclineHasAReason(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice"})
	opened := s.press(bob, m, "Decline")
	if opened.View == nil || s.question(id).Status != task.QuestionOpen {
		t.Fatalf("%+v", opened)
	}
	const why = "not <!channel> now"
	if p := s.submit(bob, opened.View, map[string]any{"reason": text(why)}); p.Status != 200 || p.Told != "" {
		t.Errorf("%+v", p)
	}
	if q := s.question(id); q.Decision == nil || q.Decision.Action != "decline" || q.Decision.By[0].Why != why {
		t.Errorf("%+v", q.Decision)
	}
	s.shows(m.TS, "Declined by bob.", true)
	if m = s.slack.Messages()[0]; !strings.Contains(m.Text, "&lt;!channel&gt;") && strings.Contains(m.Text, "!channel") {
		t.Errorf("the text mentions people: %q", m.Text)
	}
}

func TestAForm(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice", Form: true})
	opened := s.press(bob, m, "Accept")
	if opened.View == nil {
		t.Fatalf("%+v, %s", opened, s.log)
	}
	values := map[string]any{
		"v0": text("1000"), "v1": picked("fast"), "v2": picked("true"),
		"v3": map[string]any{"type": "multi_static_select", "selected_options": []any{map[string]any{"value": "tax"}}},
		"v4": text("by \"noon\""), "v5": map[string]any{"type": "datepicker", "selected_date": "2027-01-15"},
		"reason": text("agreed"),
	}
	if p := s.submit(bob, opened.View, values); !strings.Contains(p.Told, "amount: must be at most 100") {
		t.Errorf("%+v", p)
	}
	values["v0"] = text("12")
	if p := s.submit(bob, opened.View, values); p.Status != http.StatusOK || p.Told != "" {
		t.Errorf("%+v", p)
	}
	want := `12 fast true [tax] "by \"noon\"" 2027-01-15`
	expect.Equal[any](t, "s.result(id)", s.result(id), want)
	// The form that has stayed open elsewhere says that it is too late.
	if p := s.submit(dora, opened.View, values); !strings.Contains(p.Told, "Nothing was answered") {
		t.Errorf("%+v", p)
	}
}

// Nobody decides who may not. Those whom Slack vouches for are told why.
func TestNobodyElseDecides(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice"})
	for who, c := range map[string]struct {
		by   slacktest.User
		told string
	}{
		"an unknown account":          {nobody, "not known to the server"},
		"somebody of another team":    {guest, "not known to the server"},
		"somebody who is not asked":   {erin, "not for you"},
		"the person whose call it is": {carol, "the call is your own"},
	} {
		for _, button := range []string{"Accept", "Decline"} {
			if p := s.press(c.by, m, button); p.Status != http.StatusOK || !strings.Contains(p.Told, c.told) || p.View != nil {
				t.Errorf("%s: %s: %+v", who, button, p)
			}
		}
	}
	opened := s.press(bob, m, "Decline") // a form is no authority
	if p := s.submit(nobody, opened.View, nil); !strings.Contains(p.Told, "not known") {
		t.Errorf("a form of somebody else: %+v", p)
	}
	if q := s.question(id); q.Status != task.QuestionOpen || len(q.Count) != 0 {
		t.Errorf("the question is %+v", q)
	}
	harness.NoSecrets(t, s.log, "hunter2")
}

// While the directory is down, people are told to try again, and a form stays as it was filled in.
func TestADirectoryIsDown(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice"})
	opened := s.press(bob, m, "Decline")
	s.down.Store(true)
	const told = "cannot tell now"
	for _, button := range []string{"Accept", "Decline"} {
		if p := s.press(bob, m, button); p.Status != http.StatusOK || !strings.Contains(p.Told, told) || p.View != nil {
			t.Errorf("%s: %+v", button, p)
		}
	}
	reason := map[string]any{"reason": text("not now")}
	if p := s.submit(bob, opened.View, reason); p.Status != http.StatusOK || !strings.Contains(p.Told, told) ||
		p.View != nil {
		t.Errorf("the form: %+v", p)
	}
	if q := s.question(id); q.Status != task.QuestionOpen || len(q.Count) != 0 {
		t.Errorf("the question is %+v", q)
	}
	s.down.Store(false)
	if p := s.submit(bob, opened.View, reason); p.Status != http.StatusOK || p.Told != "" {
		t.Errorf("%+v", p)
	}
	s.shows(m.TS, "Declined by bob.", true)
}

func TestForgedReplayedAndLate(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice", Votes: 2})
	p := s.press(erin, m, "Accept") // a request of Slack with no effect
	body := []byte(strings.ReplaceAll(string(p.Body), "U4", "U1"))
	signed := func(at time.Time, body []byte) *http.Request {
		req, err := s.slack.Sign(t.Context(), s.app, at, body)
		expect.Check(t, err)
		return req
	}
	now := time.Now()
	forged := map[string]func() (*http.Request, []byte){
		"another body":  func() (*http.Request, []byte) { return p.Request, body },
		"late":          func() (*http.Request, []byte) { return signed(now.Add(-6*time.Minute), body), body },
		"of the future": func() (*http.Request, []byte) { return signed(now.Add(6*time.Minute), body), body },
		"another time": func() (*http.Request, []byte) {
			req := signed(now.Add(-6*time.Minute), body)
			req.Header.Set("X-Slack-Request-Timestamp", fmt.Sprint(now.Unix()))
			return req, body
		},
		"no signature": func() (*http.Request, []byte) {
			req := signed(now, body)
			req.Header.Del("X-Slack-Signature")
			return req, body
		},
		"another secret": func() (*http.Request, []byte) {
			other := slacktest.New(slacktest.Options{SigningSecret: "hunter3-of-the-signatures"})
			req, err := other.Sign(t.Context(), s.app, now, body)
			expect.Check(t, err)
			return req, body
		},
		"too large": func() (*http.Request, []byte) {
			large := append(body[:len(body):len(body)], "&x="+strings.Repeat("x", 2<<20)...)
			return signed(now, large), large
		},
	}
	for name, forge := range forged {
		req, body := forge()
		if p, err := s.slack.Replay(req, body); err == nil && p.Status != http.StatusUnauthorized {
			t.Errorf("%s: the status is %d", name, p.Status)
		}
	}
	if q := s.question(id); len(q.Count) != 0 {
		t.Fatalf("the votes are %+v", q.Count)
	}
	first := s.press(bob, m, "Accept")
	again, err := s.slack.Replay(first.Request, first.Body)
	if err != nil || again.Status != http.StatusConflict {
		t.Errorf("a replay: %+v, %v", again, err)
	}
	upper := first.Request.Clone(t.Context())
	upper.Header.Set("X-Slack-Signature", "v0="+strings.ToUpper(upper.Header.Get("X-Slack-Signature")[3:]))
	if again, err = s.slack.Replay(upper, first.Body); err != nil || again.Status != http.StatusConflict {
		t.Errorf("a replay in capitals: %+v, %v", again, err)
	}
	other := httptest.NewServer(s.instance())
	defer other.Close()
	elsewhere := first.Request.Clone(t.Context())
	if elsewhere.URL, err = url.Parse(other.URL); err != nil {
		t.Fatal(err)
	}
	elsewhere.Host = ""
	if again, err = s.slack.Replay(elsewhere, first.Body); err != nil || again.Status != http.StatusConflict {
		t.Errorf("a replay to another instance: %+v, %v", again, err)
	}
	if q := s.question(id); len(q.Count) != 1 {
		t.Errorf("the votes are %+v", q.Count)
	}
	harness.NoSecrets(t, s.log, "hunter")
}

// A double click is one vote. Of two people at once one decides, and the other is told.
func TestAtOnce(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice", Votes: 2})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			if p := s.press(bob, m, "Accept"); p.Status != http.StatusOK || p.Told != "" {
				t.Errorf("%+v", p)
			}
		})
	}
	work.Wait()
	if q := s.question(id); len(q.Count) != 1 || q.Status != task.QuestionOpen {
		t.Errorf("the votes are %+v", q.Count)
	}
	s.shows(m.TS, "Open: 1 of 2 votes, bob", false)

	id, m = s.call(payment{To: "alan"})
	var told, status sync.Map
	for i, by := range []slacktest.User{bob, dora} {
		work.Go(func() {
			p := s.press(by, m, "Accept")
			told.Store(i, p.Told)
			status.Store(i, p.Status)
		})
	}
	work.Wait()
	q := s.question(id)
	if q.Decision == nil || len(q.Count) != 1 {
		t.Fatalf("%+v", q)
	}
	for i, who := range []string{"bob", "dora"} {
		got, _ := told.Load(i)
		if code, _ := status.Load(i); code != http.StatusOK || (got == "") != (q.Count[0].Who == who) {
			t.Errorf("%s was told %q with status %v, and %s has decided", who, got, code, q.Count[0].Who)
		}
	}
	s.shows(m.TS, "Accepted by "+q.Count[0].Who+".", true)
}

// What ends a question elsewhere is shown in the message.
func TestEndsElsewhere(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "answered"})
	by := desk.Person{Name: "dora", Groups: []string{"release"}}
	_, err := s.people.Answer(t.Context(), task.Name(id), "pay", desk.Answer{By: by, Action: "decline", Reason: "no"})
	expect.Check(t, err)
	s.shows(m.TS, "Declined by dora. dora: “no”", true)
	id, m = s.call(payment{To: "withdrawn"})
	expect.Must(s.people.Cancel(t.Context(), task.Name(id), desk.Cancellation{By: "ops", Reason: "moving"}))(t)
	s.shows(m.TS, "Withdrawn", true)
	_, m = s.call(payment{To: "expired", MS: 4000})
	s.shows(m.TS, "Unanswered: the deadline has passed.", true)
	if thread := s.slack.Messages(); len(thread) > 4 {
		t.Errorf("the channel has %d messages", len(thread))
	}
}

// A response of Slack that is lost after the write posts nothing twice, and nothing is lost while Slack fails.
func TestSlackFails(t *testing.T) {
	s := newScene(t)
	var calls atomic.Int32
	fail := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch n := calls.Add(1); {
		case r.URL.Path == "/api/chat.postMessage" && n == 1:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	}
	s.before.Store(&fail)
	id, m := s.call(payment{To: "alice"})
	harness.Eventually(t, "the message is found", func() bool { return s.slack.Messages()[0].Edits > 0 })
	if all := s.slack.Messages(); len(all) != 1 {
		t.Errorf("the channel has %d messages", len(all))
	}
	s.press(bob, m, "Accept")
	s.shows(m.TS, "Accepted by bob.", true)
	s.srv.Get(harness.WithExtension, id, "completed")

	_, m = s.call(payment{To: "removed", Votes: 2})
	s.slack.Remove(m.TS)
	if p := s.press(bob, m, "Accept"); p.Status != http.StatusOK {
		t.Errorf("%+v", p)
	}
	harness.Eventually(t, "the message is posted again", func() bool { return len(s.slack.Messages()) == 2 })
}

// Slack gets its response although it does not take what it is sent, and the answer counts.
func TestASlowSlack(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "alice"})
	formID, form := s.call(payment{To: "alan"})
	opened := s.press(bob, form, "Decline")
	hung, end := make(chan struct{}, 100), make(chan struct{})
	t.Cleanup(func() { close(end) })
	hang := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		hung <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}
	s.before.Store(&hang)
	answered := make(chan error, 2)
	go func() {
		p, err := s.slack.Press(context.Background(), s.app, s.base, bob, m, m.Buttons()[0])
		if err == nil && p.Status != http.StatusOK {
			err = fmt.Errorf("the status is %d", p.Status)
		}
		answered <- err
	}()
	go func() {
		p, err := s.slack.Submit(context.Background(), s.app, bob, opened.View, nil)
		if err == nil && p.Status != http.StatusOK {
			err = fmt.Errorf("the status is %d", p.Status)
		}
		answered <- err
	}()
	for range 2 { // while the updates hang
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	if s.working.Load() == 0 {
		t.Error("the updates have not hung")
	}
	<-hung
	for _, id := range []string{id, formID} {
		if q := s.question(id); q.Decision == nil {
			t.Errorf("the votes are %+v", q.Count)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	s := newScene(t)
	message := &chat.Message{Channel: channel, Name: "NAME", Key: "pay", Title: "T", Text: "Pay?", Standing: "Open."}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"channel": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"ok":false,"error":"channel_not_found"}`))
		}, "invite the app"},
		"token": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"ok":false,"error":"invalid_auth"}`))
		}, "check the bot token"},
		"gone":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"moved": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) }, "302"},
		"words": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) }, "slack: posting"},
	} {
		before := func(w http.ResponseWriter, r *http.Request, _ http.Handler) { c.serve(w, r) }
		s.before.Store(&before)
		app, err := slack.New(slack.Options{Token: token, SigningSecret: secret, API: s.base + "/api"})
		expect.Check(t, err)
		_, err = app.Post(t.Context(), message)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var calls atomic.Int32
	limited := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		calls.Add(1)
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	s.before.Store(&limited)
	app, err := slack.New(slack.Options{Token: token, SigningSecret: secret, API: s.base + "/api"})
	expect.Check(t, err)
	for range 3 {
		expect.Fails(t, "with a limit", expect.Err(app.Post(t.Context(), message)), "30s")
	}
	expect.Equal(t, "Slack was asked", calls.Load(), 1)
	for _, o := range []slack.Options{{}, {Token: "hunter2\n", SigningSecret: secret},
		{Token: token, SigningSecret: "hunter2"}, {Token: token, SigningSecret: secret, API: "hunter2"}} {
		if _, err := slack.New(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// What a caller writes mentions nobody, links nowhere, turns no text around, and fits, however long it is.
func TestHostileTexts(t *testing.T) {
	s := newScene(t)
	id, m := s.call(payment{To: "<!here> <https://evil.example|x> \u202eecila" + strings.Repeat("😀&<ü", 8_000)})
	for _, want := range []string{"<!here>", "⟨U+202E⟩ecila"} {
		if !strings.Contains(m.Words(), want) {
			t.Errorf("the message lacks %q", want)
		}
	}
	if strings.Contains(string(m.Blocks), `"mrkdwn"`) || strings.Contains(m.Words(), "\u202e") {
		t.Errorf("a text has a style, or turns around: %s", m.Blocks)
	}
	if strings.Contains(m.Text, "evil") {
		t.Errorf("the notification has words of the caller: %q", m.Text)
	}
	if opened := s.press(bob, m, "Decline"); opened.View == nil {
		t.Errorf("%+v", opened)
	}
	s.press(bob, m, "Accept")
	s.shows(m.TS, "Accepted by bob.", true)
	s.srv.Get(harness.WithExtension, id, "completed")
}
