package sdkfront

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/report"
)

// passageKey is the key of a request's [gate.Passage] in its context.
type passageKey struct{ *Front }

// incoming is a request behind all middleware, whether it came through the SDK's server or past it.
type incoming struct {
	*Front
	method string
	req    mcp.Request
}

// pass brings a request through the gate. What serve returns is encoded where the SDK's types cannot express it.
func (in incoming) pass(ctx context.Context, target string,
	serve func(ctx context.Context, p gate.Passage) (mcp.Result, error)) (result mcp.Result, err error) {
	r := in.requestOf(ctx)
	ctx, cancel := r.during(ctx)
	defer cancel()
	a := gate.Access{Method: in.method, Target: target, Extra: in.req.GetExtra()}
	err = in.Gate.Pass(ctx, a, in.origin(ctx), legacySession(in.req),
		func(ctx context.Context, p gate.Passage) (err error) {
			result, err = serve(context.WithValue(ctx, passageKey{in.Front}, p), p)
			return err
		})
	r.refuse(err)
	switch fault.Of(err) {
	case fault.Refused, fault.Unavailable, fault.Crowded, fault.Limit:
		if sessionOf(in.req) != nil {
			return nil, fault.Wire(err)
		}
	}
	if sent, ok := errors.AsType[*jsonrpc.Error](err); ok && sent != nil && sent.Code == jsonrpc.CodeMethodNotFound {
		err = &notFoundError{sent}
	}
	return result, err
}

// notFoundError is an error -32601 with a message of its own. It has no Unwrap, because the SDK's connection replaces
// the message of every error that is, or wraps, an error with this code.
type notFoundError struct{ fault *jsonrpc.Error }

func (e *notFoundError) Error() string { return e.fault.Message }

// As lets errors.As find the fault.
func (e *notFoundError) As(target any) bool {
	to, ok := target.(**jsonrpc.Error)
	if ok {
		*to = e.fault
	}
	return ok
}

// origin returns what is known of a request beside its caller and target. The SDK does not tell its handlers the
// request's ID.
func (in incoming) origin(ctx context.Context) gate.Origin {
	meta := in.req.GetParams().GetMeta()
	from := gate.Origin{Transport: transportOf(in.req.GetExtra()), Meta: report.MetaTexts(meta)}
	if r := in.requestOf(ctx); r != nil && sessionOf(in.req) == nil {
		from.ID = r.ID
	}
	if session := legacySession(in.req); session != nil {
		if opened := session.InitializeParams(); opened != nil {
			from.Version = opened.ProtocolVersion
		}
	} else {
		from.Version, _ = meta[mcp.MetaKeyProtocolVersion].(string)
	}
	return from
}
