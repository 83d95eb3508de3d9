package talk

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/transport"
)

const (
	// MaxRounds is how many rounds of a call are answered.
	MaxRounds = 8

	// MaxPolls is how often a task is read until it asks or has ended.
	MaxPolls = 30

	// MinPoll is the least pause between two reads of a task.
	MinPoll = 50 * time.Millisecond

	maxPoll = 2 * time.Second
)

// A Task is a task that the check has made.
type Task struct {
	Call     *Call  // that has become the task
	ID       string // empty if the call has not become one
	Argument string // the canary in its free argument, if it has one
	Newest   *Reply // what its owner saw last
	Seen     []*Reply
	Answered []Question // that were answered, by the owner
	next     time.Time  // of the next tasks/get, as the server wishes
	Polls    int        // since the last change
}

// CreateTask makes a task: a call, and honest rounds until it is one. Its canaries occur in no other call.
func (cl *Client) CreateTask(ctx context.Context, t *Target, s corpus.Step) (*Task, error) {
	return transport.RetryLost(func() (*Task, error) { return cl.TryToCreate(ctx, t, s) })
}

// TryToCreate is CreateTask as long as no response is lost. With an error it returns how far the call came.
func (cl *Client) TryToCreate(ctx context.Context, t *Target, s corpus.Step) (*Task, error) {
	tk := &Task{Call: &Call{Target: t, As: s.As, At: s.At, Capabilities: TaskCapabilities, Canary: cl.Canary()}}
	if err := cl.Fill(tk.Call); err != nil {
		return tk, err
	}
	if s.Capabilities == "no-tasks" {
		tk.Call.Capabilities = transport.AllCapabilities
	}
	if t.Free != "" {
		tk.Argument = tk.Call.Text
	}
	honest := corpus.Step{As: s.As, At: s.At}
	p, err := cl.SendCall(ctx, tk.Call, honest, nil, nil)
	for err == nil && t.Ends && p.Asks() && len(tk.Call.Replies) < MaxRounds {
		p, err = cl.Answer(ctx, tk.Call, honest)
	}
	if tk.Newest = p; err == nil && usableID(p.TaskID) {
		tk.ID = p.TaskID
	}
	return tk, err
}

// Ask sends a request about a task, again while responses are lost: each of them may come twice.
func (cl *Client) Ask(ctx context.Context, tk *Task, q transport.Request) (*Reply, error) {
	q.At = tk.Call.At
	if q.Capabilities == "" {
		q.Capabilities = TaskCapabilities
	}
	if q.Params == nil {
		q.Params = map[string]any{"taskId": tk.ID}
	}
	res, err := transport.RetryLost(func() (*transport.Response, error) { return cl.Line.Send(ctx, q) })
	if err != nil {
		return nil, err
	}
	p := cl.ReadTask(res)
	last := len(tk.Call.Steps) - 1
	if before := tk.Call.Steps[last].Request; q.Method == "tasks/get" && before.Method == q.Method && before.As == q.As &&
		before.Capabilities == q.Capabilities && before.Params["taskId"] == q.Params["taskId"] {
		tk.Call.Steps = tk.Call.Steps[:last:last] // the newest of several is enough
	}
	tk.Call.Record(q, p, res.Status)
	return p, nil
}

// Get reads a task as its owner, when the server wishes it.
func (cl *Client) Get(ctx context.Context, tk *Task) (*Reply, error) {
	select {
	case <-time.After(time.Until(tk.next)):
	case <-ctx.Done():
		return nil, cl.Line.Stop(context.Cause(ctx).Error())
	}
	p, err := cl.Ask(ctx, tk, transport.Request{As: tk.Call.As, Method: "tasks/get"})
	if err != nil {
		return nil, err
	}
	if tk.next = time.Now().Add(cl.pollPause(p.every)); p.Class == Refused {
		return p, nil
	}
	if tk.Newest = p; len(tk.Seen) < 2*MaxPolls {
		tk.Seen = append(tk.Seen, p)
	}
	if p.Class == Done {
		cl.Tasks.ended(tk.ID)
	}
	return p, nil
}

// pollPause is how long to wait between two requests for a task.
func (cl *Client) pollPause(millis float64) time.Duration {
	wish, most := time.Duration(min(max(millis, 0), 1e6))*time.Millisecond, maxPoll
	if cl.Line.Local {
		most /= 8
	}
	if wish == 0 {
		wish = most / 2
	}
	return min(max(wish, MinPoll), most)
}

// Observe reads a task as its owner until it asks or has ended and, if there is a reply from before, has changed. It
// waits for a change so many requests long.
func (cl *Client) Observe(ctx context.Context, tk *Task, before *Reply, polls int) (p *Reply, err error) {
	for tk.Polls = 1; ; tk.Polls++ {
		if p, err = cl.Get(ctx, tk); err != nil || p.Class == Refused {
			return p, err
		}
		if before != nil && p.Text != before.Text {
			before, polls = nil, MaxPolls
		}
		if before == nil && p.Class != Again || tk.Polls >= polls {
			return p, nil
		}
	}
}

// Update answers questions of a task as somebody.
func (cl *Client) Update(
	ctx context.Context, tk *Task, as, capabilities string, asked []Question, text string,
) (*Reply, error) {
	answers := cl.Answers(tk.Call.Target, asked, text)
	return cl.Ask(ctx, tk, transport.Request{As: as, Capabilities: capabilities, Method: "tasks/update",
		Params: map[string]any{"taskId": tk.ID, "inputResponses": answers}})
}

// Complete answers a task honestly to its end.
func (cl *Client) Complete(ctx context.Context, tk *Task) (p *Reply, err error) {
	p = tk.Newest
	for range MaxRounds {
		if p.Class != Advanced {
			return p, nil
		}
		asked := p.Questions
		if p, err = cl.Update(ctx, tk, tk.Call.As, "", asked, tk.Call.Canary); err != nil || p.Class == Refused {
			return p, err
		}
		tk.Answered = append(tk.Answered, asked...)
		if p, err = cl.Observe(ctx, tk, tk.Newest, MaxPolls); err != nil || p.Class == Refused {
			return p, err
		}
		tk.Call.Target.Lag = max(tk.Call.Target.Lag, tk.Polls)
	}
	return p, nil
}

// Leave cancels a task that has not ended. What fails is done at the end of the run.
func (cl *Client) Leave(ctx context.Context, tk *Task) {
	if tk == nil || !slices.Contains(cl.Tasks.list, leftover{tk.Call.As, tk.Call.At, tk.ID}) {
		return
	}
	if _, err := cl.Ask(ctx, tk, transport.Request{As: tk.Call.As, Method: "tasks/cancel"}); err == nil {
		cl.Tasks.ended(tk.ID)
	}
}

// ReadTask makes a reply from a response to a request about a task: refused, advanced if the task asks, asked again
// while it works, and done when it has ended or when the response is an acknowledgement.
func (cl *Client) ReadTask(res *transport.Response) *Reply {
	p := &Reply{Class: Refused, Result: res.Result, Raw: string(res.Result)}
	if res.Fault != nil {
		return p.Refuse(res)
	}
	var result struct {
		TaskID, Status string
		InputRequests  map[string]inputRequest
		PollIntervalMs float64
		Result, Error  json.RawMessage
	}
	if err := json.Unmarshal(res.Result, &result); err != nil {
		p.Why = "the result cannot be read: " + CutText(err.Error())
		return p
	}
	if len(result.InputRequests) > maxQuestions {
		p.Why = fmt.Sprintf("it asks %d questions at once, and this check reads %d", len(result.InputRequests), maxQuestions)
		return p
	}
	p.TaskID, p.Status, p.every = result.TaskID, result.Status, result.PollIntervalMs
	p.Text = p.Status + "\n" + cl.Mask(string(result.Result)+string(result.Error))
	switch p.Status {
	case "input_required":
		p.Class = Advanced
	case "", "completed", "failed", "cancelled":
		p.Class = Done
	default:
		p.Class = Again
	}
	for _, q := range questionsOf(result.InputRequests) {
		p.Questions = append(p.Questions, q)
		p.Text += cl.Mask(q.Key + " " + q.Method + " " + q.Message + "\n")
	}
	return p
}

// TaskStatus returns the status of the task with an ID that stands anywhere in a message, or nothing.
func TaskStatus(message json.RawMessage, id string) (status string) {
	var value any
	_ = json.Unmarshal(message, &value) // what is no JSON has none
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if state, ok := v["status"].(string); ok && v["taskId"] == id {
				status = state
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(value)
	return status
}
