package workitem_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
)

const resolve4522 = `"arguments": {"workItemId": 4522, "fields": {"System.State": "Resolved"}}`

func TestTheFlowOfTheProposal(t *testing.T) {
	h, store := serve(t)

	first := post(t, h, resolve4522)
	want := `{
		"resolution": {
			"method": "elicitation/create",
			"params": {
				"message": "Resolving Bug #4522 requires a resolution. How was this bug resolved?",
				"requestedSchema": {
					"type": "object",
					"properties": {
						"resolution": {
							"type": "string",
							"enum": ["Fixed", "Won't Fix", "Duplicate", "By Design"],
							"description": "Resolution type for this bug"
						}
					},
					"required": ["resolution"]
				}
			}
		}
	}`
	if diff := cmp.Diff(fromJSON(t, want), first.questions()); diff != "" {
		t.Errorf("round 1, inputRequests (-want +got):\n%s", diff)
	}

	second := answer(t, h, first, resolve4522, `"resolution": {"action": "accept", "content": {"resolution": `+
		`"Duplicate"}}`)
	want = `{
		"duplicate_of": {
			"method": "elicitation/create",
			"params": {
				"message": "Since this is a duplicate, which work item is the original?",
				"requestedSchema": {
					"type": "object",
					"properties": {
						"duplicateOfId": {
							"type": "number",
							"description": "Work item ID of the original bug"
						}
					},
					"required": ["duplicateOfId"]
				}
			}
		}
	}`
	if diff := cmp.Diff(fromJSON(t, want), second.questions()); diff != "" {
		t.Errorf("round 2, inputRequests (-want +got):\n%s", diff)
	}
	if history := history(t, store, 4522); len(history) > 0 {
		t.Errorf("changed before all questions were answered: %v", history)
	}

	// The response to the last round is lost, so the client sends it again.
	for range 2 {
		last := answer(t, h, second, resolve4522, `"duplicate_of": {"action": "accept", "content": {"duplicateOfId": 4301}}`)
		text := "Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created."
		if last.text() != text || last.IsError {
			t.Errorf("got %+v, want %q", last, text)
		}
	}
	wantHistory := []string{"Custom.Resolution:  → Duplicate", "System.State: Active → Resolved",
		"Duplicate Of:  → 4301"}
	if diff := cmp.Diff(wantHistory, history(t, store, 4522)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestOtherResolutionsNeedOneAnswer(t *testing.T) {
	for _, name := range []string{"Fixed", "Won't Fix", "By Design"} {
		h, store := serve(t)
		got := answer(t, h, post(t, h, resolve4522), resolve4522, `"resolution": {"action": "accept", "content": `+
			`{"resolution": "`+name+`"}}`)
		if want := "Bug #4522 resolved as " + name + ". State set to Resolved."; got.text() != want || got.IsError {
			t.Errorf("got %+v, want %q", got, want)
		}
		if got := history(t, store, 4522); len(got) != 2 {
			t.Errorf("%s: history %q, want the state and the resolution", name, got)
		}
	}
}

func TestAChangeThatNeedsNoAnswerTakesOneRound(t *testing.T) {
	for _, tt := range []struct{ arguments, want string }{
		{
			`{"workItemId": 4522, "fields": {"Microsoft.VSTS.Common.Priority": "1", "System.AssignedTo": "Grace Hopper"}}`,
			"Bug #4522 updated. Assigned To set to Grace Hopper and Priority set to 1.",
		},
		{
			`{"workItemId": 4522, "fields": {"System.State": "Resolved", "Custom.Resolution": "Fixed"}}`,
			"Bug #4522 resolved as Fixed. State set to Resolved.",
		},
		{
			`{"workItemId": 4317, "fields": {"System.State": "Resolved"}}`,
			"Task #4317 updated. State set to Resolved.",
		},
	} {
		h, _ := serve(t)
		if got := post(t, h, `"arguments": `+tt.arguments); got.text() != tt.want || got.IsError {
			t.Errorf("%s: got %+v, want %q", tt.arguments, got, tt.want)
		}
	}
}

func TestACallThatMustFailAsksNothing(t *testing.T) {
	for _, tt := range []struct{ arguments, want string }{
		{`{"workItemId": 9999, "fields": {"System.State": "Resolved"}}`, "work item #9999 does not exist; " +
			"the nearest are Issue #4540, Bug #4523, Bug #4522"},
		{`{"workItemId": 4522, "fields": {"System.State": "Resolved", "State": "Resolved"}}`, `unknown field "State"; ` +
			`known fields are System.Title, `},
		{`{"workItemId": 4522, "fields": {"System.State": "Done"}}`, `System.State cannot be "Done"; it is one of New, `},
		{`{"workItemId": 4522, "fields": {}}`, "fields is empty; name at least one of System.Title, "},
	} {
		h, _ := serve(t)
		if got := post(t, h, `"arguments": `+tt.arguments); !got.IsError || !strings.HasPrefix(got.text(), tt.want) {
			t.Errorf("%s: got %+v, want the tool error %q", tt.arguments, got, tt.want)
		}
	}
}

func TestAnAnswerThatCannotBeChangesNothing(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{`{"action": "accept", "content": {"duplicateOfId": 4300}}`, "work item #4300 does not exist; " +
			"the nearest are Bug #4301, "},
		{`{"action": "accept", "content": {"duplicateOfId": 4522}}`, "Bug #4522 cannot be a duplicate of itself"},
		{`{"action": "accept", "content": {"duplicateOfId": 4301.5}}`, "4301.5 is not the id of a work item"},
		{`{"action": "decline"}`, "Bug #4522 was not changed: "},
		{`{"action": "cancel"}`, "Bug #4522 was not changed: "},
	} {
		h, store := serve(t)
		const arguments = `"arguments": {"workItemId": 4522, "fields": {"Custom.Resolution": "Duplicate"}}`
		got := answer(t, h, post(t, h, arguments), arguments, `"duplicate_of": `+tt.answer)
		if !got.IsError || !strings.HasPrefix(got.text(), tt.want) {
			t.Errorf("%s: got %+v, want the tool error %q", tt.answer, got, tt.want)
		}
		if got := history(t, store, 4522); len(got) > 0 {
			t.Errorf("%s: changed %q", tt.answer, got)
		}
	}
}

func TestACallAnsweredTwiceInDifferentWaysCountsOnce(t *testing.T) {
	h, store := serve(t)
	first := post(t, h, resolve4522)
	one := answer(t, h, first, resolve4522, `"resolution": {"action": "accept", "content": {"resolution": "Fixed"}}`)
	two := answer(t, h, first, resolve4522, `"resolution": {"action": "accept", "content": {"resolution": "By Design"}}`)
	if one.IsError || !two.IsError || !strings.Contains(two.text(), "already done with other values") {
		t.Errorf("got %+v and %+v", one, two)
	}
	item, err := store.Item(context.Background(), 4522)
	if err != nil || item.Fields["Custom.Resolution"] != "Fixed" {
		t.Errorf("resolution %q, %v; want that of the first answer", item.Fields["Custom.Resolution"], err)
	}
}

func serve(t *testing.T) (http.Handler, *workitem.Store) {
	t.Helper()
	store, err := workitem.Open(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), &askback.Options{
		Logger: slog.New(slog.DiscardHandler), // it warns that no keys are configured
	})
	if err != nil {
		t.Fatal(err)
	}
	workitem.Register(s, store)
	return s.HTTPHandler(nil), store
}

func history(t *testing.T, store *workitem.Store, id int) []string {
	t.Helper()
	entries, err := store.History(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range entries {
		lines = append(lines, e.Field+": "+e.From+" → "+e.To)
	}
	return lines
}

// result is what the tests read of a result of tools/call.
type result struct {
	InputRequests map[string]struct {
		Method string
		Params map[string]any
	}
	RequestState string
	Content      []struct{ Text string }
	IsError      bool
}

// questions returns the input requests as the proposal writes them: without the mode, which is form unless told.
func (r result) questions() any {
	questions := make(map[string]any)
	for key, q := range r.InputRequests {
		if q.Params["mode"] == "form" {
			delete(q.Params, "mode")
		}
		questions[key] = map[string]any{"method": q.Method, "params": q.Params}
	}
	return questions
}

func (r result) text() string {
	if len(r.Content) != 1 {
		return ""
	}
	return r.Content[0].Text
}

// answer sends a call's next round: its arguments again, with responses to what was asked.
func answer(t *testing.T, h http.Handler, asked result, arguments, responses string) result {
	t.Helper()
	return post(t, h, arguments+`, "inputResponses": {`+responses+`}, "requestState": "`+asked.RequestState+`"`)
}

// post calls update_work_item once with the given params, a client's request on the wire.
func post(t *testing.T, h http.Handler, params string) result {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "update_work_item", `+params+`, "_meta": {
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}
		}}
	}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "update_work_item")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	var response struct{ Result *result }
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil || response.Result == nil {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	return *response.Result
}

func fromJSON(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
