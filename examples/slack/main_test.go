package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

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
	mux := http.NewServeMux()
	slack := httptest.NewServer(mux)
	defer slack.Close()
	talk, err := newChat(people, new(state.MemoryStore), demo(mux, slack.URL))
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/slack", talk)
	srv, err := newServer(keys, store, func(ctx context.Context, n desk.Notice) error {
		if err := talk.Notify(ctx, n); err != nil || n.Kind != task.NoticeAsked {
			return err
		}
		for _, user := range []string{"U0EVE", "U0ADA"} { // the first is no editor
			got := read(t, slack.URL+"/press?button=Accept&user="+user)
			if !strings.HasPrefix(got, "Slack got 200 from the app.") {
				t.Errorf("%s pressed the button: %q", user, got)
			}
		}
		return nil
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
	history := people.Answered(t.Context(), desk.Person{Name: "ada", Groups: []string{"editors"}})
	for q, err := range history {
		if err != nil || q.Summary() != "accepted by ada" || q.Count[0].Channel != "slack" {
			t.Errorf("%v, %v", q, err)
		}
	}
}

func read(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]config{
		"SLACK_CHANNEL": {token: "xoxb-hunter2", secret: "hunter2-hunter2-hunter2"},
		"bot token":     {secret: "hunter2-hunter2-hunter2", channel: "C1"},
	} {
		if _, err := newChat(nil, nil, c); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
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
