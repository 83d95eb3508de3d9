package askbacktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/askback-mcp/askback/internal/journal"
)

// watch follows the handler during one request, and notes its first mistake. It implements call.Watch.
type watch struct {
	// steps holds the outcomes of steps by their names. In a replay no step runs: it has the outcome that it has here.
	steps  map[string]outcome
	replay bool

	waited *atomic.Bool // the handler has waited for something

	mu      sync.Mutex
	running []string // the steps that run now
	mistake string
}

// outcome is that of a step.
type outcome struct {
	data []byte
	err  error
}

// note records a mistake, unless there was one before.
func (w *watch) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mistake == "" {
		w.mistake = fmt.Sprintf(format, args...)
	}
}

func (w *watch) firstMistake() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mistake
}

func (w *watch) Handle(ctx context.Context) context.Context {
	w.waited = new(atomic.Bool)
	return waiting{ctx, w.waited}
}

// waiting is a handler's context, which notes that it is asked for its Done: whatever waits for another process or
// another goroutine does that.
type waiting struct {
	context.Context
	asked *atomic.Bool
}

func (c waiting) Done() <-chan struct{} {
	c.asked.Store(true)
	return c.Context.Done()
}

func (w *watch) Step(ctx context.Context, name string, step func(context.Context) ([]byte, error)) ([]byte, error) {
	if w.replay {
		if out, ok := w.steps[name]; ok {
			return out.data, out.err
		}
		return nil, journal.ErrInputRequired // as while a question is open
	}
	w.mu.Lock()
	w.running = append(w.running, name)
	w.mu.Unlock()
	var out outcome
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running = slices.DeleteFunc(w.running, func(s string) bool { return s == name })
		w.steps[name] = out
	}()
	out.data, out.err = step(ctx)
	return out.data, out.err
}

func (w *watch) Encoded(name string, result any, data []byte) {
	if lost := loss(result, data); lost != "" {
		w.note("step %q: its result is recorded as JSON, which loses %s", name, lost)
	}
}

func (w *watch) Asked(key string, err error) {
	if !errors.Is(err, journal.ErrInStep) {
		return
	}
	w.mu.Lock()
	steps := strings.Join(w.running, " or ")
	w.mu.Unlock()
	w.note("question %q is asked inside of the step %q: ask before the step, and use the answer in it; "+
		"once the step is recorded it does not run again, and would not ask again", key, steps)
}

func (w *watch) Panicked(v any, stack []byte) {
	w.note("the handler panicked: %v\n%s", v, innermost(stack))
}

// innermost returns the lines of a stack that say where the panic was.
func innermost(stack []byte) string {
	const most = 8 // lines, of which a function has two
	lines := strings.Split(string(stack), "\n")
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "panic(") }); i >= 0 {
		lines = lines[i+2:]
	}
	return strings.Join(lines[:min(most, len(lines))], "\n")
}

// effect notes an effect outside of the steps.
func (w *watch) effect(name string) {
	w.mu.Lock()
	inStep := len(w.running) > 0
	w.mu.Unlock()
	if !inStep {
		w.note("effect %q happens outside of a step, and so again in every round: put it into askback.Do or call.Do", name)
	}
}
