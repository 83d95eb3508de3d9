// Package desktest has attacks on a server whose calls wait for people, on any store.
package desktest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// world is a server whose calls wait for people, and its desk. The principal of a request is its header X-User.
type world struct {
	*desk.Desk
	store task.Store
	url   string

	mu       sync.Mutex
	ran      map[string]bool // the versions that were deployed
	notified map[string]bool // whose questions a notice told of
}

type (
	deployment struct {
		Version string `json:"version"`
	}
	note struct {
		Text string `json:"text"`
	}
)

// build starts a server on a store.
func build(t *testing.T, store task.Store) *world {
	t.Helper()
	d, err := desk.Open(store, nil)
	expect.Check(t, err)
	w := &world{Desk: d, store: store, ran: make(map[string]bool), notified: make(map[string]bool)}
	notify := func(_ context.Context, n desk.Notice) error {
		if n.Principal == "mallory" {
			return errors.New("a consumer that does not like mallory's notices")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notified[n.Principal] = true
		return nil
	}
	s := harness.NewTaskServerOn(t, store, &askback.Options{
		Principal: harness.UserHeader, Desk: &askback.DeskOptions{Wait: 20 * time.Second, Notify: notify},
	}, w.addTools)
	w.url = s.URL()
	return w
}

func (w *world) addTools(s *askback.Server) {
	deploy := func(_ context.Context, call *askback.Call, in deployment) (string, error) {
		err := askback.Approve(call, "release", askback.Question{
			Message: "Deploy " + in.Version + "?", For: []string{askback.Group("release")}, Votes: 2, Within: time.Hour,
		})
		if err != nil {
			return "", err
		}
		w.mu.Lock()
		w.ran[in.Version] = true
		w.mu.Unlock()
		var by []string
		for _, p := range call.Answers("release") {
			by = append(by, p.Who)
		}
		return "deployed, approved by " + strings.Join(by, " and "), nil
	}
	askback.AddTool(s, &mcp.Tool{Name: "deploy"}, deploy)
	askback.AddTaskTool(s, &mcp.Tool{Name: "deploy_task"}, nil, deploy)
	// It asks its client before it asks people.
	askback.AddTool(s, &mcp.Tool{Name: "both"},
		func(ctx context.Context, call *askback.Call, in deployment) (string, error) {
			if _, err := askback.Elicit[note](call, "ready", "Are you ready?"); err != nil {
				return "", err
			}
			return deploy(ctx, call, in)
		})
}

// send sends a request of a user over HTTP, and returns its response.
func (w *world) send(ctx context.Context, user, capabilities, method, name, members string) string {
	body := harness.Message(1, method, members, capabilities)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name, "X-User": user,
	} {
		req.Header.Set(name, value)
	}
	if name == "" {
		req.Header.Del("Mcp-Name")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// call calls a tool as a task, and returns the task's ID.
func (w *world) call(t *testing.T, user, tool, version string) (id string) {
	t.Helper()
	said := w.send(t.Context(), user, harness.WithExtension, "tools/call", tool, arguments(tool, version))
	id, _ = harness.At(harness.AsJSON(t, said), "result", "taskId").(string)
	if id == "" {
		t.Fatalf("%s calls %s: %s", user, tool, said)
	}
	return id
}

func arguments(tool, version string) string {
	return `"name":` + harness.Quote(tool) + `,"arguments":{"version":` + harness.Quote(version) + `}`
}

// get returns what a user's client sees of a task.
func (w *world) get(t *testing.T, user, id string) (status string, all string) {
	t.Helper()
	all = w.send(t.Context(), user, harness.WithExtension, "tasks/get", id, `"taskId":`+harness.Quote(id))
	status, _ = harness.At(harness.AsJSON(t, all), "result", "status").(string)
	return status, all
}

// asked waits until a task asks people, and returns its name.
func (w *world) asked(t *testing.T, id string) (name string) {
	t.Helper()
	name = task.Name(id)
	harness.Eventually(t, "question of "+name, func() bool {
		asked, err := w.Questions(t.Context(), name, nil)
		return err == nil && len(asked) > 0
	})
	return name
}

func (w *world) deployed(version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran[version]
}

func (w *world) tellsOf(principal string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notified[principal]
}

// serves requires that a call of somebody else is served: it ends as the people who are asked decide.
func (w *world) serves(t *testing.T, version string) {
	t.Helper()
	id := w.call(t, "erin", "deploy", version)
	name := w.asked(t, id)
	for _, who := range []string{"bob", "dave"} {
		if _, err := w.Answer(t.Context(), name, "release", approves(who, "release")); err != nil {
			t.Errorf("%s approves erin's call: %v", who, err)
		}
	}
	all := ""
	harness.Eventually(t, "end of erin's call", func() (ended bool) {
		var status string
		status, all = w.get(t, "erin", id)
		return status != "working"
	})
	if !strings.Contains(all, "deployed, approved by bob and dave") || !w.deployed(version) {
		t.Errorf("erin's call: %s", all)
	}
}

func approves(who string, groups ...string) desk.Answer {
	return desk.Answer{By: desk.Person{Name: who, Groups: groups}, Action: "accept", Content: json.RawMessage(`{}`)}
}

// scene is a call of carol's that waits for two of the group release, under the key release.
type scene struct {
	*testing.T
	*world
	version  string
	id, name string
}

// refused returns what says that an answer to carol's question was refused.
func (s *scene) refused(a desk.Answer) string {
	s.Helper()
	_, err := s.Answer(s.Context(), s.name, "release", a)
	if err == nil {
		return "NOT REFUSED"
	}
	return err.Error()
}

// sends sends a request of a user, with these members and the ID of carol's task.
func (s *scene) sends(user, capabilities, method, members string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	return s.send(ctx, user, capabilities, method, s.id, `"taskId":`+harness.Quote(s.id)+members)
}

// question returns carol's question, as far as it can be read.
func (s *scene) question() *desk.Question {
	s.Helper()
	q, err := s.Question(s.Context(), s.name, "release", nil)
	if q == nil {
		s.Fatal(err)
	}
	return q
}
