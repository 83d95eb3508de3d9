package client

import (
	"context"
	"errors"
	"testing"
)

// Inside a session the calls that run admit the questions: so many at a time, so many in all, and none without a call.
func TestCallsAdmitQuestions(t *testing.T) {
	limits := &Limits{Questions: 2, Rounds: 3}
	limited := func(limit string) func(error) bool {
		return func(err error) bool {
			reached, ok := errors.AsType[*LimitError](err)
			return ok && reached.Limit == limit
		}
	}
	noCall := func(err error) bool {
		return err != nil && err.Error() == "no call is running that this question could belong to"
	}
	s := new(inlineState)
	life, die := context.WithCancel(t.Context())
	var open []func()
	admitted := func(when string, n int, further func(error) bool) {
		t.Helper()
		for i := range n {
			_, leave, err := s.admit(t.Context(), limits)
			if err != nil {
				t.Fatalf("%s, question %d: %v", when, i, err)
			}
			open = append(open, leave)
		}
		if _, _, err := s.admit(t.Context(), limits); !further(err) {
			t.Errorf("%s, after %d questions: %v", when, n, err)
		}
	}
	leaveAll := func() {
		for _, leave := range open {
			leave()
		}
		open = nil
	}

	admitted("before any call", 0, noCall)
	first := s.enter(life)
	admitted("with a call", 2, limited("questions per round"))
	second := s.enter(life)
	admitted("with another call", 2, limited("questions per round"))
	leaveAll()
	admitted("in the second round", 4, limited("questions per round"))
	leaveAll()
	admitted("in the third round", 4, limited("questions per round"))
	leaveAll()
	admitted("in the fourth round", 0, limited("rounds per call"))
	first()
	ctx := s.ctx
	second()
	if ctx.Err() == nil {
		t.Error("the last call ends, and its questions do not")
	}
	admitted("after the calls", 0, noCall)

	third := s.enter(life)
	defer third()
	admitted("with a call after the others", 2, limited("questions per round"))
	die()
	admitted("in a session that has ended", 0, noCall)
}
