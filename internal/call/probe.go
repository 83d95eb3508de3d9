package call

import "context"

// Probe follows what the handler of one request does. Package askbacktest checks handlers with it; no server has one.
// Its methods may be called from several goroutines.
type Probe interface {
	// Home returns the home of a request's call, in which it may wait for people otherwise than a server does.
	Home(r *Request, home Home) Home
	// CallID returns the ID that the handler sees as the call's. The argument is the call's real ID.
	CallID(id string) string
	// Handle is called before the handler, which gets the context that it returns. The last call counts.
	Handle(ctx context.Context) context.Context
	// Step runs a step that is not recorded, or stands in for it. Once says that it never runs twice.
	Step(ctx context.Context, name string, once bool, step Step) ([]byte, error)
	// Encoded is told the result of a step, and the JSON that is to be recorded of it.
	Encoded(name string, result any, data []byte)
	// Asked is told of a question, and of the error that its handler gets, or nil with an answer.
	Asked(key string, err error)
	// Mistaken is told of an error that the handler's author has made, after Asked.
	Mistaken(err error)
	// Panicked is told what the handler panicked with, and the stack of that.
	Panicked(v any, stack []byte)
}

type probeKey struct{}

// WithProbe returns a context for a request whose handler p is to follow.
func WithProbe(ctx context.Context, p Probe) context.Context {
	return context.WithValue(ctx, probeKey{}, p)
}
