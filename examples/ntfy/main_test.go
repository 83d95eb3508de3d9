package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/task"
)

var (
	secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that are random"))
	next   = "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that come next!"))

	notice = desk.Notice{
		ID: "NAME-KEY-asked-1", Kind: task.NoticeAsked, Name: "NAME", Key: "approve/1", Target: "publish",
		For: []string{"group:editors"}, Message: "Publish *Prices*?", Deadline: time.Unix(1800000000, 0),
	}
	topics = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)
)

// ntfy stands for a server of ntfy. It takes what the documents of ntfy say of a push as JSON, and nothing else.
func ntfy(t *testing.T, pushes *[]push) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tk_hunter2" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var m push
		d := json.NewDecoder(io.LimitReader(r.Body, 8<<10))
		d.DisallowUnknownFields()
		malformed := d.Decode(&m)
		click, err := url.Parse(m.Click)
		if malformed != nil || err != nil || r.Method != http.MethodPost || r.URL.Path != "/" ||
			!topics.MatchString(m.Topic) || m.Message == "" || len(m.Message) > 4096 ||
			m.Priority < 1 || m.Priority > 5 || !click.IsAbs() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		*pushes = append(*pushes, m)
		_, _ = io.WriteString(w, `{"id":"hwQ2YpKdmg","event":"message"}`)
	}))
	t.Cleanup(server.Close)
	return server
}

// post sends a notice to a receiver, as the server does.
func post(t *testing.T, server, token, secrets string, n desk.Notice) error {
	t.Helper()
	phones, err := NewPhones(server, "approvals", token, "https://inbox.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(receiver(secret+" "+next, phones))
	defer web.Close()
	hook, err := webhook.New(web.URL, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Send(t.Context(), n)
}

// A question that waits is pushed, and pushed with more urgency near its deadline.
func TestPushes(t *testing.T) {
	var pushes []push
	server := ntfy(t, &pushes)
	for _, kind := range []task.NoticeKind{task.NoticeAsked, task.NoticeDueSoon, task.NoticeDecided, task.NoticeEnded} {
		n := notice
		n.Kind = kind
		if err := post(t, server.URL, "tk_hunter2", next, n); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	const click = "https://inbox.example.com/q/NAME/approve%2F1"
	want := []push{
		{"approvals", "publish asks group:editors", notice.Message, 3, click},
		{"approvals", "Until 08:00 UTC: publish asks group:editors", notice.Message, 5, click},
	}
	if len(pushes) != 2 || pushes[0] != want[0] || pushes[1] != want[1] {
		t.Errorf("the pushes are %+v\nwant %+v", pushes, want)
	}
}

func TestLongQuestions(t *testing.T) {
	var pushes []push
	n := notice
	n.Message, n.Target = strings.Repeat("ü", 2100)+"…", strings.Repeat("t", 1000)
	if err := post(t, ntfy(t, &pushes).URL, "tk_hunter2", secret, n); err != nil || len(pushes) != 1 {
		t.Errorf("%d pushes: %v", len(pushes), err)
	}
}

// The sender is told of a notice that was not pushed, so that it comes again. A forged one goes nowhere.
func TestWhatIsNotPushed(t *testing.T) {
	var pushes []push
	server := ntfy(t, &pushes)
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes of another key!"))
	for _, c := range []struct{ server, token, secret, want string }{
		{server.URL, "tk_hunter2", other, "401"},
		{server.URL, "", secret, "502"},
		{server.URL + "/elsewhere", "tk_hunter2", secret, "502"},
		{"http://127.0.0.1:1", "tk_hunter2", secret, "502"},
	} {
		if err := post(t, c.server, c.token, c.secret, notice); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if len(pushes) != 0 {
		t.Errorf("pushed %+v", pushes)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range [][3]string{
		{"", "approvals", "https://inbox"}, {"https://ntfy", "", "https://inbox"}, {"https://ntfy", "approvals", "inbox"},
	} {
		if _, err := NewPhones(c[0], c[1], "tk_hunter2", c[2]); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", c, err)
		}
	}
}
