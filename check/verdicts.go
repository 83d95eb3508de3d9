package check

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/endpoint"
	"github.com/askback-mcp/askback/check/internal/reading"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/tasks"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/trial"
)

// prepareJudges gives the judges what was discovered.
func (r *run) prepareJudges() {
	targets := r.server.Targets
	r.attacks = trial.New(r.Client, targets, time.Duration(r.Plan.TTL))
	r.endpoint = &endpoint.Judge{Client: r.Client, Targets: targets, Lister: r.server.Lister, Second: r.hasSecond()}
	r.taskRuns = &tasks.Judge{Client: r.Client, OldTasks: r.server.OldTasks}
	r.reader = &reading.Judge{Client: r.Client, OtherAsked: r.server.OtherAsked, Listed: r.server.Lister != ""}
}

// hasSecond reports whether there is another principal.
func (r *run) hasSecond() bool { return r.Second != nil && !r.Plan.OneIdentity }

// waits reports whether a probe waits until a state has expired. Such probes come last. The calls that they need are
// begun before all other probes, so that the time passes once, meanwhile.
func waits(p corpus.Probe) bool {
	return slices.ContainsFunc(p.Steps, func(s corpus.Step) bool { return s.Wait == "ttl" })
}

// beginExpiry begins the calls whose states are to expire.
func (r *run) beginExpiry(ctx context.Context) {
	for _, p := range corpus.Probes() {
		for _, t := range r.server.Targets {
			if waits(p) && r.chosen(p) && r.applies(p, t) && r.unmet(p, t) == nil {
				r.attacks.Begin(ctx, t)
			}
		}
	}
}

// verdict runs a probe on a target.
func (r *run) verdict(ctx context.Context, p corpus.Probe, t *talk.Target) findings.Verdict {
	v := findings.Verdict{Probe: p.ID, Target: t.String(), Dimension: p.Dimension, Title: p.Title, Clause: p.Clause,
		Keyword: p.Keyword, Harm: p.Harm, Mend: p.Mend, Level: findings.NotJudged}
	err := r.judge(ctx, p, t, &v)
	if err == nil {
		return v
	}
	v.Level = findings.NotJudged
	v.Reason = r.Line.Cause(err)
	if n, ok := errors.AsType[*talk.NotJudged](err); ok {
		v.Remedy = n.Remedy
	} else if errors.Is(err, transport.ErrStopped) {
		v.Remedy = "run it again when the server answers, with more --requests or a longer --timeout"
	}
	return v
}

func (r *run) judge(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	if p.Family == "endpoint" || p.Family == "load" {
		t, v.Target = r.suited(p), ""
	}
	if err := r.unmet(p, t); err != nil {
		return err
	}
	switch {
	case p.Family == "tasks":
		return r.taskRuns.Run(ctx, p, t, v)
	case p.Family == "endpoint" || p.Family == "load":
		return r.endpoint.Run(ctx, p, t, v)
	case p.Reads != "" || p.Family == "questions":
		return r.reader.Run(ctx, p, t, v)
	case p.Family == "state" || p.Family == "answers":
		return r.attacks.Run(ctx, p, t, v)
	}
	return talk.NoVerdict("this check has no way to run it", "a newer version of the command")
}

// suited returns the first target on which a probe of the whole server can be judged. If there is none, it is one that
// shows what is missing, or nil.
func (r *run) suited(p corpus.Probe) *talk.Target {
	for _, t := range r.server.Targets {
		if r.unmet(p, t) == nil {
			return t
		}
	}
	if len(r.server.Targets) == 0 {
		return nil
	}
	return r.server.Targets[0]
}
