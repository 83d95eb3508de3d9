package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	elsewhere string // the endpoint at the other origin
	canary    string // a page that no client may fetch by itself

	mu       sync.Mutex
	began    time.Time
	requests []*request
	rounds   []*round
	tasks    map[string]*task
	flood    func() // stops the client
	closed   bool   // the client has ended

	// How the program ended.
	stopped error // why it was stopped: errFlooded, or errLate
	crash   string
	code    int
	output  string
}

// mostRequests is how many requests a client may send in one scenario before it is stopped.
const mostRequests = 150

var errFlooded, errLate = errors.New("too many requests"), errors.New("too long")

// A round is one response to a call of the tool under test, or to a tasks/get.
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
	next int      // index of what the server does at the next tasks/get
	gets []*round // each tasks/get with its response
}

// play runs one scenario.
func (c *check) play(ctx context.Context, name string, serve []corpus.Reply) (*scene, error) {
	s := &scene{opts: c.opts, serve: serve, token: "Bearer " + nonce(), tasks: map[string]*task{}, began: time.Now()}
	limit := c.opts.timeout
	if serve[0].Fault == "wrong-id" || serve[0] == (corpus.Reply{State: "plain"}) {
		limit = min(limit, 2*manyWithin) // the client may wait for a response, or retry with pauses
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.flood = func() { stop(errFlooded) }
	err := s.listenAndRun(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if err != nil {
		return nil, err
	}
	c.report.Requests += len(s.requests)
	for _, r := range s.requests {
		c.report.Name = cmp.Or(c.report.Name, r.client())
	}
	return s, nil
}

// receive records a request. It reports whether the client may send more.
func (s *scene) receive(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.at = time.Since(s.began)
	if s.closed || len(s.requests) > mostRequests {
		return false
	}
	if s.requests = append(s.requests, r); len(s.requests) > mostRequests {
		s.flood()
		return false
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
		index = before.index + 1
	}
	n := s.round(index, r)
	s.rounds = append(s.rounds, n)
	return n
}

// roundBefore returns the round that a call retries, or nil for a new call.
func (s *scene) roundBefore(r *request) *round {
	state := r.Params.RequestState
	for _, before := range slices.Backward(s.rounds) {
		if state != nil && before.state != nil && *state == *before.state {
			return before
		}
	}
	if state == nil && r.Params.InputResponses == nil {
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
	why := ""
	switch {
	case len(s.requests) == 0:
		why = "it sent no request to the URL"
	case s.saw("initialize") && !s.saw("tools/call"):
		why = "it speaks an earlier revision of the protocol only"
	case len(s.rounds) == 0:
		why = "it did not call the tool " + s.opts.tool
	case len(s.rounds[0].asked) == 0 && len(s.rounds) == 1:
		why = "it declares no kind of question, and did not repeat the call with the state"
	case len(s.rounds) == 1:
		why = "it did not answer the question"
	case s.stopped == errLate:
		return fmt.Sprintf("it did not end within %v", s.opts.timeout)
	default:
		return ""
	}
	return why + s.last()
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
	return slices.ContainsFunc(s.requests, func(r *request) bool { return r.Method == method })
}

// secrets are what no output shows, the longest first.
func (s *scene) secrets() []string {
	all := []string{strings.TrimPrefix(s.token, "Bearer ")}
	for _, r := range s.rounds {
		if r.state != nil {
			all = append(all, *r.state, r.nonce)
		}
		for _, retry := range r.retries {
			for _, a := range retry.Params.InputResponses {
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
