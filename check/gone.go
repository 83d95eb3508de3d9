package check

import (
	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
)

// unanswered is the first of some requests in a row that got no response.
type unanswered struct {
	target *target
	steps  []recorded
}

// judgeGone looks whether the server has ended under a request of the target.
func (r *run) judgeGone(p corpus.Probe, t *target, v *findings.Verdict) error {
	switch {
	case r.line.gone && r.unanswered.target == t:
		return r.found(p, v, "observation", r.unanswered.steps,
			"after a request without a response, the server accepts no connections any more")
	case r.line.stopped != "":
		return errStopped
	}
	return pass(v, "the server was there to the end")
}
