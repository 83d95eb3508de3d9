package home_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// askWithin is ask with a deadline. If it has passed, nobody has answered.
func askWithin(c *call.Call, key string, within time.Duration) (string, error) {
	q, err := question.FormOf("Who?", reflect.TypeFor[name]())
	if err != nil {
		return "", err
	}
	q.Within = within
	record, err := c.Ask(key, q)
	if late, ok := errors.AsType[*journal.UnansweredError](err); ok {
		return fmt.Sprintf("nobody in %v", late.Deadline.Sub(late.Asked)), nil
	}
	return string(strictjson.Get(strictjson.Get(record, "content"), "name")), err
}

// wait asks two questions together, the first with a deadline of three days, and then another.
func (f *fleet) wait(ctx context.Context, c *call.Call) (mcp.Result, error) {
	who, err1 := askWithin(c, "who", 72*time.Hour)
	what, err2 := ask(c, "what", "What?")
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	_, err := c.Step(ctx, "step", func(context.Context) ([]byte, error) {
		f.step()
		f.steps = append(f.steps, c.ID())
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	when, err := ask(c, "when", "When?")
	return text(who + ", " + what + ", " + when), err
}

const days = 24 * time.Hour

// deadlineStep is a request, so long after the first one.
type deadlineStep struct {
	after   time.Duration
	answers string
	want    string
	refused []string
}

// A deadline holds whatever the client does until then, and wherever the states are kept: its question is answered
// before it, and unanswered from then on, for every request that follows.
func TestDeadlinesOfCarriedCalls(t *testing.T) {
	both := strings.TrimSuffix(answer("who", "Ada"), "}") + "," + answer("what", "tea")[1:]
	for _, c := range []struct {
		says  string
		steps []deadlineStep // each goes on from the state of the one before, unless that was refused
		log   string
	}{
		{says: "answered at once", steps: []deadlineStep{
			{time.Minute, both, "asks when", nil}, {2 * time.Minute, answer("when", "now"), `"Ada", tea, now`, nil},
		}},
		{says: "answered a millisecond before", steps: []deadlineStep{
			{3*days - time.Millisecond, both, "asks when", nil}, {3 * days, answer("when", "now"), `"Ada", tea, now`, nil},
		}},
		{says: "answered at the deadline", steps: []deadlineStep{
			{3 * days, both, "asks when", []string{"late"}},
			{3 * days, answer("when", "now"), "nobody in 72h0m0s, tea, now", nil},
		}, log: `an answer came after the deadline of its question; it does not count`},
		{says: "no answer in time", steps: []deadlineStep{
			{3 * days, answer("what", "tea"), "asks when", nil},
			{3 * days, answer("when", "now"), "nobody in 72h0m0s, tea, now", nil},
		}},
		{says: "no answers at all", steps: []deadlineStep{
			{3*days - time.Second, "", "asks what who", nil}, {3 * days, "", "asks what", nil},
			{3 * days, answer("what", "tea"), "asks when", nil},
			{3 * days, answer("when", "now"), "nobody in 72h0m0s, tea, now", nil},
		}},
		{says: "asked again, which begins nothing anew", steps: []deadlineStep{
			{1 * days, answer("what", "tea"), "asks who", nil}, {2 * days, answer("who", "1"), "asks when", nil},
		}},
		{says: "an answer that does not fit, which begins nothing anew", steps: []deadlineStep{
			{1 * days, `{"who":{"action":"accept","content":{"name":1}}}`, "asks what who", nil},
			{2 * days, `{"who":{"action":"accept","content":{"name":2}}}`, "asks what who", nil},
			{3 * days, both, "asks when", []string{"late"}},
			{3 * days, answer("when", "now"), "nobody in 72h0m0s, tea, now", nil},
		}},
		{says: "the last moment at which the client learns it", steps: []deadlineStep{
			{3*days + time.Hour - time.Millisecond, answer("what", "tea"), "asks when", nil},
		}},
		{says: "a client that comes back later than that", steps: []deadlineStep{
			{3*days + time.Hour, both, "refused", []string{"expired"}},
		}},
	} {
		for says, start := range map[string]func(f *fleet) *instance{
			"carried":   func(f *fleet) *instance { return f.plain(f.wait) },
			"bare":      func(f *fleet) *instance { f.carrier.Bare = true; return f.plain(f.wait) },
			"guarded":   func(f *fleet) *instance { f.carrier.Guard = new(state.MemoryGuard); return f.plain(f.wait) },
			"dual":      func(f *fleet) *instance { return f.instance(state.Dual, 0, f.wait) },
			"first":     func(f *fleet) *instance { return f.instance(state.StatelessFirst, 0, f.wait) },
			"only":      func(f *fleet) *instance { return f.instance(state.StatelessOnly, 0, f.wait) },
			"overflows": func(f *fleet) *instance { return f.instance(state.StatelessOnly, 1, f.wait) },
		} {
			for _, user := range []string{"alice", ""} {
				t.Run(c.says+", "+says+", "+user, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFleet(t)
						i, began := start(f), time.Now()
						r := request{user: user, target: "wait", arguments: `{}`}
						r.state = i.want("asks what who", r)
						for n, step := range c.steps {
							time.Sleep(time.Until(began.Add(step.after)))
							r.answers = step.answers
							got, next := i.send(r)
							if got != step.want {
								t.Fatalf("request %d: %q, want %q", n+2, got, step.want)
							}
							f.refused(step.refused...)
							if next != "" {
								r.state = next
							}
						}
						if logged := f.logged.String(); !strings.Contains(logged, c.log) || strings.Contains(logged, "Ada") {
							t.Errorf("the log says %s", logged)
						}
					})
				})
			}
		}
	}
}

// A call may take its time to live after its last deadline, and no longer, however many rounds it has until then.
func TestTheTimeToLiveCountsFromADeadline(t *testing.T) {
	for says, c := range map[string]struct {
		rounds []time.Duration // when the client comes back without an answer, before it answers
		answer time.Duration
		until  time.Duration // the end of the call
	}{
		"answered at once":         {nil, time.Hour, time.Hour + days},
		"answered late":            {nil, 2 * days, 3 * days},
		"over many rounds":         {[]time.Duration{days, days + time.Hour, 2 * days, 2*days + 1}, 2*days + 2, 3*days + 2},
		"not answered":             {nil, 3*days + time.Minute, 4 * days},
		"not answered, many times": {[]time.Duration{3 * days, 3*days + 10*time.Minute}, 3*days + 20*time.Minute, 4 * days},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				rounds := 0
				i := f.plain(func(_ context.Context, c *call.Call) (mcp.Result, error) {
					if _, err := askWithin(c, "who", 3*days); err != nil {
						return nil, err
					}
					rounds++ // each asks something else, without a deadline
					_, err := ask(c, fmt.Sprint("more", c.Round), "More?")
					return nil, err
				})
				began := time.Now()
				r := request{user: "alice", target: "x", state: ""}
				_, r.state = i.send(r)
				for _, after := range c.rounds {
					time.Sleep(time.Until(began.Add(after)))
					_, r.state = i.send(r)
				}
				time.Sleep(time.Until(began.Add(c.answer)))
				r.answers = answer("who", "Ada")
				_, r.state = i.send(r)
				f.limits.Rounds = 1000
				i.engine.Limits.Rounds = 1000
				for r.answers = ""; ; {
					time.Sleep(59 * time.Minute)
					got, next := i.send(r)
					if next == "" {
						if !strings.Contains(got, "seconds per call is reached") && got != "refused" {
							t.Errorf("the call ends with %q", got)
						}
						break
					}
					r.state = next
				}
				if late := time.Since(began) - c.until; late < 0 || late > time.Hour {
					t.Errorf("the call ends %v after its time", late)
				}
			})
		})
	}
}

// A deadline of longer than the time to live of a call keeps the state, the row beside it, and what a guard remembers.
func TestWhatOutlivesADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.limits.CallTTL = 2 * time.Hour
		var until []time.Time
		f.carrier.Guard = guardFunc(func(expires time.Time) { until = append(until, expires) })
		last := time.Now().Add(3*days + time.Hour)
		i := f.instance(state.StatelessFirst, 0, f.wait)
		r := request{user: "alice", target: "wait", arguments: `{}`}
		r.state = i.want("asks what who", r)
		if !f.store.last.expires.Equal(last) {
			t.Errorf("the store forgets at %v, want %v", f.store.last.expires, last)
		}
		i.want("asks what who", r)                            // by the IDs of the state and of its round
		r.state, r.answers = "altered", answer("what", "tea") // by what is stored
		i.want("asks who", r)
		for _, u := range until {
			if u.Before(last.Add(seal.MaxClockSkew)) {
				t.Errorf("the guard may forget at %v, but a state is accepted until %v", u, last)
			}
		}
		expect.Equal(t, "the guard was asked", len(until), 3)
		f.refused("malformed")
	})
}

// Keys may be rotated while people have time, as long as the ring keeps the one that has sealed.
func TestKeysAreRotatedBeforeADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old, next := seal.NewKey(time.Now()), seal.NewKey(time.Now())
		ring := func(keys ...seal.Key) *seal.Ring {
			r := expect.Must(seal.NewRing(keys...))(t)
			return r
		}
		f.carrier.Keys = ring(old)
		r := request{user: "alice", target: "wait", arguments: `{}`}
		r.state = f.plain(f.wait).want("asks what who", r)
		time.Sleep(2 * days)
		f.carrier.Keys = ring(next, old)
		r.answers = answer("what", "tea")
		r.state = f.plain(f.wait).want("asks who", r)
		time.Sleep(1 * days)
		f.carrier.Keys = ring(next)
		r.answers = answer("who", "Ada")
		f.plain(f.wait).want("asks when", r)
		f.refused("late")
	})
}

// A client whose state got lost finds its call with the deadlines that it has, and so does one that has gone away while
// a step ran.
func TestDeadlinesOfStoredStates(t *testing.T) {
	both := strings.TrimSuffix(answer("who", "Ada"), "}") + "," + answer("what", "tea")[1:]
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			i := f.instance(mode, 0, f.wait)
			r := request{user: "alice", target: "wait", arguments: `{}`}
			i.want("asks what who", r)
			time.Sleep(3 * days)
			r.answers = both
			r.state = i.want("asks when", r)
			f.refused("late")
			r.answers = answer("when", "now")
			i.want("nobody in 72h0m0s, tea, now", r)
		})
		synctest.Test(t, func(t *testing.T) { // what came in time counts, although nobody has heard so
			f := newFleet(t)
			i := f.instance(mode, 0, f.wait)
			r := request{user: "alice", target: "wait", arguments: `{}`}
			r.state = i.want("asks what who", r)
			time.Sleep(3*days - 2*time.Hour)
			r.answers = both
			i.want("asks when", r) // and its response is lost
			time.Sleep(2 * time.Hour)
			switch mode {
			case state.Dual:
				f.outcomes = nil
				r.state = i.want("asks when", r)
				f.observed("older")
				f.refused()
			default: // the state is what the client has
				r.state = i.want("asks when", r)
				f.refused("late")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		h := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
			if _, err := ask(c, "what", "What?"); err != nil {
				_, _ = askWithin(c, "who", 3*days)
				return nil, err
			}
			if _, err := c.Step(ctx, "step", func(context.Context) ([]byte, error) { f.step(); return nil, nil }); err != nil {
				return nil, err
			}
			who, err := askWithin(c, "who", 3*days)
			return text(who), err
		}
		i := f.instance(state.Dual, 0, h)
		r := request{user: "alice", target: "wait", arguments: `{}`}
		r.state = i.want("asks what who", r)
		time.Sleep(2 * days)
		ctx, hangUp := context.WithCancel(t.Context())
		f.step = hangUp
		gone := r
		gone.ctx, gone.answers = ctx, answer("what", "tea")
		i.send(gone)
		f.step = func() { t.Error("the step ran again") }
		r.answers = ""
		r.state = i.want("asks who", r)
		time.Sleep(1 * days)
		i.want("nobody in 72h0m0s", r)
	})
}

// A retry without a state cannot answer what had a deadline in the state that it leaves out.
func TestADeadlineIsNotLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.carrier.Bare = true
		i := f.plain(f.wait)
		r := request{user: "alice", target: "wait", arguments: `{}`}
		if sealed := i.want("asks what who", r); sealed == "" {
			t.Error("there is no state for the deadline")
		}
		time.Sleep(3 * days)
		r.answers = strings.TrimSuffix(answer("who", "Ada"), "}") + "," + answer("what", "tea")[1:]
		i.want("asks who", r)
	})
}

// How long after its question an answer comes is what this server has measured, also where the client says otherwise,
// and every replay has the same. Nobody knows it of a retry without its state, or by a clock that is behind.
func TestMeasuredAnswers(t *testing.T) {
	decline := func(more string) string { return `{"q":{"action":"decline"` + more + `}}` }
	for _, c := range []struct {
		says    string
		after   time.Duration
		answers string
		noState bool
		behind  time.Duration
		want    string
	}{
		{"at once", 5 * time.Millisecond, decline(""), false, 0, `{"action":"decline","after":5,"shown":false}`},
		{"a millisecond before a person can read it", 249 * time.Millisecond, decline(""), false, 0,
			`{"action":"decline","after":249,"shown":false}`},
		{"when a person can have read it", 250 * time.Millisecond, decline(""), false, 0, `{"action":"decline","after":250}`},
		{"much later", time.Minute, decline(""), false, 0, `{"action":"decline","after":60000}`},
		{"dismissed at once", time.Millisecond, `{"q":{"action":"cancel"}}`, false, 0,
			`{"action":"cancel","after":1,"shown":false}`},
		{"the client says how long", time.Millisecond, decline(`,"after":9999,"shown":true`), false, 0,
			`{"action":"decline","after":1,"shown":false}`},
		{"the client says how short", time.Minute, decline(`,"after":1,"shown":false`), false, 0,
			`{"action":"decline","after":60000}`},
		{"without its state", time.Minute, decline(`,"after":1,"shown":false`), true, 0, `{"action":"decline"}`},
		{"a clock that is behind", time.Second, decline(`,"after":1`), false, 2 * time.Second, `{"action":"decline"}`},
		{"accepted at once", time.Millisecond, answer("q", "Ada"), false, 0,
			`{"action":"accept","content":{"name":"Ada"}}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.carrier.Desk, f.carrier.Bare = true, c.noState
			i := f.plain(func(_ context.Context, c *call.Call) (mcp.Result, error) {
				q, err := question.FormOf("Who?", reflect.TypeFor[name]())
				if err != nil {
					return nil, err
				}
				record, err := c.Ask("q", q)
				if err != nil {
					return nil, err
				}
				_, err = ask(c, "more", "More?")
				return text(string(record)), err
			})
			i.engine.Desk = &call.Desk{NotShown: 250 * time.Millisecond}
			r := request{user: "alice", target: "x", arguments: `{}`}
			if c.behind > 0 { // another instance has asked, whose clock is ahead
				_, r.state = i.send(r)
				opened, err := f.carrier.Keys.Open(r.state, bindingOf(f, r), time.Now())
				expect.Check(t, err)
				ahead := time.Now().Add(c.behind)
				r.state, err = f.carrier.Keys.Seal(bindingOf(f, r), opened.Payload, ahead, ahead.Add(time.Hour))
				expect.Check(t, err)
			} else {
				_, r.state = i.send(r)
			}
			time.Sleep(c.after)
			if r.answers = c.answers; c.noState {
				r.state = ""
			}
			r.state = i.want("asks more", r)
			time.Sleep(time.Minute)
			r.answers = answer("more", "no")
			for range 2 {
				i.want(c.want, r)
			}
		})
	}
}

func bindingOf(f *fleet, r request) seal.Binding {
	return seal.Binding{Audience: f.carrier.Audience, Method: "tools/call", Target: r.target,
		Arguments: strictjson.Digest([]byte(r.arguments)), Principal: r.user}
}
