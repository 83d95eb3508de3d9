package home

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
)

// expire settles the questions of a call whose deadline is not after now. It tells of answers that came too late, and
// takes them out of the responses. It returns the questions that have a deadline and stay open, and the time at which
// the state ends because of the deadlines.
func (c *Carrier) expire(ctx context.Context, r *call.Request, j *journal.Journal,
	now time.Time) (timed []journal.Question, outlives time.Time) {
	last, responses := latest(j), r.Params.Responses
	if last.IsZero() {
		return nil, time.Time{}
	}
	outlives = last.Add(c.Limits.RoundTTL)
	if now.Before(last) {
		last = now
	}
	// The time to live of a call counts anew from its last deadline, or from when its client came back before that.
	if last = last.Truncate(time.Millisecond); last.After(j.Started) {
		j.Started = last
	}
	for _, q := range j.Expire(now, nil) {
		if responses[q.Wire] == nil {
			continue
		}
		delete(responses, q.Wire)
		id := journal.Derived("call", j.ID)
		call.LogLate(ctx, c.Log, id, r.Handler.Method, r.Params.Target, j.Round, q.Key)
		c.Audit.Tell(ctx, report.AuditEvent{Kind: report.AuditRefused, Principal: r.Principal, Method: r.Handler.Method,
			Target: r.Params.Target, Call: id, Round: j.Round, Key: q.Key, Reason: report.Late})
	}
	timed = slices.DeleteFunc(slices.Clone(j.Pending), func(q journal.Question) bool { return q.Deadline.IsZero() })
	return timed, outlives
}

// latest returns the latest deadline of the pending questions, or the zero time.
func latest(j *journal.Journal) (deadline time.Time) {
	for _, q := range j.Pending {
		if q.Deadline.After(deadline) {
			deadline = q.Deadline
		}
	}
	return deadline
}

// measure notes in the responses how long after their questions they came, by the clocks of this instance and of the
// one that asked. If this instance is behind, nobody knows.
func measure(j *journal.Journal, answers call.Answers, issued, now time.Time) {
	answers.Measure(func(key string) time.Duration {
		asked := issued
		for _, q := range j.Pending {
			if q.Wire == key && !q.Asked.IsZero() {
				asked = q.Asked
			}
		}
		if asked.IsZero() {
			return -1
		}
		return now.Sub(asked)
	})
}

// errLate is the cause of the end of a question in a session whose deadline has passed.
var errLate = errors.New("the deadline of the question has passed")
