package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/ending"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// The requests about tasks come in two dialects: the extension's, for clients that declare it,
// and the proposals', for clients that sent the member task. Sessions before 2026-07-28 speak
// the proposals' dialect as their revision has it.

// Serve answers a principal's request about tasks, which [Request.Check] has passed, with the encoded result.
func (s *Service) Serve(ctx context.Context, principal string, q *Request) ([]byte, error) {
	x := &exchange{s, q, principal}
	res, err := x.serve(ctx)
	if err != nil {
		return nil, err
	}
	encoded, err := res.encode(s.Info, q.Session == nil)
	if err != nil {
		return nil, s.storeFailed(ctx, "encoding a result", err)
	}
	return encoded, nil
}

// exchange is a principal's request about tasks, and the answer to it.
type exchange struct {
	*Service
	*Request
	principal string
}

func (x *exchange) serve(ctx context.Context) (result, error) {
	switch x.Method {
	case wire.GetTask:
		t, err := x.get(ctx)
		if err != nil {
			return result{}, err
		}
		return x.describe(ctx, t, x.Extension())
	case wire.CancelTask:
		return x.cancel(ctx)
	case wire.TaskResult:
		return x.await(ctx)
	case wire.ListTasks:
		return x.list(ctx)
	default:
		return x.update(ctx)
	}
}

// get reads the task of a request. The error is one for the client.
func (x *exchange) get(ctx context.Context) (*task.Task, error) {
	t, err := x.Engine.Get(ctx, x.principal, x.TaskID)
	if err == nil {
		err = x.finds(t)
	}
	if err != nil {
		return nil, x.refuse(ctx, "retrieving a task", err)
	}
	return t, nil
}

// refuse is [Service.failed] for a request, whose client may have to declare the extension to find its task (SEP-2663,
// "Protocol Errors").
func (x *exchange) refuse(ctx context.Context, doing string, err error) error {
	declares := x.Session != nil || x.Extension() || x.Method == wire.TaskResult || x.Method == wire.InputResponse
	if errors.Is(err, task.ErrNotFound) && !declares {
		return wire.MissingCapability(wire.Tasks)
	}
	return x.failed(ctx, doing, err)
}

// update gives a task the answers of a request.
func (x *exchange) update(ctx context.Context) (result, error) {
	if x.Method == wire.UpdateTask && !x.Extension() {
		return result{}, wire.MissingCapability(wire.Tasks)
	}
	responses, invalid := wire.ParseResponses(strictjson.Get(x.Params, "inputResponses"))
	if invalid != nil {
		if _, err := x.get(ctx); err != nil {
			return result{}, err
		}
		return result{}, invalid
	}
	late, err := x.answer(ctx, x.principal, x.TaskID, x.finds, responses, false)
	if err != nil {
		return result{}, x.refuse(ctx, "answering a task", err)
	}
	if len(late) > 0 {
		return result{}, wire.Errorf(jsonrpc.CodeInvalidParams,
			"too late: the deadline of %q has passed; answers to other questions are taken", late)
	}
	if x.Extension() {
		return result{}, nil
	}
	return result{related: x.TaskID}, nil
}

func (x *exchange) cancel(ctx context.Context) (result, error) {
	if _, err := x.get(ctx); err != nil {
		return result{}, err
	}
	t, err := x.Engine.Cancel(ctx, x.principal, x.TaskID)
	ended := errors.Is(err, task.ErrEnded)
	switch {
	case err != nil && !ended:
		return result{}, x.failed(ctx, "cancelling a task", err)
	case x.Extension():
		return result{}, nil
	case ended:
		row := x.row(t, false)
		return result{}, wire.Errorf(jsonrpc.CodeInvalidParams, "Cannot cancel task: already in terminal status '%s'",
			row.Status)
	}
	return x.describe(ctx, t, false)
}

// errEnding ends a wait whose server ends.
var errEnding = &fault.UnavailableError{Reason: "the server is stopping: send the request again",
	RetryAfter: time.Second}

// await answers tasks/result once the task has ended. While the task waits for input, a session
// is asked with requests of the server; any other client gets the questions as the answer.
func (x *exchange) await(ctx context.Context) (result, error) {
	ctx, done := ending.Follow(ctx, errEnding)
	defer done()
	version := int64(-1)
	for {
		resume := gate.Waiting(ctx)
		t, err := x.Engine.Wait(ctx, x.principal, x.TaskID, version)
		if gaveWay := resume(); gaveWay != nil {
			return result{}, gaveWay
		}
		if err == nil {
			err = x.finds(t)
		}
		if err != nil {
			return result{}, x.refuse(ctx, "waiting for a task", err)
		}
		version = t.Version
		switch {
		case t.Status == task.InputRequired && len(t.Pending) == 0: // it waits for others than its client
		case t.Status == task.InputRequired && x.Session != nil:
			if err := x.ask(ctx, t); err != nil {
				return result{}, x.failed(ctx, "asking for a task", err)
			}
		case t.Status == task.InputRequired:
			requests, err := x.inputRequests(ctx, t)
			return result{questions: requests, related: t.ID}, err
		case t.Status == task.Completed:
			return result{outcome: t.Outcome, related: t.ID}, nil
		case t.Status == task.Failed:
			return result{}, stored.DecodeFault(t.Outcome, t.Message)
		case t.Status == task.Cancelled:
			return result{}, wire.Errorf(jsonrpc.CodeInvalidRequest, "the task was cancelled")
		}
	}
}

// ask sends the open questions of a task to the client of a session.
func (x *exchange) ask(ctx context.Context, t *task.Task) error {
	requests, err := x.inputRequests(ctx, t)
	if err != nil {
		return err
	}
	var typed mcp.InputRequestMap
	if err := json.Unmarshal(wire.AppendInputRequests(nil, requests), &typed); err != nil {
		return x.unreadable(ctx, fmt.Errorf("a stored question: %w", err))
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
		_, _ = x.Engine.Wait(asking, t.Principal, t.ID, t.Version)
	}()
	responses, _, err := home.Ask(asking, x.Session, t.ID, typed, nil, nil, true)
	switch {
	case asking.Err() != nil:
		return ctx.Err()
	case err != nil: // the wait is over, but not the task: another may bring an answer
		return wire.Errorf(jsonrpc.CodeInternalError, "%v", err)
	}
	// A late answer is not an error of this request, which waits for the task.
	_, err = x.answer(ctx, t.Principal, t.ID, func(*task.Task) error { return nil }, responses, true)
	return err
}
