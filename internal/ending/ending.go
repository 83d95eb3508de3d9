// Package ending carries to those who serve a request that the server of the request is about to end. The context of a
// request in a session is not the context of the HTTP request that brought it, so ending the HTTP request does not
// reach it.
package ending

import "context"

type key struct{}

// With returns ctx for a request whose server ends when end is done. A session has it from the request that opened it.
func With(ctx, end context.Context) context.Context { return context.WithValue(ctx, key{}, end) }

// Follow returns a context that is done, with this cause, also when the server of its request ends. Cancel must be
// called.
func Follow(ctx context.Context, cause error) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if server, ok := ctx.Value(key{}).(context.Context); ok {
		stop = context.AfterFunc(server, func() { end(cause) })
	}
	return ctx, func() { stop(); end(nil) }
}
