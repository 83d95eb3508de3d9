package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

type step = corpus.Step

const (
	maxQuestions = 50        // of a round that are read
	maxState     = 128 << 10 // bytes; longer ones are not sent back
	maxText      = 64 << 10  // bytes of a result, a question or a schema that are kept
)

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// class is what a response comes to.
type class string

const (
	refused  class = "refused"
	again    class = "asked again" // the questions of an earlier round
	advanced class = "advanced"    // other questions
	done     class = "done"
)

type question struct {
	key, method, mode, message, url string
	schema                          json.RawMessage
}

// reply is a response, as far as verdicts look at it.
type reply struct {
	class     class
	text      string // what it says, with the texts of the run and what changes each time left out
	raw       string // the same as it came
	echoed    bool   // the state of the request is in it
	own       string // the text of the call's arguments, if it is in it
	why       string // of a refusal
	empty     bool   // it asks for input, with neither a question nor a state
	questions []question
	state     *string
	stateSize int // bytes, also of a state that is too long to be kept
	result    json.RawMessage
	code      int // of an error

	// Of a task.
	taskID, status string
	every          float64 // its pollIntervalMs
}

func (p *reply) asks() bool { return p.class == again || p.class == advanced }

// progresses reports that the request had an effect: a result, or the questions of a later round.
func (p *reply) progresses() bool { return p.class == done || p.class == advanced }

// like reports that two responses say the same.
func (p *reply) like(other *reply) bool {
	return p.class == other.class && (p.class == refused || p.text == other.text)
}

// repeats reports that a reply asks what an earlier one has asked, although perhaps in other words.
func (p *reply) repeats(earlier *reply) bool {
	return p.asks() && earlier.asks() && slices.EqualFunc(p.questions, earlier.questions, func(a, b question) bool {
		return a.key == b.key && a.method == b.method && a.mode == b.mode && bytes.Equal(a.schema, b.schema)
	})
}

// call is a call that is under way: the honest rounds of a target.
type call struct {
	target    *target
	as, at    string
	able      string
	arguments map[string]any
	text      string // of its arguments alone
	row       *row   // that its arguments are from
	lent      *row   // whose values stand in its state
	canary    string // stands in the answers
	brought   string // that only its newest attack has brought in
	echo      string // the newest state that was sent
	replies   []*reply
	steps     []recorded
}

func (c *call) last() *reply { return c.replies[len(c.replies)-1] }

// call sends the first request of a call.
func (r *run) call(ctx context.Context, t *target, s step) (*call, error) {
	c, err := r.tryCall(ctx, t, s)
	for n := 1; err == nil && c.row != nil && s.Capabilities == "" && c.last().class == refused && n < maxLosses; n++ {
		c.spend() // by something that the check did not see
		c, err = r.tryCall(ctx, t, s)
	}
	return c, err
}

// tryCall sends the first request of a call, with arguments of its own.
func (r *run) tryCall(ctx context.Context, t *target, s step) (*call, error) {
	c := &call{target: t, as: s.As, at: s.At, able: allCapabilities, canary: r.canary()}
	if err := r.fill(c); err != nil {
		return nil, err
	}
	switch s.Capabilities {
	case "":
	case "none":
		c.able = "{}"
	default:
		c.able = otherCapabilities(t, s.Capabilities)
	}
	_, err := r.sendCall(ctx, c, s, nil, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// otherCapabilities declares everything except the mode, or the kind, of the target's first question.
func otherCapabilities(t *target, what string) string {
	all := map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
		"sampling": map[string]any{}, "roots": map[string]any{}}
	for _, q := range t.rounds[0].questions {
		switch {
		case q.method == "elicitation/create" && what == "other-mode":
			modes, _ := all["elicitation"].(map[string]any)
			delete(modes, q.mode)
		case what == "other-kind":
			kind, _, _ := strings.Cut(q.method, "/")
			delete(all, kind)
		}
	}
	b, _ := json.Marshal(all) // maps of strings have a JSON form
	return string(b)
}

// answer sends the next round of a call, as honestly as the step says, and keeps the reply if all of it is honest.
func (r *run) answer(ctx context.Context, c *call, s step) (*reply, error) {
	last := c.last()
	answers := map[string]any{}
	for _, q := range last.questions {
		answers[q.key] = r.honest(c.target, q, c.canary)
	}
	return r.sendCall(ctx, c, s, answers, last.state)
}

// honest is the answer of somebody who agrees, with the least that fits.
func (r *run) honest(t *target, q question, text string) any {
	switch {
	case q.method == "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "none", "stopReason": "endTurn",
			"content": map[string]any{"type": "text", "text": "This is the constant answer of a check."}}
	case q.method == "roots/list":
		return map[string]any{"roots": []any{}}
	case q.mode == "url":
		return map[string]any{"action": "decline"}
	case t.plan.Answers[q.key] != nil:
		return map[string]any{"action": "accept", "content": t.plan.Answers[q.key]}
	}
	fits := content(q.schema, text)
	for _, value := range fits {
		r.noteTail(value, text)
	}
	return map[string]any{"action": "accept", "content": fits}
}

// sendCall sends a round of a call. An honest one becomes the call's newest round.
func (r *run) sendCall(ctx context.Context, c *call, s step, answers map[string]any, state *string) (*reply, error) {
	params := map[string]any{}
	for member, value := range c.target.params(c.arguments) {
		params[member] = value
	}
	if answers != nil {
		params["inputResponses"] = answers
	}
	if state != nil {
		params["requestState"] = *state
	}
	q := request{as: s.As, at: s.At, method: c.target.method, params: params, able: c.able, headers: s.Headers}
	res, err := r.send(ctx, q)
	if err != nil {
		if r.line.silent == 1 {
			owed := recorded{request: q, status: 200, reply: &reply{class: done}}
			r.unanswered = unanswered{c.target, append(slices.Clone(c.steps), owed)}
		}
		c.spend() // it may have ended
		return nil, err
	}
	c.echo = ""
	if state != nil {
		c.echo = *state
	}
	p := r.read(c, res)
	if p.class == done {
		c.spend()
	}
	if p.taskID != "" {
		r.made(ctx, c.target, q, p.taskID)
	}
	c.record(q, p, res.status)
	c.replies = append(c.replies, p)
	return p, nil
}

// params are the parameters of a first request.
func (t *target) params(arguments map[string]any) map[string]any {
	switch t.method {
	case "resources/read":
		return map[string]any{"uri": t.name}
	case "tools/list", "prompts/list", "resources/list":
		return map[string]any{}
	default:
		return map[string]any{"name": t.name, "arguments": arguments}
	}
}

// read makes a reply from a response to a request of a call.
func (r *run) read(c *call, res *response) *reply {
	p := &reply{class: refused, result: res.result}
	if res.fault != nil {
		return p.refuse(res)
	}
	var result struct {
		ResultType        string
		InputRequests     map[string]inputRequest
		RequestState      *string
		IsError           bool
		Content           json.RawMessage
		StructuredContent json.RawMessage
		Messages          json.RawMessage
		Contents          json.RawMessage
		TaskID            string
	}
	if err := json.Unmarshal(res.result, &result); err != nil {
		p.why = "the result cannot be read: " + cutText(err.Error())
		return p
	}
	for _, part := range []json.RawMessage{result.Content, result.StructuredContent, result.Messages, result.Contents} {
		p.raw += bounded(withoutEcho(string(part), c.echo))
	}
	p.echoed = strings.Contains(p.raw, echoMark)
	if c.text != "" && strings.Contains(p.raw, c.text) {
		p.own = c.text
	}
	if len(p.result) > maxText {
		p.result = nil // it would be in each transcript
	}
	switch {
	case result.IsError:
		p.why = "the result is an error"
		return p
	case result.ResultType == "task" && result.TaskID != "":
		p.class, p.text, p.taskID = done, "a task", result.TaskID
		return p
	case result.ResultType != "input_required":
		p.class, p.text = done, r.mask(p.raw)
		return p
	}
	if p.state = result.RequestState; p.state != nil && len(*p.state) > maxState {
		p.why = fmt.Sprintf("its state has %d bytes, and this check sends back %d", len(*p.state), maxState)
		p.state, p.stateSize = nil, len(*p.state)
		return p
	}
	if p.state != nil {
		p.stateSize = len(*p.state)
		r.hide(c.target, *p.state)
	}
	p.empty = p.state == nil && len(result.InputRequests) == 0
	if len(result.InputRequests) > maxQuestions {
		p.why = fmt.Sprintf("it asks %d questions at once, and this check reads %d", len(result.InputRequests), maxQuestions)
		return p
	}
	p.class = advanced
	for _, q := range questionsOf(result.InputRequests) {
		p.questions = append(p.questions, q)
		says := q.key + " " + q.method + " " + withoutEcho(q.message, c.echo)
		p.raw += says + " " + string(q.schema) + "\n"
		p.text += r.mask(says + "\n")
	}
	for _, earlier := range c.replies {
		if earlier.asks() && earlier.text == p.text {
			p.class = again
		}
	}
	return p
}

// bounded is the beginning of a text of a server.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.Clone(excerpt.Of(text, maxText))
}

// echoMark stands for the state of the request in what a server says.
const echoMark = "‹state›"

// withoutEcho leaves out the state of the request, which a server may quote when it refuses it. In its place stands a
// mark that no other text has.
func withoutEcho(text, state string) string {
	if len(state) < 8 {
		return text
	}
	return strings.NewReplacer(state, echoMark, jsonText(state), echoMark).Replace(text)
}

// refuse makes the reply of a response that is an error.
func (p *reply) refuse(res *response) *reply {
	p.code = res.fault.Code
	p.why = strings.TrimSpace(fmt.Sprintf("%d %s", res.fault.Code, cutText(res.fault.Message)))
	return p
}

type inputRequest struct {
	Method string
	Params struct {
		Mode, Message, URL string
		RequestedSchema    json.RawMessage
	}
}

// questionsOf returns the questions of a round, or of a task, in the order of their keys.
func questionsOf(requests map[string]inputRequest) (list []question) {
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		of := requests[key]
		q := question{key: key, method: bounded(of.Method), mode: bounded(of.Params.Mode),
			message: bounded(of.Params.Message), url: bounded(of.Params.URL)}
		if len(of.Params.RequestedSchema) <= maxText {
			q.schema = of.Params.RequestedSchema
		}
		if q.mode == "" && q.method == "elicitation/create" {
			q.mode = "form"
		}
		list = append(list, q)
	}
	return list
}

// What changes with each call: identifiers, times, and long numbers.
var changing = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|` +
	`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?|\b[0-9a-f]{16,}\b|\b[0-9]{5,}(?:\.[0-9]+)?\b`)

// mask leaves out what differs between two calls that are alike.
func (r *run) mask(text string) string {
	text = strings.ReplaceAll(text, echoMark, "…") // the state may be no more than such a text
	for _, canary := range r.canaries {
		text = strings.ReplaceAll(text, canary, "…")
	}
	for _, values := range r.usedUp {
		text = values.ReplaceAllString(text, "…")
	}
	return changing.ReplaceAllString(text, "#")
}

// advance takes a call honestly to the round of a number.
func (r *run) advance(ctx context.Context, t *target, s step, round int) (*call, error) {
	c, err := r.call(ctx, t, s)
	for err == nil && len(c.replies) < round && c.last().asks() {
		_, err = r.answer(ctx, c, step{As: s.As, At: s.At})
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// attack sends a round of a call with the alterations of a step. The call itself stays where it is. The text is a
// canary of the attack's own, and variant the alteration of the state that is chosen from several.
func (r *run) attack(ctx context.Context, c *call, s step, variant, text string) (*reply, error) {
	if s.Round != "" {
		return r.endAgain(ctx, c, variant, text)
	}
	a := *c
	a.steps = slices.Clone(c.steps)
	a.replies = slices.Clone(c.replies)
	if s.Arguments == "other" || variant == wholly || variant == neverAsked {
		if err := r.fill(&a); err != nil {
			return nil, err
		}
	}
	answers := map[string]any{}
	last := c.last()
	for _, q := range last.questions {
		answers[q.key] = r.honest(c.target, q, c.canary)
	}
	if s.Answers != "" {
		answers = r.alterAnswers(c, s.Answers, variant, text)
	}
	if variant == neverAsked {
		for _, round := range c.target.rounds {
			for _, q := range round.questions {
				answers[q.key] = r.honest(c.target, q, text)
			}
		}
	}
	state := last.state
	if s.State == "none" {
		state = nil
	} else if s.State != "" && state != nil {
		var err error
		if s.State == "forge" {
			if variant, c.brought, err = r.forge(&a, c.text, *state, variant); err != nil {
				return nil, err
			}
		} else if s.State == "random" { // another one each time, for what counts once
			variant = fmt.Sprintf("random %d", rand.IntN(1e6))
		}
		changed, err := alter.State(*state, variant)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errInapplicable, err)
		}
		r.hide(c.target, changed)
		state = &changed
	}
	p, err := r.sendCall(ctx, &a, s, answers, state)
	if err == nil {
		last := &a.steps[len(a.steps)-1]
		last.variant, last.from = variant, c.last().state
		c.steps = a.steps
	}
	return p, err
}

// endAgain goes back to an earlier round of a call that has ended, and answers from there on to the end.
func (r *run) endAgain(ctx context.Context, c *call, round, text string) (*reply, error) {
	n, err := strconv.Atoi(round)
	if err != nil {
		return nil, err
	}
	c.replies, c.canary = slices.Clone(c.replies[:n]), text
	p := c.last()
	for sent := false; err == nil && len(c.replies) < maxRounds && (!sent || p.class == advanced); sent = true {
		p, err = r.answer(ctx, c, step{})
	}
	return p, err
}

// statesBefore are the numbers of the rounds that have a state, and come before another.
func (t *target) statesBefore(round int) (numbers []string) {
	for i, p := range t.rounds[:round-1] {
		if p.state != nil {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return numbers
}

// alterAnswers returns the answers to the newest questions, altered.
func (r *run) alterAnswers(c *call, how, variant, text string) map[string]any {
	answers := map[string]any{}
	for _, q := range c.last().questions {
		honest := r.honest(c.target, q, text)
		accepted, _ := honest.(map[string]any)
		form := q.method == "elicitation/create" && q.mode == "form"
		switch how {
		case "none":
			continue
		case "decline", "cancel":
			if form {
				honest = map[string]any{"action": how, "content": accepted["content"]}
			}
		case "honest-decline":
			if form {
				honest = map[string]any{"action": "decline"}
			}
		case "action":
			if form {
				honest = map[string]any{"action": "perhaps", "content": accepted["content"]}
			}
		case "kind":
			if q.method == "elicitation/create" {
				honest = map[string]any{"role": "assistant", "model": "none",
					"content": map[string]any{"type": "text", "text": text}}
			} else {
				honest = map[string]any{"action": "accept", "content": map[string]any{"text": text}}
			}
		case "key":
			answers[q.key+"-other"] = honest
			continue
		case "unasked":
			extra, _ := r.honest(c.target, q, c.canary).(map[string]any)
			answers[q.key] = extra
			answers["askback-unasked"] = honest
			continue
		case "schema":
			fits, ok := accepted["content"].(map[string]any)
			honest = r.honest(c.target, q, c.canary) // the other questions of the round
			if !ok || !form {
				break
			}
			wrong, _ := misfits(q.schema, fits, text)
			for i, w := range wrong {
				if variant == fmt.Sprintf("%s %d", q.key, i) {
					honest = map[string]any{"action": "accept", "content": w}
				}
			}
		}
		answers[q.key] = honest
	}
	return answers
}
