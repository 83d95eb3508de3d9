package gate

import "context"

// Waits is a request that can wait for a person or another party. Until it resumes, its shares give way to others.
type Waits interface {
	Wait()
	// Resume ends the wait. The error is for the client and says that the request has given way.
	Resume() error
}

type waitsKey struct{}

// WithWaits returns the context of a request that can wait.
func WithWaits(ctx context.Context, w Waits) context.Context {
	return context.WithValue(ctx, waitsKey{}, w)
}

// Waiting says that the request of a context waits until resume is called. The error of resume is for the client.
func Waiting(ctx context.Context) (resume func() error) {
	w, ok := ctx.Value(waitsKey{}).(Waits)
	if !ok {
		return func() error { return nil }
	}
	w.Wait()
	return w.Resume
}
