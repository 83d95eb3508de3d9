package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
)

// Shares are the limits that principals share. Open bounds the number of open requests of sessions, and OpenBytes the
// bytes of their parameters, except for small ones. Waits bounds the calls that wait for others than their client: they
// hold none of the other shares.
type Shares struct {
	Requests, Calls, BodyBytes, Sessions, Streams, Open, OpenBytes, Waits *bound.Pool

	Log      *slog.Logger // is told at times of requests that were refused
	refusals refusals
}

// Take takes n of one of the Shares for a principal. The error is one for the client.
func (s *Shares) Take(ctx context.Context, from *bound.Pool, principal string, n int) (bound.Hold, error) {
	hold, err := from.Take(principal, n)
	return hold, s.GaveWay(ctx, err)
}

// Resize makes a Hold one of n. The error is one for the client.
func (s *Shares) Resize(ctx context.Context, hold *bound.Hold, n int) error {
	return s.GaveWay(ctx, hold.Resize(n))
}

// retryAfter is how soon a client may try again that was refused because of a limit that others share.
const retryAfter = time.Second

// GaveWay makes the error of a [bound.Pool], or the reason why one of its holds gave way, an error for the client. The
// operator is told at times.
func (s *Shares) GaveWay(ctx context.Context, err error) error {
	full, ok := errors.AsType[*bound.FullError](err)
	if !ok {
		return err
	}
	if n := s.refusals.add(*full, time.Now()); n > 0 {
		s.Log.WarnContext(ctx, "askback: requests were refused or handed back because of a limit", "limit", full.What,
			"max", full.Max, "reason", string(full.Whose)+" limit", "requests", n)
	}
	unavailable := &fault.UnavailableError{Reason: full.Error(), RetryAfter: retryAfter}
	if full.Whose == bound.Everybody {
		return unavailable
	}
	return &fault.CrowdedError{UnavailableError: unavailable}
}

// refusals counts the requests that were refused because of each limit.
type refusals struct {
	mu      sync.Mutex
	byLimit map[bound.FullError]refused
}

type refused struct {
	n    int       // since it was logged
	from time.Time // when a refusal is logged again
}

// add counts a refusal. It returns how many to log, or 0 if some were a short time ago.
func (r *refusals) add(limit bound.FullError, now time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byLimit == nil {
		r.byLimit = make(map[bound.FullError]refused)
	}
	is := r.byLimit[limit]
	if is.n++; now.Before(is.from) {
		r.byLimit[limit] = is
		return 0
	}
	r.byLimit[limit] = refused{from: now.Add(10 * time.Second)}
	return is.n
}

// A call looks for a share during shareWait, once every shareLook, before it is handed back. Some clients come back at
// once, and a server may hand a call back only a few times.
const (
	shareWait = 500 * time.Millisecond
	shareLook = 20 * time.Millisecond
)

// awaitCall takes a share of the calls that run at once as soon as one is free. It returns the error of the last
// attempt.
func (s *Shares) awaitCall(ctx context.Context, hold *bound.Hold, principal string) (full error) {
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	look := time.NewTicker(shareLook)
	defer look.Stop()
	for {
		if *hold, full = s.Calls.Take(principal, 1); full == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return full
		}
	}
}

// undividedKey is the key of the share of a request that is not divided into rounds.
type undividedKey struct{}

type undivided struct {
	hold  callHold
	taken bool
}

// Undivided returns the context of a request that serves several rounds of a call one after the other, because its
// client cannot come back between them. The gate takes one share of calls for all of them until release. If there is
// none, it refuses the first round before the call's state is used, instead of handing the call back.
func Undivided(ctx context.Context) (_ context.Context, release func()) {
	whole := new(undivided)
	return context.WithValue(ctx, undividedKey{}, whole), func() { whole.hold.Release() }
}

// takeWhole takes the share of an undivided request, in its first round.
func (s *Shares) takeWhole(ctx context.Context, whole *undivided, principal string) error {
	if whole.taken {
		return nil
	}
	if full := s.awaitCall(ctx, &whole.hold.Hold, principal); full != nil {
		return s.GaveWay(ctx, full)
	}
	whole.taken = true
	return nil
}
