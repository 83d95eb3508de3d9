// Package talk is the conversation with a server: honest calls and their rounds, the tasks that calls become, and the
// replies as verdicts look at them.
package talk

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/transport"
)

const maxState = 128 << 10 // bytes; longer ones are not sent back

// A Client talks with a server: it calls, answers as a step says, and follows the tasks that calls become.
type Client struct {
	texts
	Line       *transport.Line
	Secrets    *redact.Secrets
	Argument   string // stands for the text of each call in the arguments of targets
	Tasks      *leftovers
	Unanswered unanswered
}

// New returns a client with a canary for the arguments of targets.
func New(l *transport.Line, secrets *redact.Secrets) *Client {
	cl := &Client{Line: l, Secrets: secrets, Tasks: &leftovers{line: l}}
	cl.Argument = cl.Canary()
	return cl
}

// unanswered is the first of some requests in a row that got no response.
type unanswered struct {
	Target *Target
	Steps  []Exchange
}

// A Call is a call that is under way: the honest rounds of a target.
type Call struct {
	Target       *Target
	As, At       string
	Capabilities string
	Arguments    map[string]any
	Text         string // of its arguments alone
	Row          *Row   // that its arguments are from
	Lent         *Row   // whose values stand in its state
	Canary       string // stands in the answers
	Brought      string // that only its newest attack has brought in
	echo         string // the newest state that was sent
	Replies      []*Reply
	Steps        []Exchange
}

// An Exchange is a request of a call and what came, for a transcript.
type Exchange struct {
	Request transport.Request
	Status  int
	Reply   *Reply
	Variant string            // the alteration of the state
	From    *string           // the state, or the ID of a task, that was altered
	Events  []json.RawMessage // that came on a stream that was open
}

// Last is the newest reply.
func (c *Call) Last() *Reply { return c.Replies[len(c.Replies)-1] }

// Record notes a request and its reply for a transcript.
func (c *Call) Record(q transport.Request, p *Reply, status int) {
	c.Steps = append(c.Steps, Exchange{Request: q, Reply: p, Status: status})
}

// Call sends the first request of a call.
func (cl *Client) Call(ctx context.Context, t *Target, s corpus.Step) (*Call, error) {
	c, err := cl.tryCall(ctx, t, s)
	for n := 1; err == nil && c.Row != nil && s.Capabilities == "" && c.Last().Class == Refused &&
		n < transport.MaxLosses; n++ {
		c.spend() // by something that the check did not see
		c, err = cl.tryCall(ctx, t, s)
	}
	return c, err
}

// tryCall sends the first request of a call, with arguments of its own.
func (cl *Client) tryCall(ctx context.Context, t *Target, s corpus.Step) (*Call, error) {
	c := &Call{Target: t, As: s.As, At: s.At, Capabilities: transport.AllCapabilities, Canary: cl.Canary()}
	if err := cl.Fill(c); err != nil {
		return nil, err
	}
	switch s.Capabilities {
	case "":
	case "none":
		c.Capabilities = "{}"
	default:
		c.Capabilities = otherCapabilities(t, s.Capabilities)
	}
	_, err := cl.SendCall(ctx, c, s, nil, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// otherCapabilities declares everything except the mode, or the kind, of the target's first question.
func otherCapabilities(t *Target, what string) string {
	all := map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
		"sampling": map[string]any{}, "roots": map[string]any{}}
	for _, q := range t.Rounds[0].Questions {
		switch {
		case q.Method == "elicitation/create" && what == "other-mode":
			modes, _ := all["elicitation"].(map[string]any)
			delete(modes, q.Mode)
		case what == "other-kind":
			kind, _, _ := strings.Cut(q.Method, "/")
			delete(all, kind)
		}
	}
	b, _ := json.Marshal(all) // maps of strings have a JSON form
	return string(b)
}

// Advance takes a call honestly to the round of a number.
func (cl *Client) Advance(ctx context.Context, t *Target, s corpus.Step, round int) (*Call, error) {
	c, err := cl.Call(ctx, t, s)
	for err == nil && len(c.Replies) < round && c.Last().Asks() {
		_, err = cl.Answer(ctx, c, corpus.Step{As: s.As, At: s.At})
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Answer sends the next round of a call, as honestly as the step says, and keeps the reply if all of it is honest.
func (cl *Client) Answer(ctx context.Context, c *Call, s corpus.Step) (*Reply, error) {
	return cl.SendCall(ctx, c, s, cl.Answers(c.Target, c.Last().Questions, c.Canary), c.Last().State)
}

// Answers are the honest answers to some questions, by their keys.
func (cl *Client) Answers(t *Target, asked []Question, text string) map[string]any {
	answers := map[string]any{}
	for _, q := range asked {
		answers[q.Key] = cl.Honest(t, q, text)
	}
	return answers
}

// Honest is the answer of somebody who agrees, with the least that fits.
func (cl *Client) Honest(t *Target, q Question, text string) any {
	switch {
	case q.Method == "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "none", "stopReason": "endTurn",
			"content": map[string]any{"type": "text", "text": "This is the constant answer of a check."}}
	case q.Method == "roots/list":
		return map[string]any{"roots": []any{}}
	case q.Mode == "url":
		return map[string]any{"action": "decline"}
	case t.Plan.Answers[q.Key] != nil:
		return map[string]any{"action": "accept", "content": t.Plan.Answers[q.Key]}
	}
	fits := fit.Content(q.Schema, text)
	for _, value := range fits {
		cl.noteTail(value, text)
	}
	return map[string]any{"action": "accept", "content": fits}
}

// SendCall sends a round of a call. An honest one becomes the call's newest round.
func (cl *Client) SendCall(
	ctx context.Context, c *Call, s corpus.Step, answers map[string]any, state *string,
) (*Reply, error) {
	params := map[string]any{}
	for member, value := range c.Target.Params(c.Arguments) {
		params[member] = value
	}
	if answers != nil {
		params["inputResponses"] = answers
	}
	if state != nil {
		params["requestState"] = *state
	}
	q := transport.Request{As: s.As, At: s.At, Method: c.Target.Method, Params: params, Capabilities: c.Capabilities,
		Headers: s.Headers}
	res, err := cl.Line.Send(ctx, q)
	if err != nil {
		if cl.Line.Silent == 1 {
			lost := Exchange{Request: q, Status: 200, Reply: &Reply{Class: Done}}
			cl.Unanswered = unanswered{c.Target, append(slices.Clone(c.Steps), lost)}
		}
		c.spend() // it may have ended
		return nil, err
	}
	c.echo = ""
	if state != nil {
		c.echo = *state
	}
	p := cl.Read(c, res)
	if p.Class == Done {
		c.spend()
	}
	if p.TaskID != "" {
		cl.Hide(c.Target, p.TaskID)
		cl.Tasks.made(ctx, q, p.TaskID)
	}
	c.Record(q, p, res.Status)
	c.Replies = append(c.Replies, p)
	return p, nil
}

// Deliver sends a request of a call, and reads the response.
func (cl *Client) Deliver(ctx context.Context, c *Call, q transport.Request) error {
	res, err := cl.Line.Send(ctx, q)
	if err != nil {
		return err
	}
	p := cl.Read(c, res)
	c.Record(q, p, res.Status)
	c.Replies = append(c.Replies, p)
	return nil
}

// Read makes a reply from a response to a request of a call.
func (cl *Client) Read(c *Call, res *transport.Response) *Reply {
	p := &Reply{Class: Refused, Result: res.Result}
	if res.Fault != nil {
		return p.Refuse(res)
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
	if err := json.Unmarshal(res.Result, &result); err != nil {
		p.Why = "the result cannot be read: " + CutText(err.Error())
		return p
	}
	for _, part := range []json.RawMessage{result.Content, result.StructuredContent, result.Messages, result.Contents} {
		p.Raw += bounded(withoutEcho(string(part), c.echo))
	}
	p.Echoed = strings.Contains(p.Raw, echoMark)
	if c.Text != "" && strings.Contains(p.Raw, c.Text) {
		p.Own = c.Text
	}
	if len(p.Result) > maxText {
		p.Result = nil // it would be in each transcript
	}
	switch {
	case result.IsError:
		p.Why = "the result is an error"
		return p
	case result.ResultType == "task" && result.TaskID != "":
		p.Class, p.Text, p.TaskID = Done, "a task", result.TaskID
		return p
	case result.ResultType != "input_required":
		p.Class, p.Text = Done, cl.Mask(p.Raw)
		return p
	}
	if p.State = result.RequestState; p.State != nil && len(*p.State) > maxState {
		p.Why = fmt.Sprintf("its state has %d bytes, and this check sends back %d", len(*p.State), maxState)
		p.State, p.StateSize = nil, len(*p.State)
		return p
	}
	if p.State != nil {
		p.StateSize = len(*p.State)
		cl.Hide(c.Target, *p.State)
	}
	p.Empty = p.State == nil && len(result.InputRequests) == 0
	if len(result.InputRequests) > maxQuestions {
		p.Why = fmt.Sprintf("it asks %d questions at once, and this check reads %d", len(result.InputRequests), maxQuestions)
		return p
	}
	p.Class = Advanced
	for _, q := range questionsOf(result.InputRequests) {
		p.Questions = append(p.Questions, q)
		says := q.Key + " " + q.Method + " " + withoutEcho(q.Message, c.echo)
		p.Raw += says + " " + string(q.Schema) + "\n"
		p.Text += cl.Mask(says + "\n")
	}
	for _, earlier := range c.Replies {
		if earlier.Asks() && earlier.Text == p.Text {
			p.Class = Again
		}
	}
	return p
}

// Hide notes a state that no output may have. One that stands in the name of its target is no secret.
func (cl *Client) Hide(t *Target, state string) {
	if !strings.Contains(t.String(), state) {
		cl.Secrets.Add(state)
	}
}
