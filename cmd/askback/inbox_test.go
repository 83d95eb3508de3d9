package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// asked is a task that asks people, as a script has it.
type asked struct {
	ID, Principal, Target string
	Arguments             json.RawMessage
	Questions             []struct {
		Key, Message, Within, Preview string
		For, Required                 []string
		Votes                         int
		Properties                    json.RawMessage
	}
}

// asks DATABASE FILE adds the task of the file to a store, which is made if it is not there. $variables in the file are
// replaced. The name of the task is in the variable name.
func scriptAsks(ts *testscript.TestScript, neg bool, args []string) {
	var a asked
	ts.Check(json.Unmarshal([]byte(os.Expand(ts.ReadFile(args[1]), ts.Getenv)), &a))
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	ts.Check(a.add(context.Background(), path))
	ts.Setenv("name", task.Name(a.ID))
}

func (a *asked) add(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	defer store.Close()
	params, err := json.Marshal(map[string]any{"name": a.Target, "arguments": a.Arguments})
	if err != nil {
		return err
	}
	call := stored.Call{ID: a.ID, Params: params}
	row := &task.Task{ID: a.ID, Principal: a.Principal, Target: a.Target, Status: task.Working}
	if err := store.Create(ctx, row, time.Hour, time.Minute, call.Append(nil), nil, task.Quota{}); err != nil {
		return err
	}
	u := task.Update{Leased: true, Due: -1}
	for _, asked := range a.Questions {
		schema := map[string]any{"type": "object", "properties": map[string]any{}}
		if asked.Properties != nil {
			schema["properties"], schema["required"] = asked.Properties, asked.Required
		}
		params, err := json.Marshal(map[string]any{"mode": "form", "message": asked.Message, "requestedSchema": schema})
		if err != nil {
			return err
		}
		content, err := stored.Encode(&stored.Asking{Key: "ask", Digest: make([]byte, len(journal.Digest{})),
			Method: input.MethodElicit, Params: params, Votes: asked.Votes, Preview: asked.Preview})
		if err != nil {
			return err
		}
		q := &task.Question{Key: asked.Key, For: asked.For, Content: content}
		if asked.Within != "" {
			if q.Within, err = time.ParseDuration(asked.Within); err != nil {
				return err
			}
		}
		u.Ask = append(u.Ask, q)
	}
	row.Status = task.InputRequired
	return store.Update(ctx, row, u)
}
