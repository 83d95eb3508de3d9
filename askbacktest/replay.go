package askbacktest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/state"
)

// The questions of a handler are compared with its questions in many replays. Two keys of a map come in another order
// in one of eight: a question that depends on it escapes so many replays once in half a million tests.
const (
	replays = 50 // at the same time
	later   = 50 // with the clock moved
)

// The clock moves by shift before each of the later replays: together by more than a year, to every hour of the
// day and every day of the week.
const shift = 7*24*time.Hour + 11*time.Hour + 37*time.Minute + 11*time.Second

// The ways out of a difference.
const (
	onlyAnswers = "\n\tWhat a handler asks may depend only on its arguments, on answers, on call.ID and on results of " +
		"steps. Read a clock, a counter, a random number or a nonce in askback.Do before the question, and sort the " +
		"keys of a map."
	onceOnly  = " If a fake in the test accepts each request only once, set Call.Lossless."
	safeSteps = "\n\tEither the result contains a changing value that is not a result of askback.Do, or a step is not " +
		"safe to repeat. Give the outside system call.IdempotencyKey. If it takes no key, set Call.Lossless."
)

// replayServer returns a server that changes nothing outside of itself as long as no step runs.
func (d *driver) replayServer() http.Handler {
	d.t.Helper()
	options := d.call.Options
	options.Audit = nil
	if options.States != nil {
		states := *options.States
		states.Store = unchanged{states.Store}
		options.States = &states
	}
	return d.newServer(options)
}

// explains reports whether replaying two records of a request gives the two replies.
func (d *driver) explains(r request, records [2]record, replies [2]*reply) bool {
	d.t.Helper()
	h := d.replayServer()
	for i, of := range records {
		w := &probe{record: of, replay: true, decisions: r.decisions, isTask: r.isTask}
		again, err := d.serve(h, w, r)
		if err != nil || w.firstMistake() != "" || difference(replies[i], again) != "" {
			return false
		}
	}
	return true
}

// replay sends a request again and again without running a step: each step has its outcome in the record. The function
// different describes how a reply differs from the first one. The test fails with the first difference.
func (d *driver) replay(r request, of record, different func(*reply) string) {
	d.t.Helper()
	h := d.replayServer()
	waits := false
	once := func(how string) string {
		w := &probe{record: of, replay: true, decisions: r.decisions, isTask: r.isTask}
		again, err := d.serve(h, w, r)
		waits = waits || w.waited != nil && w.waited.Load()
		if err != nil {
			return err.Error()
		}
		if mistake := w.firstMistake(); mistake != "" {
			return mistake
		}
		if diff := different(again); diff != "" {
			return fmt.Sprintf("the handler was replayed%s, and asked something else:\n\t%s%s", how, diff, onlyAnswers)
		}
		return ""
	}
	failure := ""
	now := func(n int) {
		for ; n > 0 && failure == ""; n-- {
			failure = once("")
		}
	}
	now(replays)
	switch {
	case failure != "":
	case d.call.RealClock:
		now(later)
	case waits:
		d.t.Logf("askbacktest: the handler waits for something outside of its steps, so the clock is not moved: see the " +
			"comment of the package")
		now(later)
	default:
		failure = moveClock(func(days int) string { return once(fmt.Sprintf(" %d days later", days)) })
	}
	if failure != "" {
		d.t.Fatalf("askbacktest: %s", failure)
	}
}

// moveClock calls f with the clock moved more and more days, until it returns a failure.
func moveClock(f func(days int) string) (failure string) {
	move := func() {
		for n := 1; n <= later && failure == ""; n++ {
			time.Sleep(shift)
			failure = f(n * int(shift/time.Hour) / 24)
		}
	}
	if inBubble() {
		move()
		return failure
	}
	defer func() {
		if v := recover(); v != nil {
			failure = fmt.Sprintf("the handler leaves a waiting goroutine behind: let the handler wait for it, or set "+
				"Call.RealClock (testing/synctest: %v)", v)
		}
	}()
	now := time.Now().Round(0) // without the monotonic reading, which a bubble does not share
	// The test itself may be no *testing.T, and the bubble fails none.
	synctest.Test(new(testing.T), func(*testing.T) {
		time.Sleep(now.Sub(time.Now().Round(0)))
		move()
	})
	return failure
}

// inBubble reports whether the test itself runs in a bubble of testing/synctest, in which no other can be.
func inBubble() (in bool) {
	defer func() { in = recover() != nil }()
	synctest.Test(new(testing.T), func(*testing.T) {})
	return false
}

// unchanged is a store that a replay reads, and leaves as it is.
type unchanged struct{ state.Store }

func (unchanged) PutState(context.Context, string, string, []byte, time.Time) error { return nil }
func (unchanged) SwapState(context.Context, string, string, []byte, []byte, time.Time) (bool, error) {
	return true, nil
}
func (unchanged) DeleteState(context.Context, string) error { return nil }
