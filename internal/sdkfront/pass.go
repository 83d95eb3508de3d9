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

// pass brings a request through the gate. What serve returns is encoded where the SDK's types cannot express it.
func (f *Front) pass(ctx context.Context, method, target string, req mcp.Request,
	serve func(ctx context.Context, p gate.Passage) (mcp.Result, error)) (result mcp.Result, err error) {
	r := f.requestOf(ctx)
	ctx, cancel := r.during(ctx)
	defer cancel()
	a := gate.Access{Method: method, Target: target, Extra: req.GetExtra()}
	err = f.Gate.Pass(ctx, a, f.describe(ctx, req), legacySession(req),
		func(ctx context.Context, p gate.Passage) (err error) {
			result, err = serve(context.WithValue(ctx, passageKey{f}, p), p)
			return err
		})
	r.refuse(err)
	switch fault.Of(err) {
	case fault.Refused, fault.Unavailable, fault.Crowded, fault.Limit:
		if sessionOf(req) != nil {
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

// describe returns what is known of a request beside its caller and target. The SDK does not tell its handlers the
// request's ID.
func (f *Front) describe(ctx context.Context, req mcp.Request) gate.Origin {
	meta := req.GetParams().GetMeta()
	from := gate.Origin{Transport: transportOf(req.GetExtra()), Meta: report.MetaTexts(meta)}
	if r := f.requestOf(ctx); r != nil && sessionOf(req) == nil {
		from.ID = r.ID
	}
	if session := legacySession(req); session != nil {
		if opened := session.InitializeParams(); opened != nil {
			from.Version = opened.ProtocolVersion
		}
	} else {
		from.Version, _ = meta[mcp.MetaKeyProtocolVersion].(string)
	}
	return from
}
