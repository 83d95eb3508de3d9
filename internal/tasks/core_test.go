package tasks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// core is a store with nothing that is optional.
type core struct{ task.Store }

// A store with nothing that is optional serves tasks in both dialects, from the call to the result, and what needs more
// than it has says so.
func TestAStoreOfTheCoreOnly(t *testing.T) {
	t.Parallel()
	logger, log := harness.Logs()
	store := core{new(task.MemoryStore)}
	srv := harness.NewTaskServerOn(t, store, &askback.Options{
		Logger: logger, Tasks: &askback.Tasks{ListAnonymous: true},
	}, harness.AddEcho)
	log.Has(t, "the store has no quotas")

	const answer = `"echo_input":{"action":"accept","content":{"input":"hi"}}`
	id := srv.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	srv.Get(harness.WithExtension, id, "input_required")
	srv.Result(harness.WithExtension, "tasks/update", id, harness.Answered(id, answer))
	if done := srv.Get(harness.WithExtension, id,
		"completed"); harness.Content(done["result"].(map[string]any)) != "Echo: hi" {
		t.Errorf("%v", done)
	}

	created := srv.Result(harness.ProposalOnly, "tools/call", "echo", `"name":"echo","task":{}`)
	id = harness.At(created, "task", "taskId").(string)
	srv.Get(harness.ProposalOnly, id, "input_required")
	srv.Result(harness.ProposalOnly, "tasks/input_response", "", harness.Answered(id, answer))
	srv.Get(harness.ProposalOnly, id, "completed")
	if res := srv.Result(harness.ProposalOnly, "tasks/result", id,
		`"taskId":"`+id+`"`); harness.Content(res) != "Echo: hi" {
		t.Errorf("%v", res)
	}
	if code, message := srv.Fault(harness.ProposalOnly, "tasks/list", "", ""); code != -32601 ||
		!strings.Contains(message, "the store of this server cannot list tasks") {
		t.Errorf("tasks/list: %d %s", code, message)
	}

	id = srv.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	srv.Get(harness.WithExtension, id, "input_required")
	d, err := desk.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for shown, err := range d.List(t.Context(), task.Filter{}) {
		if shown != nil || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no task.Lister") {
			t.Errorf("List: %+v, %v", shown, err)
		}
	}
	if _, err := d.Show(t.Context(), task.Name(id)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Show by the name: %v", err)
	}
	if shown, err := d.Show(t.Context(), id); err != nil || shown.Questions[0].Key != "echo_input" {
		t.Errorf("Show by the ID: %+v, %v", shown, err)
	}
	if _, err := d.Cancel(t.Context(), id, desk.Cancellation{By: "alice", Reason: "why"}); err != nil {
		t.Error(err)
	}
	srv.Get(harness.WithExtension, id, "cancelled")
}

// A quota that the store does not know would protect nobody.
func TestQuotasNeedAStoreThatHasThem(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	_, err := askback.New(m, &askback.Options{Tasks: &askback.Tasks{
		Store: core{new(task.MemoryStore)}, Settings: task.Settings{Anonymous: task.Quota{Kept: 10}},
	}})
	if err == nil || !strings.Contains(err.Error(), "no task.Evicter") {
		t.Errorf("the error is %v", err)
	}
}
