package home_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// A state opens for the request that it was sealed for, and for no other. The client gets one
// answer for every reason.
func TestOpening(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(f *fleet, r *request)
		want   string
		reason string
	}{
		{"as it was sent", func(*fleet, *request) {}, "asks to", ""},
		{"the arguments spelled differently", func(_ *fleet, r *request) { r.arguments = `{"n":1e0,"place":"x"}` }, "asks to",
			""},
		{"other arguments", func(_ *fleet, r *request) { r.arguments = `{"place":"y","n":1}` }, "refused", "arguments"},
		{"no arguments", func(_ *fleet, r *request) { r.arguments = "" }, "refused", "arguments"},
		{"another caller", func(_ *fleet, r *request) { r.user = "mallory" }, "refused", "principal"},
		{"no caller", func(_ *fleet, r *request) { r.user = "" }, "refused", "principal"},
		{"another target", func(_ *fleet, r *request) { r.target = "journey" }, "refused", "target"},
		{"another service", func(f *fleet, _ *request) { f.carrier.Audience = "other" }, "refused", "audience"},
		{"other keys", func(f *fleet, _ *request) { f.carrier.Keys = newRing(f.t) }, "refused", "unknown_key"},
		{"an altered state", func(_ *fleet, r *request) { r.state = tamper(r.state) }, "refused", "authentication"},
		{"a state that is none", func(_ *fleet, r *request) { r.state = "x" }, "refused", "malformed"},
		{"a large state that is none", func(_ *fleet, r *request) { r.state = strings.Repeat("A", seal.MaxTokenSize+1) },
			"refused", "too_large"},
		{"just in time", func(*fleet, *request) { time.Sleep(time.Hour - time.Second) }, "asks to", ""},
		{"late", func(*fleet, *request) { time.Sleep(time.Hour) }, "refused", "expired"},
		{"a reference, without a store",
			func(f *fleet, r *request) { r.state = f.seal(r, journal.AppendReference(nil, [32]byte{})) }, "refused", "no_store"},
		{"no journal", func(f *fleet, r *request) { r.state = f.seal(r, []byte("\x02newer")) }, "refused", "payload"},
		{"no state, with answers", func(_ *fleet, r *request) { r.state = "" }, "asks from", ""},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				r := began
				r.arguments = `{"place":"x","n":1}`
				r.state = f.plain(f.trip).want("asks from", r)
				r.answers = answer("from", "Oslo")
				c.change(f, &r)
				if got, _ := f.plain(f.trip).send(r); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
				f.observed()
				if c.reason == "" {
					f.refused()
					return
				}
				f.refused(c.reason)
				if !strings.Contains(f.logged.String(), "reason="+c.reason) {
					t.Errorf("the log says %s", f.logged)
				}
			})
		})
	}
	// No arguments and empty ones are the same call.
	f := newFleet(t)
	r := request{target: "trip"}
	r.state = f.plain(f.trip).want("asks from", r)
	r.arguments, r.answers = "{}", answer("from", "Oslo")
	f.plain(f.trip).want("asks to", r)
}

// seal seals a payload for the request.
func (f *fleet) seal(r *request, payload []byte) string {
	f.t.Helper()
	sealed, err := f.carrier.Keys.Seal(seal.Binding{Audience: f.carrier.Audience, Method: "tools/call", Target: r.target,
		Arguments: strictjson.Digest([]byte(cmp.Or(r.arguments,
			"{}"))), Principal: r.user}, payload, time.Now(), time.Now().Add(time.Hour))
	if err != nil {
		f.t.Fatal(err)
	}
	return sealed
}

// A state lives for a round, but no longer than its call.
func TestExpiry(t *testing.T) {
	for _, c := range []struct {
		says                string
		round, whole, after time.Duration // the limits, and the age of the call
		want                time.Duration // from then
		limit               string
	}{
		{"a round", time.Hour, 24 * time.Hour, 0, time.Hour, ""},
		{"a later round", time.Hour, 24 * time.Hour, 5 * time.Hour, time.Hour, ""},
		{"the last round", time.Hour, 24 * time.Hour, 23*time.Hour + 50*time.Minute, 10 * time.Minute, ""},
		{"a round that is longer than its call", 2 * time.Hour, time.Hour, 0, time.Hour, ""},
		{"the end of the call", time.Hour, 24 * time.Hour, 24 * time.Hour, 0,
			"the limit of 86400 seconds per call is reached"},
		{"after its end", time.Hour, 1500 * time.Millisecond, 24 * time.Hour, 0,
			"the limit of 2 seconds per call is reached"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.limits.RoundTTL, f.limits.CallTTL = c.round, c.whole
			i := f.plain(f.trip)
			j := &journal.Journal{ID: "id", Started: time.Now(), Round: 1}
			time.Sleep(c.after)
			out := new(call.Outcome)
			_, again, err := i.carrier.Home(i.asCall(began)).Suspend(t.Context(), j, out)
			limit := ""
			if reached, ok := errors.AsType[*fault.LimitError](err); ok {
				limit = reached.Error()
			} else if err != nil {
				t.Fatal(err)
			}
			if again || limit != c.limit || limit == "" && time.Until(out.Expires) != c.want ||
				(out.State == "") != (limit != "") {
				t.Errorf("%s: %q, expires in %v, %v, again: %v", c.says, limit, time.Until(out.Expires), err, again)
			}
		})
	}
}

// A state that cannot be sealed is an error of the protocol, and one beyond a limit says which.
func TestSealing(t *testing.T) {
	const maxToken = seal.MaxTokenSize
	f := newFleet(t)
	of := func(step int) *journal.Journal {
		return &journal.Journal{ID: "id", Started: time.Now(), Round: 1,
			Entries: []journal.Entry{{Kind: journal.Step, Key: "s", Value: make([]byte, step)}}}
	}
	seal := func(step int) (string, error) {
		i := f.instance(state.Dual, 0, f.trip)
		sealed, _, err := i.carrier.Home(i.asCall(began)).Seal(t.Context(), of(step))
		return sealed, err
	}
	sealed, err := seal(10)
	expect.Check(t, err)
	for overflow, want := range map[int]string{len(sealed): "", len(sealed) - 1: "overflowed"} {
		i := f.instance(state.StatelessOnly, overflow, f.trip)
		if _, _, err := i.carrier.Home(i.asCall(began)).Seal(t.Context(), of(10)); err != nil ||
			strings.Join(f.outcomes, " ") != want {
			t.Errorf("an overflow beyond %d bytes of %d: observed %q, %v", overflow, len(sealed), f.outcomes, err)
		}
		f.outcomes = nil
	}
	f.limits.StateBytes = len(sealed)
	f.store.clear()
	expect.Equal(t, "at the limit", len(expect.Must(seal(10))(t)), len(sealed))
	expect.Equal(t, "at the limit", f.store.Len(), 1)
	f.limits.StateBytes--
	_, err = seal(10)
	if limit, ok := errors.AsType[*fault.LimitError](err); !ok ||
		*limit != (fault.LimitError{Limit: "bytes of requestState", Max: int64(len(sealed) - 1)}) {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := seal(2 * maxToken); err == nil {
		t.Error("sealed")
	} else if _, fault := errors.AsType[*jsonrpc.Error](err); !fault {
		t.Errorf("more than can be sealed: %T %v", err, err)
	}
}

// With Bare a first round has no state while there is nothing to remember.
func TestBare(t *testing.T) {
	questions := []*question.Question{{Wire: "q"}}
	for _, c := range []struct {
		says  string
		bare  bool
		j     journal.Journal
		asked []*question.Question
		state bool
	}{
		{"a first round that asks", true, journal.Journal{Round: 1}, questions, false},
		{"a first round that asks, not bare", false, journal.Journal{Round: 1}, questions, true},
		{"a first round with a step", true,
			journal.Journal{Round: 1, Entries: []journal.Entry{{Kind: journal.Step, Key: "s"}}}, questions, true},
		{"a first round with a state of its own", true, journal.Journal{Round: 1, Manual: "m"}, questions, true},
		{"a first round that does not ask", true, journal.Journal{Round: 1}, nil, true},
		{"a later round", true, journal.Journal{Round: 2}, questions, true},
	} {
		f := newFleet(t)
		f.carrier.Bare = c.bare
		i := f.plain(f.trip)
		out := &call.Outcome{Questions: c.asked}
		c.j.Started = time.Now()
		_, _, err := i.carrier.Home(i.asCall(began)).Suspend(t.Context(), &c.j, out)
		if err != nil || (out.State != "") != c.state {
			t.Errorf("%s: the state is %q, %v", c.says, out.State, err)
		}
	}
	// Its answers are taken by their keys, and only then.
	for _, bare := range []bool{true, false} {
		f := newFleet(t)
		f.carrier.Bare = bare
		r := began
		r.answers = answer("from", "Oslo")
		want := map[bool]string{true: "asks to", false: "asks from"}[bare]
		f.plain(f.trip).want(want, r)
	}
}

// brokenGuard fails, or panics.
type brokenGuard struct{ panics bool }

func (g brokenGuard) Use(context.Context, string, time.Time) (bool, error) {
	if g.panics {
		panic("no guard")
	}
	return true, errors.New("no connection")
}

// find finds the tasks that calls have become, and creates none.
type find func(r *call.Request, callID string) (*call.Outcome, error)

func (f find) Create(
	context.Context, *call.Request, home.TaskRequest, *journal.Journal,
) (*call.Outcome, error) {
	return nil, errors.New("this test creates no task")
}

func (f find) Find(_ context.Context, r *call.Request, _ home.TaskRequest, callID string) (*call.Outcome, error) {
	return f(r, callID)
}

// A guard lets each state be used once, and one that fails lets none be used.
func TestReplayGuard(t *testing.T) {
	f := newFleet(t)
	f.carrier.Guard = new(state.MemoryGuard)
	i := f.plain(f.trip)
	r := began
	r.state = i.want("asks from", r)
	r.answers = answer("from", "Oslo")
	second := r
	second.state = i.want("asks to", r)
	i.want("refused", r)
	f.refused("replayed")
	second.answers = answer("to", "Rome")
	i.want(tripped, second)
	i.want("refused", second)
	f.refused("replayed")

	// Where the state's call is a task by now, the round that is repeated gets it.
	i.carrier.Tasks = find(func(q *call.Request, id string) (*call.Outcome, error) {
		if q.Principal != "alice" || id == "" {
			t.Errorf("looked for %q of %q", id, q.Principal)
		}
		return &call.Outcome{Encoded: []byte("its task")}, nil
	})
	i.want("its task", second)
	f.refused()
	i.carrier.Tasks = find(func(*call.Request, string) (*call.Outcome, error) { return nil, errors.New("no store") })
	i.want("-32603 no store", second)
	f.refused()
	i.carrier.Tasks = find(func(*call.Request, string) (*call.Outcome, error) { return nil, nil })
	i.want("refused", second)
	f.refused("replayed")
}

// A guard that knows only what was used since a time lets no older state be used, nor what is stored of an older call.
func TestAGuardThatBeganLater(t *testing.T) {
	for says, start := range map[string]func(f *fleet) *instance{
		"carried": func(f *fleet) *instance { return f.plain(f.trip) },
		"dual":    func(f *fleet) *instance { return f.instance(state.Dual, 0, f.trip) },
		"first":   func(f *fleet) *instance { return f.instance(state.StatelessFirst, 0, f.trip) },
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.carrier.Guard = new(state.MemoryGuard)
				older := began
				older.state = start(f).want("asks from", older)
				older.answers = answer("from", "Oslo")
				time.Sleep(time.Second)
				f.carrier.Guard, f.carrier.Since = new(state.MemoryGuard), time.Now()
				i := start(f)
				i.want("refused", older)
				f.refused("replayed")
				if !strings.Contains(f.logged.String(), "it was sealed before this process began") {
					t.Errorf("the log says %s", f.logged)
				}
				older.state = ""
				i.want("asks from", older) // a new call
				f.store.clear()
				fresh := began
				fresh.state = i.want("asks from", fresh)
				fresh.answers = answer("from", "Oslo")
				i.want("asks to", fresh)
			})
		})
	}
}

// Clients give up on a call that is handed back a third time without a question, so from then on it continues inside
// one request, with pauses that grow, for as long as the client waits.
func TestACallThatComesBackTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		i := f.plain(func(ctx context.Context, c *call.Call) (mcp.Result, error) {
			for n := range 8 {
				if err := c.Checkpoint(ctx, fmt.Sprint(n)); err != nil {
					return nil, err
				}
			}
			return text("done"), nil
		})
		r := began
		for range 2 {
			start := time.Now()
			if r.state = i.want("asks", r); time.Since(start) > 0 {
				t.Errorf("a round took %v", time.Since(start))
			}
		}
		impatient := r
		var cancel context.CancelFunc
		impatient.ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if got, _ := i.send(impatient); got == "done" || time.Since(start) != 100*time.Millisecond {
			t.Errorf("the client that left got %q after %v", got, time.Since(start))
		}
		start = time.Now()
		i.want("done", r)
		// 50, 100, 200, 400 and 800 milliseconds, and then a second
		expect.Equal(t, "six checkpoints took", time.Since(start), 2550*time.Millisecond)
	})
}

// An instance whose clock is behind accepts a state for longer than one whose clock is right: the guard that they
// share must not have forgotten it by then.
func TestAGuardRemembersForAsLongAsAnyClockAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var until []time.Time
		f.carrier.Guard = guardFunc(func(expires time.Time) { until = append(until, expires) })
		last := time.Now().Add(time.Hour + seal.MaxClockSkew)
		r := began
		r.state = f.plain(f.trip).want("asks from", r)
		f.plain(f.trip).want("asks from", r)                             // by the state's ID
		f.instance(state.StatelessFirst, 0, f.trip).want("asks from", r) // and by its round's
		r.state, r.answers = "", answer("from", "Oslo")
		f.instance(state.StatelessFirst, 0, f.trip).want("asks to", r) // and by what is stored
		for _, u := range until {
			if u.Before(last) {
				t.Errorf("it may forget at %v, but a state is accepted until %v", u, last)
			}
		}
		expect.Equal(t, "the guard was asked", len(until), 4)
	})
}

// guardFunc lets all states be used.
type guardFunc func(expires time.Time)

func (g guardFunc) Use(_ context.Context, _ string, expires time.Time) (bool, error) {
	g(expires)
	return true, nil
}

func TestReplayGuardFails(t *testing.T) {
	for _, guard := range []state.Guard{brokenGuard{}, brokenGuard{panics: true}} {
		f := newFleet(t)
		r := began
		sealed := f.instance(state.StatelessFirst, 0, f.trip).want("asks from", r)
		f.carrier.Guard = guard
		plain, stored := f.plain(f.trip), f.instance(state.StatelessFirst, 0, f.trip)
		r.answers, r.state = answer("from", "Oslo"), sealed
		plain.want("-32603 internal error", r)
		for _, r.state = range []string{sealed, "", "altered"} {
			stored.want("-32603 internal error", r)
		}
		f.observed()
		if !strings.Contains(f.logged.String(), "the replay guard failed") {
			t.Errorf("the log says %s", f.logged)
		}
	}
}

// Where a state can be used once, what is stored does not make it twice.
func TestReplayGuardAndTheStore(t *testing.T) {
	f := newFleet(t)
	f.carrier.Guard = new(state.MemoryGuard)
	i := f.instance(state.StatelessFirst, 0, f.trip)
	begin := func() (r, lost request) {
		r = began
		r.state = i.want("asks from", r)
		r.answers = answer("from", "Oslo")
		lost = r
		lost.state = ""
		return r, lost
	}
	// By its state, whose response is lost together with what it stored.
	r, lost := begin()
	f.store.failPut = errors.New("disk full")
	i.want("asks to", r)
	f.store.failPut = nil
	i.want("asks from", lost) // a new call
	f.observed("failed", "unknown")
	f.store.clear()

	// And by what is stored, with the state afterwards.
	r, lost = begin()
	i.want("asks to", lost)
	i.want("refused", r)
	f.observed("missing")
	f.refused("replayed")

	// While the third phase is rolled out: by the state there, and by what is stored here.
	f.store.clear()
	r, lost = begin()
	f.instance(state.StatelessOnly, 0, f.trip).want("asks to", r)
	i.want("asks from", lost) // a new call
	f.observed("unknown")
}

// A state that was answered elsewhere is spent, where a state may be used once.
func TestSpend(t *testing.T) {
	for _, c := range []struct {
		says   string
		guard  state.Guard
		before func(i *instance, r request) // the state is spent
		want   string                       // the error
		then   string                       // what comes of the state afterwards
	}{
		{"without a guard", nil, nil, "", "goes on"},
		{"a fresh one", new(state.MemoryGuard), nil, "", "refused"},
		{"a used one", new(state.MemoryGuard), func(i *instance, r request) { i.want("goes on", r) },
			"Invalid or expired requestState", "refused"},
		{"an expired one", new(state.MemoryGuard), func(*instance, request) { time.Sleep(2 * time.Hour) }, "", "refused"},
		{"with a guard that fails", brokenGuard{}, nil, "internal error", "-32603 internal error"},
	} {
		for _, store := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.carrier.Guard = c.guard
				if _, memory := c.guard.(*state.MemoryGuard); memory {
					f.carrier.Guard = new(state.MemoryGuard)
				}
				i := f.plain(f.trip)
				if store {
					i = f.instance(state.StatelessOnly, 0, f.trip)
				}
				i.handler = func(context.Context, *call.Call) (mcp.Result, error) { return text("goes on"), nil }
				r := began
				home := i.carrier.Home(i.asCall(r))
				j := &journal.Journal{ID: "id", Started: time.Now(), Round: 1}
				sealed, _, err := home.Seal(t.Context(), j)
				expect.Check(t, err)
				r.state = sealed
				if c.before != nil {
					c.before(i, r)
				}
				f.reasons = nil
				got := ""
				if err := home.Spend(t.Context(), j, sealed); err != nil {
					got = fault.Wire(err).Message
				}
				expect.Equal(t, c.says, got, c.want)
				if got == wire.InvalidState().Message {
					f.refused("replayed")
				}
				if got, _ := i.send(r); got != c.then {
					t.Errorf("%s: the state afterwards: %q, want %q", c.says, got, c.then)
				}
			})
		}
	}
}

// What becomes of a request does not depend on who observes it.
func TestAnObserverThatPanics(t *testing.T) {
	f := newFleet(t)
	i := f.instance(state.Dual, 0, f.trip)
	i.carrier.Audit.Hook = func(context.Context, report.AuditEvent) { panic("no metric") }
	r := began
	r.state = i.want("asks from", r)
	r.answers = answer("from", "Oslo")
	i.want("asks to", r)
	if !strings.Contains(f.logged.String(), "an observer panicked") ||
		!strings.Contains(f.logged.String(), "Options.Audit") {
		t.Errorf("the log says %s", f.logged)
	}
	i.carrier.Audit = nil
	i.want("asks to", r)
	r.state = "x"
	r.user = "nobody"
	i.want("refused", r)
}
