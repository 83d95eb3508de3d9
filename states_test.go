package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// internal/home tests the outcomes of a state in each phase and with each fault. The tests here need
// a server: options that reach the home, clients that disconnect, tasks, sessions, and the law.

// spyStore is a store whose calls tests count and can make fail.
type spyStore struct {
	state.MemoryStore
	mu   sync.Mutex
	used int
	fail error
}

func (s *spyStore) call(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	return errors.Join(ctx.Err(), s.fail)
}

// failing makes calls fail from now on, or not if err is nil.
func (s *spyStore) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *spyStore) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.MemoryStore.PutState(ctx, id, call, data, expires)
}

func (s *spyStore) SwapState(ctx context.Context, id, call string, old, data []byte, expires time.Time) (bool, error) {
	if err := s.call(ctx); err != nil {
		return false, err
	}
	return s.MemoryStore.SwapState(ctx, id, call, old, data, expires)
}

func (s *spyStore) GetState(ctx context.Context, id string) ([]byte, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	return s.MemoryStore.GetState(ctx, id)
}

func (s *spyStore) FindStates(ctx context.Context, call string, limit int) ([][]byte, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	return s.MemoryStore.FindStates(ctx, call, limit)
}

func (s *spyStore) DeleteState(ctx context.Context, id string) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.MemoryStore.DeleteState(ctx, id)
}

var alice = http.Header{"X-User": {"alice"}}

// The options decide the outcome of a retry.
func TestOptionsReachTheHome(t *testing.T) {
	states := func(mode state.Mode) func(*askback.Options) {
		return func(o *askback.Options) { o.States = &state.Options{Store: new(state.MemoryStore), Mode: mode} }
	}
	twice := func(t *testing.T, r *harness.Request, h http.Handler) { r.Send(t, h).Text(t) }
	lost := func(_ *testing.T, r *harness.Request, _ http.Handler) { r.State = "" }
	bad := func(_ *testing.T, r *harness.Request, _ http.Handler) { r.State = "x" }
	for _, c := range []struct {
		says    string
		options func(o *askback.Options)
		change  func(t *testing.T, r *harness.Request, h http.Handler) // between the rounds; nil: nothing
		want    string                                                 // in the second response
		seen    string
	}{
		{"none", func(*askback.Options) {}, nil, "Hello octocat", ""},
		{"none, and a bad state", func(*askback.Options) {}, bad, harness.StateRefused, "refused:malformed"},
		{"none, and no state", func(*askback.Options) {}, lost, "input_required", ""},
		{"Principal", func(*askback.Options) {},
			func(_ *testing.T, r *harness.Request, _ http.Handler) { r.Header = http.Header{"X-User": {"mallory"}} },
			harness.StateRefused, "refused:principal"},
		{"States.Mode is Dual", states(state.Dual), nil, "Hello octocat", "same"},
		{"States.Mode is Dual, and no state", states(state.Dual), lost, "Hello octocat", "missing"},
		{"States.Mode is StatelessFirst", states(state.StatelessFirst), nil, "Hello octocat", ""},
		{"States.Mode is StatelessFirst, and a bad state", states(state.StatelessFirst), bad, "Hello octocat",
			"refused:malformed invalid"},
		{"States.Mode is StatelessOnly, and a bad state", states(state.StatelessOnly), bad, harness.StateRefused,
			"refused:malformed"},
		{"States.Mode is empty, and no state", states(""), lost, "input_required", ""},
		{"States.Overflow", func(o *askback.Options) {
			o.States = &state.Options{Store: new(state.MemoryStore),
				Overflow: 10}
		}, nil,
			"Hello octocat", "overflowed"},
		{"ReplayGuard", func(o *askback.Options) { o.ReplayGuard = new(state.MemoryGuard) }, twice, harness.StateRefused,
			"refused:replayed"},
		{"no ReplayGuard", func(*askback.Options) {}, twice, "Hello octocat", ""},
		{"BareFirstRound", func(o *askback.Options) { o.BareFirstRound = true }, lost, "Hello octocat", ""},
		{"Limits.RoundTTL", func(o *askback.Options) { o.Limits.RoundTTL = time.Minute },
			func(*testing.T, *harness.Request,
				http.Handler) {
				time.Sleep(time.Minute)
			}, harness.StateRefused, "refused:expired"},
		{"Limits.CallTTL", func(o *askback.Options) { o.Limits.CallTTL = time.Minute },
			func(*testing.T, *harness.Request,
				http.Handler) {
				time.Sleep(time.Minute)
			}, harness.StateRefused, "refused:expired"},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				logger, logged := harness.Logs()
				opts := askback.Options{Principal: harness.UserHeader, Audience: "service", Logger: logger,
					Audit: func(_ context.Context, e askback.AuditEvent) {
						switch e.Kind {
						case askback.AuditRefused:
							seen = append(seen, "refused:"+e.Reason)
						case askback.AuditState:
							seen = append(seen, e.Reason)
						}
					}}
				c.options(&opts)
				h := harness.NewServer(t, &opts, harness.AddGreet).HTTPHandler(nil)
				r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`, Header: alice}
				r.State = r.Send(t, h).Asked(t, "login")
				r.Responses = harness.Octocat
				if c.change != nil {
					c.change(t, &r, h)
				}
				res := r.Send(t, h)
				if !strings.Contains(res.Raw, c.want) {
					t.Errorf("want %s, got %s", c.want, res.Raw)
				}
				if res.Error != nil && (res.Status != 400 || res.Error.Code != -32602) {
					t.Errorf("status %d: %s", res.Status, res.Raw)
				}
				if got := strings.Join(seen, " "); got != c.seen {
					t.Errorf("observed %q, want %q", got, c.seen)
				}
				if _, reason, ok := strings.Cut(c.seen, "refused:"); ok &&
					!strings.Contains(logged.String(), "reason="+strings.Fields(reason)[0]) {
					t.Errorf("the log says %s", logged)
				}
			})
		})
	}
	// The options below decide the first response.
	for says, c := range map[string]struct {
		options askback.Options
		want    string
	}{
		"BareFirstRound": {askback.Options{BareFirstRound: true}, `"input_required"`},
		"Limits.StateBytes": {askback.Options{Limits: askback.Limits{StateBytes: 10}},
			"the limit of 10 bytes of requestState is reached"},
		"Limits.StoredBytes": {askback.Options{Limits: askback.Limits{StoredBytes: 10},
			States: &state.Options{Store: new(state.MemoryStore), Overflow: 10}},
			"the limit of 10 bytes of a stored state is reached"},
	} {
		res := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t,
			harness.NewServer(t, &c.options, harness.AddGreet).HTTPHandler(nil))
		if !strings.Contains(res.Raw, c.want) || strings.Contains(res.Raw, "requestState\":") || res.Status != 200 {
			t.Errorf("%s: status %d, %s", says, res.Status, res.Raw)
		}
	}
	// Audience distinguishes two services with the same keys.
	ring := harness.NewRing(t)
	service := func(name string) http.Handler {
		return harness.NewServer(t, &askback.Options{Keys: ring, Audience: name}, harness.AddGreet).HTTPHandler(nil)
	}
	r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`, Responses: harness.Octocat}
	r.State = harness.Request{Target: r.Target, Arguments: r.Arguments}.Send(t, service("one")).Asked(t, "login")
	r.Send(t, service("two")).Refused(t, 400, -32602)
	if got := r.Send(t, service("one")).Text(t); !strings.Contains(got, "octocat") {
		t.Errorf("got %q", got)
	}
}

// A state that the questions of a session carry is stored, and deleted when the call ends. The call
// continues without a state that is too large to carry.
func TestSessionsWithStates(t *testing.T) {
	for size, stored := range map[int]bool{10: true, 2_000_000: false} {
		store := new(spyStore)
		web := httptest.NewServer(harness.NewServer(t,
			&askback.Options{States: &state.Options{Store: store,
				Mode: state.Dual}}, blob).HTTPHandler(&askback.HTTPOptions{Drafts: true}))
		defer web.Close()
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				if (store.Len() > 0) != stored {
					t.Errorf("%d states are stored of a call of %d bytes", store.Len(), size)
				}
				return accept(map[string]any{"name": "octocat"}), nil
			},
		})
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL + "?draft=state"},
			&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "blob", Arguments: count{size}})
		if err != nil || res.Content[0].(*mcp.TextContent).Text != fmt.Sprint(size, " for octocat") {
			t.Errorf("got %v, %v", res, err)
		}
		if rows := store.Len(); rows != 0 {
			t.Errorf("%d states are left", rows)
		}
	}
}

// blob records a large result.
func blob(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "blob"}, func(ctx context.Context, call *askback.Call, in count) (string, error) {
		s, err := askback.Do(ctx, call, "make",
			func(context.Context) (string, error) { return strings.Repeat("x", in.N), nil })
		if err != nil {
			return "", err
		}
		l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(s), " for ", l.Name), nil
	})
}

// The law holds for any mixture of phases of the instances, even if some have lost their keys or
// their store for a moment. In the first phase no step of a call runs twice, even in repeated
// requests, because the store has recorded it.
func TestLawWithAStore(t *testing.T) {
	t.Parallel()
	store := new(spyStore)
	ring := harness.NewRing(t)
	var ran map[string]int
	hangUp := func() {}
	handler := func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(call *askback.Call, step rune) {
			ran[call.ID()+string(step)]++
			hangUp()
		}))
	}
	instance := func(mode state.Mode, keys *seal.Ring, overflow int) http.Handler {
		return harness.NewServer(t, &askback.Options{Keys: keys, Principal: harness.UserHeader,
			States: &state.Options{Store: store, Mode: mode, Overflow: overflow}}, handler).HTTPHandler(nil)
	}
	fleets := map[string][]http.Handler{
		"dual":     {instance(state.Dual, ring, 0), instance(state.Dual, harness.NewRing(t), 0)},
		"primary":  {instance(state.StatelessFirst, ring, 0), instance(state.StatelessFirst, harness.NewRing(t), 0)},
		"overflow": {instance(state.StatelessOnly, ring, 1), instance(state.StatelessOnly, ring, 400)},
		"roll out": {instance(state.Dual, ring, 0), instance(state.StatelessFirst, ring, 1),
			harness.NewServer(t, &askback.Options{Keys: ring, Principal: harness.UserHeader,
				States: &state.Options{Store: store}}, handler).HTTPHandler(nil)},
		"dual only": {instance(state.Dual, ring, 300), instance(state.Dual, ring, 0)},
	}
	shared := new(state.MemoryStore)
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		fleets["memory"] = append(fleets["memory"], harness.NewServer(t, &askback.Options{
			Keys: ring, Principal: harness.UserHeader, States: &state.Options{Store: shared, Mode: mode, Overflow: 300},
		}, handler).HTTPHandler(nil))
	}
	const watchedOnly = "dual only, with middleware on the SDK's server"
	watched := new(state.MemoryStore)
	for range 2 {
		m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
		m.AddReceivingMiddleware(harness.PassOn)
		srv, err := askback.New(m, &askback.Options{
			Keys: ring, Principal: harness.UserHeader, States: &state.Options{Store: watched,
				Mode: state.Dual}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		handler(srv)
		fleets[watchedOnly] = append(fleets[watchedOnly], srv.HTTPHandler(nil))
	}
	user := 0
	law := func(rt *rapid.T, name string, instances []http.Handler) {
		plan := plans().Draw(rt, "plan")
		failing := name == "dual" || name == "primary"
		ran = map[string]int{}
		requests := 0
		send := func(r harness.Request) *harness.Response {
			requests++
			return r.Send(t, instances[rapid.IntRange(0, len(instances)-1).Draw(rt, "instance")])
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
		keys := func(res *harness.Response) map[string]bool {
			m := map[string]bool{}
			for key := range res.Result.Requests {
				m[key] = true
			}
			return m
		}

		user++ // a user without earlier calls
		begin := harness.Request{Target: "plan", Arguments: `{"plan":` + harness.Quote(plan) + `}`,
			Header: http.Header{"X-User": {fmt.Sprint(user)}}}
		want, _ := atOnce(plan)
		r := begin
		var kept []*harness.Response
		for n := 0; ; n++ {
			if n > 200 {
				rt.Fatalf("plan %q in %s does not end", plan, name)
			}
			lossy := n < 10
			store.failing(nil)
			if lossy && failing && rapid.IntRange(0, 5).Draw(rt, "store") == 0 {
				store.failing(errors.New("no connection"))
			}
			gone := false
			r.Context = func(r *http.Request) *http.Request {
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
				continue // the client disconnected during a step
			}
			if res.Error != nil && res.Error.Code == -32602 {
				continue // the instance has no key and found no state: the client tries again
			}
			if res.Result == nil {
				rt.Fatalf("round %d of %q: %s", n, plan, res.Raw)
			}
			if res.Result.Type == "complete" {
				if got := res.Text(t); got != want {
					rt.Fatalf("plan %q in %s: got %q, want %q", plan, name, got, want)
				}
				break
			}
			if lossy && rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
				if len(kept) == 0 || rapid.Bool().Draw(rt, "repeat") {
					continue // the response was lost: repeat the request
				}
				res = kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "back to")]
			}
			kept = append(kept, res)
			r.State = res.Result.State
			r.Responses = all(keys(res), lossy)
			if lossy && rapid.IntRange(0, 7).Draw(rt, "state lost") == 0 {
				r.State = ""
			}
		}
		// Elsewhere a step may run again in each request whose state, or what is stored of it, has lost it.
		most := requests
		if name == "dual only" || name == watchedOnly {
			most = 1
		}
		for step, times := range ran {
			if times > most {
				rt.Fatalf("plan %q in %s: the step %q ran %d times in %d requests", plan, name, step, times, requests)
			}
		}
	}
	for name, instances := range fleets {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { law(rt, name, instances) })
		})
	}
}

// Concurrent retries of one round all lead to the same result.
func TestRetriesAtOnce(t *testing.T) {
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		h := harness.NewServer(t, &askback.Options{Principal: harness.UserHeader,
			States: &state.Options{Store: new(state.MemoryStore), Mode: mode, Overflow: 300}},
			func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(*askback.Call, rune) {}))
			}).HTTPHandler(nil)
		for range 20 {
			r := harness.Request{Target: "plan", Arguments: `{"plan":"a1b2c"}`, Header: alice}
			r.State = r.Send(t, h).Asked(t, "a")
			r.Responses = `{"a":{"action":"accept","content":{"n":1}}}`
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					r := r
					res := r.Send(t, h)
					for res.Result != nil && res.Result.Type != "complete" {
						var answers []string
						for key := range res.Result.Requests {
							answers = append(answers, fmt.Sprintf(`%q:{"action":"accept","content":{"n":1}}`, key))
						}
						r.State, r.Responses = res.Result.State, "{"+strings.Join(answers, ",")+"}"
						res = r.Send(t, h)
					}
					if res.Result == nil || res.Result.Content[0].Text != "went a1 #49 b1 #50 c1 " {
						t.Errorf("%s: got %s", mode, res.Raw)
					}
				})
			}
			all.Wait()
		}
	}
}

// Invalid options are an error of New.
func TestStatesAreChecked(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	if _, err := askback.New(m, &askback.Options{States: &state.Options{}}); err == nil ||
		!strings.Contains(err.Error(), "needs a Store") {
		t.Errorf("the error is %v", err)
	}
	for _, named := range []bool{false, true} {
		logger, logged := harness.Logs()
		opts := askback.Options{Logger: logger, States: &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}}
		if named {
			opts.Principal = harness.UserHeader
		}
		harness.NewServer(t, &opts)
		if strings.Contains(logged.String(), "anonymous") == named {
			t.Errorf("with Principal %v the log says %q", named, logged)
		}
	}
}
