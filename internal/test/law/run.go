package law

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Summary counts what runs have tried: calls, votes that were taken, questions that were decided, questions
// that nobody answered in time, calls that were cancelled, and faults, and how long they took.
type Summary struct {
	Calls, Votes, Decided, Unanswered, Cancelled, Lost int
	// Repeated are steps that ran again, and Unknown those that must not.
	Repeated, Unknown int
	// Sessions are calls that sessions have seen to their end. Streamed and Posted are the events that came on streams,
	// and to endpoints.
	Sessions, Streamed, Posted int
	Took                       time.Duration
}

// Add adds what another run has tried.
func (s *Summary) Add(other Summary) {
	sum, more := reflect.ValueOf(s).Elem(), reflect.ValueOf(other)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}

// Check fails the test if runs with these options have not tried the law.
func (s *Summary) Check(t testing.TB, o Options) {
	t.Helper()
	if !s.tried(o) {
		t.Errorf("the law was not tried: %+v", *s)
	}
}

func (s *Summary) tried(o Options) bool {
	faults := len(o.Chances) > 0 || o.Thefts > 0 || o.Locked > 0 || o.Restored > 0
	return s.Votes > 0 && s.Unanswered > 0 && s.Decided > s.Unanswered && (s.Lost > 0 || !faults)
}

// CheckStore tries the law on a store in real time: with two seeds or, where chance would have it that these try too
// little, with some more.
func CheckStore(t *testing.T, store task.Store) {
	var all Summary
	o := Options{Store: store, Calls: 8, Unit: 100 * time.Millisecond, Chances: Faults, Thefts: 0.05, Reworded: true}
	for ; o.Seed < 2 || o.Seed < 6 && !all.tried(o); o.Seed++ {
		one, bad, _ := People(t, o)
		for _, b := range bad {
			t.Error(b)
		}
		t.Logf("%+v", one)
		all.Add(one)
	}
	all.Check(t, o)
}

// People lets programs run that ask their client and other people, on three servers of one store: people vote,
// decline, or let a deadline pass, and what servers, hosts, people and receivers of notices do is lost or late, or the
// last thing that they do. Each call must end as the interpreter says, with each decision seen once and the same by
// every replay. It returns what was wrong, and the fates that came.
func People(t testing.TB, o Options) (summary Summary, bad []string, events []sim.Event) {
	o.Servers = cmp.Or(o.Servers, 3)
	l := &law{
		Options: o, t: t, sim: sim.New(o.Seed, o.Unit, o.Only),
		given: make(map[string][]string), cleaned: make(map[int]int),
		memory: memory{make(map[string][]string), make(map[string][]vote), make(map[string][]vote),
			make(map[string][]task.NoticeKind), make(map[string]*task.Question)},
	}
	r := &run{law: l, began: time.Now(), stores: new(stores)}
	r.ring.Store(harness.NewRing(t))
	if o.Virtual {
		l.sim.Run(r.play)
	} else {
		r.play()
	}
	r.summary.Calls, r.summary.Lost, r.summary.Took = o.Calls, len(l.sim.Events()), time.Since(r.began)
	return r.summary, l.bad, l.sim.Events()
}

func (r *run) play() {
	ctx, stop := context.WithCancel(context.Background())
	var others, callers, polling sync.WaitGroup
	r.receiver = r.sim.Part("receiver", sim.Chances{sim.LostBefore: 0.1, sim.LostAfter: 0.1, sim.Delayed: 0.1})
	if r.Crowded {
		r.crowd(ctx)
	}
	if r.Crowded || r.Dead > 0 {
		r.receiver.Chances = nil
	}
	for i := range r.Servers {
		others.Go(func() { r.work(ctx, i) })
	}
	asked, enough := context.WithCancel(ctx)
	for i := range 5 {
		others.Go(func() { r.vote(asked, i) })
	}
	if r.Locked > 0 {
		others.Go(func() { r.lockRows(ctx) })
	}
	if r.Restored > 0 {
		others.Go(func() { r.restore(ctx) })
	}
	if r.Rotated {
		others.Go(func() { r.rotate(ctx) })
	}
	var followers []follower
	if r.Polled {
		followers = r.newPollers(ctx)
	}
	if r.Posted {
		followers = r.newPostboxes(ctx)
	}
	for _, f := range followers {
		polling.Go(func() { f.run(asked) })
	}
	for i := range r.Calls {
		until := &callers
		if i == 0 && r.Poisoned { // it never ends
			until = &others
		}
		until.Go(func() {
			time.Sleep(time.Duration(i) * r.Over / time.Duration(r.Calls))
			r.follow(ctx, i)
		})
	}
	callers.Wait()
	enough()
	if r.Virtual {
		r.checkNotices(ctx)
	}
	polling.Wait()
	for _, f := range followers {
		f.check(ctx)
	}
	stop()
	others.Wait()
}

// follower is a host that follows events.
type follower interface {
	run(ctx context.Context)
	check(ctx context.Context)
}

type run struct {
	*law
	began    time.Time
	stores   *stores
	ring     atomic.Pointer[seal.Ring] // of servers that are born
	receiver *sim.Part
	summary  Summary
	live     sync.Map    // *server by place
	network  sim.Network // of sessions
	posted   postboxes
}

// server is one that lives.
type server struct {
	part    *sim.Part
	ring    *seal.Ring
	handler http.Handler
	clock   func(context.Context) context.Context // with the server's clock
}

// clock returns what gives a server a clock that is off: half of them by up to a third of what servers may differ in,
// and the others by minutes. A clock that jumps is set every ten units.
func (r *run) clock(part *sim.Part) func(context.Context) context.Context {
	off := func() time.Duration {
		times := 0
		if r.Jumps {
			times = int(time.Since(r.began) / (10 * r.Unit))
		}
		most, setting := r.Clocks, fmt.Sprint(part.Name, times)
		if r.sim.Draw("good clock", setting) < 0.5 {
			most = min(most, seal.MaxClockSkew/3)
		}
		return time.Duration((2*r.sim.Draw("clock", setting) - 1) * float64(most))
	}
	return func(ctx context.Context) context.Context { return clock.WithOff(ctx, off) }
}

func (r *run) options(part *sim.Part, ring *seal.Ring) *askback.Options {
	plenty := task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40, Notices: 1 << 20}
	opts := &askback.Options{
		Keys: ring, Logger: slog.New(slog.DiscardHandler), Principal: harness.UserHeader,
		Desk: &askback.DeskOptions{Wait: 24 * time.Hour, Receipts: signer{part}},
		Tasks: &askback.Tasks{Store: &seam{r.Store, r.stores, r.law, part}, Settings: task.Settings{
			Lease: 10 * r.Unit, StoreTimeout: 10 * r.Unit, Attempts: 10_000, PerPrincipal: plenty, Anonymous: plenty,
			TTL: time.Duration(r.TTL) * r.Unit,
		}},
	}
	if r.Posted { // events are kept as long as tasks, and endpoints are away for long
		opts.Tasks.TTL = 40_000 * r.Unit
	}
	if r.Polled {
		opts.Events = &askback.EventOptions{Groups: groups(part)}
	}
	if r.Posted {
		opts.Events = &askback.EventOptions{Webhooks: &askback.WebhookOptions{UncheckedTransport: posting{r, part}}}
	}
	opts.Limits.RoundTTL = max(time.Hour, 600*r.Unit)
	if r.Dead > 0 { // tasks are deleted before anybody takes their notices
		opts.Limits.RoundTTL = 10 * time.Minute
	}
	if r.Virtual {
		opts.Desk.Notify = func(ctx context.Context, n desk.Notice) error {
			return r.receiver.Do(ctx, string(n.Kind), func(context.Context) error { return r.notified(ctx, part, n) })
		}
	}
	return opts
}

// signer signs receipts as somebody who is out of reach now and then.
type signer struct{ part *sim.Part }

func (s signer) Sign(ctx context.Context, statement []byte) (string, error) {
	err := s.part.Do(ctx, "sign", func(context.Context) error { return nil })
	return string(statement), err
}

// work runs one server after the other at a place: each lives until it is killed.
func (r *run) work(ctx context.Context, place int) {
	operator := r.sim.Part(fmt.Sprint("operator ", place), nil)
	for n := 0; ctx.Err() == nil; n++ {
		part := r.sim.Part(fmt.Sprintf("server %d.%d", place, n), r.Chances)
		release := 1
		if r.Reworded {
			release = 1 + operator.IntN(2)
		}
		ring := harness.NewRing(r.t)
		_ = ring.Replace(r.ring.Load())
		m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
		srv := expect.Must(askback.New(m, r.options(part, ring)))(r.t)
		handler := r.handler(part, release)
		askback.AddTaskTool(srv, &mcp.Tool{Name: "whole"}, nil, handler)
		askback.AddTaskTool(srv, &mcp.Tool{Name: "program"}, &askback.TaskSupport{AtDetach: true}, handler)
		own := r.clock(part)
		living, end := context.WithCancel(own(ctx))
		var running sync.WaitGroup
		running.Go(func() {
			if err := srv.RunTasks(living); err != nil {
				r.violate("running tasks: %v", err)
			}
		})
		s := &server{part, ring, srv.HTTPHandler(nil), own}
		r.live.Store(place, s)
		at := &sim.Listener{Part: part, Handler: s.handler, Life: living}
		r.network.Listen(address(place), at)
		select {
		case <-part.Dead():
			r.live.Delete(place)
			operator.Pause(ctx, 1)
		case <-ctx.Done():
		}
		r.network.HangUp(address(place), at)
		end()
		for session := range m.Sessions() {
			running.Go(func() { _ = session.Close() })
		}
		running.Wait()
	}
}

// address is the host of the servers at a place.
func address(place int) string { return fmt.Sprint("server", place) }
