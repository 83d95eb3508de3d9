package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// maxEvents bounds the messages of a subscription that are read.
const maxEvents = 100

// subscription is the stream of a subscription to a task.
type subscription struct {
	stop     context.CancelFunc
	messages chan *rawclient.Message // closed at the end of the stream
	step     int                     // that has begun it, among the recorded ones
	events   []json.RawMessage       // what came, as params
}

// listen subscribes to a task. The reply is how the server acknowledges it, or refuses to.
func (r *run) listen(ctx context.Context, tk *task, as, able string) (*subscription, *reply, error) {
	if able == "" {
		able = taskCapabilities
	}
	q := request{as: as, at: tk.call.at, method: "subscriptions/listen", able: able,
		params: map[string]any{"notifications": map[string]any{"taskIds": []any{tk.id}}}}
	type begun struct {
		events *subscription
		first  *rawclient.Message
		status int
	}
	b, err := retried(func() (begun, error) {
		events, first, status, err := r.subscribe(ctx, q)
		return begun{events, first, status}, err
	})
	if err != nil {
		return nil, nil, err
	}
	p := &reply{class: done, result: b.first.Params, raw: string(b.first.Params)}
	if b.first.Error != nil {
		p = (&reply{class: refused}).refuse(&response{fault: b.first.Error})
	}
	tk.call.record(q, p, b.status)
	if p.class == refused || b.first.Result != nil {
		b.events.close()
		return nil, p, nil
	}
	b.events.step = len(tk.call.steps) - 1
	b.events.wait(ctx, 5*minPoll, tk) // a server may tell at once how the task is
	return b.events, p, nil
}

// subscribe opens the stream and returns its first message.
func (r *run) subscribe(ctx context.Context, q request) (*subscription, *rawclient.Message, int, error) {
	if err := r.begin(ctx, q); err != nil {
		return nil, nil, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(r.patience, cancel)
	defer late.Stop()
	c := r.client(q.as, q.at)
	c.Capabilities = q.able
	stream, err := open(ctx, c, q, r.line.sent)
	if err != nil {
		cancel()
		return nil, nil, 0, fmt.Errorf("%w: %v", errLost, plain(err))
	}
	if err := r.line.heed(stream.Status); err != nil {
		cancel()
		_ = stream.Close()
		return nil, nil, 0, err
	}
	s := &subscription{messages: make(chan *rawclient.Message), stop: cancel}
	go s.read(ctx, stream)
	first, ok := <-s.messages
	if !ok {
		s.close()
		if stream.Status >= 300 {
			return s, &rawclient.Message{Error: &rawclient.Error{Status: stream.Status}}, stream.Status, nil
		}
		return nil, nil, 0, fmt.Errorf("%w to the subscription", errLost)
	}
	return s, first, stream.Status, nil
}

// read passes the messages on until the subscription is closed.
func (s *subscription) read(ctx context.Context, stream *rawclient.Stream) {
	defer close(s.messages)
	defer stream.Close()
	for range maxEvents {
		m, err := stream.Next()
		if fault, ok := errors.AsType[*rawclient.Error](err); ok {
			m, err = &rawclient.Message{Error: fault}, nil
		}
		if err != nil {
			return
		}
		select {
		case s.messages <- m:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the stream and waits for its reader.
func (s *subscription) close() {
	s.stop()
	for range s.messages { // until the reader has ended
	}
}

// wait reads what comes, until it shows the task or the time is over.
func (s *subscription) wait(ctx context.Context, most time.Duration, tk *task) {
	over := time.After(most)
	for !s.shows(tk) {
		select {
		case m, ok := <-s.messages:
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
func (s *subscription) shows(tk *task) bool {
	return s != nil && len(s.events) > 0 && tk.revealed(s.events[len(s.events)-1])
}

// hear is what the subscription of a trial has brought after all steps: the message that shows the task, or the last.
func (r *run) hear(ctx context.Context, tr *taskTrial, t *target) *reply {
	s, most := tr.events, r.patience
	defer s.close()
	if tr.who == nil { // twice as long as the owner had to wait
		most = max(2*t.heard, 5*minPoll)
	}
	before, began := len(s.events), time.Now()
	if s.wait(ctx, most, tr.task); tr.who != nil {
		t.heard = max(t.heard, time.Since(began))
	}
	steps := tr.task.call.steps
	steps[s.step].events = s.events[:before]
	steps[len(steps)-1].events = append(steps[len(steps)-1].events, s.events[before:]...)
	if len(s.events) == 0 {
		return tr.judged
	}
	last := s.events[len(s.events)-1]
	return &reply{class: done, result: last, raw: string(last)}
}

// shows returns the status of the task with an ID that stands anywhere in a message, or nothing.
func shows(message json.RawMessage, id string) (status string) {
	var value any
	_ = json.Unmarshal(message, &value) // what is no JSON shows nothing
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
