// Package endpoint runs the probes of an endpoint as a whole: headers and bodies that it must refuse, and loads that it
// must bear. Each is between honest requests.
package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
	"github.com/askback-mcp/askback/internal/wire"
)

// A Judge sends requests that an endpoint must refuse, and loads.
type Judge struct {
	*talk.Client
	Targets []*talk.Target
	Lister  string // the method of a list that has a result; empty: there is none
	Second  bool   // there is another principal

	served *talk.Call // the newest honest request
}

// Run runs a probe of an endpoint, or of loads.
func (e *Judge) Run(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	if p.Family == "load" {
		return e.judgeLoad(ctx, p, t, v)
	}
	return e.judgeEndpoint(ctx, p, t, v)
}

// judgeEndpoint sends a request with headers or bytes that no honest client sends. The probe finds something if the
// server serves it three times, as it serves the honest request before and after.
func (e *Judge) judgeEndpoint(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	aim := p.Steps[len(p.Steps)-1]
	if aim.Do == "offer" {
		if e.Lister == "" {
			return talk.NoVerdict("nothing was listed", "a server that speaks 2026-07-28")
		}
		t = &talk.Target{Method: e.Lister}
	}
	if err := e.serves(ctx, t, e.served); err != nil {
		return err
	}
	control := e.served.Last()
	a := tries{}
	for a.taken < verdict.Repeats && a.lost < verdict.Repeats && a.refusal == "" {
		c, err := e.first(ctx, t, aim, p.Family == "load")
		switch {
		case errors.Is(err, transport.ErrLost), errors.Is(err, transport.ErrSlow):
			a.lost, a.silence = a.lost+1, err
			if err := e.serves(ctx, t, nil); err != nil {
				return e.endOf(p, v, err)
			}
		case err != nil:
			return e.endOf(p, v, err)
		case serves(c.Last(), control, aim.Body != ""):
			a.taken, a.last = a.taken+1, c
		default:
			a.refusal = c.Last().Outcome()
		}
	}
	if err := e.serves(ctx, t, nil); err != nil {
		return e.endOf(p, v, err)
	}
	return e.weigh(p, v, a)
}

// tries are the outcomes of a request that must be refused.
type tries struct {
	taken, lost int
	last        *talk.Call // that was taken
	refusal     string     // what came instead
	silence     error      // why nothing came
}

// weigh makes a verdict of the tries between two controls.
func (e *Judge) weigh(p corpus.Probe, v *findings.Verdict, a tries) error {
	switch {
	case a.taken == 0 && a.refusal != "":
		return verdict.Pass(v, "%s; the honest request was answered before and after", a.refusal)
	case a.taken == 0 && (len(e.Line.Program) > 0 || p.Family == "load" && !errors.Is(a.silence, transport.ErrSlow)):
		return verdict.Pass(v, "%v, %d times; the honest request was answered before and after", a.silence, a.lost)
	case a.taken == 0:
		return talk.NoVerdict(fmt.Sprintf("%v, %d times: it cannot be told whether the server refuses it, "+
			"or a part of it ended", a.silence, a.lost), "a look at the log of the server")
	}
	n := a.taken + a.lost
	if a.refusal != "" {
		n++
	}
	// Another reader may understand a body in another way, and whether one stands before the server is not known.
	proof := "observation"
	if p.Verdicts["suspicion"] != "" {
		proof = "suspicion"
	}
	return verdict.FoundTimes(p, v, proof, a.last.Steps, a.taken,
		"it was served as the honest request is, %d times of %d%s", a.taken, n,
		showHeaders(a.last.Steps[0].Request.Headers))
}

func showHeaders(headers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value := headers[name]; value != "" {
			all = append(all, fmt.Sprintf("%s: %s", name, talk.CutText(value)))
		} else {
			all = append(all, "no "+name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// endOf makes a verdict of an error, if it is that the server ended.
func (e *Judge) endOf(p corpus.Probe, v *findings.Verdict, err error) error {
	if e.Line.Gone && p.Steps[len(p.Steps)-1].Headers == nil {
		return verdict.Found(p, v, "observation", nil, "after it, the server accepts no connections any more: "+
			"send it once and look whether the server still runs")
	}
	return err
}

// serves sends the honest request of a target, whose response is a control. Nothing is sent if before has it already.
func (e *Judge) serves(ctx context.Context, t *talk.Target, before *talk.Call) error {
	if before != nil && before.Target.String() == t.String() {
		return nil
	}
	c, err := transport.RetryLost(func() (*talk.Call, error) { return e.first(ctx, t, corpus.Step{}, false) })
	if err != nil {
		return err
	}
	e.served = nil
	switch p := c.Last(); {
	case !p.Progresses():
		return talk.NoVerdict("the honest request is refused: "+p.Why, "a server that speaks 2026-07-28")
	case member(p, "resultType") == "":
		return talk.NoVerdict("the honest request is not answered as in 2026-07-28, because it has no resultType", "")
	}
	e.served = c
	return nil
}

// serves reports whether a response is the result of a request of this revision. The result of a body that can be read
// in two ways must also be of the same method as the control.
func serves(p, control *talk.Reply, alike bool) bool {
	return p.Class == control.Class && member(p, "resultType") == member(control, "resultType") &&
		(!alike || slices.Equal(members(p), members(control)))
}

func member(p *talk.Reply, name string) (value string) {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.Result, &result) // it was read before
	_ = json.Unmarshal(result[name], &value)
	return value
}

func members(p *talk.Reply) []string {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.Result, &result) // it was read before
	return slices.Sorted(maps.Keys(result))
}

// first sends the first request of a target, with the headers or the body of a step.
func (e *Judge) first(ctx context.Context, t *talk.Target, s corpus.Step, load bool) (*talk.Call, error) {
	c := &talk.Call{Target: t, As: s.As, Capabilities: transport.AllCapabilities, Canary: e.Canary()}
	if err := e.Fill(c); err != nil {
		return nil, err
	}
	q := transport.Request{As: s.As, Method: t.Method, Params: t.Params(c.Arguments), Capabilities: c.Capabilities,
		Load:  load,
		Large: load && s.Body != ""}
	if len(s.Headers) > 0 {
		q.Headers = map[string]string{}
		for name, value := range s.Headers {
			q.Headers[name] = strings.ReplaceAll(value, "{{other}}", wire.EncodeHeader(e.otherName(t)))
		}
	}
	if s.Body != "" {
		var err error
		if q.Body, err = q.Fill(s.Body, e.Line.Sent+1); err != nil { // the ID that the line would take
			return nil, err
		}
	}
	return c, e.Deliver(ctx, c, q)
}

// otherName is the name of something else that has been called, or a name of nothing.
func (e *Judge) otherName(t *talk.Target) string {
	for _, o := range e.Targets {
		if o.Method == t.Method && o.Name != t.Name {
			return o.Name
		}
	}
	if t.Method == "resources/read" {
		return "askback://other"
	}
	return "askback-other"
}
