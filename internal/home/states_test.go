package home_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// began is the trip of a caller who has a name.
var began = request{user: "alice", target: "trip", arguments: `{"place":"x"}`}

const tripped = "Oslo to Rome, seat 1"

// tamper changes the last character of a state.
func tamper(state string) string {
	last := "A"
	if strings.HasSuffix(state, "A") {
		last = "Q"
	}
	return state[:len(state)-1] + last
}

// What becomes of a retry, in each phase: its requestState is as the case says, and the
// call waits for the answer to its second question.
func TestPhases(t *testing.T) {
	const done, fresh, refused = tripped, "asks from", "refused"
	dual, primary, only := state.Dual, state.StatelessFirst, state.StatelessOnly
	type retry struct {
		*fleet
		request
		mode   state.Mode
		first  string // the state of the round before
		server *instance
	}
	equal := func(r *retry) {
		again := r.request
		again.state, again.answers = "", ""
		r.server.want("asks from", again)
	}
	noStore := errors.New("no connection")
	newer := func([]byte) []byte { return []byte("\x02newer") }
	for _, c := range []struct {
		says   string
		change func(r *retry)
		want   map[state.Mode][2]string // how it ends, and what is observed
		reason string                   // why the state is refused
	}{
		{"as it was sent", func(*retry) {},
			map[state.Mode][2]string{dual: {done, "same"}, primary: {done}, only: {done}}, ""},
		{"missing", func(r *retry) { r.state = "" },
			map[state.Mode][2]string{dual: {done, "missing"}, primary: {done, "missing"}, only: {fresh}}, ""},
		{"tampered with", func(r *retry) { r.state = tamper(r.state) },
			map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}, "authentication"},
		{"no state at all", func(r *retry) { r.state = "nonsense" },
			map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}, "malformed"},
		{"with a journal of a newer version", func(r *retry) { r.state = r.seal(&r.request, newer(nil)) },
			map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}, "payload"},
		{"at an instance with other keys", func(r *retry) {
			r.carrier.Keys = newRing(r.t)
			r.server = r.instance(r.mode, 0, r.trip)
		}, map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}, "unknown_key"},
		{"at an instance with another name", func(r *retry) {
			r.carrier.Audience = "other"
			r.server = r.instance(r.mode, 0, r.trip)
		}, map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}, "audience"},
		{"for another target", func(r *retry) { r.target = "journey" },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}, "target"},
		{"with other arguments", func(r *retry) { r.arguments = `{"place":"y"}` },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}, "arguments"},
		{"with arguments spelled differently", func(r *retry) { r.arguments = `{ "place":"\u0078"}` },
			map[state.Mode][2]string{dual: {done, "same"}, primary: {done}, only: {done}}, ""},
		{"of another caller", func(r *retry) { r.user = "mallory" },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}, "principal"},
		{"missing, from another caller", func(r *retry) { r.state, r.user = "", "mallory" },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}, ""},
		{"missing, from an anonymous caller", func(r *retry) { r.state, r.user = "", "" },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}, ""},
		{"missing, for another target", func(r *retry) { r.state, r.target = "", "journey" },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}, ""},
		{"missing, with other arguments", func(r *retry) { r.state, r.arguments = "", `{"place":"y"}` },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}, ""},
		{"missing, at an instance with another name", func(r *retry) {
			r.state, r.carrier.Audience = "", "other"
			r.server = r.instance(r.mode, 0, r.trip)
		}, map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}, ""},
		{"missing, without answers", func(r *retry) { r.state, r.answers = "", "" },
			map[state.Mode][2]string{dual: {fresh}, primary: {fresh}, only: {fresh}}, ""},
		{"missing, beside an equal call", func(r *retry) { equal(r); r.state = "" },
			map[state.Mode][2]string{dual: {fresh, "ambiguous"}, primary: {fresh, "ambiguous"}, only: {fresh}}, ""},
		{"tampered with, beside an equal call", func(r *retry) { equal(r); r.state = tamper(r.state) },
			map[state.Mode][2]string{dual: {refused, "ambiguous"}, primary: {refused, "ambiguous"},
				only: {refused}}, "authentication"},
		{"of the round before", func(r *retry) { r.state, r.answers = r.first, answer("from", "Oslo") },
			map[state.Mode][2]string{dual: {"asks to", "older"}, primary: {"asks to"}, only: {"asks to"}}, ""},
		{"expired", func(r *retry) { time.Sleep(time.Hour) },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}, "expired"},
		{"expired, of the round before", func(r *retry) {
			r.state = r.first
			time.Sleep(40 * time.Minute)
		}, map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}, "expired"},
		{"when nothing is stored", func(r *retry) { r.store.clear() },
			map[state.Mode][2]string{dual: {done, "absent"}, primary: {done}, only: {done}}, ""},
		{"when what is stored cannot be read", func(r *retry) { r.store.alter = newer },
			map[state.Mode][2]string{dual: {done, "failed"}, primary: {done}, only: {done}}, ""},
		{"missing, when what is stored cannot be read", func(r *retry) { r.state, r.store.alter = "", newer },
			map[state.Mode][2]string{dual: {fresh, "failed"}, primary: {fresh, "failed"}, only: {fresh}}, ""},
		{"when the store fails", func(r *retry) { r.store.fail = noStore },
			map[state.Mode][2]string{dual: {done, "failed failed"}, primary: {done, "failed"}, only: {done}}, ""},
		{"when the store panics", func(r *retry) { r.store.panics = true },
			map[state.Mode][2]string{dual: {done, "failed failed"}, primary: {done, "failed"}, only: {done}}, ""},
		{"missing, when the store fails", func(r *retry) { r.state, r.store.fail = "", noStore },
			map[state.Mode][2]string{dual: {fresh, "failed failed"}, primary: {fresh, "failed failed"}, only: {fresh}}, ""},
		{"missing, when the store panics", func(r *retry) { r.state, r.store.panics = "", true },
			map[state.Mode][2]string{dual: {fresh, "failed failed"}, primary: {fresh, "failed failed"}, only: {fresh}}, ""},
		{"declined", func(r *retry) { r.answers = `{"to":{"action":"decline"}}` },
			map[state.Mode][2]string{dual: {"1 declined", "same"}, primary: {"1 declined"}, only: {"1 declined"}}, ""},
	} {
		for _, mode := range []state.Mode{dual, primary, only} {
			t.Run(c.says+"/"+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t)
					r := &retry{fleet: f, request: began, mode: mode, server: f.instance(mode, 0, f.trip)}
					r.first = r.server.want("asks from", r.request)
					r.state, r.answers = r.first, answer("from", "Oslo")
					time.Sleep(30 * time.Minute)
					r.state = r.server.want("asks to", r.request)
					r.answers = answer("to", "Rome")
					c.change(r)
					f.outcomes = nil
					want := c.want[mode]
					got, _ := r.server.send(r.request)
					if observed := strings.Join(f.outcomes, " "); got != want[0] || observed != want[1] {
						t.Errorf("it ended with %q and %q was observed; want %q and %q", got, observed, want[0], want[1])
					}
					if reason := strings.Join(f.reasons, " "); reason != c.reason {
						t.Errorf("refused for %q, want %q", reason, c.reason)
					}
					if n := strings.Count(f.logged.String(), "level=ERROR"); n != strings.Count(want[1], "failed") {
						t.Errorf("%d errors are logged: %s", n, f.logged)
					}
					if logged := f.logged.String(); c.reason != "" && !strings.Contains(logged, "reason="+c.reason) ||
						strings.Contains(logged, "Oslo") || strings.Contains(logged, "Rome") {
						t.Errorf("the log says %s", logged)
					}
					if mode == only && f.store.used > 0 {
						t.Error("the store was used")
					}
					if rows := f.store.Len(); (got == done) && f.store.fail == nil && !f.store.panics && rows > 0 {
						t.Errorf("%d states are left of a call that ended", rows)
					}
				})
			})
		}
	}
}

// Nothing tells one anonymous caller from another: nobody's call goes on without its state.
func TestAnonymousCallers(t *testing.T) {
	f := newFleet(t)
	i := f.instance(state.Dual, 0, f.trip)
	r := began
	r.user = ""
	r.state = i.want("asks from", r)
	r.answers = answer("from", "Oslo")
	lost, bad := r, r
	lost.state, bad.state = "", "nonsense"
	i.want("asks from", lost)
	i.want("refused", bad)
	f.observed("unknown", "unknown")
	i.want("asks to", r)
	f.observed("same")
	if f.store.finds > 0 {
		t.Error("the store was asked for an anonymous caller's call")
	}
}

// A lost write leaves the store behind: the call goes on from what the client brought.
func TestStoreThatLostAWrite(t *testing.T) {
	f := newFleet(t)
	i := f.instance(state.Dual, 0, f.trip)
	r := began
	r.state = i.want("asks from", r)
	f.store.failPut = errors.New("disk full")
	r.answers = answer("from", "Oslo")
	r.state = i.want("asks to", r)
	f.observed("same", "failed")
	f.store.failPut = nil
	r.answers = answer("to", "Rome")
	i.want(tripped, r)
	f.observed("behind")
	if !strings.Contains(f.logged.String(), "storing a state failed") ||
		!strings.Contains(f.logged.String(), "disk full") {
		t.Errorf("the log says %s", f.logged)
	}
}

// The client goes away while a step runs. What the step did is stored, if the call is to be
// found again, and it may be found again.
func TestClientThatGoesAway(t *testing.T) {
	for _, c := range []struct {
		says   string
		mode   state.Mode
		change func(f *fleet) // before the round
		want   string         // when the round is repeated
		seen   []string
	}{
		{"in the first phase", state.Dual, nil, "asks to", []string{"older"}},
		{"in the second phase", state.StatelessFirst, nil, "asks to", nil},
		{"in the third phase", state.StatelessOnly, nil, "asks to", nil},
		{"with a journal that is too large to store", state.Dual, func(f *fleet) { f.limits.StoredBytes = 10 }, "asks to",
			[]string{"same"}},
		{"with a store that fails", state.Dual, func(f *fleet) { f.store.failPut = errors.New("disk full") }, "asks to",
			[]string{"same"}},
		{"when the call's time is over", state.Dual, func(f *fleet) { f.step = func() { time.Sleep(25 * time.Hour) } },
			"refused", []string{"unknown"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				r := began
				r.state = f.instance(c.mode, 0, f.trip).want("asks from", r)
				r.answers = answer("from", "Oslo")
				if c.change != nil {
					c.change(f)
				}
				ctx, hangUp := context.WithCancel(t.Context())
				longer := f.step
				f.step = func() { longer(); hangUp() }
				i := f.instance(c.mode, 0, f.trip)
				gone := r
				gone.ctx = ctx
				i.send(gone)
				f.outcomes, f.step, f.store.failPut = nil, func() {}, nil
				i.want(c.want, r)
				f.observed(c.seen...)
				times := 2
				if c.want == "refused" || slices.Contains(c.seen, "older") {
					times = 1
				}
				expect.Equal(t, "the step ran", len(f.steps), times)
				if c.mode != state.StatelessOnly && !f.store.last.expires.After(time.Now()) && len(f.store.ids) > 1 {
					t.Errorf("stored what expired at %v", f.store.last.expires)
				}
			})
		})
	}
}

// What is stored of a round whose client has gone away is bounded as an overflow is: it may be
// as large as StoredBytes, and no larger.
func TestStoredBytes(t *testing.T) {
	for says, handler := range map[string]struct {
		overflow int
		serve    func(f *fleet, i *instance)
	}{
		"gone away": {0, func(f *fleet, i *instance) {
			r := began
			r.state = i.want("asks from", r)
			r.answers = answer("from", "Oslo")
			ctx, hangUp := context.WithCancel(t.Context())
			f.step, r.ctx = hangUp, ctx
			f.store.last = put{}
			i.send(r)
		}},
		"overflow": {1, func(_ *fleet, i *instance) { i.send(began) }},
	} {
		stored := func(limit int) int {
			f := newFleet(t)
			f.limits.StoredBytes = limit
			mode := state.Dual
			if handler.overflow > 0 {
				mode = state.StatelessOnly
			}
			handler.serve(f, f.instance(mode, handler.overflow, f.trip))
			return f.store.last.size
		}
		size := stored(1 << 20)
		if size == 0 || stored(size) != size || stored(size-1) != 0 {
			t.Errorf("%s: of %d bytes, %d are stored, and %d where one byte less may be", says, size, stored(size),
				stored(size-1))
		}
	}
}

// What the store is asked while the client goes away is no failure of the store, and storing
// what was done takes its own time.
func TestAStoreOutlivesTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		i := f.instance(state.Dual, 0, f.trip)
		r := began
		r.state = i.want("asks from", r)
		r.answers = answer("from", "Oslo")
		ctx, hangUp := context.WithCancel(t.Context())
		f.step = hangUp
		r.ctx = ctx
		i.send(r)
		if until, ok := f.store.last.ctx.Deadline(); !ok || time.Until(until) != 10*time.Second {
			t.Errorf("storing may take until %v", until)
		}
		f.outcomes = nil
		f.store.fail = errors.New("no connection")
		i.send(r) // whose client is gone already
		f.observed("failed")
		if log := f.logged.String(); !strings.Contains(log, "storing a state failed") || strings.Contains(log, "reading") {
			t.Errorf("the log says %s", log)
		}
	})
}

// Where the client has gone away, the stored state stays as it is, unless the round did more
// than was stored before it.
func TestEndsThatNobodyHears(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	step := func(c *call.Call) error {
		_, err := c.Step(context.WithoutCancel(gone),
			"done", func(context.Context) ([]byte, error) { return []byte("1"), nil })
		return errors.Join(err, errors.New("gone"))
	}
	for _, c := range []struct {
		says   string
		rounds int     // before the client goes away
		later  handler // what runs then
		want   int     // how many states are stored
		seen   string  // when the round is repeated
	}{
		{"a result", 1, func(context.Context, *call.Call) (mcp.Result, error) { return text("done"), nil }, 1, "same"},
		{"an error", 1, func(context.Context, *call.Call) (mcp.Result, error) { return nil, errors.New("gone") }, 1, "same"},
		{"an error after a step", 1, func(_ context.Context, c *call.Call) (mcp.Result, error) { return nil, step(c) }, 1,
			"older"},
		{"an error after a step, in the first round", 0,
			func(_ context.Context, c *call.Call) (mcp.Result, error) { return nil, step(c) }, 0, ""},
	} {
		f := newFleet(t)
		i := f.instance(state.Dual, 0, f.trip)
		r := began
		if c.rounds > 0 {
			r.state = i.want("asks from", r)
		}
		r.ctx, i.handler = gone, c.later
		i.send(r)
		expect.Equal(t, c.says+": states are stored", f.store.Len(), c.want)
		r.ctx, i.handler = nil, f.trip
		i.want("asks from", r)
		if seen := strings.Join(f.outcomes, " "); seen != c.seen {
			t.Errorf("%s: observed %q, want %q", c.says, seen, c.seen)
		}
	}
	// A handler in the manual style goes on from what its client has.
	f := newFleet(t)
	i := f.instance(state.Dual, 0, manual)
	r := request{user: "alice", target: "manual"}
	r.state = i.want("asks q", r)
	r.ctx, i.handler = gone, func(_ context.Context, c *call.Call) (mcp.Result, error) { return nil, step(c) }
	i.send(r)
	r.ctx, i.handler = nil, manual
	i.want("asks q", r)
	f.observed("same")
}

// A client repeats a round whose response it believes lost, and the call goes on from the repetition. When the first
// request ends after all, what it would store is older than what is there: else a later request, which goes on from
// what is stored, would run a step once more.
func TestARequestThatEndsLateStoresNothingOlder(t *testing.T) {
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		for _, gone := range []bool{false, true} { // whether its client has gone away meanwhile
			t.Run(fmt.Sprintf("%s, gone %v", mode, gone), func(t *testing.T) {
				f := newFleet(t)
				started, finish := make(chan bool), make(chan bool)
				slow := true
				paid := 0
				handler := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
					if _, err := ask(c, "from", "From where?"); err != nil {
						return nil, err
					}
					_, err := c.Step(ctx, "seat", func(context.Context) ([]byte, error) {
						if slow {
							slow = false
							started <- true
							<-finish
						}
						return []byte("1"), nil
					})
					if err != nil {
						return nil, err
					}
					if _, err := ask(c, "to", "To where?"); err != nil {
						return nil, err
					}
					_, err = c.Step(ctx, "pay", func(context.Context) ([]byte, error) {
						paid++
						return []byte("1"), nil
					})
					if err != nil {
						return nil, err
					}
					_, err = ask(c, "sure", "Are you sure?")
					return text("done"), err
				}
				first, second := f.instance(mode, 0, handler), f.instance(mode, 0, handler)
				r := began
				r.state = first.want("asks from", r)
				r.answers = answer("from", "Oslo")
				late := r
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				late.ctx = ctx
				ended := make(chan string)
				go func() {
					got, _ := first.send(late)
					ended <- got
				}()
				<-started
				r.state = second.want("asks to", r)
				r.answers = answer("to", "Rome")
				second.want("asks sure", r)
				if gone {
					hangUp()
				}
				finish <- true
				<-ended
				r.state = "" // the client has lost it
				second.want("asks sure", r)
				expect.Equal(t, "the second step ran", paid, 1)
			})
		}
	}
}

// Of two journals of a call the one that has come further is stored, and of two that have come as far the one that the
// client goes on from.
func TestTheJournalThatHasComeFurtherIsStored(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	made := func(round, steps int) *journal.Journal {
		j := &journal.Journal{ID: "id", Started: time.Now(), Round: round}
		for i := range steps {
			j.Entries = append(j.Entries, journal.Entry{Kind: journal.Step, Key: fmt.Sprint(i)})
		}
		return j
	}
	ctx := t.Context()
	for _, c := range []struct {
		says    string
		there   []byte
		j       *journal.Journal
		ctx     context.Context
		replace bool
	}{
		{"nothing is there", nil, made(1, 0), gone, true},
		{"what cannot be read is there", []byte("\x02newer"), made(1, 0), gone, true},
		{"a later round", made(1, 5).Append(nil), made(2, 0), gone, true},
		{"an earlier round", made(2, 0).Append(nil), made(1, 5), ctx, false},
		{"more steps in the same round", made(2, 1).Append(nil), made(2, 2), gone, true},
		{"fewer steps in the same round", made(2, 2).Append(nil), made(2, 1), ctx, false},
		{"as far, with a client that goes on from it", made(2, 2).Append(nil), made(2, 2), ctx, true},
		{"as far, with a client that has gone away", made(2, 2).Append(nil), made(2, 2), gone, false},
	} {
		f := newFleet(t)
		i := f.instance(state.StatelessFirst, 0, f.trip)
		id := journal.Derived("state", "id")
		if c.there != nil {
			expect.Check(t, f.store.MemoryStore.PutState(ctx, id, "", c.there, time.Now().Add(time.Hour)))
		}
		c.j.Pending = []journal.Question{{Key: "mine", Wire: "mine"}} // in no other
		if _, _, err := i.carrier.Home(i.asCall(began)).Seal(c.ctx, c.j); err != nil {
			t.Fatal(err)
		}
		data, _ := f.store.MemoryStore.GetState(ctx, id)
		expect.Equal(t, c.says+": it was stored", strings.Contains(string(data), "mine"), c.replace)
	}
}

// Storing a round takes one write, and in the first phase each retry one read: see
// docs/recipes.md.
func TestWhatARoundCostsTheStore(t *testing.T) {
	for mode, want := range map[state.Mode][]int{state.Dual: {1, 2, 2}, state.StatelessFirst: {1, 1, 1},
		state.StatelessOnly: {0, 0, 0}} {
		f := newFleet(t)
		i := f.instance(mode, 0, f.trip)
		r := began
		used := func() (n int) { n, f.store.used = f.store.used, 0; return n }
		var got []int
		r.state = i.want("asks from", r)
		got = append(got, used())
		r.answers = answer("from", "Oslo")
		r.state = i.want("asks to", r)
		got = append(got, used())
		r.answers = answer("to", "Rome")
		i.want(tripped, r)
		if got = append(got, used()); !slices.Equal(got, want) {
			t.Errorf("%s: the rounds used the store %v times, want %v", mode, got, want)
		}
	}
}

// Where a call was continued twice from one round, the store decides which one lives, and
// the answer to the other's question does not count.
func TestForkedCall(t *testing.T) {
	f := newFleet(t)
	primary, dual := f.instance(state.StatelessFirst, 0, f.trip), f.instance(state.Dual, 0, f.trip)
	r := began
	r.state = primary.want("asks from", r)
	one, two := r, r
	one.answers, two.answers = answer("from", "Oslo"), answer("from", "Bern")
	one.state = primary.want("asks to", one)
	primary.want("asks to", two)
	one.answers = answer("to", "Rome")
	dual.want("Bern to Rome, seat 2", one)
	f.observed("different")
	if !strings.Contains(f.logged.String(), "is not what is stored") || strings.Contains(f.logged.String(), "Bern") {
		t.Errorf("the log says %s", f.logged)
	}
}

// A round that is repeated answers what it was asked, and not what was asked after it.
func TestAnswersOfARepeatedRound(t *testing.T) {
	f := newFleet(t)
	i := f.instance(state.Dual, 0, func(_ context.Context, c *call.Call) (mcp.Result, error) {
		a, errA := ask(c, "a", "A?")
		b, errB := ask(c, "b", "B?")
		if errA != nil {
			return nil, errA
		}
		d, errD := ask(c, "d", "D?") // once a is known
		return text(a + b + d), errors.Join(errB, errD)
	})
	r := request{user: "alice", target: "several"}
	r.state = i.want("asks a b", r)
	first := r
	first.answers = answer("a", "1")
	i.want("asks b d", first)
	first.answers = `{"b":{"action":"accept","content":{"name":"2"}},"d":{"action":"accept","content":{"name":"3"}}}`
	first.state = i.want("asks d", first)
	f.observed("same", "older")
	first.answers = answer("d", "4")
	i.want("124", first)
}

// Nobody's "yes" is taken for an answer to another question under the same key, however
// the state, the responses and what was stored got lost.
func TestAnswersCountForTheirQuestionOnly(t *testing.T) {
	f := newFleet(t)
	i := f.instance(state.Dual, 0, confirm)
	asked := func(r request) (state, key string) {
		t.Helper()
		got, state := i.send(r)
		key, ok := strings.CutPrefix(got, "asks ")
		if !ok || strings.Contains(key, " ") {
			t.Fatalf("got %q", got)
		}
		return state, key
	}
	begin := request{user: "alice", target: "confirm"}
	first := begin
	first.state = i.want("asks sure", first)
	first.answers = answer("sure", "no, not the copy")
	second, key := first, ""
	if second.state, key = asked(first); key == "sure" {
		t.Fatal("two questions have one key")
	}
	// The response was lost: the client repeats the round, also without its state.
	lost := first
	lost.state = ""
	for _, r := range []request{first, lost, lost} {
		if _, again := asked(r); again != key {
			t.Errorf("the second question is asked under %q and %q", key, again)
		}
	}
	f.observed("same", "older", "missing", "missing")
	// What is stored is of the first round, where a write failed or an instance in another
	// phase served the second.
	f.store.clear()
	first.state = i.want("asks sure", begin)
	f.store.failPut = errors.New("disk full")
	asked(first)
	f.store.failPut = nil
	second.state, second.answers = "", answer(key, "yes, the original")
	i.want("asks sure", second)
	f.observed("same", "failed", "missing")
	if _, again := asked(lost); again != key {
		t.Errorf("the second question is asked under %q and %q", key, again)
	}
	i.want("no, not the copy, yes, the original", second)
	f.observed("missing", "missing")
}

// A fleet moves to states in phases, and its instances are in different ones for a while. A retry that lost its state
// goes on from what is stored, in which the second question may be another one than its client was shown: an answer
// counts only for the question that was shown, whatever phase that was in.
func TestAnswersCountForTheirQuestionInEveryPhase(t *testing.T) {
	doubled := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		which, err := ask(c, "sure", "Delete which?")
		if err != nil {
			return nil, err
		}
		sure, err := ask(c, "sure", "Delete "+which+"?")
		if err != nil {
			return nil, err
		}
		return text(which + ": " + sure), nil
	}
	for _, asking := range []state.Mode{state.Dual, state.StatelessFirst, state.StatelessOnly} {
		f := newFleet(t)
		i := f.instance(asking, 0, doubled)
		first := request{user: "alice", target: "delete"}
		first.state = i.want("asks sure", first)
		second := func(i *instance, which string) (key string) {
			t.Helper()
			r := first
			r.answers = answer("sure", which)
			got, _ := i.send(r)
			key, asks := strings.CutPrefix(got, "asks ")
			if !asks {
				t.Fatalf("in phase %v: got %q", asking, got)
			}
			return key
		}
		copied := second(i, "the copy")
		f.store.clear() // so that the answer counts that comes next
		original := second(i, "the original")
		f.store.clear()
		dual := f.instance(state.Dual, 0, doubled)
		if got := second(dual, "the original"); got != original || copied == original {
			t.Errorf("in phase %v the questions have the keys %q and %q, and in the first phase %q",
				asking, copied, original, got)
		}
		lost := request{user: first.user, target: first.target, answers: answer(copied, "yes")}
		dual.want("asks "+original, lost)
		lost.answers = answer(original, "yes")
		dual.want("the original: yes", lost)
	}
}

// A handler in the manual style chooses its keys itself: without its state only the first
// round can go on from the store, and a repeated round goes on from its own state.
func TestManualStyle(t *testing.T) {
	f := newFleet(t)
	i := f.instance(state.Dual, 0, manual)
	begin := request{user: "alice", target: "manual"}
	first := begin
	first.state = i.want("asks q", begin)
	first.answers = answer("q", "1")
	second := first
	second.state = i.want("asks q", first)
	f.observed("same")
	i.want("asks q", first)
	f.observed("older")
	second.answers = answer("q", "2")
	lost := second
	lost.state = ""
	i.want("asks q", lost)
	f.observed("unknown")
	f.store.clear()
	second.state = i.want("asks q", first)
	i.want("ab2", second)
	f.observed("absent", "same")
	expect.Equal(t, "states are left", f.store.Len(), 0)
	// The first round goes on without its state.
	i.want("asks q", begin)
	first.state = ""
	second.state = i.want("asks q", first)
	f.observed("missing")
	i.want("ab2", second)
	f.observed("same")
}

// A handler is in the manual style if it returned questions of its own, a state of its own, or
// both: a later round of it does not go on without its state.
func TestManualStyleIsSeen(t *testing.T) {
	question := mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "?"}}
	for says, test := range map[string]struct {
		asks   string
		result *mcp.CallToolResult
	}{
		"questions": {"asks q", &mcp.CallToolResult{InputRequests: question}},
		"a state":   {"asks", &mcp.CallToolResult{RequestState: "mine"}},
		"both":      {"asks q", &mcp.CallToolResult{InputRequests: question, RequestState: "mine"}},
	} {
		f := newFleet(t)
		i := f.instance(state.StatelessFirst, 0,
			func(context.Context, *call.Call) (mcp.Result, error) { return test.result, nil })
		r := request{user: "alice", target: "manual"}
		r.state = i.want(test.asks, r)
		r.answers = answer("q", "x")
		lost := r
		lost.state = ""
		i.want(test.asks, lost)
		i.want(test.asks, lost)
		expect.Equal(t, says+": observed", strings.Join(f.outcomes, " "), "missing unknown")
	}
}

// With Bare a request that has answers and no state is nothing unusual.
func TestBareFirstRoundAndTheStore(t *testing.T) {
	f := newFleet(t)
	f.carrier.Bare = true
	i := f.instance(state.Dual, 0, f.trip)
	r := began
	if state := i.want("asks from", r); state != "" || f.store.used != 0 {
		t.Error("the first round is not bare")
	}
	r.answers = answer("from", "Oslo")
	r.state = i.want("asks to", r)
	r.answers = answer("to", "Rome")
	i.want(tripped, r)
	f.observed("same")
}

// What is too large to travel stays in the store, and a reference travels.
func TestOverflow(t *testing.T) {
	const mega = 1 << 20
	type overflow struct {
		*fleet
		request
		mode     state.Mode
		overflow int
		store    bool
		size     int
	}
	for _, c := range []struct {
		says     string
		size     int
		before   func(o *overflow) // the call
		between  func(o *overflow) // its rounds
		want     string            // instead of the result
		observed string
		reason   string // why the state is refused
	}{
		{says: "a state of a megabyte", size: mega, observed: "overflowed"},
		{says: "a state that fits", size: 100},
		{says: "a payload that fits, whose token does not", size: 700, observed: "overflowed"},
		{says: "the state of a repeated round", size: mega, observed: "overflowed", between: func(o *overflow) {
			o.instance(o.mode, o.overflow, blob(o.size)).want(fmt.Sprint(mega, " for octocat"), o.request)
		}},
		{says: "a state that is gone", size: mega, between: func(o *overflow) { o.fleet.store.clear() },
			want: "refused", observed: "overflowed", reason: "stored_missing"},
		{says: "a state that was altered", size: mega, between: func(o *overflow) {
			o.fleet.store.alter = func(data []byte) []byte { data[len(data)/2] = 'y'; return data }
		}, want: "refused", observed: "overflowed", reason: "stored_altered"},
		{says: "a journal of a newer version", size: mega, between: func(o *overflow) {
			newer := []byte("\x02newer")
			sum := sha256.Sum256(newer)
			expect.Check(t, o.fleet.store.PutState(t.Context(), hex.EncodeToString(sum[:]), "", newer,
				time.Now().Add(time.Hour)))
			o.state = o.seal(&o.request, journal.AppendReference(nil, sum))
		}, want: "refused", observed: "overflowed", reason: "payload"},
		{says: "a state of another caller", size: mega, between: func(o *overflow) { o.user = "mallory" },
			want: "refused", observed: "overflowed", reason: "principal"},
		{says: "at an instance without the store", size: mega, between: func(o *overflow) { o.store = false },
			want: "refused", observed: "overflowed", reason: "no_store"},
		{says: "at an instance that overflows no more", size: mega, between: func(o *overflow) { o.overflow = 0 },
			observed: "overflowed"},
		{says: "a store that fails to keep it", size: mega,
			before: func(o *overflow) { o.fleet.store.failPut = errors.New("disk full") },
			want:   "-32603 internal error", observed: "failed"},
		{says: "a store that fails to give it back", size: mega,
			between: func(o *overflow) { o.fleet.store.fail = errors.New("no connection") },
			want:    "-32603 internal error", observed: "overflowed failed"},
		{says: "more than may be stored", size: 2 * mega,
			want: "-32603 the limit of 2000000 bytes of a stored state is reached"},
		{says: "more than may travel without an overflow", size: mega, before: func(o *overflow) { o.overflow = 0 },
			want: "-32603 seal"},
		{says: "a little more than may travel without an overflow", size: 2000, before: func(o *overflow) { o.overflow = 0 },
			want: "-32603 the limit of 1024 bytes of requestState is reached"},
		{says: "in the first phase, more than may travel", size: 2000,
			before: func(o *overflow) { o.mode, o.overflow = state.Dual, 0 },
			want:   "-32603 the limit of 1024 bytes of requestState is reached"},
		{says: "a payload that fits, whose token is more than can be sealed", size: seal.MaxTokenSize - 1000,
			observed: "overflowed", before: func(o *overflow) {
				o.limits.StateBytes, o.overflow = seal.MaxTokenSize, seal.MaxTokenSize
			}},
		{says: "in the first phase, more than can be sealed", size: mega,
			before: func(o *overflow) { o.mode, o.overflow = state.Dual, 0 },
			want:   "-32603 seal"},
		{says: "in the first phase", size: mega, observed: "overflowed same",
			before: func(o *overflow) { o.mode = state.Dual }},
		{says: "a state that is gone, in the second phase", size: mega, observed: "overflowed invalid",
			reason: "stored_missing",
			before: func(o *overflow) { o.mode = state.StatelessFirst },
			between: func(o *overflow) {
				o.fleet.store.forget(func(id string) bool { return len(id) == 64 }) // of content
			}},
	} {
		t.Run(c.says, func(t *testing.T) {
			f := newFleet(t)
			f.limits.StateBytes, f.limits.StoredBytes = 1024, 2_000_000
			o := &overflow{fleet: f, request: request{user: "alice", target: "blob"}, overflow: 800, store: true, size: c.size}
			if c.before != nil {
				c.before(o)
			}
			got, sealed := f.instance(o.mode, o.overflow, blob(c.size)).send(o.request)
			if got == "asks login" {
				if len(sealed) > 1024 { // a reference is short, wherever the limit is
					t.Errorf("%d bytes travel", len(sealed))
				}
				o.state, o.answers = sealed, answer("login", "octocat")
				if c.between != nil {
					c.between(o)
				}
				i := f.plain(blob(c.size))
				if o.store {
					i = f.instance(o.mode, o.overflow, blob(c.size))
				}
				got, _ = i.send(o.request)
			} else if f.store.Len() > 0 {
				t.Errorf("%d states are stored of a call that ended", f.store.Len())
			}
			if want := c.want; want == "" && got != fmt.Sprint(c.size, " for octocat") || !strings.HasPrefix(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if observed, reason := strings.Join(f.outcomes, " "), strings.Join(f.reasons, " "); observed != c.observed ||
				reason != c.reason {
				t.Errorf("observed %q with the reason %q, want %q and %q", observed, reason, c.observed, c.reason)
			}
			if c.reason != "" && !strings.Contains(f.logged.String(), "reason="+c.reason) {
				t.Errorf("the log does not give the reason: %s", f.logged)
			}
			if failed := strings.Contains(c.observed, "failed"); failed != strings.Contains(f.logged.String(), "level=ERROR") {
				t.Errorf("the log says %s", f.logged)
			}
		})
	}
}

// What overflows is kept a little longer than the state that refers to it, because clocks differ.
func TestOverflowOutlivesItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		i := f.instance(state.StatelessOnly, 1, f.trip)
		r := began
		r.state = i.want("asks from", r)
		time.Sleep(f.limits.RoundTTL)
		if data, err := f.store.GetState(t.Context(), f.store.ids[0]); data == nil || err != nil {
			t.Errorf("at the end of the round: %q, %v", data, err)
		}
		r.answers = answer("from", "Oslo")
		i.want("refused", r)
		f.refused("expired")
	})
}

// What is put beside requestState is checked before anything is served.
func TestStatesAreChecked(t *testing.T) {
	store := new(state.MemoryStore)
	for _, c := range []struct {
		says   string
		states state.Options
		named  bool
		want   string // in the error, or the log
		warns  bool
	}{
		{"no store", state.Options{}, true, "needs a Store", false},
		{"no such phase", state.Options{Store: store, Mode: "duel"}, true, `"duel" does not exist`, false},
		{"a negative overflow", state.Options{Store: store, Overflow: -1}, true, "negative", false},
		{"an overflow of more than may travel", state.Options{Store: store, Overflow: 64<<10 + 1}, true, "65536 bytes",
			false},
		{"an overflow of all that may travel", state.Options{Store: store, Overflow: 64 << 10}, true, "", false},
		{"no phase, without names", state.Options{Store: store}, false, "", false},
		{"the third phase, without names", state.Options{Store: store, Mode: state.StatelessOnly}, false, "", false},
		{"the second phase, without names", state.Options{Store: store, Mode: state.StatelessFirst}, false, "", true},
		{"the first phase, without names", state.Options{Store: store, Mode: state.Dual}, false, "", true},
		{"the first phase, with names", state.Options{Store: store, Mode: state.Dual}, true, "", false},
	} {
		f := newFleet(t)
		i := f.plain(f.trip)
		err := i.carrier.UseStates(c.states, c.named)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: the error is %v, want %q", c.says, err, c.want)
		}
		if warned := strings.Contains(f.logged.String(), "anonymous"); warned != c.warns {
			t.Errorf("%s: the log says %q", c.says, f.logged)
		}
		if (i.carrier.States != nil) != (err == nil) {
			t.Errorf("%s: the states are %v", c.says, i.carrier.States)
		}
	}
}
