package tasks

import (
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Request is a request about tasks, from any front.
type Request struct {
	Method  string
	TaskID  string             // empty if the request names no task
	Params  []byte             // checked JSON, an object or nil
	Can     wire.Capability    // what the client declared; in a session nothing that matters here
	Session *mcp.ServerSession // before 2026-07-28, or nil
}

// Extension reports whether the client declared the extension.
func (q *Request) Extension() bool { return q.Can&wire.Tasks != 0 }

// Check returns an error for a method that the request's dialect does not have, and for a task that is missing.
func (q *Request) Check() *jsonrpc.Error {
	switch {
	case !q.methodExists():
		return MethodNotFound(q.Method)
	case q.TaskID == "" && q.Method != wire.ListTasks:
		return wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: %q needs the string "taskId"`, q.Method)
	}
	return nil
}

// methodExists reports whether the request's dialect has its method.
func (q *Request) methodExists() bool {
	switch q.Method {
	case wire.GetTask, wire.CancelTask:
		return true
	case wire.UpdateTask: // of the extension: other clients are told that they lack it
		return q.Session == nil
	case wire.TaskResult, wire.InputResponse, wire.ListTasks:
		return !q.Extension()
	}
	return false
}

// MethodNotFound is the error for a method that does not exist.
func MethodNotFound(method string) *jsonrpc.Error {
	return wire.Errorf(jsonrpc.CodeMethodNotFound, "method not found: %q", method)
}

// finds returns an error for a task that the client of a request may not know of.
func (q *Request) finds(t *task.Task) error {
	if !q.Extension() && t.Dialect != home.DialectProposal {
		return task.ErrNotFound
	}
	return nil
}
