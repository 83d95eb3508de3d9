package askback_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task/storetest"
)

var _ storetest.StateStore = state.Store(nil)

// spyStore is a store that tests look into and break.
type spyStore struct {
	state.MemoryStore
	mu                         sync.Mutex
	ids                        []string // of all puts
	puts, gets, finds, deletes int
	fail, failPut              error
	alter                      func([]byte) []byte // what is read
}

func (s *spyStore) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	if err := errors.Join(ctx.Err(), s.fail, s.failPut); err != nil {
		return err
	}
	s.ids = append(s.ids, id)
	return s.MemoryStore.PutState(ctx, id, call, data, expires)
}

func (s *spyStore) GetState(ctx context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	data, err := s.MemoryStore.GetState(ctx, id)
	if s.alter != nil && data != nil {
		data = s.alter(data)
	}
	return data, errors.Join(err, ctx.Err(), s.fail)
}

func (s *spyStore) FindStates(ctx context.Context, call string, limit int) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finds++
	found, err := s.MemoryStore.FindStates(ctx, call, limit)
	if s.alter != nil {
		for i := range found {
			found[i] = s.alter(found[i])
		}
	}
	return found, errors.Join(err, ctx.Err(), s.fail)
}

func (s *spyStore) DeleteState(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletes++
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(s.fail, s.MemoryStore.DeleteState(ctx, id))
}

// clear deletes everything.
func (s *spyStore) clear(t *testing.T) {
	for _, id := range s.ids {
		if err := s.MemoryStore.DeleteState(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

// used counts the calls.
func (s *spyStore) used() int { return s.puts + s.gets + s.finds + s.deletes }

// fleet are instances that share a store, and what they observe.
type fleet struct {
	t        *testing.T
	store    *spyStore
	ring     *seal.Ring
	outcomes []string
	reasons  []string
	steps    []string // that ran
	opts     askback.Options
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, store: new(spyStore), ring: newRing(t), opts: askback.Options{Principal: userHeader}}
}

// userHeader takes the principal from a header, which only a test may do.
func userHeader(_ context.Context, extra *mcp.RequestExtra) (string, error) {
	return extra.Header.Get("X-User"), nil
}

// instance starts one in this phase.
func (f *fleet) instance(mode state.Mode, keys *seal.Ring, overflow ...int) http.Handler {
	opts := f.opts
	opts.Keys = keys
	opts.States = &state.Options{Store: f.store, Mode: mode}
	opts.ObserveState = func(_ context.Context, e state.Event) {
		if e.Method != "tools/call" {
			f.t.Errorf("the method is %q", e.Method)
		}
		if e.Outcome == state.Refused {
			f.reasons = append(f.reasons, string(e.Reason))
		} else {
			f.outcomes = append(f.outcomes, string(e.Outcome))
		}
	}
	if len(overflow) > 0 {
		opts.States.Overflow = overflow[0]
	}
	return newServer(f.t, &opts, f.trip, f.manual, f.confirm).HTTPHandler(nil)
}

// observed checks what was observed since it was called last.
func (f *fleet) observed(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.outcomes, want) {
		f.t.Errorf("observed %q, want %q", f.outcomes, want)
	}
	f.outcomes = nil
}

// trip asks, does, asks.
func (f *fleet) trip(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "trip"}, func(ctx context.Context, call *askback.Call, in greeting) (string, error) {
		from, err := askback.Elicit[login](call, "from", "From where?")
		if err != nil {
			return "", err
		}
		seat, err := askback.Do(ctx, call, "seat", func(context.Context) (int, error) {
			f.steps = append(f.steps, call.ID())
			return len(f.steps), nil
		})
		if err != nil {
			return "", err
		}
		to, err := askback.Elicit[login](call, "to", "To where?")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s to %s, seat %d", from.Name, to.Name, seat), nil
	})
}

// manual asks twice under one key, in the manual style.
func (f *fleet) manual(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "manual"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
		p := call.Request().(*mcp.CallToolRequest).Params
		heard := ""
		if r, ok := p.InputResponses["q"].(*mcp.ElicitResult); ok {
			heard = fmt.Sprint(r.Content["name"])
		}
		n := len(p.RequestState)
		if heard != "" && n == 2 {
			return text(p.RequestState + heard), nil
		}
		state := p.RequestState
		if heard != "" || n == 0 {
			state += string("ab"[min(n, 1)])
		}
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: state}}}, nil
	})
}

// confirm asks two questions under one key.
func (f *fleet) confirm(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "confirm"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		var heard []string
		for _, what := range []string{"the copy", "the original"} {
			ok, err := askback.Elicit[login](call, "sure", "Delete "+what+"?")
			if err != nil {
				return "", err
			}
			heard = append(heard, ok.Name)
		}
		return strings.Join(heard, ", "), nil
	})
}

func answer(key, name string) string {
	return fmt.Sprintf(`{%q:{"action":"accept","content":{"name":%q}}}`, key, name)
}

var alice = http.Header{"X-User": {"alice"}}

// What becomes of a retry, in each phase: its requestState is as the case says, and the
// call waits for the answer to its second question.
func TestPhases(t *testing.T) {
	const done, fresh, refused = "Oslo to Rome, seat 1", "asks from", "refused"
	dual, primary, only := state.Dual, state.StatelessFirst, state.StatelessOnly
	type retry struct {
		*fleet
		mode    state.Mode
		first   string // the state of the round before
		request request
		server  http.Handler
	}
	tamper := func(state string) string {
		last := "A"
		if strings.HasSuffix(state, "A") {
			last = "Q"
		}
		return state[:len(state)-1] + last
	}
	for _, c := range []struct {
		says   string
		change func(r *retry)
		want   map[state.Mode][2]string // how it ends, and what is observed
	}{
		{"as it was sent", func(*retry) {},
			map[state.Mode][2]string{dual: {done, "same"}, primary: {done}, only: {done}}},
		{"missing", func(r *retry) { r.request.state = "" },
			map[state.Mode][2]string{dual: {done, "missing"}, primary: {done, "missing"}, only: {fresh}}},
		{"tampered with", func(r *retry) { r.request.state = tamper(r.request.state) },
			map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}},
		{"no state at all", func(r *retry) { r.request.state = "nonsense" },
			map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}},
		{"at an instance with other keys", func(r *retry) { r.server = r.instance(r.mode, newRing(r.t)) },
			map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}},
		{"at an instance with another name", func(r *retry) { r.opts.Audience = "other"; r.server = r.instance(r.mode, r.ring) },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}},
		{"with other arguments", func(r *retry) { r.request.arguments = `{"place":"y"}` },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}},
		{"of another caller", func(r *retry) { r.request.header = http.Header{"X-User": {"mallory"}} },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}},
		{"missing, from another caller", func(r *retry) { r.request.state, r.request.header = "", http.Header{"X-User": {"mallory"}} },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}},
		{"missing, from an anonymous caller", func(r *retry) { r.request.state, r.request.header = "", nil },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}},
		{"missing, with other arguments", func(r *retry) { r.request.state, r.request.arguments = "", `{"place":"y"}` },
			map[state.Mode][2]string{dual: {fresh, "unknown"}, primary: {fresh, "unknown"}, only: {fresh}}},
		{"missing, without answers", func(r *retry) { r.request.state, r.request.responses = "", "" },
			map[state.Mode][2]string{dual: {fresh}, primary: {fresh}, only: {fresh}}},
		{"missing, beside an equal call", func(r *retry) {
			again := r.request
			again.state, again.responses = "", ""
			again.send(r.t, r.server).asked(r.t, "from")
			r.request.state = ""
		}, map[state.Mode][2]string{dual: {fresh, "ambiguous"}, primary: {fresh, "ambiguous"}, only: {fresh}}},
		{"tampered with, beside an equal call", func(r *retry) {
			again := r.request
			again.state, again.responses = "", ""
			again.send(r.t, r.server).asked(r.t, "from")
			r.request.state = tamper(r.request.state)
		}, map[state.Mode][2]string{dual: {refused, "ambiguous"}, primary: {refused, "ambiguous"}, only: {refused}}},
		{"of the round before", func(r *retry) { r.request.state, r.request.responses = r.first, answer("from", "Oslo") },
			map[state.Mode][2]string{dual: {"asks to", "older"}, primary: {"asks to"}, only: {"asks to"}}},
		{"expired", func(r *retry) { time.Sleep(time.Hour) },
			map[state.Mode][2]string{dual: {refused, "unknown"}, primary: {refused, "unknown"}, only: {refused}}},
		{"expired, of the round before", func(r *retry) {
			r.request.state = r.first
			time.Sleep(40 * time.Minute)
		}, map[state.Mode][2]string{dual: {done, "invalid"}, primary: {done, "invalid"}, only: {refused}}},
		{"when nothing is stored", func(r *retry) { r.store.clear(r.t) },
			map[state.Mode][2]string{dual: {done, "absent"}, primary: {done}, only: {done}}},
		{"when what is stored cannot be read", func(r *retry) { r.store.alter = func([]byte) []byte { return []byte("\x02newer") } },
			map[state.Mode][2]string{dual: {done, "failed"}, primary: {done}, only: {done}}},
		{"missing, when what is stored cannot be read", func(r *retry) {
			r.request.state, r.store.alter = "", func([]byte) []byte { return []byte("\x02newer") }
		}, map[state.Mode][2]string{dual: {fresh, "failed"}, primary: {fresh, "failed"}, only: {fresh}}},
		{"when the store fails", func(r *retry) { r.store.fail = errors.New("no connection") },
			map[state.Mode][2]string{dual: {done, "failed failed"}, primary: {done, "failed"}, only: {done}}},
		{"missing, when the store fails", func(r *retry) { r.request.state, r.store.fail = "", errors.New("no connection") },
			map[state.Mode][2]string{dual: {fresh, "failed failed"}, primary: {fresh, "failed failed"}, only: {fresh}}},
		{"declined", func(r *retry) { r.request.responses = `{"to":{"action":"decline"}}` },
			map[state.Mode][2]string{dual: {"declined", "same"}, primary: {"declined"}, only: {"declined"}}},
	} {
		for _, mode := range []state.Mode{dual, primary, only} {
			t.Run(c.says+"/"+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t)
					r := &retry{fleet: f, mode: mode, server: f.instance(mode, f.ring)}
					r.request = request{target: "trip", arguments: `{"place":"x"}`, header: alice}
					r.first = r.request.send(t, r.server).asked(t, "from")
					r.request.state, r.request.responses = r.first, answer("from", "Oslo")
					time.Sleep(30 * time.Minute)
					r.request.state = r.request.send(t, r.server).asked(t, "to")
					r.request.responses = answer("to", "Rome")
					f.outcomes = nil
					c.change(r)
					got, want := "", c.want[mode]
					f.outcomes = nil
					switch res := r.request.send(t, r.server); {
					case res.Error != nil:
						if message := res.refused(t, 400, -32602); message != fixedMessage {
							t.Errorf("refused with %q", message)
						}
						got = refused
					case res.Result.Type == "complete" && res.Result.IsError:
						got = "declined"
					case res.Result.Type == "complete":
						got = res.text(t)
					case res.Result.Requests["from"] != nil:
						got = fresh
					default:
						for key := range res.Result.Requests {
							got = "asks " + key
						}
					}
					if observed := strings.Join(f.outcomes, " "); got != want[0] || observed != want[1] {
						t.Errorf("it ended with %q and %q was observed; want %q and %q", got, observed, want[0], want[1])
					}
					if mode == only && f.store.used() > 0 {
						t.Error("the store was used")
					}
					if rows := f.store.Len(); (got == done || got == "declined") && f.store.fail == nil && rows > 0 {
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
	h := f.instance(state.Dual, f.ring)
	r := request{target: "trip", arguments: `{"place":"x"}`}
	r.state = r.send(t, h).asked(t, "from")
	r.responses = answer("from", "Oslo")
	lost, bad := r, r
	lost.state, bad.state = "", "nonsense"
	lost.send(t, h).asked(t, "from")
	bad.send(t, h).refused(t, 400, -32602)
	f.observed("unknown", "unknown")
	r.send(t, h).asked(t, "to")
	f.observed("same")
	if f.store.finds > 0 {
		t.Error("the store was asked for an anonymous caller's call")
	}
}

// A lost write leaves the store behind: the call goes on from what the client brought.
func TestStoreThatLostAWrite(t *testing.T) {
	f := newFleet(t)
	h := f.instance(state.Dual, f.ring)
	r := request{target: "trip", arguments: `{"place":"x"}`, header: alice}
	r.state = r.send(t, h).asked(t, "from")
	f.store.failPut = errors.New("disk full")
	r.responses = answer("from", "Oslo")
	r.state = r.send(t, h).asked(t, "to")
	f.observed("same", "failed")
	f.store.failPut = nil
	r.responses = answer("to", "Rome")
	if got := r.send(t, h).text(t); got != "Oslo to Rome, seat 1" {
		t.Errorf("got %q", got)
	}
	f.observed("behind")
}

// The client goes away while a step runs, and repeats the round: the step does not run again.
func TestClientThatGoesAway(t *testing.T) {
	store := new(spyStore)
	var hangUp context.CancelFunc
	paid := 0
	h := newServer(t, &askback.Options{Principal: userHeader, States: &state.Options{Store: store, Mode: state.Dual}}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "buy"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			for _, what := range []string{"first", "second"} {
				if _, err := askback.Elicit[login](call, what+"?", "Who are you?"); err != nil {
					return "", err
				}
				if err := call.Do(ctx, "pay "+what, func(context.Context) error {
					hangUp()
					paid++
					return nil
				}); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	}).HTTPHandler(nil)
	r := request{target: "buy", header: alice, ctx: func(r *http.Request) *http.Request {
		ctx, cancel := context.WithCancel(r.Context())
		hangUp = cancel
		return r.WithContext(ctx)
	}}
	r.state = r.send(t, h).asked(t, "first?")
	r.responses = answer("first?", "x")
	r.send(t, h)
	r.state = r.send(t, h).asked(t, "second?")
	r.responses = answer("second?", "x")
	r.send(t, h)
	if got := r.send(t, h).text(t); got != "done" || paid != 2 {
		t.Errorf("got %q, and it was paid %d times", got, paid)
	}
	r.state = ""
	if r.send(t, h).asked(t, "first?"); paid != 2 {
		t.Error("the call goes on after its end")
	}
}

// Where a call was continued twice from one round, the store decides which one lives, and
// the answer to the other's question does not count.
func TestForkedCall(t *testing.T) {
	f := newFleet(t)
	logger, logged := logs()
	f.opts.Logger = logger
	primary, dual := f.instance(state.StatelessFirst, f.ring), f.instance(state.Dual, f.ring)
	r := request{target: "trip", arguments: `{"place":"x"}`, header: alice}
	r.state = r.send(t, primary).asked(t, "from")
	one, two := r, r
	one.responses, two.responses = answer("from", "Oslo"), answer("from", "Bern")
	one.state = one.send(t, primary).asked(t, "to")
	two.send(t, primary).asked(t, "to")
	one.responses = answer("to", "Rome")
	if got := one.send(t, dual).text(t); got != "Bern to Rome, seat 2" {
		t.Errorf("got %q", got)
	}
	f.observed("different")
	if !strings.Contains(logged.String(), "is not what is stored") || strings.Contains(logged.String(), "Bern") {
		t.Errorf("the log says %s", logged)
	}
}

// Nobody's "yes" is taken for an answer to another question under the same key, however
// the state, the responses and what was stored got lost.
func TestAnswersCountForTheirQuestionOnly(t *testing.T) {
	f := newFleet(t)
	h := f.instance(state.Dual, f.ring)
	asked := func(r request) (state, key string) {
		t.Helper()
		res := r.send(t, h)
		for key = range res.Result.Requests {
		}
		return res.asked(t, key), key
	}
	first := request{target: "confirm", header: alice}
	first.state = first.send(t, h).asked(t, "sure")
	first.responses = answer("sure", "no, not the copy")
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
	f.store.clear(t)
	f.observed()
	begin := request{target: "confirm", header: alice}
	first.state = begin.send(t, h).asked(t, "sure")
	f.store.failPut = errors.New("disk full")
	asked(first)
	f.store.failPut = nil
	second.state, second.responses = "", answer(key, "yes, the original")
	second.send(t, h).asked(t, "sure")
	f.observed("same", "failed", "missing")
	if _, again := asked(lost); again != key {
		t.Errorf("the second question is asked under %q and %q", key, again)
	}
	if got := second.send(t, h).text(t); got != "no, not the copy, yes, the original" {
		t.Errorf("got %q", got)
	}
	f.observed("missing", "missing")
}

// A handler in the manual style chooses its keys itself: without its state only the first
// round can go on from the store, and a repeated round goes on from its own state.
func TestManualStyleAndTheStore(t *testing.T) {
	for _, where := range []string{"an Askback tool", "a tool of the SDK's server"} {
		t.Run(where, func(t *testing.T) {
			f := newFleet(t)
			h := f.instance(state.Dual, f.ring)
			if where != "an Askback tool" {
				h = f.sdkInstance(t)
			}
			first := request{target: "manual", header: alice}
			first.state = first.send(t, h).asked(t, "q")
			first.responses = answer("q", "1")
			second := first
			second.state = first.send(t, h).asked(t, "q")
			f.observed("same")
			first.send(t, h).asked(t, "q")
			f.observed("older")
			second.responses = answer("q", "2")
			lost := second
			lost.state = ""
			lost.send(t, h).asked(t, "q")
			f.observed("unknown")
			f.store.clear(t)
			second.state = first.send(t, h).asked(t, "q")
			if got := second.send(t, h).text(t); got != "ab2" {
				t.Errorf("got %q", got)
			}
			f.observed("absent", "same")
			if rows := f.store.Len(); rows != 0 {
				t.Errorf("%d states are left", rows)
			}
			// The first round goes on without its state.
			first.state, first.responses = "", ""
			first.send(t, h).asked(t, "q")
			first.responses = answer("q", "1")
			second.state = first.send(t, h).asked(t, "q")
			f.observed("missing")
			if got := second.send(t, h).text(t); got != "ab2" {
				t.Errorf("got %q", got)
			}
			f.observed("same")
		})
	}
}

// sdkInstance has the tool manual on the SDK's server.
func (f *fleet) sdkInstance(t *testing.T) http.Handler {
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		heard, state := "", req.Params.RequestState
		if r, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			heard = fmt.Sprint(r.Content["name"])
		}
		if heard != "" && len(state) == 2 {
			return text(state + heard), nil
		}
		if heard != "" || state == "" {
			state += string("ab"[min(len(state), 1)])
		}
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: state}}}, nil
	})
	opts := f.opts
	opts.Keys = f.ring
	opts.States = &state.Options{Store: f.store, Mode: state.Dual}
	opts.ObserveState = func(_ context.Context, e state.Event) { f.outcomes = append(f.outcomes, string(e.Outcome)) }
	srv, err := askback.New(m, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return srv.HTTPHandler(nil)
}

// Where a state can be used once, what is stored does not make it twice.
func TestReplayGuardAndTheStore(t *testing.T) {
	f := newFleet(t)
	f.opts.ReplayGuard = new(state.MemoryGuard)
	h := f.instance(state.StatelessFirst, f.ring)
	begin := func() request {
		r := request{target: "trip", arguments: `{"place":"x"}`, header: alice}
		r.state = r.send(t, h).asked(t, "from")
		r.responses = answer("from", "Oslo")
		return r
	}
	// By its state, whose response is lost together with what it stored.
	r := begin()
	f.store.failPut = errors.New("disk full")
	r.send(t, h).asked(t, "to")
	f.store.failPut = nil
	lost := r
	lost.state = ""
	lost.send(t, h).asked(t, "from") // a new call
	f.observed("failed", "unknown")
	f.store.clear(t)

	// And by what is stored, with the state afterwards.
	r = begin()
	lost = r
	lost.state = ""
	lost.send(t, h).asked(t, "to")
	r.send(t, h).refused(t, 400, -32602)
	f.observed("missing")
	if want := []string{"replayed"}; !slices.Equal(f.reasons, want) {
		t.Errorf("the reasons are %q, want %q", f.reasons, want)
	}

	// While the third phase is rolled out: by the state there, and by what is stored here.
	f.store.clear(t)
	r = begin()
	r.send(t, f.instance(state.StatelessOnly, f.ring)).asked(t, "to")
	lost = r
	lost.state = ""
	lost.send(t, h).asked(t, "from") // a new call
	f.observed("unknown")
}

// brokenGuard fails.
type brokenGuard struct{ state.Guard }

func (brokenGuard) Use(context.Context, string, time.Time) (bool, error) {
	return false, errors.New("no connection")
}

// A guard that fails refuses the request, whichever way its round would go on.
func TestReplayGuardFailsAndTheStore(t *testing.T) {
	f := newFleet(t)
	f.opts.ReplayGuard = brokenGuard{}
	h := f.instance(state.StatelessFirst, f.ring)
	r := request{target: "trip", arguments: `{"place":"x"}`, header: alice}
	state := r.send(t, h).asked(t, "from")
	r.responses = answer("from", "Oslo")
	for _, r.state = range []string{state, "", "altered"} {
		r.send(t, h).refused(t, 200, -32603)
	}
	f.observed()
}

// With BareFirstRound a request that has answers and no state is nothing unusual.
func TestBareFirstRoundAndTheStore(t *testing.T) {
	f := newFleet(t)
	f.opts.BareFirstRound = true
	h := f.instance(state.Dual, f.ring)
	r := request{target: "trip", arguments: `{"place":"x"}`, header: alice}
	if state := r.send(t, h).asked(t, "from"); state != "" || f.store.used() != 0 {
		t.Error("the first round is not bare")
	}
	r.responses = answer("from", "Oslo")
	r.state = r.send(t, h).asked(t, "to")
	r.responses = answer("to", "Rome")
	if got := r.send(t, h).text(t); got != "Oslo to Rome, seat 1" {
		t.Errorf("got %q", got)
	}
	f.observed("same")
}

// When a call becomes a task, its journal is the task's.
func TestTasksAndTheStore(t *testing.T) {
	store := new(spyStore)
	s := newTaskServer(t, &askback.Options{States: &state.Options{Store: store, Mode: state.Dual}}, func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "later"}, &askback.TaskSupport{AtDetach: true}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			l, err := askback.Elicit[login](call, "login", "Who are you?")
			if err != nil {
				return "", err
			}
			if err := call.Detach(); err != nil {
				return "", err
			}
			return "later, " + l.Name, nil
		})
	})
	r := request{target: "later", capabilities: withExtension}
	r.state = r.send(t, s.handler).asked(t, "login")
	if rows := store.Len(); rows != 1 {
		t.Fatalf("%d states are stored", rows)
	}
	r.responses = octocat
	if res := r.send(t, s.handler); res.Result == nil || res.Result.Type != "task" {
		t.Fatalf("no task: %s", res.raw)
	}
	if rows := store.Len(); rows != 0 {
		t.Errorf("%d states are left of a call that is a task", rows)
	}
}

// A session before 2026-07-28 has no requestState, and so none is stored.
func TestSessionsAndTheStore(t *testing.T) {
	store := new(spyStore)
	here, there := mcp.NewInMemoryTransports()
	srv := newServer(t, &askback.Options{States: &state.Options{Store: store, Mode: state.Dual}}, greet)
	if _, err := srv.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
		},
	}).Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: greeting{"Oslo"}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "Hello octocat in Oslo" {
		t.Errorf("got %v, %v", res, err)
	}
	if store.used() != 0 {
		t.Error("the store was used")
	}
}

// Where the questions of a session carry a state, it is stored, and goes when the call ends,
// however it does. A state that is too large for that stops no call.
func TestSessionsWithStates(t *testing.T) {
	for _, c := range []struct {
		says   string
		answer func() (*mcp.ElicitResult, error)
		states state.Options
		size   int
		want   string
		puts   bool
	}{
		{says: "accepted", size: 10, want: "10 for octocat", puts: true},
		{says: "declined", size: 10, answer: func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "decline"}, nil }, want: "declined", puts: true},
		{says: "broken", size: 10, answer: func() (*mcp.ElicitResult, error) { return nil, errors.New("no display") }, want: "no display", puts: true},
		{says: "never fit", size: 10, answer: func() (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": 1}}, nil
		}, want: "rounds per call", puts: true},
		{says: "large", size: 100_000, want: "100000 for octocat"},
		{says: "too large to seal", size: 2_000_000, want: "2000000 for octocat"},
		{says: "with a store that fails", size: 100_000, states: state.Options{Overflow: 1000, Store: &spyStore{fail: errors.New("no connection")}}, want: "100000 for octocat"},
		{says: "too large to store", size: 20_000_000, states: state.Options{Overflow: 1000}, want: "20000000 for octocat"},
	} {
		t.Run(c.says, func(t *testing.T) {
			store := new(spyStore)
			if c.states.Mode = state.Dual; c.states.Store == nil {
				c.states.Store = store
			}
			web := httptest.NewServer(newServer(t, &askback.Options{States: &c.states}, blob).HTTPHandler(&askback.HTTPOptions{Drafts: true}))
			defer web.Close()
			if c.answer == nil {
				c.answer = func() (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
				}
			}
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return c.answer() },
			})
			client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if method == "elicitation/create" {
						return c.answer() // unchecked
					}
					return next(ctx, method, req)
				}
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL + "?draft=state"}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "blob", Arguments: count{c.size}})
			got := fmt.Sprint(err)
			if err == nil {
				got = res.Content[0].(*mcp.TextContent).Text
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
			if rows := store.Len(); rows != 0 || (store.puts > 0) != c.puts {
				t.Errorf("%d states are left of %d", rows, store.puts)
			}
		})
	}
}

// blob records a result of many bytes.
func blob(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "blob"}, func(ctx context.Context, call *askback.Call, in count) (string, error) {
		s, err := askback.Do(ctx, call, "make", func(context.Context) (string, error) { return strings.Repeat("x", in.N), nil })
		if err != nil {
			return "", err
		}
		l, err := askback.Elicit[login](call, "login", "Who are you?")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(s), " for ", l.Name), nil
	})
}

func TestOverflow(t *testing.T) {
	const mega = 1 << 20
	ring := newRing(t)
	type overflow struct {
		*testing.T
		store   *spyStore
		opts    *askback.Options
		request request
	}
	for _, c := range []struct {
		says     string
		size     int
		before   func(o *overflow) // the call
		between  func(o *overflow) // its rounds
		code     int               // of the error, if it is to be one
		message  string            // a part of it
		observed string
		reason   string // why the state is refused
	}{
		{says: "a state of a megabyte", size: mega, observed: "overflowed"},
		{says: "a state that fits", size: 100},
		{says: "the state of a repeated round", size: mega, observed: "overflowed", between: func(o *overflow) {
			if got := o.request.send(o, newServer(o, o.opts, blob).HTTPHandler(nil)).text(o); got != fmt.Sprint(mega, " for octocat") {
				o.Errorf("got %q", got)
			}
		}},
		{says: "a state that is gone", size: mega, between: func(o *overflow) { o.store.clear(o.T) },
			code: -32602, message: fixedMessage, observed: "overflowed", reason: "stored_missing"},
		{says: "a state that was altered", size: mega, between: func(o *overflow) {
			o.store.alter = func(data []byte) []byte { data[len(data)/2] = 'y'; return data }
		}, code: -32602, message: fixedMessage, observed: "overflowed", reason: "stored_altered"},
		{says: "a state of another caller", size: mega, between: func(o *overflow) { o.request.header = http.Header{"X-User": {"mallory"}} },
			code: -32602, message: fixedMessage, observed: "overflowed", reason: "principal"},
		{says: "at an instance without the store", size: mega, between: func(o *overflow) { o.opts.States = nil },
			code: -32602, message: fixedMessage, observed: "overflowed", reason: "no_store"},
		{says: "at an instance that overflows no more", size: mega, between: func(o *overflow) {
			o.opts.States = &state.Options{Store: o.store}
		}, observed: "overflowed"},
		{says: "a store that fails to keep it", size: mega, before: func(o *overflow) { o.store.failPut = errors.New("disk full") },
			code: -32603, message: "internal error", observed: "failed"},
		{says: "a store that fails to give it back", size: mega, between: func(o *overflow) { o.store.fail = errors.New("no connection") },
			code: -32603, message: "internal error", observed: "overflowed failed"},
		{says: "more than may be stored", size: 2 * mega, code: -32603, message: "the limit of 2000000 bytes of a stored state is reached"},
		{says: "more than may travel without an overflow", size: mega, before: func(o *overflow) { o.opts.States.Overflow = 0 },
			code: -32603, message: "seal"},
		{says: "a little more than may travel without an overflow", size: 2000, before: func(o *overflow) { o.opts.States.Overflow = 0 },
			code: -32603, message: "the limit of 1024 bytes of requestState is reached"},
		{says: "in the first phase", size: mega, observed: "overflowed same", before: func(o *overflow) { o.opts.States.Mode = state.Dual }},
		{says: "a state that is gone, in the second phase", size: mega, observed: "overflowed invalid", reason: "stored_missing",
			before: func(o *overflow) { o.opts.States.Mode = state.StatelessFirst },
			between: func(o *overflow) {
				for _, id := range o.store.ids {
					if len(id) == 64 { // content has another form of id
						if err := o.store.MemoryStore.DeleteState(o.Context(), id); err != nil {
							o.Fatal(err)
						}
					}
				}
			}},
	} {
		t.Run(c.says, func(t *testing.T) {
			var observed []string
			reason := ""
			o := &overflow{T: t, store: new(spyStore)}
			logger, logged := logs()
			o.opts = &askback.Options{
				Keys: ring, Principal: userHeader, Logger: logger,
				Limits: askback.Limits{StateBytes: 1024, StoredBytes: 2_000_000},
				States: &state.Options{Store: o.store, Overflow: 800},
				ObserveState: func(_ context.Context, e state.Event) {
					if reason += string(e.Reason); e.Outcome != state.Refused {
						observed = append(observed, string(e.Outcome))
					}
				},
			}
			if c.before != nil {
				c.before(o)
			}
			o.request = request{target: "blob", arguments: fmt.Sprintf(`{"n":%d}`, c.size), header: alice}
			res := o.request.send(t, newServer(t, o.opts, blob).HTTPHandler(nil))
			if res.Error == nil {
				o.request.state = res.asked(t, "login")
				o.request.responses = octocat
				if n := len(o.request.state); n > 1024 {
					t.Errorf("%d bytes travel", n)
				}
				if c.between != nil {
					c.between(o)
				}
				res = o.request.send(t, newServer(t, o.opts, blob).HTTPHandler(nil))
			}
			if c.code != 0 {
				status := 200
				if c.code == -32602 {
					status = 400
				}
				if message := res.refused(t, status, c.code); !strings.Contains(message, c.message) {
					t.Errorf("the message is %q, want %q", message, c.message)
				}
			} else if got, want := res.text(t), fmt.Sprint(c.size, " for octocat"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := strings.Join(observed, " "); got != c.observed || reason != c.reason {
				t.Errorf("observed %q with the reason %q, want %q and %q", got, reason, c.observed, c.reason)
			}
			if c.reason != "" && !strings.Contains(logged.String(), "reason="+c.reason) {
				t.Errorf("the log does not give the reason: %s", logged)
			}
		})
	}
}

// Whatever mixture of phases the instances are in, and whichever of them has lost its keys
// or its store for a moment, the law holds. In the first phase, moreover, no step of a call
// runs twice, whatever is repeated: the store knows that it ran.
func TestLawWithAStore(t *testing.T) {
	store := new(spyStore)
	ring := newRing(t)
	var ran map[string]int
	hangUp := func() {}
	handler := func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(call *askback.Call, step rune) {
			ran[call.ID()+string(step)]++
			hangUp()
		}))
	}
	instance := func(mode state.Mode, keys *seal.Ring, overflow int) http.Handler {
		return newServer(t, &askback.Options{Keys: keys, Principal: userHeader, States: &state.Options{Store: store, Mode: mode, Overflow: overflow}}, handler).HTTPHandler(nil)
	}
	fleets := map[string][]http.Handler{
		"dual":      {instance(state.Dual, ring, 0), instance(state.Dual, newRing(t), 0)},
		"primary":   {instance(state.StatelessFirst, ring, 0), instance(state.StatelessFirst, newRing(t), 0)},
		"overflow":  {instance(state.StatelessOnly, ring, 1), instance(state.StatelessOnly, ring, 400)},
		"roll out":  {instance(state.Dual, ring, 0), instance(state.StatelessFirst, ring, 1), newServer(t, &askback.Options{Keys: ring, Principal: userHeader, States: &state.Options{Store: store}}, handler).HTTPHandler(nil)},
		"dual only": {instance(state.Dual, ring, 300), instance(state.Dual, ring, 0)},
	}
	shared := new(state.MemoryStore)
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		fleets["memory"] = append(fleets["memory"], newServer(t, &askback.Options{
			Keys: ring, Principal: userHeader, States: &state.Options{Store: shared, Mode: mode, Overflow: 300},
		}, handler).HTTPHandler(nil))
	}
	user := 0
	reference := newReference(t)
	law := func(rt *rapid.T, name string, instances []http.Handler) {
		plan := plans().Draw(rt, "plan")
		failing := name == "dual" || name == "primary"
		ran = map[string]int{}
		send := func(r request) *response {
			return r.send(t, instances[rapid.IntRange(0, len(instances)-1).Draw(rt, "instance")])
		}
		all := func(requests map[string]bool, some bool) string {
			var answers []string
			for key := range requests {
				if !some || rapid.IntRange(0, 3).Draw(rt, "answers") > 0 {
					answers = append(answers, fmt.Sprintf(`%q:{"action":"accept","content":{"n":%d}}`, key, howMany(key)))
				}
			}
			return "{" + strings.Join(answers, ",") + "}"
		}
		keys := func(res *response) map[string]bool {
			m := map[string]bool{}
			for key := range res.Result.Requests {
				m[key] = true
			}
			return m
		}

		user++ // nobody has such calls yet
		begin := request{target: "plan", arguments: `{"plan":` + quote(plan) + `}`, header: http.Header{"X-User": {fmt.Sprint(user)}}}
		r := begin
		res := r.send(t, reference)
		for res.Result.Type != "complete" {
			r.state, r.responses = res.Result.State, all(keys(res), false)
			res = r.send(t, reference)
		}
		want := res.text(t)

		r = begin
		var kept []*response
		for n := 0; ; n++ {
			if n > 200 {
				rt.Fatalf("plan %q in %s does not end", plan, name)
			}
			lossy := n < 10
			store.fail = nil
			if lossy && failing && rapid.IntRange(0, 5).Draw(rt, "store") == 0 {
				store.fail = errors.New("no connection")
			}
			gone := false
			r.ctx = func(r *http.Request) *http.Request {
				ctx, cancel := context.WithCancel(r.Context())
				hangUp = func() {
					if lossy && rapid.IntRange(0, 3).Draw(rt, "hang up") == 0 {
						gone = true
						cancel()
					}
				}
				return r.WithContext(ctx)
			}
			res := send(r)
			if gone {
				continue // the client went away during a step
			}
			if res.Error != nil && res.Error.Code == -32602 {
				continue // an instance without the key that found no state: the client tries again
			}
			if res.Result == nil {
				rt.Fatalf("round %d of %q: %s", n, plan, res.raw)
			}
			if res.Result.Type == "complete" {
				if got := res.text(t); got != want {
					rt.Fatalf("plan %q in %s: got %q, want %q", plan, name, got, want)
				}
				break
			}
			if lossy && rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
				if len(kept) == 0 || rapid.Bool().Draw(rt, "repeat") {
					continue // the response was lost: the same request again
				}
				res = kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "back to")]
			}
			kept = append(kept, res)
			r.state = res.Result.State
			r.responses = all(keys(res), lossy)
			if lossy && rapid.IntRange(0, 7).Draw(rt, "state lost") == 0 {
				r.state = ""
			}
		}
		if name == "dual only" {
			for step, times := range ran {
				if times > 1 {
					rt.Fatalf("plan %q: the step %q ran %d times", plan, step, times)
				}
			}
		}
	}
	for name, instances := range fleets {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { law(rt, name, instances) })
		})
	}
}

// newReference is a server without any store.
func newReference(t *testing.T) http.Handler {
	return newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(*askback.Call, rune) {}))
	}).HTTPHandler(nil)
}

// Retries of one round at once: each gets an answer from which its client comes to the same
// end.
func TestRetriesAtOnce(t *testing.T) {
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		h := newServer(t, &askback.Options{Principal: userHeader, States: &state.Options{Store: new(state.MemoryStore), Mode: mode, Overflow: 300}},
			func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(*askback.Call, rune) {}))
			}).HTTPHandler(nil)
		for range 20 {
			r := request{target: "plan", arguments: `{"plan":"a1b2c"}`, header: alice}
			r.state = r.send(t, h).asked(t, "a")
			r.responses = `{"a":{"action":"accept","content":{"n":1}}}`
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					r := r
					res := r.send(t, h)
					for res.Result != nil && res.Result.Type != "complete" {
						var answers []string
						for key := range res.Result.Requests {
							answers = append(answers, fmt.Sprintf(`%q:{"action":"accept","content":{"n":1}}`, key))
						}
						r.state, r.responses = res.Result.State, "{"+strings.Join(answers, ",")+"}"
						res = r.send(t, h)
					}
					if res.Result == nil || res.Result.Content[0].Text != "went a1 #49 b1 #50 c1 " {
						t.Errorf("%s: got %s", mode, res.raw)
					}
				})
			}
			all.Wait()
		}
	}
}

func TestStatesAreChecked(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	for want, states := range map[string]state.Options{
		"needs a Store":  {},
		`"duel" is none`: {Store: new(state.MemoryStore), Mode: "duel"},
		"negative":       {Store: new(state.MemoryStore), Overflow: -1},
		"65536 bytes":    {Store: new(state.MemoryStore), Overflow: 65537},
	} {
		if _, err := askback.New(m, &askback.Options{States: &states}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	for mode, want := range map[state.Mode]bool{"": false, state.StatelessOnly: false, state.StatelessFirst: true, state.Dual: true} {
		logger, logged := logs()
		newServer(t, &askback.Options{Logger: logger, States: &state.Options{Store: new(state.MemoryStore), Mode: mode}})
		if strings.Contains(logged.String(), "anonymous") != want {
			t.Errorf("%q: the log says %q", mode, logged)
		}
	}
}
