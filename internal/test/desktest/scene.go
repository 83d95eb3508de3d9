// Package desktest has attacks on a server whose calls wait for people, on any store.
package desktest

import (
	"context"
	"encoding/json"
	"errors"
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
	store    task.Store
	t        *testing.T
	server   *harness.TaskServer
	ran      sync.Map // the versions that were deployed
	notified sync.Map // whose questions a notice told of
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
	w := &world{Desk: expect.Must(desk.Open(store, nil))(t), store: store, t: t}
	notify := func(_ context.Context, n desk.Notice) error {
		if n.Principal == "mallory" {
			return errors.New("a consumer that does not like mallory's notices")
		}
		w.notified.Store(n.Principal, true)
		return nil
	}
	w.server = harness.NewTaskServerOn(t, store, &askback.Options{
		Principal: harness.UserHeader, Desk: &askback.DeskOptions{Wait: 20 * time.Second, Notify: notify},
	}, w.addTools)
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
		w.ran.Store(in.Version, true)
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

// send sends a request of a user, and returns its response.
func (w *world) send(ctx context.Context, user, capabilities, method, name, members string) string {
	return harness.Request{
		Method: method, Target: name, Body: harness.Message(1, method, members, capabilities),
		Header:  http.Header{"X-User": {user}},
		Context: func(r *http.Request) *http.Request { return r.WithContext(ctx) },
	}.Send(w.t, w.server.Handler).Raw
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
	_, ran := w.ran.Load(version)
	return ran
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
