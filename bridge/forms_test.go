package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A host that can ask gets every form of the field as the server sent it, and the server the answer, whatever revision
// the host speaks. For a host that cannot ask, a person at the desk answers the same form.
func TestFormsOfTheField(t *testing.T) {
	data := expect.Must(os.ReadFile("../internal/form/testdata/field.json"))(t)
	var forms []struct {
		From          string
		Schema, Takes json.RawMessage
	}
	expect.Check(t, json.Unmarshal(data, &forms))
	h := newHostile(t)
	front, _ := beside(t, h, client.Options{})
	waits, _ := beside(t, h, client.Options{}, patient)
	var got []byte // by the host
	opts := client.Options{Tasks: client.TasksOff}
	asking := opts
	var takes json.RawMessage
	asking.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		got = q.Schema
		content := make(map[string]any)
		return &mcp.ElicitResult{Action: "accept", Content: content}, json.Unmarshal(takes, &content)
	}
	modern, legacy := host(t, waits.url, "", asking), host(t, waits.url, "2025-11-25", asking)
	mute := host(t, front.url, "", opts)
	for _, f := range forms {
		var sent bytes.Buffer
		expect.Check(t, json.Compact(&sent, f.Schema))
		if takes = json.RawMessage("{}"); f.Takes != nil {
			takes = strictjson.AppendCompact(nil, f.Takes)
		}
		h.on("tools/call plain", func(params json.RawMessage) string {
			if answers := strictjson.Get(params, "inputResponses"); answers != nil {
				content := strictjson.Get(strictjson.Get(answers, "q"), "content")
				return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, content)
			}
			return `{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"elicitation/create",` +
				`"params":{"mode":"form","message":"?","requestedSchema":` + sent.String() + `}}}}`
		})
		for name, s := range map[string]*client.Session{"modern": modern, "legacy": legacy} {
			got = nil
			text, failed := call(t, s, "evil_plain", nil)
			if string(got) != sent.String() {
				t.Errorf("%s, %s: the host is shown %s", f.From, name, got)
			}
			if failed || !fits(text, takes) {
				t.Errorf("%s, %s: the server gets %s for %s", f.From, name, text, takes)
			}
		}
		call(t, mute, "evil_plain", nil)
		q := front.answer(t, "ada", desk.Answer{Action: "accept", Content: takes})
		if text := fetch(t, mute, q.Name); string(q.Schema) != sent.String() || !fits(text, takes) {
			t.Errorf("%s: the desk shows %s, and the server gets %s for %s", f.From, q.Schema, text, takes)
		}
	}
}

// fits reports whether content has all that was answered, but for what stands for no answer.
func fits(content string, takes json.RawMessage) bool {
	if strictjson.TypeOf([]byte(content)) != strictjson.TypeObject {
		return false
	}
	for name, value := range strictjson.Members(takes) {
		if had := strictjson.Get([]byte(content), string(name)); string(had) != string(value) {
			return false
		}
	}
	return true
}

// A host that answers a form with an error cannot show it. The question goes to the desk, and the call goes on.
func TestAHostThatFailsToAsk(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url)
	opts := client.Options{Tasks: client.TasksOff}
	opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return nil, errors.New("no window")
	}
	s := host(t, front.url, "2025-11-25", opts)
	expect.Contains(t, "the words", waits(t, s, "order", map[string]any{"item": "hat"}), "user:ada")
	for listed, err := range front.desk.Waiting(t.Context(), desk.Waiting{}) { // the host cannot ask it now either
		expect.Check(t, err)
		text, failed := call(t, s, "askback_result", map[string]any{"name": listed.Name})
		if failed || !strings.Contains(text, "user:ada") {
			t.Errorf("asked again, the words are %q", text)
		}
	}
	q := front.answer(t, "ada", desk.Answer{Action: "decline"})
	expect.Equal(t, "the result", fetch(t, s, q.Name), "nothing: decline")
}
