package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/wire"
)

// Session is a connection to one server. It is safe for concurrent use; answers of one call never reach another.
type Session struct {
	opts     *Options
	sdk      *mcp.ClientSession
	endpoint string
	direct   *direct // nil if the SDK's client sends everything
	inline   *inlineState
	forget   func()          // removes the session from its client
	life     context.Context // ends when the session is closed
	end      context.CancelCauseFunc
	cut      context.CancelFunc // ends what is still sent
	takes    bool               // calls can be tasks, before 2026-07-28
	probed   bool               // the server has answered the probe
	silent   atomic.Bool        // the server sends no notifications about tasks
	observed observedSession
}

// legacy reports whether the session is of a revision before 2026-07-28.
func (s *Session) legacy() bool {
	res := s.sdk.InitializeResult()
	return res != nil && res.ProtocolVersion < wire.Version
}

// SDK returns the SDK's session below, for lists, completion and subscriptions. Its calls are not driven to the end,
// and questions that servers ask during them inside a session before 2026-07-28 are refused.
func (s *Session) SDK() *mcp.ClientSession { return s.sdk }

// Close ends the connection, the calls, and the questions that handlers still have. A call
// that waits for a task ends with a [*PendingError]. A session that is closed makes no calls.
// A server that does not take the answers to its requests delays Close by a second at most.
func (s *Session) Close() error {
	s.end(fmt.Errorf("the session was closed: %w", mcp.ErrConnectionClosed))
	defer s.forget()
	defer time.AfterFunc(closeTime, s.cut).Stop()
	return s.sdk.Close()
}

// closeTime is the time in which a closed session still sends answers. A server that does not read them must not keep
// the host from closing.
const closeTime = time.Second

// Server returns how the server introduced itself, or nil if it did not.
func (s *Session) Server() *mcp.Implementation {
	if res := s.sdk.InitializeResult(); res != nil {
		return res.ServerInfo
	}
	return nil
}

// begin begins a call: its time is bounded, and the server may ask inside the session.
func (s *Session) begin(ctx context.Context) (_ context.Context, leave func()) {
	ctx, done := join(ctx, s.life)
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Limits.CallTTL, s.opts.Limits.timeReached())
	ended := s.inline.enter(s.life)
	return ctx, func() { ended(); cancel(); done() }
}

// taskParams are the parameters of all requests that the SDK does not know.
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

// dialect is the dialect for tasks that are known by their IDs.
func (s *Session) dialect() (TaskDialect, error) {
	switch d := s.opts.Tasks; {
	case d == TasksOff:
		return "", errors.New("this client has its tasks off: see Options.Tasks")
	case d == TasksExtension && s.legacy():
		return "", errors.New("the server does not speak 2026-07-28, which the tasks extension belongs to")
	case d == TasksAuto && s.legacy():
		return TasksProposal, nil
	case d == TasksAuto:
		return TasksExtension, nil
	default:
		return d, nil
	}
}

// request sends a request that the SDK does not know, about a task unless id is empty, and
// returns its result. The response must come within [tap.ResponseTime].
func (s *Session) request(
	ctx context.Context, d TaskDialect, method, id string, params *taskParams,
) (json.RawMessage, error) {
	if len(id) > maxTaskID {
		return nil, fmt.Errorf("a task's id has at most %d bytes", maxTaskID)
	}
	late := &tap.AwayError{Reason: fmt.Sprintf("nothing came within %v", tap.ResponseTime)}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(tap.ResponseTime, func() { cancel(late) })
	defer timer.Stop()
	raw, err := s.exchange(bounded, d, &tap.Exchange{Method: method, Name: id, Timer: timer}, params)
	if err != nil && ctx.Err() == nil && context.Cause(bounded) == late {
		err = late
	}
	return raw, err
}

// exchange sends a request that the SDK does not know, however long its response takes.
func (s *Session) exchange(
	ctx context.Context, d TaskDialect, x *tap.Exchange, params *taskParams,
) (json.RawMessage, error) {
	if d == TasksProposal && !s.legacy() {
		params.SetMeta(s.opts.withoutExtension(params.GetMeta()))
	}
	ctx, done := join(ctx, s.life)
	defer done()
	raw, err := s.observeTask(ctx, x, func(ctx context.Context) (json.RawMessage, error) {
		if s.direct != nil {
			plain := *params
			plain.SetMeta(nil)
			return s.direct.request(ctx, x, &plain, params.GetMeta())
		}
		_, err := mcp.CallCustomMethod[*taskParams, *rawResult](x.Context(ctx), s.sdk, tap.CustomMethod, params)
		raw, broken := x.Result()
		return raw, cmp.Or(broken, err)
	})
	if err != nil && s.life.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, fmt.Errorf("calling %q: %w", x.Method, fault)
	}
	if err == nil && raw == nil {
		err = &ProtocolError{"the response has no result"}
	}
	return raw, err
}
