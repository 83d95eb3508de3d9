package client

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inlineState ties the questions that a server asks inside a session to the session's
// calls: they are bounded by them, and end with the last of them and with the session. It
// also has what else a session before 2026-07-28 is known by.
type inlineState struct {
	mu     sync.Mutex
	closed bool
	calls  int                        // that run
	asked  int                        // questions since the first of these calls
	next   int                        // key for open
	open   map[int]context.CancelFunc // questions that handlers have
	waits  map[string]chan parked     // for tasks by their ids: where questions go that wait

	tools toolTasks
}

// parked is a question of a task that nobody answers now. The server was told so, or has to
// hear it from the end of the request that it asks for.
type parked struct {
	question *Question
	told     bool
}

func (c *Client) inlineOf(s *mcp.ClientSession) *inlineState {
	v, _ := c.sessions.LoadOrStore(s, &inlineState{open: make(map[int]context.CancelFunc)})
	return v.(*inlineState)
}

// enter begins a call, and returns how to end it.
func (s *inlineState) enter() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls--; s.calls == 0 {
			s.asked = 0
			s.cancelAll()
		}
	}
}

func (s *inlineState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cancelAll()
}

func (s *inlineState) cancelAll() {
	for _, cancel := range s.open {
		cancel()
	}
}

// ask admits a question, and returns the context that it lives in and how to end it.
func (s *inlineState) ask(ctx context.Context, l Limits) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.calls == 0:
		return nil, nil, errors.New("no call is running that this question could belong to")
	case len(s.open) >= l.Questions*s.calls:
		return nil, nil, limit("questions in one round", l.Questions, nil)
	case s.asked >= l.Rounds*l.Questions*s.calls:
		return nil, nil, limit("rounds in one call", l.Rounds, nil)
	}
	s.asked++
	s.next++
	id := s.next
	ctx, cancel := context.WithCancel(ctx)
	s.open[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}, nil
}

// wait makes it possible to park what a task asks while its result is waited for.
func (s *inlineState) wait(task string) (questions <-chan parked, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan parked, 1)
	if s.waits == nil {
		s.waits = make(map[string]chan parked)
	}
	s.waits[task] = ch
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waits[task] == ch {
			delete(s.waits, task)
		}
	}
}

// park parks a question of a task, if somebody waits for that.
func (s *inlineState) park(task string, p parked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.waits[task]
	if ok {
		select {
		case ch <- p:
		default: // another one is there already
		}
	}
	return ok
}
