package law

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// unreachable is a store of states to which there is sometimes no connection.
type unreachable struct {
	state.MemoryStore
	gone atomic.Bool
}

func reach[T any](ctx context.Context, s *unreachable, do func() (T, error)) (result T, err error) {
	if s.gone.Load() {
		return result, errors.New("no connection")
	}
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	return do()
}

func (s *unreachable) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	return expect.Err(reach(ctx, s, func() (any, error) {
		return nil, s.MemoryStore.PutState(ctx, id, call, data, expires)
	}))
}

func (s *unreachable) SwapState(
	ctx context.Context, id, call string, old, data []byte, expires time.Time,
) (bool, error) {
	return reach(ctx, s, func() (bool, error) { return s.MemoryStore.SwapState(ctx, id, call, old, data, expires) })
}

func (s *unreachable) GetState(ctx context.Context, id string) ([]byte, error) {
	return reach(ctx, s, func() ([]byte, error) { return s.MemoryStore.GetState(ctx, id) })
}

func (s *unreachable) FindStates(ctx context.Context, call string, limit int) ([][]byte, error) {
	return reach(ctx, s, func() ([][]byte, error) { return s.MemoryStore.FindStates(ctx, call, limit) })
}

// fleet is instances whose states are in a store, too.
type fleet struct {
	instances []http.Handler
	unstable  bool // the instances lose their keys or their store for a moment
	once      bool // no step of a call runs twice, because the store has recorded it
}

// watched is a world that sees each step run.
type watched struct {
	world
	step func()
}

func (w watched) Step(
	ctx context.Context, name string, step func(context.Context) (string, error),
) (string, error) {
	return w.world.Step(ctx, name, func(ctx context.Context) (string, error) {
		result, err := step(ctx)
		w.step()
		return result, err
	})
}

// The law holds for any mixture of phases of the instances, even if some have lost their keys or their store for a
// moment. In the first phase no step of a call runs twice, even in repeated requests, because the store has recorded
// it.
func TestStates(t *testing.T) {
	var ran sync.Map // the runs of steps, by the ID of their call
	hangUp := func() {}
	handler := func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "program"},
			func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
				runs, _ := ran.LoadOrStore(call.ID(), new(program.Runs))
				return in.run(ctx, watched{world{call}, func() { hangUp() }}, runs.(*program.Runs))
			})
	}
	instance := func(
		store state.Store, mode state.Mode, keys *seal.Ring, overflow int, middleware ...mcp.Middleware,
	) http.Handler {
		m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
		m.AddReceivingMiddleware(middleware...)
		return harness.NewServerOn(t, m, &askback.Options{Keys: keys, Principal: harness.UserHeader,
			States: &state.Options{Store: store, Mode: mode, Overflow: overflow}}, handler).HTTPHandler(nil)
	}
	one, other := harness.NewRing(t), harness.NewRing(t)
	store, memory, seen := new(unreachable), new(state.MemoryStore), new(state.MemoryStore)
	choices := program.Choices{Keys: questions[:3], Ops: []program.Op{
		program.Ask, program.Ask, program.Step, program.Checkpoint, program.Branch,
	}}
	outcomes := make(map[string]string)
	for _, key := range choices.Keys {
		outcomes[key], _ = reply(0, key)
	}
	for name, f := range map[string]fleet{
		"dual": {[]http.Handler{
			instance(store, state.Dual, one, 0), instance(store, state.Dual, other, 0)}, true, false},
		"stateless first": {[]http.Handler{
			instance(store, state.StatelessFirst, one, 0), instance(store, state.StatelessFirst, other, 0)}, true, false},
		"overflow": {[]http.Handler{
			instance(store, state.StatelessOnly, one, 1), instance(store, state.StatelessOnly, one, 400)}, false, false},
		"roll out": {[]http.Handler{instance(store, state.Dual, one, 0), instance(store, state.StatelessFirst, one, 1),
			instance(store, "", one, 0)}, false, false},
		"two phases": {[]http.Handler{
			instance(memory, state.Dual, one, 300), instance(memory, state.StatelessFirst, one, 300)}, false, false},
		"dual only": {[]http.Handler{
			instance(store, state.Dual, one, 300), instance(store, state.Dual, one, 0)}, false, true},
		"dual only, with middleware on the SDK's server": {[]http.Handler{
			instance(seen, state.Dual, one, 0, harness.PassOn),
			instance(seen, state.Dual, one, 0, harness.PassOn)}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			user := 0
			rapid.Check(t, func(rt *rapid.T) {
				p := choices.Program(2, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "program") })
				ran.Clear()
				user++ // without earlier calls
				r := harness.Request{Target: "program", Arguments: arguments{Program: p.String()}.String(),
					Header: http.Header{"X-User": {fmt.Sprint(name, user)}}}
				text, requests := "", 0
				var kept []*harness.Response
				for {
					if requests++; requests > 300 {
						rt.Fatalf("%s does not end", p)
					}
					oneIn := func(k int, what string) bool {
						return requests <= 10 && rapid.IntRange(1, k).Draw(rt, what) == k
					}
					store.gone.Store(f.unstable && oneIn(6, "store"))
					gone := false
					r.Context = func(r *http.Request) *http.Request {
						ctx, cancel := context.WithCancel(r.Context())
						hangUp = func() {
							if oneIn(4, "hang up") {
								gone = true
								cancel()
							}
						}
						return r.WithContext(ctx)
					}
					res := r.Send(t, f.instances[rapid.IntRange(0, len(f.instances)-1).Draw(rt, "instance")])
					// Without a key and a stored state the client tries again.
					if gone || res.Error != nil && res.Error.Code == -32602 {
						continue
					}
					if res.Result == nil {
						rt.Fatalf("request %d of %s: %s", requests, p, res.Raw)
					}
					if res.Result.Type == "complete" {
						text = res.Text(t)
						break
					}
					if oneIn(4, "lost") {
						if len(kept) == 0 || rapid.Bool().Draw(rt, "repeat") {
							continue
						}
						res = rapid.SampledFrom(kept).Draw(rt, "back to")
					}
					kept = append(kept, res)
					r.State = res.Result.State
					var answers []string
					for key := range res.Result.Requests {
						if _, travels := reply(0, authorKey(key)); !oneIn(4, "no answer") {
							answers = append(answers, harness.Quote(key)+":"+travels)
						}
					}
					r.Responses = "{" + strings.Join(answers, ",") + "}"
					if oneIn(8, "state lost") {
						r.State = ""
					}
				}
				compareRepeated(rt, p, text, outcomes, &ran, requests, f.once)
			})
		})
	}
}

// compareRepeated compares the end of a call whose requests were repeated. A step may have run again in each request
// whose state, or what is stored of it, has lost it.
func compareRepeated(
	rt *rapid.T, p program.Program, text string, outcomes map[string]string, ran *sync.Map, requests int, once bool,
) {
	counted := make(map[string]int64)
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "step "); ok {
			name, _, _ = strings.Cut(name, "=")
			counted[name] = program.Number([]byte(line))
		}
	}
	if err := compare(p, text, &position{answers: outcomes, steps: counted}, nil); err != nil {
		rt.Fatalf("%s: %v", p, err)
	}
	tried := make(map[string][]int64)
	for _, runs := range ran.Range {
		for step, numbers := range runs.(*program.Runs).Numbers() {
			if once && len(numbers) > 1 {
				rt.Fatalf("%s: the step %s ran %d times in one call", p, step, len(numbers))
			}
			tried[step] = append(tried[step], numbers...)
		}
	}
	for step, n := range counted {
		if !slices.Contains(tried[step], n) || len(tried[step]) > requests {
			rt.Fatalf("%s: the step %s has the number %d, of the runs %v in %d requests", p, step, n, tried[step], requests)
		}
	}
}
