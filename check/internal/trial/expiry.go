package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

// Begin begins the calls of a target whose states are to expire. The probes that need them come last, so that the time
// of all passes once, meanwhile.
func (j *Judge) Begin(ctx context.Context, t *talk.Target) {
	for len(j.expiring[t]) < verdict.Repeats {
		c, err := transport.RetryLost(func() (*talk.Call, error) { return j.Advance(ctx, t, corpus.Step{}, t.StateRound()) })
		if err != nil {
			break // the probe says so when it comes to its call
		}
		j.expiring[t] = append(j.expiring[t], c)
	}
	j.expires = time.Now().Add(j.ttl + time.Second)
}

// victimCall returns the call whose state an attack takes the n-th time. For an attack on expired states it is old.
func (j *Judge) victimCall(ctx context.Context, a *trial, n int) (*talk.Call, error) {
	if a.aim.Wait != "ttl" {
		c, err := j.Advance(ctx, a.victim, corpus.Step{}, a.round)
		if err == nil && !c.Last().Asks() {
			err = fmt.Errorf("%w: the call did not come to the round", transport.ErrLost)
		}
		return c, err
	}
	if n >= len(j.expiring[a.victim]) {
		return nil, talk.NoVerdict("no call could be begun in time", "run it again")
	}
	if end, ok := ctx.Deadline(); ok && end.Before(j.expires) {
		return nil, talk.NoVerdict("a state is valid for longer than this run may take", "a longer --timeout")
	}
	select {
	case <-time.After(time.Until(j.expires)):
	case <-ctx.Done():
		return nil, j.Line.Stop(context.Cause(ctx).Error())
	}
	return j.expiring[a.victim][n], nil
}
