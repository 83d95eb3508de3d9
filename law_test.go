package askback_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// In every home of the journal the result is that of running the handler once with all answers
// available. The homes are a sealed state that the client carries from instance to instance, with
// lost responses and repeated requests, the same over the SDK's transports, and the memory of a
// legacy session.
func TestLawInEveryHome(t *testing.T) {
	t.Parallel()
	ring := harness.NewRing(t)
	var ran atomic.Int64
	instances := []http.Handler{
		harness.NewServer(t, &askback.Options{Keys: ring}, lawful(&ran)).HTTPHandler(nil),
		harness.NewServer(t, &askback.Options{Keys: ring}, lawful(&ran)).HTTPHandler(nil),
	}
	caller := planClient(&client.Options{})
	sessions := map[string]*client.Session{}
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-03-26"} {
		here, there := mcp.NewInMemoryTransports()
		if _, err := harness.NewServer(t, nil, lawful(&ran)).Connect(t.Context(), there, nil); err != nil {
			t.Fatal(err)
		}
		session, err := caller.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		sessions[version] = session
	}

	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		arguments := `{"plan":` + harness.Quote(plan) + `}`
		want, steps := atOnce(plan)

		// All answers at once.
		r := harness.Request{Target: "plan", Arguments: arguments}
		ran.Store(0)
		res := r.Send(t, instances[0])
		for res.Result.Type != "complete" {
			r.State, r.Responses = res.Result.State, planAnswers(res.Result.Requests, giveAll)
			res = r.Send(t, instances[0])
		}
		if got := res.Text(t); got != want || ran.Load() != int64(steps) {
			rt.Fatalf("plan %q: got %q after %d steps, want %q after %d", plan, got, ran.Load(), want, steps)
		}

		// From instance to instance, with lost responses.
		r = harness.Request{Target: "plan", Arguments: arguments}
		kept := []*harness.Response{}
		for n := 0; ; n++ {
			res := r.Send(t, instances[rapid.IntRange(0, 1).Draw(rt, "instance")])
			if res.Result == nil {
				rt.Fatalf("round %d of %q: %s", n, plan, res.Raw)
			}
			if res.Result.Type == "complete" {
				if got := res.Text(t); got != want {
					rt.Fatalf("plan %q: got %q, want %q", plan, got, want)
				}
				break
			}
			lossy := n < 10
			if lossy && rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
				if len(kept) == 0 || rapid.Bool().Draw(rt, "repeat") {
					continue // the response was lost: repeat the request
				}
				res = kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "back to")]
			}
			kept = append(kept, res)
			r.State = res.Result.State
			r.Responses = planAnswers(res.Result.Requests, func() planAnswer {
				if lossy && rapid.IntRange(0, 3).Draw(rt, "answers") == 0 {
					return leave
				}
				return give
			})
		}

		for version, session := range sessions {
			ran.Store(0)
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "plan", Arguments: planned{plan}})
			if err != nil {
				rt.Fatal(err)
			}
			if got := res.Content[0].(*mcp.TextContent).Text; got != want || ran.Load() != int64(steps) {
				rt.Fatalf("plan %q in a session of %s: got %q after %d steps, want %q after %d", plan, version, got, ran.Load(),
					want, steps)
			}
		}
	})
}

// The law of TestLawInEveryHome holds for a journal in a store, from the first round or from a
// Detach in the middle, on two instances that take tasks from each other, with partial, wrong and
// repeated answers. No step is recorded twice.
func TestLawInTheStore(t *testing.T) {
	t.Parallel()
	var often atomic.Int32
	var ran sync.Map // number of runs by call ID and step
	handler := executes(func(call *askback.Call, name rune) {
		n, _ := ran.LoadOrStore(call.ID()+string(name), new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
	})
	register := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "plan"}, nil, handler)
		askback.AddTaskTool(s, &mcp.Tool{Name: "detaching"}, &askback.TaskSupport{AtDetach: true}, handler)
	}
	store := new(task.MemoryStore)
	ring := harness.NewRing(t)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var instances []*harness.TaskServer
	var stores []*stealing
	told := new(news)
	for range 2 {
		stores = append(stores, &stealing{Store: store, often: &often, news: told})
		srv := harness.NewServer(t, &askback.Options{Keys: ring,
			Tasks: &askback.Tasks{Store: stores[len(stores)-1],
				Settings: task.Settings{PerPrincipal: task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40}}}}, register)
		all.Go(func() { _ = srv.RunTasks(ctx) })
		instances = append(instances, harness.ServeTasks(t, srv))
	}
	defer all.Wait()
	defer cancel()

	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		arguments := `"arguments":{"plan":` + harness.Quote(plan) + `}`
		want, _ := atOnce(plan)
		if got := planResult(t, instances[0], arguments); got != want {
			rt.Fatalf("plan %q in rounds: got %q, want %q", plan, got, want)
		}

		// The same plan, as a task.
		name := "plan"
		if rapid.Bool().Draw(rt, "detach") {
			name = "detaching"
			detaching := plan
			for range rapid.IntRange(1, 3).Draw(rt, "Detaches") {
				at := rapid.IntRange(0, len(detaching)).Draw(rt, "at")
				detaching = detaching[:at] + "!" + detaching[at:]
			}
			arguments = `"arguments":{"plan":` + harness.Quote(detaching) + `}`
		}
		ran.Clear()
		often.Store(int32(rapid.SampledFrom([]int{0, 30}).Draw(rt, "stolen")))
		some := func() *harness.TaskServer { return instances[rapid.IntRange(0, 1).Draw(rt, "instance")] }
		params := `"name":"` + name + `",` + arguments
		res := some().Result(harness.WithExtension, "tools/call", name, params)
		for res["resultType"] == "input_required" {
			more := ""
			if requests, ok := res["inputRequests"].(map[string]any); ok {
				more = `,"inputResponses":` + planAnswers(requests, giveAll)
			}
			res = some().Result(harness.WithExtension, "tools/call", name,
				params+more+`,"requestState":"`+res["requestState"].(string)+`"`)
		}
		if res["resultType"] == "complete" { // it ended before the Detach
			if got := res["content"].([]any)[0].(map[string]any)["text"]; got != want {
				rt.Fatalf("plan %q: got %q, want %q", plan, got, want)
			}
			return
		}
		id := res["taskId"].(string)
		used := map[string]bool{}
		for wrong := 0; ; {
			now := some().Result(harness.WithExtension, "tasks/get", id, `"taskId":"`+id+`"`)
			switch now["status"] {
			case "working":
				continue
			case "input_required":
				requests := now["inputRequests"].(map[string]any)
				answers := planAnswers(requests, func() planAnswer {
					if wrong++; wrong > 8 {
						return give
					}
					return rapid.SampledFrom([]planAnswer{leave, give, giveWrong}).Draw(rt, "answer")
				})
				for key := range requests {
					if used[key] {
						rt.Fatalf("plan %q: the key %q is used again", plan, key)
					}
				}
				some().Result(harness.WithExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":`+answers)
				for key := range requests {
					used[key] = strings.Contains(answers, harness.Quote(key)+":")
				}
				continue
			case "completed":
				if got := harness.At(now, "result", "content").([]any)[0].(map[string]any)["text"]; got != want {
					rt.Fatalf("plan %q as a task: got %q, want %q", plan, got, want)
				}
			default:
				rt.Fatalf("plan %q: %v", plan, now)
			}
			break
		}
		ran.Range(func(key, n any) bool {
			if n := n.(*atomic.Int32).Load(); often.Load() == 0 && n != 1 {
				rt.Fatalf("plan %q: step %v ran %d times", plan, key, n)
			}
			return true
		})
		steps := map[string]int{}
		_, entries, err := stores[0].Journal(t.Context(), id, -1)
		if err != nil {
			rt.Fatal(err)
		}
		for _, e := range entries {
			if e[0] == 's' {
				if steps[string(e)]++; steps[string(e)] > 1 {
					rt.Fatalf("plan %q: a step is recorded twice", plan)
				}
			}
		}
	})
	if stores[0].stolen.Load()+stores[1].stolen.Load() == 0 {
		t.Error("no lease was ever lost")
	}
}

// The law of TestLawInEveryHome holds for every combination: every kind and style of handler, every
// set of options, and every form of the protocol over HTTP, with requests that reach one instance
// or another, sometimes while its caller's share of calls is used up. Each step runs once or, if requests
// are repeated, once at most in each of them.
func TestLawOfAllTogether(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ran := 0
	count := func(rune) { mu.Lock(); defer mu.Unlock(); ran++ }
	tasks := new(task.MemoryStore)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()

	type options struct {
		mode     state.Mode // "none" means no Options.States
		overflow int
		guard    bool
		bare     bool
		crowded  bool
	}
	ring := harness.NewRing(t)
	pairs := map[options][]http.Handler{}
	instances := func(o options) []http.Handler {
		if pairs[o] != nil {
			return pairs[o]
		}
		opts := askback.Options{Keys: ring, Principal: harness.UserHeader, BareFirstRound: o.bare,
			Logger: slog.New(slog.DiscardHandler),
			Tasks: &askback.Tasks{Store: tasks,
				Settings: task.Settings{PerPrincipal: task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40}}}}
		if o.crowded {
			opts.Limits.Calls = askback.Share{PerPrincipal: 1, Anonymous: 1}
		}
		if o.guard {
			opts.ReplayGuard = new(state.MemoryGuard)
		}
		if o.mode != "none" {
			opts.States = &state.Options{Store: new(state.MemoryStore), Mode: o.mode, Overflow: o.overflow}
		}
		for range 2 {
			m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
			mcp.AddTool(m, &mcp.Tool{Name: "sdk"},
				func(_ context.Context, req *mcp.CallToolRequest, in planned) (*mcp.CallToolResult, any, error) {
					res, err := followManually(in.Plan, req.Params)
					return res, nil, err
				})
			srv, err := askback.New(m, &opts)
			if err != nil {
				t.Fatal(err)
			}
			addFollowers(srv, count)
			addOccupant(srv)
			working.Go(func() { _ = srv.RunTasks(ctx) })
			pairs[o] = append(pairs[o], srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
		}
		return pairs[o]
	}

	var pair []http.Handler
	var user string
	var random *rand.Rand
	var crowded bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := pair[random.IntN(2)]
		if r.URL.Query().Get("draft") == "state" { // a session stays on its instance
			h = pair[0]
		}
		r.Header.Set("X-User", user)
		occupied := crowded && random.IntN(4) == 0
		mu.Unlock()
		if occupied {
			defer occupy(t, h, r.Header.Get("X-User"))()
		}
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	caller := planClient(&client.Options{Drafts: true})

	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		o := options{
			mode: rapid.SampledFrom([]state.Mode{"none", state.Dual, state.StatelessFirst, state.StatelessOnly}).Draw(rt,
				"mode"),
			overflow: rapid.SampledFrom([]int{0, 1, 300}).Draw(rt, "overflow"),
			guard:    rapid.Bool().Draw(rt, "guard"),
			bare:     rapid.Bool().Draw(rt, "bare"),
			crowded:  rapid.Bool().Draw(rt, "crowded"),
		}
		o.bare = o.bare && !o.guard // New refuses both
		name := rapid.SampledFrom([]string{"tool", "task", "detaching", "inline", "manual", "sdk", "prompt",
			"resource"}).Draw(rt, "handler")
		if at := rapid.IntRange(0, len(plan)).Draw(rt, "detach at"); name == "detaching" {
			plan = plan[:at] + "!" + plan[at:]
		}
		form := rapid.SampledFrom([]string{"", "session", "mrtr-1", "mrtr-2", "state-1", "state-2"}).Draw(rt, "form")
		who := rapid.SampledFrom([]string{"", "alice"}).Draw(rt, "user")
		seed := rapid.Uint64().Draw(rt, "seed")
		repeats := !o.guard && rapid.Bool().Draw(rt, "repeats")
		mu.Lock()
		pair, user, ran, random, crowded = instances(o), who, 0, rand.New(rand.NewPCG(seed, 0)), o.crowded
		mu.Unlock()

		want, steps := atOnce(plan)
		if name == "manual" || name == "sdk" {
			steps = 0
		}

		var got string
		var err error
		requests := 1
		switch form {
		case "", "session":
			url, version := web.URL, "2026-07-28"
			if form == "session" {
				url, version = web.URL+"?draft=state", "2025-11-25"
			}
			got, err = followAsClient(t.Context(), caller, url, version, name, plan)
		default:
			send := func(body string) map[string]any {
				mu.Lock()
				again := repeats && random.IntN(3) == 0
				mu.Unlock()
				if requests++; again { // the response is lost
					requests++
					harness.Post(t, web.URL+"?draft="+form, body)
				}
				_, res := harness.Post(t, web.URL+"?draft="+form, body)
				return res
			}
			got = followAsDraft(t, send, name, plan)
		}
		mu.Lock()
		ran := ran
		mu.Unlock()
		most := steps
		if repeats { // a request runs what its state has not recorded
			most = requests * steps
		}
		if err != nil || got != want || ran < steps || ran > most {
			rt.Fatalf("plan %q of a %s in the form %q with %+v: got %q after %d steps (%v), want %q after %d", plan, name, form,
				o, got, ran, err, want, steps)
		}
	})
}

// stealing is a store in which another worker sometimes takes over a task just before a step is
// recorded, as if the lease of the first one had ended.
type stealing struct {
	harness.Store
	often  *atomic.Int32 // in percent
	news   *news
	stolen atomic.Int32
}

func (s *stealing) Watch(ctx context.Context, ready func(), changed func(id string, due bool)) error {
	s.news.mu.Lock()
	s.news.changed = append(s.news.changed, changed)
	s.news.mu.Unlock()
	ready()
	<-ctx.Done()
	return nil
}

func (s *stealing) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if rand.Int32N(100) < s.often.Load() {
		if t, err := s.Get(ctx, id); err == nil && t.Claim == claim && !t.Stopped {
			if s.Update(ctx, t, task.Update{}) == nil {
				s.news.mu.Lock()
				for _, changed := range s.news.changed {
					changed(id, true)
				}
				s.news.mu.Unlock()
				for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if now, err := s.Get(ctx, id); err != nil || now.Claim != claim {
						s.stolen.Add(1)
						break
					}
				}
			}
		}
	}
	return s.Store.Append(ctx, id, claim, there, entry)
}

// news tells the instances about stolen tasks.
type news struct {
	mu      sync.Mutex
	changed []func(id string, due bool)
}
