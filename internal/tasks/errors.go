package tasks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// storeFailed tells the operator what is wrong with the store, and the client only that something is.
func (s *Service) storeFailed(ctx context.Context, doing string, err error) error {
	s.Log.ErrorContext(ctx, "askback: "+doing+" failed", "error", err)
	return wire.Errorf(jsonrpc.CodeInternalError, "internal error: %s failed", doing)
}

func (s *Service) failed(ctx context.Context, doing string, err error) error {
	if fault.Of(err) == fault.Protocol {
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
	return &fault.UnavailableError{Reason: "internal error: " + doing + " failed: send the request again",
		RetryAfter: time.Second}
}

// interrupted returns why the server ended a request that may be sent again, or nil.
func interrupted(ctx context.Context) error {
	if cause := context.Cause(ctx); fault.Of(cause).Busy() {
		return cause
	}
	return nil
}
