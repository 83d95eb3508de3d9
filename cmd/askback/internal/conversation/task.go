package conversation

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// TaskJSON is a task as the tasks extension encodes it.
type TaskJSON struct {
	ID            string              `json:"taskId"`
	Status        string              `json:"status"`
	Message       string              `json:"statusMessage,omitempty"`
	Created       time.Time           `json:"createdAt,omitzero"`
	Updated       time.Time           `json:"lastUpdatedAt,omitzero"`
	TTL           *int64              `json:"ttlMs"`
	PollInterval  int64               `json:"pollIntervalMs,omitempty"`
	InputRequests map[string]question `json:"inputRequests,omitempty"`
	Result        json.RawMessage     `json:"result,omitempty"`
	Error         json.RawMessage     `json:"error,omitempty"`
}

type question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// EncodeTask encodes a task for programs.
func EncodeTask(t *client.Task) TaskJSON {
	e := TaskJSON{
		ID: t.ID, Status: t.Status, Message: t.Message, Created: t.Created, Updated: t.Updated,
		PollInterval: t.PollInterval.Milliseconds(), Result: t.Result, Error: t.Error,
	}
	if t.TTL > 0 {
		e.TTL = new(t.TTL.Milliseconds())
	}
	if len(t.Questions) > 0 {
		e.InputRequests = make(map[string]question)
		for _, q := range t.Questions {
			e.InputRequests[q.Key] = question{q.Method, q.Params}
		}
	}
	return e
}

// TaskLine shows a task's status and message on one line.
func TaskLine(t *client.Task) string {
	line := strings.ReplaceAll(t.Status, "_", " ")
	if message := cli.HarmlessLine(t.Message, cli.Columns); message != "" {
		line += ": " + message
	}
	return line
}

// MaxID is the number of characters of an ID that are shown. A part of an ID would be of no use, so it is large.
const MaxID = 4096
