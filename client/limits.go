package client

import (
	"context"
	"fmt"
	"time"
)

// Limits bound what a server can make a client do. A field that is zero has its default.
type Limits struct {
	Rounds       int           // rounds of one call, and pages of a list; default 32
	Questions    int           // questions in one round; default 64
	MessageBytes int64         // bytes of one message of the server, or of a list; default 16 MiB
	Depth        int           // nesting of a result's JSON; default 64
	CallTTL      time.Duration // time of one call, including the user's; default 24 hours
	FirstPause   time.Duration // before retrying a round without questions; doubles each time; default 100 ms
	MaxPause     time.Duration // longest such pause; default 5 s
	MinPoll      time.Duration // between two requests for a task's status, also if the server says less; default 100 ms
	MaxPoll      time.Duration // longest time between two such requests; default 5 minutes
}

// unanswered bounds the bytes of a server's requests that wait for their answers. It is a variable for tests.
var unanswered int64 = 16 << 20

func (l *Limits) setDefaults() {
	setDefault(&l.Rounds, 32)
	setDefault(&l.Questions, 64)
	setDefault(&l.MessageBytes, 16<<20)
	setDefault(&l.Depth, 64)
	setDefault(&l.CallTTL, 24*time.Hour)
	setDefault(&l.FirstPause, 100*time.Millisecond)
	setDefault(&l.MaxPause, 5*time.Second)
	setDefault(&l.MinPoll, 100*time.Millisecond)
	setDefault(&l.MaxPoll, 5*time.Minute)
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// LimitError reports that a server made a call reach one of [Limits]. It has the shape and the
// names of the server's askback.LimitError.
type LimitError struct {
	Limit string // The name of the limit, with its unit, such as "rounds per call".
	Max   int64  // the limit, in that unit
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %d %s is reached", e.Max, e.Limit)
}

func (l *Limits) roundsReached() error { return &LimitError{"rounds per call", int64(l.Rounds)} }

func (l *Limits) questionsReached() error {
	return &LimitError{"questions per round", int64(l.Questions)}
}

// timeReached counts a second that has begun, so that no limit is zero.
func (l *Limits) timeReached() error {
	return &LimitError{"seconds per call", int64((l.CallTTL + time.Second - 1) / time.Second)}
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reopen opens a stream, which returns at its end, and opens it again as long as that reports that it should. The
// pauses grow from a second to a minute, and begin anew after a stream that has lasted longer.
func reopen(ctx context.Context, open func() (again bool)) {
	const shortest, longest = time.Second, time.Minute
	for wait := shortest; ; wait = min(2*wait, longest) {
		began := time.Now()
		if !open() {
			return
		}
		if time.Since(began) > longest {
			wait = shortest
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// join returns a context that also ends with another one, for the same cause.
func join(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func() { cancel(context.Cause(other)) }
	if other.Err() != nil {
		end() // at once, and not soon
	}
	stop := context.AfterFunc(other, end)
	return ctx, func() { stop(); cancel(nil) }
}
