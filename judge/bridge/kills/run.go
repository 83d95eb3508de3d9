package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
)

// run makes all calls while bridges are killed, and checks what became of each.
func run(ctx context.Context, o options, dir string) (*findings, error) {
	behind, where, err := startBehind(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	end := sync.OnceFunc(behind.Close)
	defer end()
	bridge, err := rig.NewBridge(o.program, dir, o.store, where)
	if err != nil {
		return nil, err
	}
	bridge.Flags = []string{"--wait", "300ms", "--lease", "2s"}
	store, err := rig.OpenStore(ctx, bridge.Store)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	f := &fleet{bridge: bridge, rand: rand.New(rand.NewPCG(o.seed, 1)), every: o.every}
	if err := f.start(o.bridges); err != nil {
		return nil, err
	}
	defer f.end()

	working, stop := context.WithCancelCause(ctx)
	var around sync.WaitGroup
	defer around.Wait()
	defer stop(nil)
	p := &people{names: make(map[string]string)}
	around.Go(func() { stop(p.answer(working, store)) })
	killing, spare := context.WithCancel(working)
	defer spare()
	killed := make(chan struct{})
	around.Go(func() {
		defer close(killed)
		kill := func() error { return f.kill(killing) }
		if s, ok := behind.(*servers); ok {
			kill = func() error { return s.kill(killing, f.rand, &f.kills) }
		}
		if err := kill(); err != nil {
			stop(err)
		}
	})
	calls := newCalls(o)
	found := &findings{o: o, counts: make(map[string]int)}
	began := time.Now()
	f.makeAll(working, calls, o)
	spare()
	<-killed
	found.kills, found.took = int(f.kills.Load()), time.Since(began)
	p.fetchLost(working, calls, &host{fleet: f})
	if working.Err() != nil {
		return nil, fmt.Errorf("after %v: %w; the log of the bridges ends with\n%s", found.took, context.Cause(working),
			process.Tail(bridge.Log()))
	}
	f.end()
	end()
	found.judge(calls, behind)
	return found, nil
}

// ledger knows what the servers behind the bridge did.
type ledger interface {
	counted(id, what string) int
	Close()
}

// startBehind starts the servers behind the bridge, and returns how the bridge's command line names them.
func startBehind(ctx context.Context, o options, dir string) (ledger, string, error) {
	if o.servers {
		return startServers(ctx, dir, o.every)
	}
	c, err := startCounter()
	if err != nil {
		return nil, "", err
	}
	return c, c.URL, nil
}

// people answer every question, and decline to repeat what may have run.
type people struct {
	mu    sync.Mutex
	names map[string]string // of tasks, by the IDs of their calls
}

func (p *people) answer(ctx context.Context, store task.Store) error {
	person := &rig.Person{
		Declines: func(q *desk.Question) bool { return strings.Contains(q.Message, unknown) },
		Answered: func(q *desk.Question) {
			if id, _, ours := strings.Cut(q.Message, ":"); ours {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.names[id] = q.Name
			}
		},
	}
	return person.Answer(ctx, store)
}

// fetchLost fetches the outcomes of calls that their hosts have lost, and that asked.
func (p *people) fetchLost(ctx context.Context, calls []*call, h *host) {
	for _, c := range calls {
		for _, a := range c.attempts {
			p.mu.Lock()
			name := p.names[a.id]
			p.mu.Unlock()
			if a.end == lost && name != "" {
				h.fetch(ctx, a, name)
			}
		}
	}
}

// newCalls returns a third of each kind, in a random order.
func newCalls(o options) []*call {
	calls := make([]*call, o.calls)
	for i := range calls {
		calls[i] = &call{number: i, tool: []string{idempotent, once, twice}[i%3], asks: i/3%2 == 0}
		if o.servers {
			calls[i].kind = kinds[i/6%len(kinds)]
		}
	}
	rand.New(rand.NewPCG(o.seed, 2)).Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	return calls
}

// fleet are the bridges. From time to time one is killed and started again at once.
type fleet struct {
	bridge *rig.Bridge
	every  time.Duration
	rand   *rand.Rand
	kills  atomic.Int64

	mu      sync.Mutex
	running []instance
}

type instance struct {
	*child.Process
	url string
}

func (f *fleet) start(n int) error {
	for range n {
		p, url, err := f.bridge.Start()
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.running = append(f.running, instance{p, url})
		f.mu.Unlock()
	}
	return nil
}

// kill kills a bridge at a time, until ctx is done.
func (f *fleet) kill(ctx context.Context) error {
	for pause(ctx, time.Duration(f.rand.Int64N(int64(f.every)))) {
		f.mu.Lock()
		i := f.rand.IntN(len(f.running))
		killed := f.running[i]
		f.running = append(f.running[:i:i], f.running[i+1:]...)
		f.mu.Unlock()
		killed.Kill()
		f.kills.Add(1)
		if err := f.start(1); err != nil {
			return err
		}
	}
	return nil
}

// url returns the URL of a bridge that runs, or nothing.
func (f *fleet) url() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.running) == 0 {
		return ""
	}
	return f.running[rand.IntN(len(f.running))].url
}

// runs reports whether the bridge at a URL runs.
func (f *fleet) runs(url string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.running, func(b instance) bool { return b.url == url })
}

func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.running {
		b.Kill()
	}
}

// findings are the counts of a run, and what must not be.
type findings struct {
	o          options
	kills      int
	took       time.Duration
	counts     map[string]int // by the kind of a call and how it ended
	violations []string
}

func (f *findings) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

func (f *findings) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls through %d bridges, %d kills, %v, seed %d\n", f.o.calls, f.o.bridges, f.kills,
		f.took.Round(time.Second), f.o.seed)
	for _, tool := range []string{idempotent, once, twice} {
		fmt.Fprintf(&b, "  %-10s", tool)
		for _, end := range ends {
			fmt.Fprintf(&b, "  %s %d", end, f.counts[tool+" "+end])
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d violations", len(f.violations))
	for _, v := range f.violations {
		b.WriteString("\n  - " + v)
	}
	return b.String()
}

// judge looks at every attempt at every call.
func (f *findings) judge(calls []*call, server ledger) {
	for _, c := range calls {
		for _, a := range c.attempts {
			f.counts[c.tool+" "+a.end]++
			f.judgeAttempt(c, a, server)
		}
		if last := c.attempts[len(c.attempts)-1]; c.tool == idempotent && last.end != done {
			f.violate("call %s is idempotent, and ended as %s: %s", last.id, last.end, last.text)
		}
	}
}

func (f *findings) judgeAttempt(c *call, a *attempt, server ledger) {
	effects := server.counted(a.id, "end")
	middle := server.counted(a.id, "middle")
	switch {
	case c.tool != idempotent && (effects > 1 || middle > 1):
		f.violate("call %s of %s %s took effect %d times, and %d times in the middle", a.id, c.kind, c.tool, effects, middle)
	case a.end == done && effects == 0:
		f.violate("call %s of %s is done, and took no effect", a.id, c.tool)
	case a.end == unsent && (effects > 0 || middle > 0 && a.lastRound() < 3):
		f.violate("call %s of %s %s did not run, and took effect: %s", a.id, c.kind, c.tool, a.text)
	case a.end == other:
		f.violate("call %s of %s %s took effect %d times, and ended with: %s", a.id, c.kind, c.tool, effects, a.text)
	}
}
