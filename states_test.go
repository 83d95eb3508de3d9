package askback_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
)

// internal/home tests the outcomes of a state in each phase and with each fault. The tests here need
// a server: options that reach the home, clients that disconnect, tasks, sessions, and the law.

// spyStore is a store whose calls tests count.
type spyStore struct {
	state.MemoryStore
	mu   sync.Mutex
	used int
}

func (s *spyStore) call(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	return ctx.Err()
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
				expect.Contains(t, "the result", res.Raw, c.want)
				if res.Error != nil && (res.Status != 400 || res.Error.Code != -32602) {
					t.Errorf("status %d: %s", res.Status, res.Raw)
				}
				expect.Equal(t, "observed", strings.Join(seen, " "), c.seen)
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
	expect.Contains(t, "the result", r.Send(t, service("one")).Text(t), "octocat")
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
		expect.Check(t, err)
		defer session.Close()
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "blob", Arguments: count{size}})
		if err != nil || res.Content[0].(*mcp.TextContent).Text != fmt.Sprint(size, " for octocat") {
			t.Errorf("got %v, %v", res, err)
		}
		expect.Equal(t, "states are left", store.Len(), 0)
	}
}

type count struct {
	N int `json:"n"`
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

// Concurrent retries of one round all lead to the same result.
func TestRetriesAtOnce(t *testing.T) {
	for _, mode := range []state.Mode{state.Dual, state.StatelessFirst} {
		h := harness.NewServer(t, &askback.Options{Principal: harness.UserHeader,
			States: &state.Options{Store: new(state.MemoryStore), Mode: mode, Overflow: 300}},
			harness.AddTool("counts", func(ctx context.Context, call *askback.Call, _ struct{}) (all string, err error) {
				for _, key := range []string{"a", "b", "c"} {
					answer, err := askback.Elicit[count](call, key, "How many?")
					if err != nil {
						return "", err
					}
					done, err := askback.Do(ctx, call, "after "+key, func(context.Context) (int, error) { return answer.N, nil })
					if err != nil {
						return "", err
					}
					all += fmt.Sprint(key, done, " ")
				}
				return all, nil
			})).HTTPHandler(nil)
		for range 20 {
			r := harness.Request{Target: "counts", Arguments: `{}`, Header: alice}
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
					if res.Result == nil || res.Result.Content[0].Text != "a1 b1 c1 " {
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
