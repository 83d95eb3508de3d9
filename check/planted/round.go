package planted

import (
	"net/http"
	"strings"
)

// maxOpen is the number of abandoned rounds at which a server that keeps them has no place left.
const maxOpen = 100

// round answers a call with the next question of its target, or with its result.
func (s *server) round(r *request, t target) (map[string]any, error) {
	if t.script == nil {
		return done(r, "It is noon in "+r.arguments["city"].(string)+"."), nil
	}
	if s.has("load-abandoned") && s.full(r) {
		return nil, &refusal{http.StatusServiceUnavailable, -32603, "there are too many rounds", nil}
	}
	if s.isBare() {
		return s.bare(r, t)
	}
	if r.State == nil { // answers without a state are of no call
		return s.ask(r, t, s.newState(r))
	}
	st, err := s.opened(r, *r.State)
	if err != nil || st.Step < 0 || st.Step >= len(t.script) || t.once && s.hasEnded(st) {
		return s.refuse(r, t)
	}
	q := t.script[st.Step]
	text, outcome := s.readAnswer(q, r.Answers)
	switch outcome {
	case refused:
		return done(r, "Nothing was done, as the person wished."), nil
	case again:
		if _, ok := r.Answers[q.key]; !ok && s.has("missing-refused") {
			return nil, invalid("the answer is missing")
		}
		return s.ask(r, t, st)
	}
	st.Answers[q.key] = text
	if s.has("load-answers") {
		st.Received = r.Answers
	}
	if s.has("unasked") {
		for key, raw := range r.Answers {
			if key != q.key {
				st.Answers[key] = string(raw)
			}
		}
	}
	if st.Step++; st.Step < len(t.script) {
		return s.ask(r, t, st)
	}
	if t.once && !s.end(st, *r.State) {
		return s.refuse(r, t)
	}
	city, _ := r.arguments["city"].(string)
	if !s.act(t, city) {
		return nil, invalid(city + " is done already")
	}
	return done(r, strings.TrimSpace("Done: "+t.name+" "+city)+", "+said(st.Answers)+"."), nil
}

// full counts the calls whose client has not come back, and reports whether they leave no place for a new one.
func (s *server) full(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.State != nil || r.Answers != nil {
		s.open = max(0, s.open-1)
		return false
	}
	s.open++
	return s.open > maxOpen
}
