package law

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Summary counts what runs of [People] have tried: calls, votes that were taken, questions that were decided, questions
// that nobody answered in time, and faults.
type Summary struct{ Calls, Votes, Decided, Unanswered, Lost int }

// Add adds what another run has tried.
func (s *Summary) Add(other Summary) {
	s.Calls += other.Calls
	s.Votes += other.Votes
	s.Decided += other.Decided
	s.Unanswered += other.Unanswered
	s.Lost += other.Lost
}

// Check fails the test if runs with these options have not tried the law.
func (s *Summary) Check(t testing.TB, o Options) {
	t.Helper()
	faults := len(o.Chances) > 0 || o.Thefts > 0
	if s.Votes == 0 || s.Unanswered == 0 || s.Decided <= s.Unanswered || faults && s.Lost == 0 {
		t.Errorf("the law was not tried: %+v", *s)
	}
}

// People lets programs run that ask their client and other people, on three servers of one store: people vote,
// decline, or let a deadline pass, and what servers, hosts, people and receivers of notices do is lost or late, or the
// last thing that they do. It fails the test unless each call ends as the interpreter says, with each decision seen
// once and the same by every replay.
func People(t testing.TB, o Options) Summary {
	t.Helper()
	summary, bad, events := Play(t, o)
	for _, b := range bad {
		t.Error(b)
	}
	if len(bad) > 0 {
		for _, e := range events {
			_ = e
		}
	}
	return summary
}

// Play is [People], and returns what was wrong, and the fates that came.
func Play(t testing.TB, o Options) (summary Summary, bad []string, events []sim.Event) {
	l := &law{
		Options: o, t: t, sim: sim.New(o.Seed, o.Unit, o.Only), steps: make(map[int]*program.Runs),
		outcomes: make(map[string][]string), given: make(map[string][]string), cast: make(map[string][]vote),
		told: make(map[string][]task.NoticeKind),
	}
	r := &run{law: l, stores: new(stores), ring: harness.NewRing(t), live: make(map[int]*server)}
	if o.Virtual {
		l.sim.Run(r.play)
	} else {
		r.play()
	}
	r.summary.Calls, r.summary.Lost = o.Calls, l.lost+len(l.sim.Events())
	return r.summary, l.bad, l.sim.Events()
}

func (r *run) play() {
	ctx, stop := context.WithCancel(context.Background())
	var others, callers sync.WaitGroup
	for i := range 3 {
		others.Go(func() { r.work(ctx, i) })
	}
	for i := range 5 {
		others.Go(func() { r.vote(ctx, i) })
	}
	r.receiver = r.sim.Part("receiver", sim.Chances{sim.LostBefore: 0.1, sim.LostAfter: 0.1, sim.Delayed: 0.1})
	for i := range r.Calls {
		callers.Go(func() { r.follow(ctx, i) })
	}
	callers.Wait()
	if r.Virtual {
		r.checkNotices(ctx)
	}
	stop()
	others.Wait()
}

type run struct {
	*law
	stores   *stores
	ring     *seal.Ring
	receiver *sim.Part
	summary  Summary
	live     map[int]*server // by place
}

// server is one that lives.
type server struct {
	part    *sim.Part
	handler http.Handler
}

func (r *run) options(part *sim.Part) *askback.Options {
	plenty := task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40, Notices: 1 << 20}
	opts := &askback.Options{
		Keys:      r.ring,
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Desk:      &askback.DeskOptions{Wait: 24 * time.Hour},
		Tasks: &askback.Tasks{Store: &seam{r.Store, r.stores, r.law, part}, Settings: task.Settings{
			Lease: 10 * r.Unit, StoreTimeout: 10 * r.Unit, Attempts: 10_000, PerPrincipal: plenty, Anonymous: plenty,
		}},
	}
	if r.Virtual {
		opts.Desk.Notify = func(ctx context.Context, n desk.Notice) error {
			return r.receiver.Do(ctx, string(n.Kind), func(context.Context) error { return r.notified(part, n) })
		}
	}
	return opts
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
		srv := harness.NewServer(r.t, r.options(part), register(r.law, part, release))
		living, end := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			if err := srv.RunTasks(living); err != nil {
				r.violate("running tasks: %v", err)
			}
		})
		r.mu.Lock()
		r.live[place] = &server{part, srv.HTTPHandler(nil)}
		r.mu.Unlock()
		select {
		case <-part.Dead():
			r.mu.Lock()
			delete(r.live, place)
			r.mu.Unlock()
			operator.Pause(ctx, 1)
		case <-ctx.Done():
		}
		end()
		running.Wait()
	}
}

// vote lets a person answer what waits. Alice, whose calls they are, is one of them.
func (r *run) vote(ctx context.Context, who int) {
	person := desk.Person{Name: fmt.Sprintf("p%d", who), Groups: []string{"g", "h"}}
	if who == 4 {
		person.Name = "alice"
	}
	part := r.sim.Part(person.Name, sim.Chances{sim.LostBefore: 0.05, sim.LostAfter: 0.05, sim.Delayed: 0.05})
	d, err := desk.Open(&seam{r.Store, r.stores, r.law, part}, nil)
	if err != nil {
		r.violate("opening a desk: %v", err)
		return
	}
	busy := []float64{0.2, 0.5, 1, 2}[r.Seed%4]
	for part.Pause(ctx, busy) {
		var waiting []*desk.Question
		for q, err := range d.Waiting(ctx, desk.Waiting{}) {
			if err == nil {
				waiting = append(waiting, q)
			}
		}
		if len(waiting) > 0 {
			r.answer(ctx, d, part, person, waiting[part.IntN(len(waiting))])
		}
	}
}

func (r *run) answer(ctx context.Context, d *desk.Desk, part *sim.Part, person desk.Person, q *desk.Question) {
	a := desk.Answer{By: person, Action: "accept", Reason: "why not"}
	switch n := part.IntN(20); {
	case n == 0:
		a.Action = "decline"
	case n == 1:
		a.Action = "cancel"
	case asks[q.AuthorKey].form:
		a.Content = fmt.Appendf(nil, `{"n":%d}`, max(0, n-16))
	}
	at := time.Now()
	_, err := d.Answer(ctx, q.Name, q.Key, a)
	switch {
	case err == nil && person.Name == q.Principal && !slices.Contains(q.For, "user:"+person.Name):
		r.violate("%q has answered their own call: %q", person.Name, q.Key)
	case err == nil:
		r.mu.Lock()
		of := q.Name + " " + q.Key
		r.cast[of] = append(r.cast[of], vote{person.Name, a.Action, string(a.Content), at})
		r.summary.Votes++
		r.mu.Unlock()
	}
}
