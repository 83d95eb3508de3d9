package tasks

import (
	"context"
	"encoding/json"
	"time"

	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/rawclient"
)

// A subscription brings what happens to a task.
type subscription struct {
	*transport.Stream
	step   int               // that has begun it, among the recorded ones
	events []json.RawMessage // what came, as params
}

// listen subscribes to a task. The reply is how the server acknowledges it, or refuses to.
func (j *Judge) listen(
	ctx context.Context, tk *talk.Task, as, capabilities string,
) (*subscription, *talk.Reply, error) {
	if capabilities == "" {
		capabilities = talk.TaskCapabilities
	}
	q := transport.Request{As: as, At: tk.Call.At, Method: "subscriptions/listen", Capabilities: capabilities,
		Params: map[string]any{"notifications": map[string]any{"taskIds": []any{tk.ID}}}}
	type begun struct {
		events *transport.Stream
		first  *rawclient.Message
		status int
	}
	b, err := transport.RetryLost(func() (begun, error) {
		events, first, status, err := j.Line.Subscribe(ctx, q)
		return begun{events, first, status}, err
	})
	if err != nil {
		return nil, nil, err
	}
	p := &talk.Reply{Class: talk.Done, Result: b.first.Params, Raw: string(b.first.Params)}
	if b.first.Error != nil {
		p = (&talk.Reply{Class: talk.Refused}).Refuse(&transport.Response{Fault: b.first.Error})
	}
	tk.Call.Record(q, p, b.status)
	if p.Class == talk.Refused || b.first.Result != nil {
		b.events.Close()
		return nil, p, nil
	}
	s := &subscription{Stream: b.events, step: len(tk.Call.Steps) - 1}
	s.wait(ctx, 5*talk.MinPoll, tk) // a server may tell at once how the task is
	return s, p, nil
}

// wait reads what comes, until it shows the task or the time is over.
func (s *subscription) wait(ctx context.Context, most time.Duration, tk *talk.Task) {
	over := time.After(most)
	for !s.shows(tk) {
		select {
		case m, ok := <-s.Messages:
			if !ok {
				return
			}
			s.events = append(s.events, m.Params)
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// shows reports whether something has come that shows the task.
func (s *subscription) shows(tk *talk.Task) bool {
	return s != nil && len(s.events) > 0 && revealed(tk, s.events[len(s.events)-1])
}

// lastEvent returns what the subscription of a trial has brought after all steps: the message that shows the task, or
// the last.
func (j *Judge) lastEvent(ctx context.Context, tr *trial, t *talk.Target) *talk.Reply {
	s, most := tr.events, j.Line.Patience
	defer s.Close()
	if tr.who == nil { // twice as long as the owner had to wait
		most = max(2*t.Heard, 5*talk.MinPoll)
	}
	before, began := len(s.events), time.Now()
	if s.wait(ctx, most, tr.task); tr.who != nil {
		t.Heard = max(t.Heard, time.Since(began))
	}
	steps := tr.task.Call.Steps
	steps[s.step].Events = s.events[:before]
	steps[len(steps)-1].Events = append(steps[len(steps)-1].Events, s.events[before:]...)
	if len(s.events) == 0 {
		return tr.judged
	}
	last := s.events[len(s.events)-1]
	return &talk.Reply{Class: talk.Done, Result: last, Raw: string(last)}
}

// revealed reports whether a message reveals the task.
func revealed(tk *talk.Task, message []byte) bool {
	return tells(tk, message) || talk.TaskStatus(message, tk.ID) != ""
}
