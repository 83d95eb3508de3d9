package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
)

// A scene is one scenario with one process of the client: what the server did, and each request that came.
type scene struct {
	opts  options
	serve []corpus.Reply
	token string // for the client's Authorization

	mu       sync.Mutex
	began    time.Time
	requests []*request
	rounds   []*round
	tasks    map[string]*task
	name     string // of the client, and its version
	flooded  chan struct{}
	closed   bool // the client has ended

	end end
}

// mostRequests is how many requests a client may send in one scenario before it is stopped.
const mostRequests = 150

// A round is one response to a call of the tool under test.
type round struct {
	at      time.Duration // when it was sent
	index   int           // in what the server does
	reply   corpus.Reply
	request *request
	state   *string             // that it carries
	nonce   string              // a part of the state that is nowhere else
	asked   map[string]question // by key
	retries []*request
}

// A task is one task of the scene.
type task struct {
	next int // index of what the server does at the next tasks/get
	gets []*poll
}

// A poll is one tasks/get with its response.
type poll struct {
	request *request
	reply   corpus.Reply
}

// play runs one scenario.
func (c *check) play(ctx context.Context, name string, serve []corpus.Reply) (*scene, error) {
	s := &scene{
		opts: c.opts, serve: serve, token: "Bearer " + nonce(), tasks: map[string]*task{},
		began: time.Now(), flooded: make(chan struct{}),
	}
	limit := c.opts.timeout
	if serve[0].Fault == "wrong-id" || serve[0] == (corpus.Reply{State: "plain"}) {
		limit = min(limit, 2*manyWithin) // the client may wait for a response, or retry with pauses
	}
	err := s.listenAndRun(ctx, name, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if err != nil {
		return nil, err
	}
	c.report.Requests += len(s.requests)
	c.report.Name = cmp.Or(c.report.Name, s.name)
	return s, nil
}

// receive records a request. It reports whether the client may send more.
func (s *scene) receive(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.at = time.Since(s.began)
	if s.closed {
		return false
	}
	if len(s.requests) >= mostRequests {
		if len(s.requests) == mostRequests {
			close(s.flooded)
			s.requests = append(s.requests, r)
		}
		return false
	}
	s.requests = append(s.requests, r)
	if s.name == "" {
		s.name = r.clientName
	}
	return true
}

// call finds the place of a call of the tool under test, and the response to it.
func (s *scene) call(r *request) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return new(round)
	}
	index := 0
	if before := s.roundBefore(r); before != nil {
		r.after = before
		before.retries = append(before.retries, r)
		index = min(before.index+1, len(s.serve)-1)
	}
	n := &round{at: time.Since(s.began), index: index, reply: s.serve[index], request: r}
	if r.after != nil && len(r.after.retries) > 1 && n.reply.Fault != "close" {
		n.reply = corpus.Reply{} // a repeated retry ends the call, so that no second line of rounds begins
	}
	n.fill(s)
	s.rounds = append(s.rounds, n)
	return n
}

// roundBefore returns the round that a call retries, or nil for a new call.
func (s *scene) roundBefore(r *request) *round {
	for _, before := range slices.Backward(s.rounds) {
		if r.state != nil && before.state != nil && *r.state == *before.state {
			return before
		}
	}
	if r.state == nil && r.answers == nil {
		return nil
	}
	for _, before := range slices.Backward(s.rounds) { // the state is lost or altered
		if before.state != nil || len(before.asked) > 0 {
			return before
		}
	}
	return nil
}

// unfinished says why the honest call did not end, or is empty.
func (s *scene) unfinished() string {
	switch {
	case len(s.requests) == 0:
		return "it sent no request to the URL" + s.end.last(s.secrets())
	case s.saw("initialize") && !s.saw("tools/call"):
		return "it speaks an earlier revision of the protocol only" + s.end.last(s.secrets())
	case len(s.rounds) == 0:
		return "it did not call the tool " + s.opts.tool + s.end.last(s.secrets())
	case len(s.rounds[0].asked) == 0 && len(s.rounds) == 1:
		return "it declares no kind of question, and did not repeat the call with the state" + s.end.last(s.secrets())
	case len(s.rounds) == 1:
		return "it did not answer the question" + s.end.last(s.secrets())
	case s.end.timedOut:
		return fmt.Sprintf("it did not end within %v", s.opts.timeout)
	}
	return ""
}

// asks are the methods of the questions of the scene, sorted.
func (s *scene) asks() []string {
	methods := map[string]bool{}
	for _, r := range s.rounds {
		for _, q := range r.asked {
			methods[q.Method] = true
		}
	}
	return slices.Sorted(maps.Keys(methods))
}

func (s *scene) saw(method string) bool {
	return slices.ContainsFunc(s.requests, func(r *request) bool { return r.method == method })
}

// secrets are what no output shows, the longest first.
func (s *scene) secrets() []string {
	all := []string{strings.TrimPrefix(s.token, "Bearer ")}
	for _, r := range s.rounds {
		if r.state != nil {
			all = append(all, *r.state, r.nonce)
		}
		for _, retry := range r.retries {
			for _, a := range retry.answers {
				var v any
				if json.Unmarshal(a, &v) == nil {
					all = append(all, texts(v)...)
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(text string) bool { return len(text) < 4 })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// texts are the texts in a value of JSON.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		all = append(all, v)
	case []any:
		for _, item := range v {
			all = append(all, texts(item)...)
		}
	case map[string]any:
		for _, item := range v {
			all = append(all, texts(item)...)
		}
	}
	return all
}
