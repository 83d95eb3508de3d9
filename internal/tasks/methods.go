package tasks

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/ending"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// The requests about tasks come in two dialects: the extension's, for clients that declare it,
// and the proposals', for clients that sent the member task. Sessions before 2026-07-28 speak
// the proposals' dialect as their revision has it.

// Request is a request about tasks, whatever front brought it.
type Request struct {
	Method    string
	TaskID    string // empty for tasks/list
	Extension bool   // the client declared it
	Principal string // set by the front once the request has passed the gate

	params  []byte             // checked JSON, an object or nil
	session *mcp.ServerSession // before 2026-07-28, or nil
}

// result is the result of a request about tasks.
type result struct {
	members   []byte              // without braces
	questions []wire.InputRequest // the open questions of an input-required result
	related   string              // the ID of the related task, for _meta
	result    []byte              // the result of the task's call, in place of members
}

// ReadRequest reads a request about tasks. Params is checked JSON, an object or nil; the
// session is that of a client before 2026-07-28, or nil.
func ReadRequest(method string, params []byte, session *mcp.ServerSession) (*Request, *jsonrpc.Error) {
	q := &Request{Method: method, params: params, session: session}
	if session == nil {
		meta, fault := wire.ParseMeta(strictjson.Get(params, "_meta"))
		if fault != nil {
			return nil, fault
		}
		q.Extension = meta.Capabilities&wire.Tasks != 0
	}
	if !q.methodExists() {
		return nil, MethodNotFound(method)
	}
	if method == wire.ListTasks {
		return q, nil
	}
	if q.TaskID = wire.Name(method, params); q.TaskID == "" {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: %q needs the string "taskId"`, method)
	}
	return q, nil
}

// methodExists reports whether the request's dialect has its method.
func (q *Request) methodExists() bool {
	switch q.Method {
	case wire.GetTask, wire.CancelTask:
		return true
	case wire.UpdateTask: // of the extension: other clients are told that they lack it
		return q.session == nil
	case wire.TaskResult, wire.InputResponse, wire.ListTasks:
		return !q.Extension
	}
	return false
}

// MethodNotFound is the error for a method that does not exist.
func MethodNotFound(method string) *jsonrpc.Error {
	return wire.Errorf(jsonrpc.CodeMethodNotFound, "method not found: %q", method)
}

// Serve answers a request about tasks with the encoded result.
func (s *Service) Serve(ctx context.Context, q *Request) ([]byte, error) {
	res, err := s.serve(ctx, q)
	if err != nil {
		return nil, err
	}
	encoded, err := res.encode(s.Info, q.session == nil)
	if err != nil {
		return nil, s.storeFailed(ctx, "encoding a result", err)
	}
	return encoded, nil
}

func (s *Service) serve(ctx context.Context, q *Request) (*result, error) {
	if q.Method == wire.ListTasks {
		return s.list(ctx, q)
	}
	t, err := s.Engine.Get(ctx, q.Principal, q.TaskID)
	if err == nil && !q.Extension && t.Dialect != call.DialectProposal {
		err = task.ErrNotFound // the client may not know that the task exists
	}
	switch {
	case errors.Is(err, task.ErrNotFound) && q.mustDeclare():
		return nil, wire.MissingCapability(wire.Tasks)
	case err != nil:
		return nil, s.failed(ctx, "retrieving a task", err)
	}
	switch q.Method {
	case wire.GetTask:
		return s.describe(ctx, t, q.Extension)
	case wire.CancelTask:
		return s.cancel(ctx, q)
	case wire.TaskResult:
		return s.await(ctx, q)
	default:
		if q.Method == wire.UpdateTask && !q.Extension {
			return nil, wire.MissingCapability(wire.Tasks)
		}
		responses, fault := wire.ParseResponses(strictjson.Get(q.params, "inputResponses"))
		if fault != nil {
			return nil, fault
		}
		if err := s.answer(ctx, t, responses); err != nil {
			return nil, s.failed(ctx, "answering a task", err)
		}
		if q.Extension {
			return new(result), nil
		}
		return &result{related: t.ID}, nil
	}
}

// mustDeclare reports whether the error for a task that is not of the proposals' dialect is
// that the client must declare the extension (SEP-2663, "Protocol Errors").
func (q *Request) mustDeclare() bool {
	return q.session == nil && !q.Extension && (q.Method == wire.GetTask || q.Method == wire.CancelTask || q.Method == wire.UpdateTask)
}

func (s *Service) failed(ctx context.Context, doing string, err error) error {
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	full, isFull := errors.AsType[*task.QuotaError](err)
	switch {
	case isFull:
		return wire.Errorf(jsonrpc.CodeInternalError, "%v", full)
	case errors.Is(err, task.ErrNotFound):
		return wire.Errorf(jsonrpc.CodeInvalidParams, "Failed to retrieve task: Task not found")
	case ctx.Err() != nil:
		return cmp.Or(interrupted(ctx), ctx.Err())
	}
	_ = s.storeFailed(ctx, doing, err)
	return &fault.UnavailableError{Reason: "internal error: " + doing + " failed: send the request again", RetryAfter: time.Second}
}

// interrupted returns why the server ended a request that may be sent again, or nil.
func interrupted(ctx context.Context) error {
	switch cause := context.Cause(ctx); fault.Of(cause) {
	case fault.Unavailable, fault.Crowded:
		return cause
	}
	return nil
}

// describe returns the state of a task. For the extension it includes the questions, the result
// or the error that belong to the status.
func (s *Service) describe(ctx context.Context, t *task.Task, extension bool) (*result, error) {
	res := &result{members: row(t, extension).Append(nil, extension)}
	if !extension {
		return res, nil
	}
	switch {
	case t.Status == task.InputRequired:
		requests, err := s.inputRequests(ctx, t)
		if err != nil {
			return nil, err
		}
		res.members = wire.AppendInputRequests(append(res.members, `,"inputRequests":`...), requests)
	case t.Status == task.Completed:
		members, meta, err := stored.DecodeResult(t.Outcome) // the response itself names the server
		if err != nil {
			return nil, s.unreadable(ctx, err)
		}
		result := slices.Concat([]byte("{"), members, []byte("}"))
		res.members = wire.Complete(append(res.members, `,"result":`...), result, meta, "")
	case t.Status == task.Failed:
		res.members = append(append(res.members, `,"error":`...), stored.EncodeFault(stored.DecodeFault(t.Outcome, t.Message))...)
	}
	return res, nil
}

func (s *Service) inputRequests(ctx context.Context, t *task.Task) ([]wire.InputRequest, error) {
	open, err := stored.DecodeQuestions(t.Pending)
	if err != nil {
		return nil, s.unreadable(ctx, err)
	}
	requests := make([]wire.InputRequest, len(open))
	for i, q := range open {
		requests[i] = wire.InputRequest{Key: q.Wire, Method: q.Method, Params: q.Params}
	}
	return requests, nil
}

// unreadable is the error for a task that is not stored as it should be. Unlike that of a store which does not answer,
// it does not tell the client to try again.
func (s *Service) unreadable(ctx context.Context, err error) error {
	return s.storeFailed(ctx, "reading a stored task", err)
}

func row(t *task.Task, extension bool) *wire.Task {
	row := &wire.Task{
		ID: t.ID, Status: string(t.Status), Message: t.Message, Created: t.Created, Updated: t.Updated,
		TTL: t.Expires.Sub(t.Created), Poll: t.PollInterval,
	}
	if extension {
		return row
	}
	// Before the extension a tool's error was a failure of its task.
	if t.Status == task.Completed && string(strictjson.Get(t.Outcome, "isError")) == "true" {
		row.Status = string(task.Failed)
		row.Message = firstText(t.Outcome)
	}
	if row.Message == "" {
		row.Message = proposalMessage(t, row.Status)
	}
	return row
}

// firstText returns the beginning of the text of a tool's error.
func firstText(result []byte) string {
	var said struct{ Content []struct{ Text string } }
	if json.Unmarshal(result, &said) != nil || len(said.Content) == 0 {
		return ""
	}
	const most = 200
	text := []rune(said.Content[0].Text)
	return string(text[:min(len(text), most)])
}

// proposalMessage returns the message of a status in the proposals.
func proposalMessage(t *task.Task, status string) string {
	switch task.Status(status) {
	case task.Working:
		if t.Version == 0 {
			return "Task has been created for " + t.Target + " tool invocation."
		}
		return "The operation is now in progress."
	case task.InputRequired:
		return "Input Required to Proceed call tasks/result"
	case task.Completed:
		return "Task has been completed successfully, call tasks/result"
	case task.Failed:
		return "Task has failed, call tasks/result"
	}
	return ""
}

func (s *Service) cancel(ctx context.Context, q *Request) (*result, error) {
	t, err := s.Engine.Cancel(ctx, q.Principal, q.TaskID)
	ended := errors.Is(err, task.ErrEnded)
	switch {
	case err != nil && !ended:
		return nil, s.failed(ctx, "cancelling a task", err)
	case q.Extension:
		return new(result), nil
	case ended:
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "Cannot cancel task: already in terminal status '%s'", row(t, false).Status)
	}
	return s.describe(ctx, t, false)
}

// errEnding ends a wait whose server ends.
var errEnding = &fault.UnavailableError{Reason: "the server is stopping: send the request again", RetryAfter: time.Second}

// await answers tasks/result once the task has ended. While the task waits for input, a session
// is asked with requests of the server; any other client gets the questions as the answer.
func (s *Service) await(ctx context.Context, q *Request) (*result, error) {
	ctx, done := ending.Follow(ctx, errEnding)
	defer done()
	version := int64(-1)
	for {
		resume := call.Waiting(ctx)
		t, err := s.Engine.Wait(ctx, q.Principal, q.TaskID, version)
		if gaveWay := resume(); gaveWay != nil {
			return nil, gaveWay
		}
		if err != nil {
			return nil, s.failed(ctx, "waiting for a task", err)
		}
		version = t.Version
		switch {
		case t.Status == task.InputRequired && q.session != nil:
			if err := s.ask(ctx, q.session, t); err != nil {
				return nil, s.failed(ctx, "asking for a task", err)
			}
		case t.Status == task.InputRequired:
			requests, err := s.inputRequests(ctx, t)
			return &result{questions: requests, related: t.ID}, err
		case t.Status == task.Completed:
			return &result{result: t.Outcome, related: t.ID}, nil
		case t.Status == task.Failed:
			return nil, stored.DecodeFault(t.Outcome, t.Message)
		case t.Status == task.Cancelled:
			return nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the task was cancelled")
		}
	}
}

// ask sends the open questions of a task to the client of a session.
func (s *Service) ask(ctx context.Context, session *mcp.ServerSession, t *task.Task) error {
	requests, err := s.inputRequests(ctx, t)
	if err != nil {
		return err
	}
	var typed mcp.InputRequestMap
	if err := json.Unmarshal(wire.AppendInputRequests(nil, requests), &typed); err != nil {
		return s.unreadable(ctx, fmt.Errorf("a stored question: %w", err))
	}
	related := mcp.Meta{wire.MetaRelatedTask: map[string]any{"taskId": t.ID}}
	for _, request := range typed {
		switch p := request.(type) {
		case *mcp.ElicitParams:
			p.Meta = related
		case *mcp.CreateMessageWithToolsParams:
			p.Meta = related
		case *mcp.ListRootsParams:
			p.Meta = related
		}
	}
	// The questions are withdrawn when the task ends, or is answered by another way.
	asking, withdraw := context.WithCancel(ctx)
	defer withdraw()
	go func() {
		defer withdraw()
		_, _ = s.Engine.Wait(asking, t.Principal, t.ID, t.Version)
	}()
	responses, _, err := home.Ask(asking, session, t.ID, typed)
	switch {
	case asking.Err() != nil:
		return ctx.Err()
	case err != nil: // the wait is over, but not the task: another may bring an answer
		return wire.Errorf(jsonrpc.CodeInternalError, "%v", err)
	}
	return s.answer(ctx, t, responses)
}

// perPage bounds a page of tasks/list.
const perPage = 50

func (s *Service) list(ctx context.Context, q *Request) (*result, error) {
	if q.Principal == "" && !s.ListAnonymous {
		return nil, wire.Errorf(jsonrpc.CodeMethodNotFound, "tasks/list: this server cannot tell callers apart, and does not list tasks")
	}
	after, fault := parseCursor(strictjson.Get(q.params, "cursor"))
	if fault != nil {
		return nil, fault
	}
	tasks, err := s.Engine.List(ctx, q.Principal, call.DialectProposal, after, perPage+1)
	if err != nil {
		return nil, s.failed(ctx, "listing tasks", err)
	}
	more := len(tasks) > perPage
	if more {
		tasks = tasks[:perPage]
	}
	members := []byte(`"tasks":[`)
	for i, t := range tasks {
		if i > 0 {
			members = append(members, ',')
		}
		if t.Status == task.Completed { // its outcome decides whether it failed in this dialect
			if t, err = s.Engine.Get(ctx, q.Principal, t.ID); errors.Is(err, task.ErrNotFound) {
				t = tasks[i]
			} else if err != nil {
				return nil, s.failed(ctx, "listing tasks", err)
			}
		}
		members = append(row(t, false).Append(append(members, '{'), false), '}')
	}
	members = append(members, ']')
	if more {
		last := tasks[len(tasks)-1]
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.Created.UnixMilli(), 10) + "." + last.ID))
		members = append(members, `,"nextCursor":"`+cursor+`"`...)
	}
	return &result{members: members}, nil
}

// lastCursor bounds the time of a cursor, in milliseconds since 1970: the last one that RFC 3339 can write. Databases
// refuse years that are far beyond.
var lastCursor = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()

func parseCursor(raw []byte) (*task.Task, *jsonrpc.Error) {
	if raw == nil || strictjson.TypeOf(raw) == strictjson.TypeNull {
		return nil, nil
	}
	cursor, _ := strictjson.String(raw) // what is no string is empty, and has no ID
	data, err1 := base64.RawURLEncoding.DecodeString(cursor)
	created, id, hasID := strings.Cut(string(data), ".")
	ms, err2 := strconv.ParseInt(created, 10, 64)
	if len(cursor) > 256 || !hasID || err1 != nil || err2 != nil || ms < 0 || ms > lastCursor || !utf8.ValidString(id) || strings.Contains(id, "\x00") {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: the cursor is none of this server's")
	}
	return &task.Task{ID: id, Created: time.UnixMilli(ms)}, nil
}

// encode makes the result object. A modern one has its type, and names the server.
func (r *result) encode(info []byte, modern bool) ([]byte, error) {
	members, meta := r.members, info
	if !modern {
		meta = nil
	}
	if r.related != "" {
		all := map[string]json.RawMessage{}
		if meta != nil {
			_ = json.Unmarshal(meta, &all) // made here
		}
		if r.result != nil {
			opened, own, err := stored.DecodeResult(r.result)
			if err != nil {
				return nil, err
			}
			if own != nil {
				if err := json.Unmarshal(own, &all); err != nil {
					return nil, fmt.Errorf("the _meta of the stored result: %w", err)
				}
			}
			if len(opened) > 0 {
				members = slices.Concat(members, comma(members), opened)
			}
		}
		all[wire.MetaRelatedTask], _ = json.Marshal(map[string]string{"taskId": r.related})
		meta, _ = json.Marshal(all) // checked JSON
	}
	switch {
	case r.questions != nil:
		return wire.InputRequired(nil, r.questions, "", meta), nil
	case !modern && meta != nil:
		members = slices.Concat(members, comma(members), []byte(`"_meta":`), meta)
	}
	object := slices.Concat([]byte("{"), members, []byte("}"))
	if modern {
		return wire.Complete(make([]byte, 0, len(object)+len(meta)+64), object, meta, ""), nil
	}
	return object, nil
}

func comma(members []byte) []byte {
	if len(members) == 0 {
		return nil
	}
	return []byte(",")
}
