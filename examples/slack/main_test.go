package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

const inboxURL = "https://inbox.example.com/inbox/"

// newChannel is a channel that keeps its messages.
func newChannel(t *testing.T) (s *Slack, messages func() []message) {
	t.Helper()
	var mu sync.Mutex
	var all []message
	web := httptest.NewServer(channel(func(m message) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m)
	}))
	t.Cleanup(web.Close)
	s, err := NewSlack(web.URL, inboxURL)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() []message {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

var notice = desk.Notice{
	Kind: task.NoticeAsked, Name: "NAME", Key: "approve/1", Target: "publish", For: []string{"group:<!channel>"},
	Message: "Publish <!here> & <https://evil.example.com|the page>?", Deadline: time.Unix(1800000000, 0),
}

// What a caller writes mentions nobody and makes no link.
func TestMessages(t *testing.T) {
	s, messages := newChannel(t)
	kinds := []task.NoticeKind{task.NoticeAsked, task.NoticeDueSoon, task.NoticeUnanswered, task.NoticeDecided}
	for _, kind := range kinds {
		n := notice
		n.Kind = kind
		if err := s.Notify(t.Context(), n); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	const (
		summary = "A question of the tool publish for group:&lt;!channel&gt; "
		until   = ". The deadline is <!date^1800000000^{date_short_pretty}, {time}|Fri, 15 Jan 2027 08:00:00 UTC>."
		link    = " <https://inbox.example.com/inbox/q/NAME/approve%2F1|Answer it>"
	)
	want := [][2]string{
		{summary + "is waiting", until + link},
		{summary + "is still waiting", until + link},
		{summary + "was not answered in time", until},
	}
	got := messages()
	if len(got) != len(want) {
		t.Fatalf("the channel has %d messages: %q", len(got), got)
	}
	for i, w := range want {
		if m := got[i]; m.Text != w[0] || len(m.Blocks) != 2 ||
			m.Blocks[0].Text != (text{"plain_text", notice.Message}) || m.Blocks[1].Text != (text{"mrkdwn", w[0] + w[1]}) {
			t.Errorf("message %d is %q\nwant %q", i, m, w)
		}
	}
}

func TestLongQuestions(t *testing.T) {
	s, messages := newChannel(t)
	n := notice
	n.Message = strings.Repeat("ü", 60_000)
	if err := s.Notify(t.Context(), n); err != nil || len(messages()) != 1 {
		t.Errorf("the channel has %d messages: %v", len(messages()), err)
	}
}

// Notify returns an error, so that the notice comes again. It tells the reason, and not the URL.
func TestSlackRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"removed": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no_service", http.StatusNotFound) },
			`404 Not Found: "no_service`},
		"too fast": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "429"},
		"moved":    {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) }, "302"},
		"gone":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(tt.serve)
			defer web.Close()
			s, err := NewSlack(web.URL+"/services/hunter2", inboxURL)
			if err != nil {
				t.Fatal(err)
			}
			if err = s.Notify(t.Context(), notice); err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for _, urls := range [][2]string{{"", inboxURL}, {"hunter2", inboxURL}, {"https://hooks.slack.com/", "inbox"}} {
		if _, err := NewSlack(urls[0], urls[1]); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", urls, err)
		}
	}
}

// as sends requests as the proxy passes them on for a user.
type as string

func (user as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", string(user))
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP: when the channel has the message, an editor answers.
func TestOverHTTP(t *testing.T) {
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	store := new(task.MemoryStore)
	people, err := desk.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	slack, messages := newChannel(t)
	srv, err := newServer(keys, store, func(ctx context.Context, n desk.Notice) error {
		if err := slack.Notify(ctx, n); err != nil || n.Kind != task.NoticeAsked {
			return err
		}
		_, err := people.Answer(ctx, n.Name, n.Key, desk.Answer{
			By: desk.Person{Name: "ada", Groups: []string{"editors"}}, Action: "accept",
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- srv.RunTasks(ctx) }()

	session, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: web.URL, HTTPClient: &http.Client{Transport: as("carol")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	waiting, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res, err := session.CallTool(waiting, &mcp.CallToolParams{Name: "publish", Arguments: page{"Prices"}})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != `"Prices" is published.` {
		t.Errorf("got %q", got)
	}
	if all := messages(); len(all) != 1 || all[0].Blocks[0].Text.Text != `Publish the page "Prices"?` {
		t.Errorf("the channel has %q", all)
	}
}

func TestUnit(t *testing.T) {
	for want, answer := range map[string]askbacktest.Answer{
		`"Prices" is published.`:                               askbacktest.Accept(nil).By("ada", "editors"),
		`the question "approve" was not decided within 8h0m0s`: askbacktest.Unanswered(),
	} {
		res := askbacktest.Run(t, register, askbacktest.Call{
			Tool: "publish", Arguments: page{"Prices"}, Principal: "carol",
			Answers: map[string]askbacktest.Answer{"approve": answer},
		})
		if !strings.HasPrefix(res.Text(), want) {
			t.Errorf("got %q, want %q", res.Text(), want)
		}
	}
}
