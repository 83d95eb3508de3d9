package check

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
	"github.com/askback-mcp/askback/internal/wire"
)

// suited returns the first target on which a probe of the whole server can be judged. If there is none, it is one that
// shows what is missing, or nil.
func (r *run) suited(p corpus.Probe) *target {
	for _, t := range r.targets {
		if r.unmet(p, t) == nil {
			return t
		}
	}
	if len(r.targets) == 0 {
		return nil
	}
	return r.targets[0]
}

// judgeEndpoint sends a request whose headers or whose bytes are not those of an honest client. It is found if it is
// served three times, as the honest request is before and after.
func (r *run) judgeEndpoint(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	aim := p.Steps[len(p.Steps)-1]
	if aim.Do == "offer" {
		if r.lister == "" {
			return &notJudged{"nothing was listed", "a server that speaks 2026-07-28"}
		}
		t = &target{method: r.lister}
	}
	if err := r.serves(ctx, t, r.served); err != nil {
		return err
	}
	control := r.served.last()
	a := tries{}
	for a.taken < repeats && a.lost < repeats && a.refusal == "" {
		c, err := r.first(ctx, t, aim, p.Family == "load")
		switch {
		case errors.Is(err, errLost), errors.Is(err, errSlow):
			a.lost, a.silence = a.lost+1, err
			if err := r.serves(ctx, t, nil); err != nil {
				return r.endOf(p, v, err)
			}
		case err != nil:
			return r.endOf(p, v, err)
		case c.last().serves(control, aim.Body != ""):
			a.taken, a.last = a.taken+1, c
		default:
			a.refusal = c.last().outcome()
		}
	}
	if err := r.serves(ctx, t, nil); err != nil {
		return r.endOf(p, v, err)
	}
	return r.weigh(p, v, a)
}

// tries are what a request came to that must be refused.
type tries struct {
	taken, lost int
	last        *call  // that was taken
	refusal     string // what came instead
	silence     error  // why nothing came
}

// weigh makes a verdict of what the tries came to between two controls.
func (r *run) weigh(p corpus.Probe, v *findings.Verdict, a tries) error {
	switch {
	case a.taken == 0 && a.refusal != "":
		return pass(v, "%s; the honest request was answered before and after", a.refusal)
	case a.taken == 0 && (r.line.program != nil || p.Family == "load" && !errors.Is(a.silence, errSlow)):
		return pass(v, "%v, %d times; the honest request was answered before and after", a.silence, a.lost)
	case a.taken == 0:
		return &notJudged{fmt.Sprintf("%v, %d times: it cannot be told whether the server refuses it, or a part of it ended",
			a.silence, a.lost), "a look at the log of the server"}
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
	err := r.found(p, v, proof, a.last.steps, "it was served as the honest request is, %d times of %d%s", a.taken,
		n, showHeaders(a.last.steps[0].request.headers))
	if a.taken < repeats && v.Level == findings.Fail {
		v.Level = findings.Warn
	}
	return err
}

func showHeaders(headers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value := headers[name]; value != "" {
			all = append(all, fmt.Sprintf("%s: %s", name, cutText(value)))
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
func (r *run) endOf(p corpus.Probe, v *findings.Verdict, err error) error {
	if r.line.gone && p.Steps[len(p.Steps)-1].Headers == nil {
		return r.found(p, v, "observation", nil, "after it, the server accepts no connections any more: "+
			"send it once and look whether the server still runs")
	}
	return err
}

// serves sends the honest request of a target, whose response is a control. Nothing is sent if before has it already.
func (r *run) serves(ctx context.Context, t *target, before *call) error {
	if before != nil && before.target.String() == t.String() {
		return nil
	}
	c, err := retried(func() (*call, error) { return r.first(ctx, t, step{}, false) })
	if err != nil {
		return err
	}
	r.served = nil
	switch p := c.last(); {
	case !p.progresses():
		return &notJudged{"the honest request is refused: " + p.why, "a server that speaks 2026-07-28"}
	case p.member("resultType") == "":
		return &notJudged{"the honest request is not answered as in 2026-07-28, because it has no resultType", ""}
	}
	r.served = c
	return nil
}

// serves reports whether a response is the result of a request of this revision. The result of a body that can be read
// in two ways must also be of the same method as the control.
func (p *reply) serves(control *reply, alike bool) bool {
	return p.class == control.class && p.member("resultType") == control.member("resultType") &&
		(!alike || slices.Equal(p.members(), control.members()))
}

func (p *reply) member(name string) (value string) {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.result, &result) // it was read before
	_ = json.Unmarshal(result[name], &value)
	return value
}

func (p *reply) members() []string {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.result, &result) // it was read before
	return slices.Sorted(maps.Keys(result))
}

// first sends the first request of a target, with the headers or the body of a step.
func (r *run) first(ctx context.Context, t *target, s step, load bool) (*call, error) {
	c := &call{target: t, as: s.As, able: allCapabilities, canary: r.canary()}
	if err := r.fill(c); err != nil {
		return nil, err
	}
	q := request{as: s.As, method: t.method, params: t.params(c.arguments), able: c.able, load: load,
		large: load && s.Body != ""}
	if len(s.Headers) > 0 {
		q.headers = map[string]string{}
		for name, value := range s.Headers {
			q.headers[name] = strings.ReplaceAll(value, "{{other}}", wire.EncodeHeader(r.otherName(t)))
		}
	}
	if s.Body != "" {
		var err error
		if q.body, err = fill(s.Body, q, r.line.sent+1); err != nil { // the ID that the line would take
			return nil, err
		}
	}
	return c, r.deliver(ctx, c, q)
}

// deliver sends a request of a call, and reads the response.
func (r *run) deliver(ctx context.Context, c *call, q request) error {
	res, err := r.send(ctx, q)
	if err != nil {
		return err
	}
	p := r.read(c, res)
	c.record(q, p, res.status)
	c.replies = append(c.replies, p)
	return nil
}

// otherName is the name of something else that has been called, or a name of nothing.
func (r *run) otherName(t *target) string {
	for _, o := range r.targets {
		if o.method == t.method && o.name != t.name {
			return o.name
		}
	}
	if t.method == "resources/read" {
		return "askback://other"
	}
	return "askback-other"
}
