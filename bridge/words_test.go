package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// newWaiting starts a server whose tool waits for people at its own desk, and tells clients so in words.
func newWaiting(t *testing.T, name string) (url string, people *desk.Desk) {
	t.Helper()
	store := new(task.MemoryStore)
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil), &askback.Options{
		Logger: quiet, Tasks: &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Wait: time.Millisecond},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "the bridge", nil },
	})
	expect.Check(t, err)
	srv.AddResultTool()
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, &askback.TaskSupport{Always: true},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			err := askback.Approve(call, "sure", askback.Question{Message: "Deploy " + name + "?", For: []string{"user:olga"}})
			return "deployed " + name, err
		})
	go srv.RunTasks(t.Context())
	web := harness.Serve(t, srv.HTTPHandler(nil))
	if people, err = desk.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	return web.URL, people
}

// A call that waits for people at a server behind, of which there are two, is fetched by its caller under the bridge's
// name for it. Another caller of the bridge, whom the servers do not know, cannot fetch it.
func TestACallWaitsForPeopleBehindTheBridge(t *testing.T) {
	a, atA := newWaiting(t, "a")
	b, atB := newWaiting(t, "b")
	f := newFront(t, "", inFront(named("a", a), named("b", b)), byHeader)
	opts := client.Options{Tasks: client.TasksOff}
	ada, eve := as(t, f, "ada", opts), as(t, f, "eve", opts)
	expect.Same(t, "the tools", toolNames(t, eve), []string{"a_deploy", "askback_result", "b_deploy"})
	for name, people := range map[string]*desk.Desk{"a": atA, "b": atB} {
		words, failed := call(t, ada, name+"_deploy", nil)
		called := callName.FindStringSubmatch(words)
		if failed || called == nil {
			t.Fatalf("the words are %q", words)
		}
		in := map[string]any{"name": called[1]}
		refuses(t, eve, "askback_result", in, "no such call")
		(&front{desk: people}).answer(t, "olga", desk.Answer{Action: "accept"})
		expect.Equal(t, "the result", fetch(t, ada, called[1]), "deployed "+name)
	}
}
