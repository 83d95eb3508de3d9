package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
)

// options are the settings of a run.
type options struct {
	command []string      // of the client, with its arguments
	tool    string        // the tool that asks; empty is the tool of the official suite
	probes  []string      // IDs of the only probes; empty is all
	timeout time.Duration // of one scenario; zero is 20 s

	// person says who answers for the client: "none", "accepts" or "declines". Empty is unknown.
	person string
}

// suiteTool is the tool of the official suite that asks with a state.
const suiteTool = "test_mrtr_echo_state"

// honest is the scenario before and after all others.
var honest = []corpus.Reply{{Ask: "any", State: "plain"}, {}}

// run starts the client once for each scenario and returns what was seen. An error is a mistake in the options, or a
// program that cannot be started.
func run(ctx context.Context, opts options) (*findings.Report, error) {
	opts.tool = cmp.Or(opts.tool, suiteTool)
	opts.timeout = cmp.Or(opts.timeout, 20*time.Second)
	if len(opts.command) == 0 {
		return nil, errors.New("the command of the client is missing")
	}
	probes, err := selectProbes(opts.probes)
	if err != nil {
		return nil, err
	}
	c := &check{opts: opts, report: &findings.Report{
		Subject: filepath.Base(opts.command[0]), Kind: "client", Started: time.Now(), Revision: modern,
	}}
	defer func() { c.report.Took = time.Since(c.report.Started) }()
	if err := c.run(ctx, probes); err != nil {
		return nil, err
	}
	return c.report, nil
}

func selectProbes(only []string) ([]corpus.Probe, error) {
	probes := slices.DeleteFunc(corpus.Probes(), func(p corpus.Probe) bool { return p.Family != "client" })
	for _, id := range only {
		if !slices.ContainsFunc(probes, func(p corpus.Probe) bool { return p.ID == id }) {
			return nil, errors.New("there is no probe " + id + " for clients")
		}
	}
	return slices.DeleteFunc(probes, func(p corpus.Probe) bool {
		return len(only) > 0 && !slices.Contains(only, p.ID)
	}), nil
}

// check is one run of all scenarios.
type check struct {
	opts   options
	report *findings.Report
}

func (c *check) run(ctx context.Context, probes []corpus.Probe) error {
	before, err := c.play(ctx, "honest", honest)
	if err != nil {
		return err
	}
	if why := before.unfinished(); why != "" {
		c.report.Stopped = "the client did not finish an honest call: " + why
		for _, p := range probes {
			c.add(p, notJudged("the client did not finish an honest call", why))
		}
		return nil
	}
	c.report.Targets = []findings.Target{
		{Method: "tools/call", Name: c.opts.tool, Asks: before.asks(), Rounds: 1, Ended: true},
	}
	played := map[string]*scene{} // by what the server does, which several probes may share
	for _, p := range probes {
		key, err := json.Marshal(p.Serve)
		if err != nil {
			return err
		}
		s := played[string(key)]
		if s == nil {
			if s, err = c.play(ctx, p.ID, p.Serve); err != nil {
				return err
			}
			played[string(key)] = s
		}
		if ctx.Err() != nil {
			c.report.Stopped = "it was interrupted"
			return nil
		}
		c.add(p, watches[p.Reads](s))
	}
	after, err := c.play(ctx, "honest", honest)
	if err != nil {
		return err
	}
	if why := after.unfinished(); why != "" {
		c.report.Stopped = "the client did not finish an honest call after the scenarios: " + why
		for i := range c.report.Verdicts {
			if v := &c.report.Verdicts[i]; v.Level == findings.Pass {
				v.Level, v.Reason, v.Remedy = findings.NotJudged, "the honest call after the scenarios failed", why
			}
		}
	}
	return nil
}

// add adds the verdict on one probe.
func (c *check) add(p corpus.Probe, o outcome) {
	v := findings.Verdict{
		Probe: p.ID, Target: "tools/call " + c.opts.tool, Dimension: p.Dimension,
		Level: findings.Pass, Proof: o.proof, Reason: o.reason, Remedy: o.remedy,
		Title: p.Title, Clause: p.Clause, Keyword: p.Keyword,
	}
	switch {
	case o.unjudged:
		v.Level = findings.NotJudged
	case o.proof != "":
		v.Level, v.Harm, v.Mend = p.Verdicts[o.proof], p.Harm, p.Mend
	}
	c.report.Verdicts = append(c.report.Verdicts, v)
}

// outcome is what a watch has seen. The zero proof is a pass.
type outcome struct {
	proof    string
	reason   string
	remedy   string
	unjudged bool
}

func passed(reason string) outcome       { return outcome{reason: reason} }
func found(proof, reason string) outcome { return outcome{proof: proof, reason: reason} }
func notJudged(reason, remedy string) outcome {
	return outcome{reason: reason, remedy: remedy, unjudged: true}
}
