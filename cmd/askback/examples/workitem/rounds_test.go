package workitem_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
)

// The same result however the call is cut: restarted in every round, and with every
// response lost once, which repeats the steps of the last round on the same store.
func TestRestartsAndLostResponsesChangeNothing(t *testing.T) {
	store, err := workitem.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	res := askbacktest.Run(t, func(srv *askback.Server) { workitem.Register(srv, store) }, askbacktest.Call{
		Tool:      "update_work_item",
		Arguments: map[string]any{"workItemId": 4522, "fields": map[string]string{"System.State": "Resolved"}},
		Answers: map[string]askbacktest.Answer{
			"resolution":   askbacktest.Accept(map[string]string{"resolution": "Duplicate"}),
			"duplicate_of": askbacktest.Accept(map[string]int{"duplicateOfId": 4301}),
		},
	})
	want := "Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link " +
		"created."
	if res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
	if diff := cmp.Diff([][]string{{"resolution"}, {"duplicate_of"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	changes := []string{"Custom.Resolution:  → Duplicate", "System.State: Active → Resolved", "Duplicate Of:  → 4301"}
	if diff := cmp.Diff(changes, history(t, store, 4522)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}
