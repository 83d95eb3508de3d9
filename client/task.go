package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// TaskDialect is a way to speak about tasks.
type TaskDialect string

const (
	// TasksAuto speaks the extension with servers of 2026-07-28. In a session of
	// 2025-11-25 it speaks the tasks of that revision, if the server has them, where a
	// task is asked for with [Session.StartTask] or a tool cannot be called without.
	TasksAuto TaskDialect = ""

	// TasksExtension speaks the extension io.modelcontextprotocol/tasks (SEP-2663) only.
	// The server decides which calls become tasks.
	TasksExtension TaskDialect = "extension"

	// TasksSeeds speaks the tasks of 2025-11-25 also with servers of 2026-07-28, as the
	// drafts of Multi Round-Trip Requests had them: every call asks for a task, and what a
	// task asks comes with tasks/result and is answered with tasks/input_response. Servers
	// do not tell of it.
	TasksSeeds TaskDialect = "seeds"

	// TasksOff makes no tasks, and takes none.
	TasksOff TaskDialect = "off"
)

// Task is how a task stood when the server told. Everything in it is the server's word.
type Task struct {
	ID      string
	Status  string // "working", "input_required", "completed", "failed" or "cancelled"
	Message string // for people, or empty

	// Created and Updated are zero where the server told no time that can be read.
	Created, Updated time.Time
	// TTL is how long the server keeps the task, from Created; zero if it sets no end.
	TTL time.Duration
	// PollInterval is how long to wait between two looks; zero if the server does not say.
	PollInterval time.Duration

	// Questions are open. They are there if the status is input_required, but not in a
	// session before 2026-07-28, where they are asked while the result is waited for.
	Questions []*Question

	// Result is the tool's result as it came, if the task completed and the server told it
	// with the task, as it does in the extension. Elsewhere it has a request of its own, and
	// [Session.WaitTask] gets it.
	Result json.RawMessage
	// Error is the JSON-RPC error as it came, if the task failed and the server told it.
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

// StartTask calls a tool like [Session.CallTool], but returns as soon as the call has
// become a task. Where it does not become one, the result is returned instead: exactly one
// of task, result and error is not nil. Where the client can ask for a time to live it
// asks for ttl, if that is not zero; with the extension it is the server's to decide.
// In a session of 2025-11-25 a task is asked for only if the list of tools allows it.
// (2025-11-25, "Tool-Level Negotiation")
//
// What the tool asks before there is a task is answered by the handlers. A [*Pending] of
// that time goes on with [Session.Resume] to the result.
func (s *Session) StartTask(ctx context.Context, params *mcp.CallToolParams, ttl time.Duration) (*Task, *mcp.CallToolResult, error) {
	var task json.RawMessage
	if d := s.client.opts.Tasks; d == TasksSeeds || d == TasksAuto && s.takes {
		task = json.RawMessage(`{}`)
		if ttl > 0 {
			task = fmt.Appendf(nil, `{"ttl":%d}`, max(ttl.Milliseconds(), 1))
		}
	}
	c, err := s.newToolCall(params, task)
	if err != nil {
		return nil, nil, err
	}
	c.detach = true
	res, err := c.drive(ctx)
	if err != nil {
		return nil, nil, err
	}
	if res == nil {
		return c.became, nil, nil
	}
	return nil, res.(*mcp.CallToolResult), nil
}

// GetTask looks at a task. The error is an [ErrTaskUnknown] if the server does not know it,
// or not for this user. (SEP-2663, "Task Polling")
func (s *Session) GetTask(ctx context.Context, id string) (*Task, error) {
	d, err := s.dialect()
	if err != nil {
		return nil, err
	}
	t, err := s.look(ctx, d, id)
	if err != nil || d == TasksExtension || t.Status != taskAsks || s.legacy() {
		return t, err
	}
	// The questions come with the result, which is waited for if they were just answered.
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := s.about(bounded, d, wire.TaskResult, id, &taskParams{TaskID: id})
	switch {
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return t, nil
	case err != nil:
		return nil, err
	}
	asks, err := s.asked(raw)
	if err != nil {
		return nil, err
	}
	if asks == nil { // it has ended
		return s.look(ctx, d, id)
	}
	t.Questions, t.state = asks.Questions, asks.state
	return t, nil
}

// patience is how long questions may take that should be there.
const patience = 5 * time.Second

// WaitTask waits for the result of a task, and answers what it asks. Errors are as for
// [Session.CallTool]; an [ErrTaskUnknown] means that there is nothing to wait for. The task
// goes on if ctx is cancelled.
func (s *Session) WaitTask(ctx context.Context, id string) (*mcp.CallToolResult, error) {
	d, err := s.dialect()
	if err != nil {
		return nil, err
	}
	return (&await{Session: s, id: id, tasks: d}).run(ctx)
}

// AnswerTask gives answers to questions of a task, and does not wait for what comes of it.
// The answers, by the questions' keys, are an *mcp.ElicitResult, an
// *mcp.CreateMessageWithToolsResult, an *mcp.ListRootsResult, or anything that marshals to
// the same JSON. Nothing is sent unless each belongs to an open question and fits it.
//
// In a session before 2026-07-28 it is an error: there the handlers answer, during
// [Session.WaitTask].
func (s *Session) AnswerTask(ctx context.Context, id string, answers map[string]any) error {
	d, err := s.dialect()
	if err != nil {
		return err
	}
	if s.legacy() {
		return errors.New("in a session before 2026-07-28 the questions of a task are answered while its result is waited for")
	}
	t, err := s.GetTask(ctx, id)
	if err != nil {
		return err
	}
	raw := make(map[string]json.RawMessage, len(answers))
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		at := slices.IndexFunc(t.Questions, func(q *Question) bool { return q.Key == key })
		if at < 0 {
			return fmt.Errorf("the task does not ask %q: it is %s", key, t.Status)
		}
		if raw[key], err = s.client.encode(t.Questions[at], answers[key]); err != nil {
			return err
		}
	}
	return s.answerTask(ctx, d, t, raw)
}

// encode checks an answer that no handler gave.
func (c *Client) encode(q *Question, answer any) (json.RawMessage, error) {
	if err := c.check(q); err != nil {
		return nil, err
	}
	var err error
	if res, ok := answer.(*mcp.ElicitResult); ok && q.Method == methodElicit {
		if _, err = checkAction(q, res, nil); err == nil && q.URL == "" {
			answer, err = fit(q, res)
		}
		if err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(answer)
	if err == nil && strictjson.TypeOf(data) != strictjson.TypeObject {
		err = errors.New("it is no object")
	}
	if err != nil {
		return nil, fmt.Errorf("the answer to %q: %w", q.Key, err)
	}
	return data, nil
}

// CancelTask asks the server to end a task. Whether and when it does shows in the task.
// (SEP-2663, "Task Cancellation")
func (s *Session) CancelTask(ctx context.Context, id string) error {
	d, err := s.dialect()
	if err != nil {
		return err
	}
	_, err = s.about(ctx, d, wire.CancelTask, id, &taskParams{TaskID: id})
	return err
}

// ListTasks lists the caller's tasks, a page at a time: cursor is empty for the first, next
// is empty after the last. The extension has no list: who speaks it keeps the ids.
// (2025-11-25, "Listing Tasks")
func (s *Session) ListTasks(ctx context.Context, cursor string) (tasks []*Task, next string, err error) {
	d, err := s.dialect()
	if err != nil {
		return nil, "", err
	}
	raw, err := s.about(ctx, d, wire.ListTasks, "", &taskParams{Cursor: cursor})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeMethodNotFound && d == TasksExtension {
		return nil, "", fmt.Errorf("the tasks extension has no list of tasks, keep their ids: %w", err)
	}
	if err != nil {
		return nil, "", err
	}
	if next, err = nextCursor(raw); err != nil {
		return nil, "", err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(strictjson.Get(raw, "tasks"), &list); err != nil {
		return nil, "", &ProtocolError{"the list of tasks is not an array"}
	}
	for _, value := range list {
		t, err := s.parseTask(value)
		if err != nil {
			return nil, "", err
		}
		tasks = append(tasks, t)
	}
	return tasks, next, nil
}

// nextCursor is where a list goes on, or empty.
func nextCursor(page []byte) (string, error) {
	value := strictjson.Get(page, "nextCursor")
	if value == nil || strictjson.TypeOf(value) == strictjson.TypeNull {
		return "", nil
	}
	next, ok := strictjson.String(value)
	if !ok {
		return "", &ProtocolError{"nextCursor is not a string"}
	}
	return next, nil
}

// dialect is the one for tasks that are known by their ids.
func (s *Session) dialect() (TaskDialect, error) {
	switch d := s.client.opts.Tasks; {
	case d == TasksOff:
		return "", errors.New("this client has its tasks off: see Options.Tasks")
	case d == TasksExtension && s.legacy():
		return "", errors.New("the server does not speak 2026-07-28, which the tasks extension belongs to")
	case d == TasksAuto && s.legacy():
		return TasksSeeds, nil
	case d == TasksAuto:
		return TasksExtension, nil
	default:
		return d, nil
	}
}

// taskParams are the parameters of all requests about tasks.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId,omitempty"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
	RequestState   *string                    `json:"requestState,omitempty"`
	Cursor         string                     `json:"cursor,omitempty"`
	Notifications  *taskNotifications         `json:"notifications,omitempty"`
}

type taskNotifications struct {
	TaskIDs []string `json:"taskIds"`
}

// noResult is what the SDK sees of results that are read as they came.
type noResult struct{ mcp.ResultBase }

// maxTaskID is what fits a header in every form.
const maxTaskID = 4096

// about sends a request about a task, and returns its result.
func (s *Session) about(ctx context.Context, d TaskDialect, method, id string, params *taskParams) (json.RawMessage, error) {
	if len(id) > maxTaskID {
		return nil, fmt.Errorf("a task's id has at most %d bytes", maxTaskID)
	}
	x := &exchange{method: method, name: id}
	if method != wire.TaskResult { // which waits
		late := &awayError{fmt.Sprintf("nothing came within %v", responseTime)}
		bounded, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		x.timer = time.AfterFunc(responseTime, func() { cancel(late) })
		defer x.timer.Stop()
		raw, err := s.exchangeAbout(bounded, d, x, params)
		if err != nil && ctx.Err() == nil && context.Cause(bounded) == late {
			err = late
		}
		return raw, err
	}
	return s.exchangeAbout(ctx, d, x, params)
}

// responseTime is how long a request about a task may take. Those that wait for something
// to happen are not bounded by it, nor is the user who authorizes the client.
const responseTime = 30 * time.Second

func (s *Session) exchangeAbout(ctx context.Context, d TaskDialect, x *exchange, params *taskParams) (json.RawMessage, error) {
	if d == TasksSeeds && !s.legacy() {
		params.SetMeta(s.client.undeclared(params.GetMeta()))
	}
	ctx, done := s.bound(ctx)
	defer done()
	_, err := mcp.CallCustomMethod[*taskParams, *noResult](context.WithValue(ctx, exchangeKey{}, x), s.sdk, otherMethod, params)
	raw, broken := x.came()
	if broken != nil {
		err = broken
	}
	if err != nil && s.life.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, fmt.Errorf("calling %q: %w", x.method, fault)
	}
	if err == nil && raw == nil {
		err = &ProtocolError{"the response has no result"}
	}
	return raw, err
}

// undeclared adds the client's capabilities without the extension, where the SDK would
// declare it.
func (c *Client) undeclared(meta mcp.Meta) mcp.Meta {
	caps := c.capabilities()
	if caps.Extensions == nil {
		return meta
	}
	caps.Extensions = nil
	meta = maps.Clone(meta)
	if meta == nil {
		meta = make(mcp.Meta)
	}
	meta[mcp.MetaKeyClientCapabilities] = struct {
		*mcp.ClientCapabilities
		Roots *mcp.RootCapabilities `json:"roots,omitempty"` // not {} where there are none
	}{caps, caps.RootsV2}
	return meta
}

// look asks how a task stands.
func (s *Session) look(ctx context.Context, d TaskDialect, id string) (*Task, error) {
	raw, err := s.about(ctx, d, wire.GetTask, id, &taskParams{TaskID: id})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeInvalidParams {
		if s.legacy() {
			return nil, fmt.Errorf("%w: %.80q: %w (this session is of %s: a client of another revision may have made the task)",
				ErrTaskUnknown, id, err, s.sdk.InitializeResult().ProtocolVersion)
		}
		return nil, fmt.Errorf("%w: %.80q: %w", ErrTaskUnknown, id, err)
	}
	if err != nil {
		return nil, err
	}
	t, err := s.parseTask(raw)
	if err == nil && t.ID != id {
		err = &ProtocolError{fmt.Sprintf("asked for one task, it answers about another one, %.80q", t.ID)}
	}
	return t, err
}

// answerTask sends answers.
func (s *Session) answerTask(ctx context.Context, d TaskDialect, t *Task, answers map[string]json.RawMessage) error {
	method, params := wire.UpdateTask, &taskParams{TaskID: t.ID, InputResponses: answers}
	if d == TasksSeeds {
		method, params = wire.InputResponse, &taskParams{InputResponses: answers, RequestState: t.state}
		params.SetMeta(mcp.Meta{wire.MetaRelatedTask: map[string]any{"taskId": t.ID}})
	}
	_, err := s.about(ctx, d, method, t.ID, params)
	return err
}

// asked reads a result of tasks/result: nil if it is not one that asks.
func (s *Session) asked(raw json.RawMessage) (*Task, error) {
	kind, err := resultType(raw)
	requests := strictjson.Get(raw, "inputRequests")
	if err != nil || kind == "complete" && (requests == nil || strictjson.Get(raw, "content") != nil) {
		return nil, err
	}
	if kind != "input_required" && kind != "complete" {
		return nil, &ProtocolError{fmt.Sprintf("the resultType %.40q is unknown", kind)}
	}
	if requests == nil {
		return nil, &ProtocolError{"a task waits for input, but inputRequests are missing"}
	}
	t := new(Task)
	if t.state, err = requestState(raw); err != nil {
		return nil, err
	}
	t.Questions, err = parseQuestions(requests, s.Server(), s.client.opts.Limits.Questions)
	return t, err
}

// parseTask reads a task in either dialect. The JSON has been checked. Times and intervals
// that make no sense are left out: they are advice.
func (s *Session) parseTask(raw []byte) (*Task, error) {
	if strictjson.TypeOf(raw) != strictjson.TypeObject {
		return nil, &ProtocolError{"a task is not an object"}
	}
	t := new(Task)
	var fault error
	_ = strictjson.Members(raw, func(name, value []byte) error {
		switch string(name) {
		case "taskId":
			id, ok := strictjson.String(value)
			if !ok || id == "" || len(id) > maxTaskID {
				fault = &ProtocolError{fmt.Sprintf("a taskId is not a string of 1 to %d bytes", maxTaskID)}
				return fault
			}
			t.ID = strings.Clone(id)
		case "status":
			text, ok := strictjson.String(value)
			if t.Status = taskStatus(text); !ok || t.Status == "" {
				fault = &ProtocolError{fmt.Sprintf("the status %.40q of a task is unknown", value)}
				return fault
			}
		case "statusMessage":
			text, _ := strictjson.String(value)
			t.Message = strings.Clone(text)
		case "createdAt":
			t.Created = timestamp(value)
		case "lastUpdatedAt":
			t.Updated = timestamp(value)
		case "ttl", "ttlMs":
			t.TTL = milliseconds(value)
		case "pollInterval", "pollIntervalMs":
			t.PollInterval = milliseconds(value)
		case "resultType":
			if kind, ok := strictjson.String(value); !ok || kind != "complete" && kind != "task" {
				fault = &ProtocolError{fmt.Sprintf("the resultType %.40q is none of a task", value)}
				return fault
			}
		}
		return nil
	})
	switch {
	case fault != nil:
		return nil, fault
	case t.ID == "":
		return nil, &ProtocolError{"a task has no taskId"}
	case t.Status == "":
		return nil, &ProtocolError{"a task has no status"}
	}
	switch t.Status {
	case taskAsks:
		if requests := strictjson.Get(raw, "inputRequests"); requests != nil {
			var err error
			if t.Questions, err = parseQuestions(requests, s.Server(), s.client.opts.Limits.Questions); err != nil {
				return nil, err
			}
		}
	case taskCompleted:
		t.Result = slices.Clone(strictjson.Get(raw, "result"))
	case taskFailed:
		t.Error = slices.Clone(strictjson.Get(raw, "error"))
	}
	return t, nil
}

// taskStatus is a status as the specification spells it, or empty. Drafts spelled some
// otherwise: "Working", "InputRequired", "input_require".
func taskStatus(text string) string {
	if len(text) > 40 {
		return ""
	}
	switch strings.ToLower(strings.ReplaceAll(text, "_", "")) {
	case "working":
		return taskWorking
	case "inputrequired", "inputrequire":
		return taskAsks
	case "completed", "complete":
		return taskCompleted
	case "failed":
		return taskFailed
	case "cancelled", "canceled":
		return taskCancelled
	}
	return ""
}

func timestamp(value []byte) time.Time {
	text, _ := strictjson.String(value)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
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

// taskResult is the result of a task that completed.
func taskResult(raw json.RawMessage) (*mcp.CallToolResult, error) {
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
		return nil, &ProtocolError{fmt.Sprintf("the result of a task is none of a tool: %v", err)}
	}
	return res, nil
}

// taskFault is the error of a task that failed.
func taskFault(t *Task) error {
	if t.Error == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: strings.TrimSuffix("the task failed: "+t.Message, ": ")}
	}
	fault := new(jsonrpc.Error)
	if strictjson.TypeOf(t.Error) != strictjson.TypeObject || json.Unmarshal(t.Error, fault) != nil {
		return &ProtocolError{"a task failed with an error that is none of JSON-RPC"}
	}
	return fault
}

// resultType is the type of a result: complete, if it has none, as before 2026-07-28.
func resultType(result []byte) (string, error) {
	raw := strictjson.Get(result, "resultType")
	if raw == nil {
		return "complete", nil
	}
	kind, ok := strictjson.String(raw)
	if !ok {
		return "", &ProtocolError{"resultType is not a string"}
	}
	return kind, nil
}

// requestState is the state in a result, or nil. The empty string is one, too.
func requestState(result []byte) (*string, error) {
	raw := strictjson.Get(result, "requestState")
	if raw == nil {
		return nil, nil
	}
	state, ok := strictjson.String(raw)
	if !ok {
		return nil, &ProtocolError{"requestState is not a string"}
	}
	state = strings.Clone(state)
	return &state, nil
}
