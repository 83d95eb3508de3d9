package gate

import (
	"context"
	"sync"

	"github.com/askback-mcp/askback/internal/bound"
)

// Holder holds shares of a request: the front that brought it, its session, or the gate.
type Holder interface {
	// Wait says that the request waits for its client. Until Resume, its shares give way to others.
	Wait()
	// Leave says that the request waits for others than its client. The holder gives back its shares, except its shares of
	// memory, which give way as w does.
	Leave(w bound.Waiter)
	// Resume ends what Wait or Leave began. The error is for the client and says that the request has given way.
	Resume() error
}

// Waits are the holders of a request that can wait, and its context: see With. The zero value has none; Release must be
// called at the end of the request.
type Waits struct {
	context.Context
	shares *Shares
	call   callHold
	first  [2]Holder    // room for holders: most requests have two
	answer bound.Waiter // gives way while the response to a wait is written, or nil

	mu      sync.Mutex
	holders []Holder
	hold    *bound.Hold             // of Shares.Waits, from the last time that the request left its shares, or nil
	end     context.CancelCauseFunc // of the wait; nil while there is none
	over    bool                    // Release was called
}

type waitsKey struct{}

// With returns the context of a request that can wait. Answer, which may be nil, gives way while the response to a wait
// is written.
func (w *Waits) With(ctx context.Context, shares *Shares, h Holder, answer bound.Waiter) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Context, w.shares, w.answer, w.holders = ctx, shares, answer, append(w.first[:0], h)
	return w
}

// Value implements [context.Context].
func (w *Waits) Value(key any) any {
	if key == (waitsKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// withHolder adds a holder to the holders of a request, or makes it the only one.
func withHolder(ctx context.Context, shares *Shares, h Holder) (_ context.Context, release func()) {
	if w := waitsOf(ctx); w != nil && w.shares == shares {
		w.add(h)
		return ctx, func() {}
	}
	w := new(Waits)
	return w.With(ctx, shares, h, nil), w.Release
}

func (w *Waits) add(h Holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders = append(w.holders, h)
}

// addCall adds the share of a call.
func (w *Waits) addCall(hold bound.Hold) *callHold {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.call
	if len(w.holders) > 1 { // middleware has brought the request to the gate before
		c = new(callHold)
	}
	c.Hold = hold
	w.holders = append(w.holders, c)
	return c
}

func waitsOf(ctx context.Context) *Waits {
	w, _ := ctx.Value(waitsKey{}).(*Waits)
	return w
}

func (w *Waits) all() []Holder {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holders
}

// Waiting says that the request of a context waits for its client until resume is called. The error of resume is for
// the client.
func Waiting(ctx context.Context) (resume func() error) {
	w := waitsOf(ctx)
	if w == nil {
		return func() error { return nil }
	}
	for _, h := range w.all() {
		h.Wait()
	}
	return w.resume
}

func (w *Waits) resume() (err error) {
	for _, h := range w.all() {
		if gaveWay := h.Resume(); err == nil {
			err = gaveWay
		}
	}
	return err
}

// Leave says that the request of a context waits for others than its client until resume is called: it gives back its
// shares, and counts among [Shares].Waits. The returned context is the context of the wait. It is done at once if there
// is no room, and as soon as the wait gives way to another; its cause is then an error that is busy.
func Leave(ctx context.Context, principal string) (waiting context.Context, resume func()) {
	waiting, end := context.WithCancelCause(ctx)
	w := waitsOf(ctx)
	if w == nil {
		return waiting, func() { end(nil) }
	}
	if err := w.leave(ctx, principal, end); err != nil {
		end(err)
		return waiting, func() {}
	}
	return waiting, func() { w.resumeAnswering(); end(nil) }
}

func (w *Waits) leave(ctx context.Context, principal string, end context.CancelCauseFunc) error {
	w.giveBack() // what an earlier wait has left
	hold, err := w.shares.Take(ctx, w.shares.Waits, principal, 1)
	if err != nil {
		return err
	}
	own := &hold
	w.mu.Lock()
	if w.over { // the front has gone already
		own.Release()
	}
	w.hold, w.end = own, end
	w.mu.Unlock()
	own.Wait(w)
	for _, h := range w.all() {
		h.Leave(w)
	}
	return nil
}

// resumeAnswering ends a wait. The response still counts among the waits if something bounds how long it may take.
func (w *Waits) resumeAnswering() {
	w.mu.Lock()
	w.end = nil
	w.mu.Unlock()
	if w.answer == nil {
		w.giveBack()
	}
	_ = w.resume() // there is an outcome, which the client is to have
}

func (w *Waits) giveBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		w.hold.Release()
	}
}

// GiveWay implements [bound.Waiter].
func (w *Waits) GiveWay(because *bound.FullError) {
	w.mu.Lock()
	end := w.end
	w.mu.Unlock()
	switch {
	case end != nil:
		end(w.shares.GaveWay(context.Background(), because))
	case w.answer != nil:
		w.answer.GiveWay(because)
	}
}

// Release gives back what the waits of the request hold. It may be called again.
func (w *Waits) Release() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.giveBack()
}

// mayLeave lets a request that can wait give back the share of its call.
func mayLeave(ctx context.Context, c *callHold) {
	if w := waitsOf(ctx); w != nil {
		w.add(c)
	}
}

// callHold is the [Holder] of a share of the calls that run at once.
type callHold struct{ bound.Hold }

// Wait implements [Holder]: a call that asks its client inside its request has no share.
func (*callHold) Wait() {}

// Leave implements [Holder].
func (c *callHold) Leave(bound.Waiter) { c.Release() }

// Resume implements [Holder].
func (*callHold) Resume() error { return nil }
