package askback

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// The requests about tasks, in two dialects: that of the extension, for clients that declare
// it, and that of the seeds, for those that sent the member task. Sessions before 2026-07-28
// speak the seeds' one as their revision has it.

// taskRequest is a request about tasks, whatever carried it here.
type taskRequest struct {
	method    string
	params    []byte // checked JSON, an object or nil
	id        string
	extension bool               // the client declared it
	session   *mcp.ServerSession // before 2026-07-28, or nil
	principal string
}

// taskResult is the result of a request about tasks.
type taskResult struct {
	members   []byte              // without braces
	questions []wire.InputRequest // what makes it an input-required result
	related   string              // id of the related task, for _meta
	result    []byte              // the result of the task's call, in place of members
}

func newTaskRequest(method string, params []byte) (*taskRequest, *jsonrpc.Error) {
	q := &taskRequest{method: method, params: params}
	if method == wire.ListTasks {
		return q, nil
	}
	id := strictjson.Get(params, "taskId")
	if method == wire.InputResponse && id == nil {
		id = strictjson.Get(strictjson.Get(strictjson.Get(params, "_meta"), wire.MetaRelatedTask), "taskId")
	}
	var ok bool
	if q.id, ok = strictjson.String(id); !ok {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: %q needs the string "taskId"`, method)
	}
	return q, nil
}

// methodExists reports whether the request's dialect has its method.
func (q *taskRequest) methodExists() bool {
	switch q.method {
	case wire.GetTask, wire.CancelTask:
		return true
	case wire.UpdateTask: // of the extension: other clients are told that they lack it
		return q.session == nil
	case wire.TaskResult, wire.InputResponse, wire.ListTasks:
		return !q.extension
	}
	return false
}

func methodNotFound(method string) *jsonrpc.Error {
	return wire.Errorf(jsonrpc.CodeMethodNotFound, "method not found: %q", method)
}

func taskNotFound() *jsonrpc.Error {
	return wire.Errorf(jsonrpc.CodeInvalidParams, "Failed to retrieve task: Task not found")
}

// serveTask answers a request about tasks.
func (s *Server) serveTask(ctx context.Context, q *taskRequest) (*taskResult, error) {
	if q.method == wire.ListTasks {
		return s.listTasks(ctx, q)
	}
	t, err := s.tasks.Get(ctx, q.principal, q.id)
	if err == nil && !q.extension && t.Dialect != dialectSeeds {
		err = task.ErrNotFound // nor may it know that there is one
	}
	switch {
	case errors.Is(err, task.ErrNotFound) && q.mustDeclare():
		return nil, (&CapabilityError{Need: KindTasks}).wire()
	case err != nil:
		return nil, s.taskFailed(ctx, "retrieving a task", err)
	}
	switch q.method {
	case wire.GetTask:
		return s.describe(t, q.extension)
	case wire.CancelTask:
		return s.cancelTask(ctx, q)
	case wire.TaskResult:
		return s.awaitTask(ctx, q)
	default:
		if q.method == wire.UpdateTask && !q.extension {
			return nil, (&CapabilityError{Need: KindTasks}).wire()
		}
		responses, fault := wire.ParseResponses(strictjson.Get(q.params, "inputResponses"))
		if fault != nil {
			return nil, fault
		}
		if err := s.answerTask(ctx, t, responses); err != nil {
			return nil, s.taskFailed(ctx, "answering a task", err)
		}
		if q.extension {
			return new(taskResult), nil
		}
		return &taskResult{related: t.ID}, nil
	}
}

// mustDeclare reports whether a client that asks for a task that it did not create in the
// seeds' dialect is told to declare the extension (SEP-2663, "Protocol Errors").
func (q *taskRequest) mustDeclare() bool {
	return q.session == nil && !q.extension && (q.method == wire.GetTask || q.method == wire.CancelTask || q.method == wire.UpdateTask)
}

func (s *Server) taskFailed(ctx context.Context, doing string, err error) error {
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, task.ErrNotFound):
		return taskNotFound()
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.storeFailed(ctx, doing, err)
}

// describe tells how a task stands: for the extension with all that belongs to its status.
func (s *Server) describe(t *task.Task, extension bool) (*taskResult, error) {
	row := wireTask(t, extension)
	res := &taskResult{members: row.Append(nil, extension)}
	if !extension {
		return res, nil
	}
	switch {
	case t.Status == task.InputRequired:
		requests, err := inputRequests(t)
		if err != nil {
			return nil, err
		}
		res.members = wire.AppendInputRequests(append(res.members, `,"inputRequests":`...), requests)
	case t.Status == task.Completed:
		res.members = append(append(res.members, `,"result":`...), t.Outcome...)
	case t.Status == task.Failed && len(t.Outcome) > 0:
		res.members = append(append(res.members, `,"error":`...), t.Outcome...)
	}
	return res, nil
}

func inputRequests(t *task.Task) ([]wire.InputRequest, error) {
	open, err := openQuestions(t)
	requests := make([]wire.InputRequest, len(open))
	for i, q := range open {
		requests[i] = wire.InputRequest{Key: q.Wire, Method: q.Method, Params: q.Params}
	}
	return requests, err
}

func wireTask(t *task.Task, extension bool) *wire.Task {
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
		row.Message = seedsMessage(t, row.Status)
	}
	return row
}

// firstText is the beginning of what a tool's error says.
func firstText(result []byte) string {
	var said struct{ Content []struct{ Text string } }
	if json.Unmarshal(result, &said) != nil || len(said.Content) == 0 {
		return ""
	}
	const most = 200
	text := []rune(said.Content[0].Text)
	return string(text[:min(len(text), most)])
}

// seedsMessage is what the seeds say of a status.
func seedsMessage(t *task.Task, status string) string {
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

func (s *Server) cancelTask(ctx context.Context, q *taskRequest) (*taskResult, error) {
	t, err := s.tasks.Cancel(ctx, q.principal, q.id)
	ended := errors.Is(err, task.ErrEnded)
	switch {
	case err != nil && !ended:
		return nil, s.taskFailed(ctx, "cancelling a task", err)
	case q.extension:
		return new(taskResult), nil
	case ended:
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "Cannot cancel task: already in terminal status '%s'", wireTask(t, false).Status)
	}
	return s.describe(t, false)
}

// awaitTask answers tasks/result: once the task has ended or, outside of sessions, waits for
// input. Inside a session the questions go out as requests of the server.
func (s *Server) awaitTask(ctx context.Context, q *taskRequest) (*taskResult, error) {
	version := int64(-1)
	for {
		t, err := s.tasks.Wait(ctx, q.principal, q.id, version)
		if err != nil {
			return nil, s.taskFailed(ctx, "waiting for a task", err)
		}
		version = t.Version
		switch {
		case t.Status == task.InputRequired && q.session != nil:
			if err := s.askForTask(ctx, q.session, t); err != nil {
				return nil, s.taskFailed(ctx, "asking for a task", err)
			}
		case t.Status == task.InputRequired:
			requests, err := inputRequests(t)
			return &taskResult{questions: requests, related: t.ID}, err
		case t.Status == task.Completed:
			return &taskResult{result: t.Outcome, related: t.ID}, nil
		case t.Status == task.Failed:
			return nil, outcomeError(t)
		case t.Status == task.Cancelled:
			return nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the task was cancelled")
		}
	}
}

func outcomeError(t *task.Task) *jsonrpc.Error {
	fault := new(jsonrpc.Error)
	if err := json.Unmarshal(t.Outcome, fault); err != nil || fault.Code == 0 {
		return wire.Errorf(jsonrpc.CodeInternalError, "%s", t.Message)
	}
	return fault
}

// askForTask asks the client of a session what a task waits for.
func (s *Server) askForTask(ctx context.Context, session *mcp.ServerSession, t *task.Task) error {
	requests, err := inputRequests(t)
	if err != nil {
		return err
	}
	var typed mcp.InputRequestMap
	if err := json.Unmarshal(wire.AppendInputRequests(nil, requests), &typed); err != nil {
		return fmt.Errorf("a stored question: %w", err)
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
		_, _ = s.tasks.Wait(asking, t.Principal, t.ID, t.Version)
	}()
	responses, err := askInline(asking, session, t.ID, typed)
	switch {
	case asking.Err() != nil:
		return ctx.Err()
	case err != nil: // the wait is over, but not the task: another may bring an answer
		return wire.Errorf(jsonrpc.CodeInternalError, "%v", err)
	}
	for _, r := range requests {
		if responses[r.Key] == nil {
			responses[r.Key] = []byte("{}") // what came does not fit: it is asked again
		}
	}
	return s.answerTask(ctx, t, responses)
}

// tasksPerPage bounds a page of tasks/list.
const tasksPerPage = 50

func (s *Server) listTasks(ctx context.Context, q *taskRequest) (*taskResult, error) {
	if q.principal == "" && !s.opts.Tasks.ListAnonymous {
		return nil, wire.Errorf(jsonrpc.CodeMethodNotFound, "tasks/list: this server cannot tell callers apart, and does not list tasks")
	}
	after, fault := parseCursor(strictjson.Get(q.params, "cursor"))
	if fault != nil {
		return nil, fault
	}
	tasks, err := s.tasks.List(ctx, q.principal, dialectSeeds, after, tasksPerPage+1)
	if err != nil {
		return nil, s.taskFailed(ctx, "listing tasks", err)
	}
	more := len(tasks) > tasksPerPage
	if more {
		tasks = tasks[:tasksPerPage]
	}
	members := []byte(`"tasks":[`)
	for i, t := range tasks {
		if i > 0 {
			members = append(members, ',')
		}
		if t.Status == task.Completed { // whether it failed in this dialect, its outcome says
			if t, err = s.tasks.Get(ctx, q.principal, t.ID); errors.Is(err, task.ErrNotFound) {
				t = tasks[i]
			} else if err != nil {
				return nil, s.taskFailed(ctx, "listing tasks", err)
			}
		}
		members = append(wireTask(t, false).Append(append(members, '{'), false), '}')
	}
	members = append(members, ']')
	if more {
		last := tasks[len(tasks)-1]
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.Created.UnixMilli(), 10) + "." + last.ID))
		members = append(members, `,"nextCursor":"`+cursor+`"`...)
	}
	return &taskResult{members: members}, nil
}

func parseCursor(raw []byte) (*task.Task, *jsonrpc.Error) {
	if raw == nil || strictjson.TypeOf(raw) == strictjson.TypeNull {
		return nil, nil
	}
	bad := wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: the cursor is none of this server's")
	cursor, ok := strictjson.String(raw)
	if !ok || len(cursor) > 256 {
		return nil, bad
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, bad
	}
	created, id, ok := strings.Cut(string(data), ".")
	ms, err := strconv.ParseInt(created, 10, 64)
	if !ok || err != nil {
		return nil, bad
	}
	return &task.Task{ID: id, Created: time.UnixMilli(ms)}, nil
}

// encode makes the result object: a modern one says its type and who answers.
func (r *taskResult) encode(s *Server, modern bool) ([]byte, error) {
	if modern && r.related == "" { // as most are
		members := slices.Concat([]byte("{"), r.members, []byte("}"))
		return wire.Complete(make([]byte, 0, len(members)+len(s.meta)+64), members, s.meta, ""), nil
	}
	meta := map[string]json.RawMessage{}
	if modern {
		if err := json.Unmarshal(s.meta, &meta); err != nil {
			return nil, err
		}
	}
	members := r.members
	if r.result != nil {
		err := strictjson.Members(r.result, func(name, value []byte) error {
			if string(name) == "_meta" {
				return json.Unmarshal(value, &meta)
			}
			quoted, err := json.Marshal(string(name))
			members = slices.Concat(members, comma(members), quoted, []byte(":"), value)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if r.related != "" {
		related, err := json.Marshal(map[string]string{"taskId": r.related})
		if err != nil {
			return nil, err
		}
		meta[wire.MetaRelatedTask] = related
	}
	var encoded []byte
	if len(meta) > 0 {
		var err error
		if encoded, err = json.Marshal(meta); err != nil {
			return nil, err
		}
	}
	if r.questions != nil {
		return wire.InputRequired(nil, r.questions, "", encoded), nil
	}
	if modern {
		members = slices.Concat([]byte(`"resultType":"complete"`), comma(members), members)
	}
	if encoded != nil {
		members = slices.Concat(members, comma(members), []byte(`"_meta":`), encoded)
	}
	return slices.Concat([]byte("{"), members, []byte("}")), nil
}

func comma(members []byte) []byte {
	if len(members) == 0 {
		return nil
	}
	return []byte(",")
}

// encodeCreated makes the result of a call that became a task.
func (s *Server) encodeCreated(r *reply, modern bool) []byte {
	t, extension := r.task, r.dialect == dialectExtension
	var meta []byte
	if modern {
		meta = s.meta
	}
	row := wireTask(t, extension)
	if extension && row.Message == "" && t.Status == task.Working {
		row.Message = "The operation is now in progress."
	}
	return wire.CreateTaskResult(nil, row, extension, meta)
}

// Over HTTP, for the 2026-07-28 revision.

func (h *httpHandler) serveTasks(w http.ResponseWriter, r *http.Request, req wire.Request) {
	principal, err := h.principal(r.Context(), requestExtra(r))
	if err != nil {
		writeError(w, http.StatusForbidden, req.ID, protocolError(err))
		return
	}
	result, fault := h.taskResponse(r, req, principal)
	if fault != nil {
		code := status(fault)
		if fault.Code == jsonrpc.CodeMethodNotFound {
			code = http.StatusNotFound
		}
		writeError(w, code, req.ID, fault)
		return
	}
	if r.Context().Err() != nil {
		return // the client went away
	}
	writeJSON(w, http.StatusOK, wire.AppendResult(nil, req.ID, func(dst []byte) []byte { return append(dst, result...) }))
}

func (h *httpHandler) taskResponse(r *http.Request, req wire.Request, principal string) ([]byte, *jsonrpc.Error) {
	meta, fault := wire.ParseMeta(strictjson.Get(req.Params, "_meta"))
	if fault != nil {
		return nil, fault
	}
	extension := Kind(meta.Capabilities)&KindTasks != 0
	if probe := (&taskRequest{method: req.Method, extension: extension}); !probe.methodExists() {
		return nil, methodNotFound(req.Method)
	}
	q, fault := newTaskRequest(req.Method, req.Params)
	if fault != nil {
		return nil, fault
	}
	q.extension, q.principal = extension, principal
	// Routing headers are the extension's; the seeds' dialect may have them.
	if req.Method != wire.ListTasks && (extension || len(r.Header[wire.HeaderName]) > 0) {
		if fault := wire.CheckHeader(r.Header, wire.HeaderName, q.id, true); fault != nil {
			return nil, fault
		}
	}
	res, err := h.serveTask(r.Context(), q)
	if err != nil {
		return nil, protocolError(err)
	}
	encoded, err := res.encode(h.Server, true)
	if err != nil {
		return nil, protocolError(h.storeFailed(r.Context(), "encoding a result", err))
	}
	return encoded, nil
}
