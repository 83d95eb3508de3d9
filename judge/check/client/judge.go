package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	others := func(p corpus.Probe) bool { return len(only) > 0 && !slices.Contains(only, p.ID) }
	return slices.DeleteFunc(probes, others), nil
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
		serve := fmt.Sprint(p.Serve)
		s := played[serve]
		if s == nil {
			if s, err = c.play(ctx, p.ID, p.Serve); err != nil {
				return err
			}
			played[serve] = s
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
	o.Probe, o.Target, o.Dimension = p.ID, "tools/call "+c.opts.tool, p.Dimension
	o.Title, o.Clause, o.Keyword = p.Title, p.Clause, p.Keyword
	if o.Proof != "" {
		o.Level, o.Harm, o.Mend = p.Verdicts[o.Proof], p.Harm, p.Mend
	}
	c.report.Verdicts = append(c.report.Verdicts, o)
}

// outcome is what a watch has seen: its level, if that is not the probe's, its proof, its reason and its remedy.
type outcome = findings.Verdict

func passed(reason string) outcome       { return outcome{Level: findings.Pass, Reason: reason} }
func found(proof, reason string) outcome { return outcome{Proof: proof, Reason: reason} }
func notJudged(reason, remedy string) outcome {
	return outcome{Level: findings.NotJudged, Reason: reason, Remedy: remedy}
}
