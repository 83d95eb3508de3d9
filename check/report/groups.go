package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
)

// A problem is what one probe has found, on every target that has it.
type problem struct {
	findings.Verdict // on the first target
	sights           []*sight
	cause            string // the probe whose finding explains it
}

// A sight is what was seen alike on several targets.
type sight struct {
	reason, proof string
	cases         []occurrence
}

// An occurrence is a problem on one target.
type occurrence struct {
	target, file string // file names the transcript, see TranscriptNames; empty if there is none
}

// problems returns the findings that no baseline covers: the gravest first, of these what does most harm, which is
// the order of the corpus, and behind each what it explains.
func problems(r *findings.Report) []*problem {
	var all []*problem
	files := TranscriptNames(r)
	for i, v := range r.Verdicts {
		if !isFinding(v) || v.Accepted != "" {
			continue
		}
		p := find(&all, func(p *problem) bool { return p.Probe == v.Probe && p.Level == v.Level })
		p.Verdict = cmp.Or(p.Verdict, v)
		s := find(&p.sights, func(s *sight) bool { return s.reason == v.Reason && s.proof == v.Proof })
		s.reason, s.proof = v.Reason, v.Proof
		s.cases = append(s.cases, occurrence{place(v), files[i]})
	}
	order := make(map[string]int)
	for i, p := range corpus.Probes() {
		order[p.ID] = i
	}
	slices.SortStableFunc(all, func(a, b *problem) int {
		return cmp.Or(slices.Index(findings.Levels, a.Level)-slices.Index(findings.Levels, b.Level),
			order[a.Probe]-order[b.Probe])
	})
	return behindCauses(all)
}

// explained are the dimensions that all fail once nothing protects a state.
var explained = map[string]bool{"integrity": true, "secrecy": true, "principal": true, "arguments": true,
	"target": true, "method": true, "time": true, "server": true}

// apart are probes whose findings have causes of their own.
var apart = map[string]bool{"state-credentials": true, "state-none": true}

// behindCauses puts what is found in a state that nothing protects behind the finding that says so.
func behindCauses(all []*problem) []*problem {
	at := slices.IndexFunc(all, func(p *problem) bool {
		return slices.Contains([]string{"state-forged", "state-made-up"}, p.Probe)
	})
	if at < 0 {
		return all
	}
	cause := all[at]
	var symptoms, others []*problem
	for _, p := range all[at+1:] {
		outside := slices.ContainsFunc(p.targets(), func(t string) bool { return !slices.Contains(cause.targets(), t) })
		if explained[p.Dimension] && strings.HasPrefix(p.Probe, "state-") && !apart[p.Probe] && !outside {
			p.cause = cause.Probe
			symptoms = append(symptoms, p)
		} else {
			others = append(others, p)
		}
	}
	return slices.Concat(all[:at+1], symptoms, others)
}

func (p *problem) targets() (all []string) {
	for _, s := range p.sights {
		all = append(all, s.targets()...)
	}
	return all
}

// find returns the member that is alike, or a new one at the end.
func find[T any](list *[]*T, alike func(*T) bool) *T {
	at := slices.IndexFunc(*list, alike)
	if at < 0 {
		at = len(*list)
		*list = append(*list, new(T))
	}
	return (*list)[at]
}

// cases are the occurrences of all sights.
func (p *problem) cases() (all []occurrence) {
	for _, s := range p.sights {
		all = append(all, s.cases...)
	}
	return all
}

// proofs names how the sights are proved, each way once.
func (p *problem) proofs() string {
	var all []string
	for _, s := range p.sights {
		if s.proof != "" && !slices.Contains(all, s.proof) {
			all = append(all, s.proof)
		}
	}
	return strings.Join(all, ", ")
}

func (s *sight) targets() (all []string) {
	for _, c := range s.cases {
		all = append(all, c.target)
	}
	return all
}

// A group is a list of verdicts that are not judged for the same reason.
type group struct {
	reason, remedy string
	verdicts       []findings.Verdict
}

// notJudged groups what is not judged: first what somebody can change, and the largest groups first.
func notJudged(r *findings.Report) []*group {
	var groups []*group
	for _, v := range r.Verdicts {
		if v.Level == findings.NotJudged {
			g := find(&groups, func(g *group) bool { return g.reason == v.Reason && g.remedy == v.Remedy })
			g.reason, g.remedy = v.Reason, v.Remedy
			g.verdicts = append(g.verdicts, v)
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		hopeless := func(g *group) int {
			if g.remedy == "" {
				return 1
			}
			return 0
		}
		return cmp.Or(hopeless(a)-hopeless(b), len(b.verdicts)-len(a.verdicts))
	})
	return groups
}

// passed returns the verdicts that passed.
func passed(r *findings.Report) []findings.Verdict {
	return slices.DeleteFunc(slices.Clone(r.Verdicts), func(v findings.Verdict) bool { return v.Level != findings.Pass })
}

// A row is a list of probes with the same targets.
type row struct {
	probes, targets []string
}

// rows lists the probes of verdicts, those together that have the same targets.
func rows(verdicts []findings.Verdict) []*row {
	var single, merged []*row
	for _, v := range verdicts {
		one := find(&single, func(o *row) bool { return o.probes[0] == v.Probe })
		one.probes = []string{v.Probe}
		one.targets = append(one.targets, place(v))
	}
	for _, one := range single {
		all := find(&merged, func(o *row) bool { return slices.Equal(o.targets, one.targets) })
		all.targets = one.targets
		all.probes = append(all.probes, one.probes...)
	}
	return merged
}

// where names targets. What is on nearly all of them says so, because lists of names hide that.
func where(r *findings.Report, targets []string) string {
	var others []string
	for _, t := range r.Targets {
		if name := t.Method + " " + t.Name; !slices.Contains(targets, name) {
			others = append(others, name)
		}
	}
	listed := len(r.Targets) - len(others)
	switch {
	case len(r.Targets) < 3 || listed != len(targets) || len(others)*3 > len(r.Targets):
		return strings.Join(targets, ", ")
	case len(others) == 0:
		return "everything that asks"
	default:
		return "everything that asks, except " + strings.Join(others, ", ")
	}
}

// A kind is a list of targets that ask in the same way.
type kind struct {
	about   string
	targets []string
}

// kinds lists what asks.
func kinds(r *findings.Report) []*kind {
	var all []*kind
	for _, t := range r.Targets {
		k := find(&all, func(k *kind) bool { return k.about == about(t) })
		k.about = about(t)
		k.targets = append(k.targets, t.Method+" "+t.Name)
	}
	return all
}
