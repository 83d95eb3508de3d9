package conversation

import (
	"context"
	"sync"

	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// leaving is how a person leaves a call that asks: by putting it off, or by an interruption. An interruption ends the
// call, except while a question is open: then it ends the question, and what was answered before can be kept.
type leaving struct {
	call    context.Context // done once the person has put the call off
	leave   context.CancelFunc
	signals context.Context // done once the process was interrupted

	mu          sync.Mutex
	questions   int // that are open
	interrupted bool
}

// watch calls fail with an interruption that comes while no question is open.
func (l *leaving) watch(signals context.Context, fail context.CancelCauseFunc) {
	l.call, l.leave = context.WithCancel(context.Background())
	l.signals = signals
	context.AfterFunc(signals, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.questions == 0 {
			fail(terminal.ErrInterrupted)
		}
	})
}

// open returns the context of a question, which an interruption ends. The caller closes it when the question has ended,
// and learns whether it was interrupted.
func (l *leaving) open(ctx context.Context) (_ context.Context, close func() (interrupted bool)) {
	l.mu.Lock()
	l.questions++
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.signals, func() { cancel(terminal.ErrInterrupted) })
	return ctx, func() bool {
		stop()
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.questions--
		return l.signals.Err() != nil
	}
}

// putOff leaves the call as it is, with the answers that it has. The other questions of the round are not put.
func (l *leaving) putOff(interrupted bool) {
	l.mu.Lock()
	l.interrupted = l.interrupted || interrupted
	l.mu.Unlock()
	l.leave()
}

// wasInterrupted reports whether an interruption has put the call off.
func (l *leaving) wasInterrupted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interrupted
}
