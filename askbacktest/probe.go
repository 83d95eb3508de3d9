package askbacktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
)

// probe follows the handler during one request, and notes its first mistake. It implements call.Probe.
type probe struct {
	// record is written by a request. A replay runs no step: it takes the outcome of each from the record.
	record
	replay bool

	once   *sync.Map    // the outcomes of steps that never run twice, by their names
	waited *atomic.Bool // the handler has waited for something

	decisions map[string]*journal.Entry // of questions that waited for people or for a time, by the keys of their rows
	isTask    bool                      // the call has waited for people, and so become a task

	mu      sync.Mutex
	running []string // the steps that run now
	parked  []parked
	mistake string
}

// record holds the inputs of a handler during a request: the results of steps and the ID of a new
// call.
type record struct {
	callID string
	steps  map[string]outcome // The outcomes, by the names of their steps.
	failed map[string]error   // why questions could not be asked, by their keys
}

// outcome is the outcome of a step.
type outcome struct {
	data []byte
	err  error
}

// note records a mistake, unless there was one before.
func (p *probe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mistake == "" {
		p.mistake = fmt.Sprintf(format, args...)
	}
}

func (p *probe) firstMistake() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mistake
}

func (p *probe) CallID(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.replay {
		p.callID = id
	}
	return p.callID
}

func (p *probe) Handle(ctx context.Context) context.Context {
	p.waited = new(atomic.Bool)
	return waiting{ctx, p.waited}
}

// waiting is a handler's context, which notes that it is asked for its Done, as everything does that waits for another
// process or goroutine.
type waiting struct {
	context.Context
	asked *atomic.Bool
}

func (c waiting) Done() <-chan struct{} {
	c.asked.Store(true)
	return c.Context.Done()
}

func (p *probe) Step(ctx context.Context, name string, once bool, step call.Step) ([]byte, error) {
	if p.replay {
		if out, ok := p.steps[name]; ok {
			return out.data, out.err
		}
		return nil, journal.ErrInputRequired // A step does not run while a question is open.
	}
	var out outcome
	if once { // a request that is sent again finds it recorded, before and after
		if before, begun := p.once.LoadOrStore(name, &out); begun {
			return before.(*outcome).data, before.(*outcome).err
		}
	}
	p.mu.Lock()
	p.running = append(p.running, name)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running = slices.DeleteFunc(p.running, func(s string) bool { return s == name })
		p.steps[name] = out
	}()
	out.data, out.err = step(ctx)
	return out.data, out.err
}

func (p *probe) Encoded(name string, result any, data []byte) {
	if lost := loss(result, data); lost != "" {
		p.note("step %q: its result is recorded as JSON, which loses %s", name, lost)
	}
}

func (p *probe) Asked(key string, err error) {
	if !errors.Is(err, journal.ErrInStep) {
		if err != nil && !errors.Is(err, journal.ErrInputRequired) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.failed == nil {
				p.failed = make(map[string]error)
			}
			p.failed[key] = err
		}
		return
	}
	p.mu.Lock()
	steps := strings.Join(p.running, " or ")
	p.mu.Unlock()
	p.note("question %q is asked inside the step %q, which does not run again once it is recorded: "+
		"ask before the step, and use the answer in it", key, steps)
}

func (p *probe) Mistaken(err error) { p.note("%v", err) }

func (p *probe) Panicked(v any, stack []byte) {
	p.note("the handler panicked: %v\n%s", v, innermost(stack))
}

// innermost returns the lines of a stack that say where the panic was.
func innermost(stack []byte) string {
	const most = 8 // lines; a function has two
	lines := strings.Split(string(stack), "\n")
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "panic(") }); i >= 0 {
		lines = lines[i+2:]
	}
	return strings.Join(lines[:min(most, len(lines))], "\n")
}

// effect notes an effect outside of the steps.
func (p *probe) effect(name string) {
	p.mu.Lock()
	inStep := len(p.running) > 0
	p.mu.Unlock()
	if !inStep {
		p.note("effect %q happens outside of a step, so it happens again in every round: put it into askback.Do or "+
			"call.Do", name)
	}
}
