package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
)

// waits reports whether a probe waits until a state has expired. Such probes come last. The calls that they need are
// begun before all other probes, so that the time passes once, meanwhile.
func waits(p corpus.Probe) bool {
	return slices.ContainsFunc(p.Steps, func(s step) bool { return s.Wait == "ttl" })
}

// beginExpiry begins the calls whose states are to expire.
func (r *run) beginExpiry(ctx context.Context) {
	for _, p := range corpus.Probes() {
		for _, t := range r.targets {
			if !waits(p) || !r.chosen(p) || !r.applies(p, t) || r.unmet(p, t) != nil {
				continue
			}
			for len(t.expiring) < repeats {
				c, err := retried(func() (*call, error) { return r.advance(ctx, t, step{}, t.stateRound()) })
				if err != nil {
					break // the probe says so when it comes to its call
				}
				t.expiring = append(t.expiring, c)
			}
		}
	}
	r.expires = time.Now().Add(time.Duration(r.Plan.TTL) + time.Second)
}

// victimCall returns the call whose state an attack takes the n-th time. For an attack on expired states it is old.
func (r *run) victimCall(ctx context.Context, a *trial, n int) (*call, error) {
	if a.aim.Wait != "ttl" {
		c, err := r.advance(ctx, a.victim, step{}, a.round)
		if err == nil && !c.last().asks() {
			err = fmt.Errorf("%w: the call did not come to the round", errLost)
		}
		return c, err
	}
	if n >= len(a.victim.expiring) {
		return nil, &notJudged{"no call could be begun in time", "run it again"}
	}
	if end, ok := ctx.Deadline(); ok && end.Before(r.expires) {
		return nil, &notJudged{"a state is valid for longer than this run may take", "a longer --timeout"}
	}
	select {
	case <-time.After(time.Until(r.expires)):
	case <-ctx.Done():
		return nil, r.line.stop(context.Cause(ctx).Error())
	}
	return a.victim.expiring[n], nil
}
