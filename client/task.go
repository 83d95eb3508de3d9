package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// TaskDialect is a dialect of the protocol for tasks.
type TaskDialect string

const (
	// TasksAuto speaks the extension with servers of 2026-07-28. In a session of
	// 2025-11-25 it speaks the tasks of that revision, if the server has them, where a
	// task is asked for with [Session.StartTask] or a tool cannot be called without.
	TasksAuto TaskDialect = ""

	// TasksExtension speaks the extension io.modelcontextprotocol/tasks (SEP-2663) only.
	// The server decides which calls become tasks.
	TasksExtension TaskDialect = "extension"

	// TasksProposal speaks the tasks of 2025-11-25 also with servers of 2026-07-28, as the drafts of Multi Round-Trip
	// Requests had them: every call asks for a task, the task's questions come with tasks/result, and the answers go
	// with tasks/input_response. Servers do not announce this dialect.
	TasksProposal TaskDialect = "proposal"

	// TasksOff asks for no tasks, and accepts none.
	TasksOff TaskDialect = "off"
)

// Task is a task's status at the time when the server reported it. Everything in it is the server's word.
type Task struct {
	ID      string
	Status  string // "working", "input_required", "completed", "failed" or "cancelled"
	Message string // for people, or empty

	// Created and Updated are zero where the server sent no time that can be read.
	Created, Updated time.Time
	// TTL is the time for which the server keeps the task, from Created. Zero means without end.
	TTL time.Duration
	// PollInterval is the time between two requests for the status. Zero means that the server has not set it.
	PollInterval time.Duration

	// Questions are those that are open while the status is input_required. In a session before 2026-07-28 they are
	// missing: there the server asks while the result is waited for.
	Questions []*Question

	// Result is the tool's result as it came, if the task completed and the result came with the status, as in the
	// extension. In the other dialect it has a request of its own, which [Session.WaitTask] sends.
	Result json.RawMessage
	// Error is the JSON-RPC error as it came, if the task failed and the error came with the status.
	Error json.RawMessage

	state *string // goes with the answers
}

// The statuses of tasks.
const (
	taskWorking   = "working"
	taskAsks      = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// Ended reports whether the task completed, failed or was cancelled.
func (t *Task) Ended() bool {
	return t.Status == taskCompleted || t.Status == taskFailed || t.Status == taskCancelled
}

// maxTaskID is the size of an ID, in bytes, that fits a header in every encoding.
const maxTaskID = 4096

// parseTask reads a task in either dialect. Its JSON has been checked. Times and intervals
// that make no sense are left out, because they are advice.
func parseTask(raw []byte, server *mcp.Implementation, limits *Limits) (*Task, error) {
	if strictjson.TypeOf(raw) != strictjson.TypeObject {
		return nil, &ProtocolError{"a task is not an object"}
	}
	t := new(Task)
	for name, value := range strictjson.Members(raw) {
		switch string(name) {
		case "taskId":
			if t.ID, _ = strictjson.String(value); t.ID == "" || len(t.ID) > maxTaskID {
				return nil, &ProtocolError{fmt.Sprintf("a taskId is not a string of 1 to %d bytes", maxTaskID)}
			}
		case "status":
			text, _ := strictjson.String(value)
			if t.Status = taskStatus(text); t.Status == "" {
				return nil, &ProtocolError{fmt.Sprintf("the status %.40q of a task is unknown", value)}
			}
		case "statusMessage":
			t.Message, _ = strictjson.String(value)
		case "createdAt":
			t.Created = timestamp(value)
		case "lastUpdatedAt":
			t.Updated = timestamp(value)
		case "ttl", "ttlMs":
			t.TTL = milliseconds(value)
		case "pollInterval", "pollIntervalMs":
			t.PollInterval = milliseconds(value)
		case "resultType":
			if kind, _ := strictjson.String(value); kind != "complete" && kind != "task" {
				return nil, &ProtocolError{fmt.Sprintf("the resultType %.40q is not a task's", value)}
			}
		}
	}
	switch {
	case t.ID == "":
		return nil, &ProtocolError{"a task has no taskId"}
	case t.Status == "":
		return nil, &ProtocolError{"a task has no status"}
	}
	switch t.Status {
	case taskAsks:
		var err error
		if t.Questions, err = parseQuestions(raw, server, limits); err != nil {
			return nil, err
		}
	case taskCompleted:
		t.Result = slices.Clone(strictjson.Get(raw, "result"))
	case taskFailed:
		t.Error = slices.Clone(strictjson.Get(raw, "error"))
	}
	return t, nil
}

// parseAsked reads the questions and the state in a result of tasks/result. It returns nil
// for the result of the tool.
func parseAsked(raw json.RawMessage, server *mcp.Implementation, limits *Limits) (*Task, error) {
	kind, err := resultType(raw)
	asks := strictjson.Get(raw, "inputRequests") != nil && strictjson.Get(raw, "content") == nil
	if err != nil || kind == "complete" && !asks {
		return nil, err
	}
	if kind != "input_required" && kind != "complete" {
		return nil, &ProtocolError{fmt.Sprintf("the resultType %.40q is unknown", kind)}
	}
	t := new(Task)
	if t.state, err = requestState(raw); err != nil {
		return nil, err
	}
	if t.Questions, err = parseQuestions(raw, server, limits); err == nil && t.Questions == nil {
		err = errNothingAsked
	}
	return t, err
}

var errNothingAsked = &ProtocolError{"a task waits for input, but inputRequests are missing"}

// taskStatus is a status as the specification spells it, or empty. Drafts had other
// spellings: "Working", "InputRequired", "input_require".
func taskStatus(text string) string {
	return map[string]string{
		"working":       taskWorking,
		"inputrequired": taskAsks,
		"inputrequire":  taskAsks,
		"completed":     taskCompleted,
		"complete":      taskCompleted,
		"failed":        taskFailed,
		"cancelled":     taskCancelled,
		"canceled":      taskCancelled,
	}[strings.ToLower(strings.ReplaceAll(text, "_", ""))]
}

// timestamp reads a time. It is zero if the value is not one.
func timestamp(value []byte) time.Time {
	text, _ := strictjson.String(value)
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// milliseconds is a duration of at most a century.
func milliseconds(value []byte) time.Duration {
	if strictjson.TypeOf(value) != strictjson.TypeNumber {
		return 0
	}
	const most = 100 * 365 * 24 * time.Hour
	ms, _ := strconv.ParseFloat(string(value), 64) // beyond its range it is infinite
	return time.Duration(min(max(ms, 0), float64(most.Milliseconds())) * float64(time.Millisecond))
}

// parseTaskResult reads the result of a task that completed.
func parseTaskResult(raw json.RawMessage) (*mcp.CallToolResult, error) {
	if strictjson.TypeOf(raw) != strictjson.TypeObject {
		return nil, &ProtocolError{"a task completed without a result that is an object"}
	}
	kind, err := resultType(raw)
	if err == nil && kind != "complete" {
		err = &ProtocolError{fmt.Sprintf("a task completed with a result of the type %.40q", kind)}
	}
	if err != nil {
		return nil, err
	}
	res := new(mcp.CallToolResult)
	if err := json.Unmarshal(raw, res); err != nil {
		return nil, &ProtocolError{fmt.Sprintf("the result of a task is not a tool's: %v", err)}
	}
	return res, nil
}

// failure is the error of a task that failed.
func (t *Task) failure() error {
	if t.Error == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
			Message: strings.TrimSuffix("the task failed: "+t.Message, ": ")}
	}
	fault := new(jsonrpc.Error)
	if strictjson.TypeOf(t.Error) != strictjson.TypeObject || json.Unmarshal(t.Error, fault) != nil {
		return &ProtocolError{"a task failed with an error that is not JSON-RPC's"}
	}
	return fault
}

// cancellation is the error of a task that was cancelled.
func (t *Task) cancellation() error {
	if t.Message == "" {
		return ErrTaskCancelled
	}
	return fmt.Errorf("%w: %s", ErrTaskCancelled, t.Message)
}
