package workitem_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
	"github.com/askback-mcp/askback/internal/test/harness"
)

type (
	fields  = map[string]string
	answers = map[string]askbacktest.Answer
)

var (
	resolved  = fields{"System.State": "Resolved"}
	duplicate = askbacktest.Accept(fields{"resolution": "Duplicate"})
)

// of is an answer to duplicate_of.
func of(id float64) askbacktest.Answer {
	return askbacktest.Accept(map[string]float64{"duplicateOfId": id})
}

// update calls update_work_item on a new store, and returns the result and the changes of #4522. Each round has a
// server of its own, and each response is lost once, which repeats the steps of the last round on the store.
func update(t *testing.T, id int, change fields, given answers) (*askbacktest.Result, []string) {
	t.Helper()
	store := newStore(t)
	res := askbacktest.Run(t, func(s *askback.Server) { workitem.Register(s, store) }, askbacktest.Call{
		Tool: "update_work_item", Arguments: map[string]any{"workItemId": id, "fields": change}, Answers: given,
	})
	entries, err := store.History(t.Context(), 4522)
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, e := range entries {
		changes = append(changes, e.Field+": "+e.From+" → "+e.To)
	}
	return res, changes
}

func newStore(t *testing.T) *workitem.Store {
	t.Helper()
	store, err := workitem.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestRestartsAndLostResponsesChangeNothing(t *testing.T) {
	res, changes := update(t, 4522, resolved, answers{"resolution": duplicate, "duplicate_of": of(4301)})
	want := "Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created."
	if res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
	if diff := cmp.Diff([][]string{{"resolution"}, {"duplicate_of"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	history := []string{
		"Custom.Resolution:  → Duplicate", "System.State: Active → Resolved", "Duplicate Of:  → 4301"}
	if diff := cmp.Diff(history, changes); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestOtherResolutionsNeedOneAnswer(t *testing.T) {
	for _, name := range []string{"Fixed", "Won't Fix", "By Design"} {
		res, changes := update(t, 4522, resolved,
			answers{"resolution": askbacktest.Accept(fields{"resolution": name})})
		want := "Bug #4522 resolved as " + name + ". State set to Resolved."
		if res.Text() != want || len(changes) != 2 {
			t.Errorf("got %q and the history %q, want %q, the state and the resolution", res.Text(), changes, want)
		}
	}
}

func TestAChangeThatNeedsNoAnswerTakesOneRound(t *testing.T) {
	for _, tt := range []struct {
		id     int
		change fields
		want   string
	}{
		{4522, fields{"Microsoft.VSTS.Common.Priority": "1", "System.AssignedTo": "Grace Hopper"},
			"Bug #4522 updated. Assigned To set to Grace Hopper and Priority set to 1."},
		{4522, fields{"System.State": "Resolved", "Custom.Resolution": "Fixed"},
			"Bug #4522 resolved as Fixed. State set to Resolved."},
		{4317, resolved, "Task #4317 updated. State set to Resolved."},
	} {
		if res, _ := update(t, tt.id, tt.change, nil); res.Text() != tt.want || res.Tool.IsError {
			t.Errorf("%v: got %q, want %q", tt.change, res.Text(), tt.want)
		}
	}
}

// A call that must fail asks nothing, and an answer that cannot be changes nothing.
func TestWhatFailsChangesNothing(t *testing.T) {
	copied := fields{"Custom.Resolution": "Duplicate"}
	for _, tt := range []struct {
		id     int
		change fields
		given  answers
		want   string
	}{
		{9999, resolved, nil, "work item #9999 does not exist; the nearest are Issue #4540, Bug #4523, Bug #4522"},
		{4522, fields{"System.State": "Resolved", "State": "Resolved"}, nil,
			`unknown field "State"; known fields are System.Title, `},
		{4522, fields{"System.State": "Done"}, nil, `System.State cannot be "Done"; it is one of New, `},
		{4522, fields{}, nil, "fields is empty; name at least one of System.Title, "},
		{4522, copied, answers{"duplicate_of": of(4300)}, "work item #4300 does not exist; the nearest are Bug #4301, "},
		{4522, copied, answers{"duplicate_of": of(4522)}, "Bug #4522 cannot be a duplicate of itself"},
		{4522, copied, answers{"duplicate_of": of(4301.5)}, "4301.5 is not the id of a work item"},
		{4522, copied, answers{"duplicate_of": askbacktest.Decline()}, "Bug #4522 was not changed: "},
		{4522, copied, answers{"duplicate_of": askbacktest.Cancel()}, "Bug #4522 was not changed: "},
	} {
		res, changes := update(t, tt.id, tt.change, tt.given)
		if !res.Tool.IsError || !strings.HasPrefix(res.Text(), tt.want) || len(changes) > 0 {
			t.Errorf("%v: got %q and the history %q, want the tool error %q", tt.change, res.Text(), changes, tt.want)
		}
	}
}

// resolve4522 is a call that asks for the resolution, as a client sends it.
var resolve4522 = harness.Request{
	Target: "update_work_item", Arguments: `{"workItemId": 4522, "fields": {"System.State": "Resolved"}}`,
}

func TestACallAnsweredTwiceInDifferentWaysCountsOnce(t *testing.T) {
	store := newStore(t)
	h := harness.NewServer(t, nil, func(s *askback.Server) { workitem.Register(s, store) }).HTTPHandler(nil)
	call := resolve4522
	call.State = call.Send(t, h).Asked(t, "resolution")
	answer := func(resolution string) string {
		call.Responses = `{"resolution": {"action": "accept", "content": {"resolution": "` + resolution + `"}}}`
		return call.Send(t, h).Text(t)
	}
	one, two := answer("Fixed"), answer("By Design")
	if !strings.Contains(one, "resolved as Fixed") || !strings.Contains(two, "already done with other values") {
		t.Errorf("got %q and %q", one, two)
	}
	item, err := store.Item(t.Context(), 4522)
	if err != nil || item.Fields["Custom.Resolution"] != "Fixed" {
		t.Errorf("resolution %q, %v; want that of the first answer", item.Fields["Custom.Resolution"], err)
	}
}
