package desk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// A question whose deadline was moved outlives the one that it had, in the server that asks it, and so does its task.
func TestAServerKeepsAMovedDeadline(t *testing.T) { synctest.Test(t, testAServerKeepsAMovedDeadline) }

func testAServerKeepsAMovedDeadline(t *testing.T) {
	type arguments struct {
		Key string `json:"key"`
	}
	s := new(task.MemoryStore)
	opts := &askback.Options{
		Desk:      &askback.DeskOptions{},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Tasks:     &askback.Tasks{Settings: task.Settings{TTL: time.Minute}},
	}
	srv := harness.NewTaskServerOn(t, s, opts, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "ask"}, func(_ context.Context, call *askback.Call, in arguments) (string, error) {
			err := askback.Approve(call, in.Key, askback.Question{
				Message: "Go on?", For: []string{askback.Group("release")}, Within: 2 * time.Second, Markdown: in.Key == "kept",
			})
			if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
				return "nobody answered " + late.Key, nil
			}
			return "approved", err
		})
	})
	d := open(t, s)
	alice := person("alice", "release")
	tasks, names := make(map[string]string), make(map[string]string)
	for _, key := range []string{"kept", "left"} {
		tasks[key] = srv.Result(harness.WithExtension, "tools/call", "ask",
			`"name":"ask","arguments":{"key":"`+key+`"}`)["taskId"].(string)
		names[key] = task.Name(tasks[key])
		harness.Eventually(t, key+" waits", func() bool {
			q, err := d.Question(t.Context(), names[key], key, &alice)
			if err == nil && q.Markdown != (key == "kept") {
				t.Errorf("%s is Markdown: %v", key, q.Markdown)
			}
			return err == nil
		})
		if key == "kept" {
			expect.Must(d.Extend(t.Context(), names[key], key, alice, time.Now().Add(time.Hour), "a meeting"))(t)
		}
	}
	text := func(key string) any {
		res := srv.Get(harness.WithExtension, tasks[key], "completed")["result"].(map[string]any)
		return harness.Content(res)
	}
	expect.Equal(t, "left", text("left"), "nobody answered left")
	_, err := d.Answer(t.Context(), names["left"], "left", desk.Answer{By: alice, Action: "accept"})
	expect.Is(t, "an answer to a question that nobody asks", err, task.ErrLate)
	if row, err := s.Get(t.Context(), tasks["kept"]); err != nil || time.Until(row.Expires) < time.Hour {
		t.Errorf("the task ends at %v: %v", row.Expires, err)
	}
	q, err := d.Answer(t.Context(), names["kept"], "kept", desk.Answer{By: alice, Action: "accept"})
	if err != nil || q.Decision == nil {
		t.Fatalf("%+v, %v", q, err)
	}
	expect.Equal(t, "kept", text("kept"), "approved")
}

// Another program can compute what people were shown from the question and the definition of the tool.
func TestWhatWasShownHasADigest(t *testing.T) {
	no := false
	opts := &askback.Options{
		Desk: &askback.DeskOptions{}, Tasks: &askback.Tasks{},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
	}
	s := new(task.MemoryStore)
	srv := harness.NewTaskServerOn(t, s, opts, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "pay", Title: "Pay", Description: "Pays <money>.",
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}},
			func(_ context.Context, call *askback.Call, in map[string]any) (string, error) {
				_, err := askback.ElicitWith[struct {
					Note string `json:"note"`
				}](call, "pay", askback.Question{
					Message: "Pay?", For: []string{askback.User("bob"), askback.Group("release")}, Votes: 2, Markdown: true,
					Preview: "Pay \xff **now** & here",
				})
				return "paid", err
			})
	})
	name := task.Name(srv.Result(harness.WithExtension, "tools/call", "pay",
		`"name":"pay","arguments":{"to":"<eve>","amount":12.50,"at":1e3}`)["taskId"].(string))
	d := open(t, s)
	var q *desk.Question
	harness.Eventually(t, "a question", func() (found bool) {
		var err error
		q, err = d.Question(t.Context(), name, "pay", nil)
		return err == nil
	})
	encoded, err := json.Marshal(q)
	expect.Check(t, err)
	all, shown := make(map[string]any), make(map[string]any)
	expect.Check(t, json.Unmarshal(encoded, &all))
	for _, member := range []string{"method", "params", "preview", "markdown", "for", "votes", "arguments"} {
		if shown[member] = all[member]; shown[member] == nil {
			t.Errorf("the question has no %s", member)
		}
	}
	shown["tool"] = json.RawMessage(`{` +
		`"annotations":{"destructiveHint":false,"idempotentHint":false,"readOnlyHint":false},` +
		`"description":"Pays <money>.","inputSchema":{"additionalProperties":true,"type":"object"},"name":"pay"}`)
	var b bytes.Buffer // encoding/json sorts members, and writes these strings and numbers as RFC 8785 does
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	expect.Check(t, e.Encode(shown))
	digest := sha256.Sum256(bytes.TrimSpace(b.Bytes()))
	if want := hex.EncodeToString(digest[:]); q.Shown != want {
		t.Errorf("got %q, want %s, of %s", q.Shown, want, b.Bytes())
	}
}
