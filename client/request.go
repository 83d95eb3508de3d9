package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
)

// taskParams are the parameters of all requests that the SDK does not know.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId,omitempty"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
	RequestState   *string                    `json:"requestState,omitempty"`
	Cursor         string                     `json:"cursor,omitempty"`
	Notifications  *taskNotifications         `json:"notifications,omitempty"`
	Name           string                     `json:"name,omitempty"`
	Arguments      map[string]any             `json:"arguments,omitempty"`
	MaxEvents      int                        `json:"maxEvents,omitempty"`
	MaxAge         int64                      `json:"maxAgeMs,omitempty"`
	Delivery       *eventDelivery             `json:"delivery,omitempty"`
	TTL            int64                      `json:"ttlMs,omitempty"`
}

type taskNotifications struct {
	TaskIDs []string `json:"taskIds"`
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
	raw, err := s.observer.observeTask(ctx, x, func(ctx context.Context) (json.RawMessage, error) {
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
