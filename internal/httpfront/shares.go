package httpfront

import (
	"context"
	"sync/atomic"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/gate"
)

// shares are what an HTTP request holds of the limits until it is served. They give way to others while the server
// waits for the client to send a body or to read a response; the shares of a request that stays open give way at any
// time. They implement [gate.Holder] and [bound.Waiter].
type shares struct {
	pools     *gate.Shares
	principal string     // who holds them
	request   bound.Hold // of Requests or, once the request stays open, of Streams
	body      bound.Hold // of BodyBytes, if the body is not small
	size      int        // of body
	waits     gate.Waits // of a call that can wait for others than its client

	open   atomic.Bool // the request stays open
	cancel context.CancelCauseFunc
	pace   *pace
}

// take takes the share of a request in progress, before its body is read.
func (s *shares) take(ctx context.Context, principal string) (err error) {
	s.principal = principal
	s.request, err = s.pools.Take(ctx, s.pools.Requests, principal, 1)
	return err
}

// takeBytes changes the share of memory for the body to n bytes, unless n is small.
func (s *shares) takeBytes(ctx context.Context, n int) (err error) {
	if n <= bound.Small {
		return nil
	}
	if s.size == 0 {
		if s.body, err = s.pools.Take(ctx, s.pools.BodyBytes, s.principal, 0); err != nil {
			return err
		}
		s.body.Wait(s)
	}
	if err = s.pools.Resize(ctx, &s.body, n); err == nil {
		s.size = n
	}
	return err
}

// shrink gives back memory, once only n bytes of the body are kept.
func (s *shares) shrink(n int) {
	if n <= bound.Small {
		s.body.Release()
	} else {
		_ = s.body.Resize(min(n, s.size)) // giving back always succeeds
	}
}

// stayOpen counts the request as a stream instead of a request in progress. It returns a context that ends when the
// stream gives way.
func (s *shares) stayOpen(ctx context.Context) (context.Context, error) {
	stream, err := s.pools.Take(ctx, s.pools.Streams, s.principal, 1)
	if err != nil {
		return ctx, err
	}
	ctx, s.cancel = context.WithCancelCause(ctx)
	s.request.Release()
	s.request = stream
	s.open.Store(true)
	return ctx, nil
}

func (s *shares) release() {
	s.request.Release()
	s.body.Release()
	s.waits.Release()
}

// waitForClient says that the server waits for the client.
func (s *shares) waitForClient() {
	s.request.Wait(s)
	s.body.Wait(s)
}

// endWait ends the wait for the client. The error says that the request has given way, or that there is no room for it
// to continue.
func (s *shares) endWait(ctx context.Context) error {
	err := s.request.Resume()
	if err == nil {
		err = s.body.Resume()
	}
	return s.pools.GaveWay(ctx, err)
}

// Wait implements [gate.Holder].
func (s *shares) Wait() {
	if !s.open.Load() {
		s.waitForClient()
	}
}

// Resume implements [gate.Holder].
func (s *shares) Resume() error {
	if s.open.Load() {
		return nil
	}
	return s.endWait(context.Background())
}

// Leave implements [gate.Holder]. From now on the request stays open, and counts as one that waits.
func (s *shares) Leave(w bound.Waiter) {
	s.open.Store(true)
	s.request.Release()
	s.body.Wait(w)
}

// GiveWay implements [bound.Waiter].
func (s *shares) GiveWay(because *bound.FullError) {
	if s.cancel != nil {
		s.cancel(s.pools.GaveWay(context.Background(), because))
	}
	s.pace.cutOff()
}
