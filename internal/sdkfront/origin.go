package sdkfront

import (
	"context"
	"sync/atomic"

	"github.com/askback-mcp/askback/internal/fault"
)

// origin is the HTTP request behind a request that goes through the SDK, which does not tell its handlers of it.
type origin struct {
	ctx     context.Context
	refusal error // with a status of its own
}

type originKey struct{}

type admittedKey struct{}

// Admitted returns the context of an HTTP request that holds its share of the limits, and is served by the SDK in a
// session of its own.
func Admitted(ctx context.Context) context.Context {
	return context.WithValue(ctx, admittedKey{}, true)
}

// ranKey is the key of a request's [call.Request.Ran] in its context.
type ranKey struct{ *Front }

// WithRan returns the context of a request that is not served past the SDK and all middleware. Ran becomes what
// [call.Request] has under this name.
func (f *Front) WithRan(ctx context.Context, ran *atomic.Bool) context.Context {
	return context.WithValue(ctx, ranKey{f}, ran)
}

func (f *Front) ran(ctx context.Context) *atomic.Bool {
	ran, _ := ctx.Value(ranKey{f}).(*atomic.Bool)
	return ran
}

// WithOrigin returns the context of an HTTP request that goes through the SDK. If the gate refuses the request, or the
// server is unavailable for it, refusal returns why: its status differs from the status of an error.
func WithOrigin(ctx context.Context) (_ context.Context, refusal func() error) {
	o := &origin{ctx: ctx}
	return context.WithValue(Admitted(ctx), originKey{}, o), func() error { return o.refusal }
}

// refuse keeps an error that has a status of its own.
func (o *origin) refuse(err error) {
	if class := fault.Of(err); class == fault.Refused || class.Busy() {
		o.refusal = err
	}
}

// follow returns ctx, which the SDK and middleware derived, for as long as the HTTP request lasts.
func (o *origin) follow(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })
	return followed{ctx, o.ctx}, func() { stop(); cancel(nil) }
}

// followed is done as soon as the request is: a step that ends in the same moment must know that nobody hears of it.
type followed struct {
	context.Context
	origin context.Context
}

func (f followed) Err() error {
	if err := f.Context.Err(); err != nil {
		return err
	}
	return f.origin.Err()
}
