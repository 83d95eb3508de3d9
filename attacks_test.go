package askback_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/desktest"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestAttacksOnTheDesk(t *testing.T) { desktest.Attacks(t, new(task.MemoryStore)) }

func TestClientsDoNotMeasure(t *testing.T) {
	desktest.Timing(t, new(task.MemoryStore), new(task.MemoryStore))
}

type keysAsked struct {
	Keys []string `json:"keys"`
}

// Keys that look like what a journal itself notes, with the digests of real questions in them, are keys like any other:
// each question is put once, to its client and then to people, and takes the answer to itself.
func TestKeysThatLookLikeMarks(t *testing.T) {
	store := new(task.MemoryStore)
	asks := func(_ context.Context, call *askback.Call, in keysAsked) (string, error) {
		var said []string
		var errs []error
		for _, key := range in.Keys {
			answer, err := askback.Elicit[deployment](call, key, "Which?")
			said, errs = append(said, answer.Version), append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return "", err
		}
		for i, key := range in.Keys {
			answer, err := askback.ElicitWith[deployment](call, key, askback.Question{
				Message: "Which?", For: []string{askback.User("bob")}, Within: 1 << 40,
				Schema: map[string]any{"type": "object", "properties": map[string]any{"version": map[string]any{"type": "string"}}},
			})
			said[i], errs[i] = said[i]+"+"+answer.Version, err
		}
		if err := errors.Join(errs...); err != nil {
			return "", err
		}
		return strings.Join(said, " "), call.Sleep("nap", 1)
	}
	s := harness.NewTaskServerOn(t, store, &askback.Options{Principal: harness.UserHeader, Desk: new(askback.DeskOptions)},
		func(s *askback.Server) { askback.AddTaskTool(s, &mcp.Tool{Name: "ask"}, nil, asks) })
	d, err := desk.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(keys ...string) (digest string) {
		quoted := make([]string, len(keys))
		for i, key := range keys {
			quoted[i] = harness.Quote(key)
		}
		called := s.Result(harness.WithExtension, "tools/call", "ask",
			`"name":"ask","arguments":{"keys":[`+strings.Join(quoted, ",")+`]}`)
		id := called["taskId"].(string)
		waits := s.Get(harness.WithExtension, id, "input_required")
		var answers, want []string
		for i, key := range keys {
			if harness.At(waits, "inputRequests", key) == nil {
				t.Errorf("the client is not asked %q: %v", key, waits["inputRequests"])
			}
			answers = append(answers, fmt.Sprintf(`%s:{"action":"accept","content":{"version":"%d"}}`, quoted[i], i))
			want = append(want, fmt.Sprintf("%d+%d", i, i))
		}
		s.Result(harness.WithExtension, "tasks/update", id, harness.Answered(id, strings.Join(answers, ",")))
		var open []*desk.Question
		harness.Eventually(t, "questions for bob", func() bool {
			open, _ = d.Questions(t.Context(), task.Name(id), nil)
			return len(open) > 0
		})
		if len(open) != len(keys) {
			t.Fatalf("bob is asked %d questions, want %d", len(open), len(keys))
		}
		for _, q := range open {
			i := slices.Index(keys, q.AuthorKey)
			_, err := d.Answer(t.Context(), q.Name, q.Key, desk.Answer{
				By: desk.Person{Name: "bob"}, Action: "accept", Content: fmt.Appendf(nil, `{"version":"%d"}`, i),
			})
			if err != nil {
				t.Errorf("%q: %v", q.Key, err)
			}
		}
		ended := s.Get(harness.WithExtension, id, "completed")
		if got := harness.Content(ended["result"].(map[string]any)); got != strings.Join(want, " ") {
			t.Errorf("the result is %q, want %q", got, want)
		}
		rows, err := store.Questions(t.Context(), task.Name(id))
		if err != nil {
			t.Fatal(err)
		}
		asking, err := stored.DecodeAsking(rows[0].Content)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(asking.Digest)
	}
	digest := ask("a")
	ask("a", "a#2", "a#2#2", "a#"+digest, "pa", "p a", "t", "(sleep) nap", "a ", "A")
}
