package program

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
)

// World is where a program runs.
type World interface {
	// Ask returns the outcome of a question in words. A run asks each question once.
	Ask(key string) (outcome string, err error)
	Step(ctx context.Context, name string, step func(context.Context) (string, error)) (result string, err error)
	// Pause is a checkpoint, a Detach, or a sleep.
	Pause(ctx context.Context, op Op, name string) error
}

// Runs notes which steps have run. The zero value is ready for use, also by several runs of a program at once.
type Runs struct {
	mu      sync.Mutex
	numbers map[string][]int64
	ahead   []string
}

// last is the number of the last run of any step.
var last atomic.Int64

func (r *Runs) add(step string, waits bool) int64 {
	number := last.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.numbers == nil {
		r.numbers = make(map[string][]int64)
	}
	r.numbers[step] = append(r.numbers[step], number)
	if waits {
		r.ahead = append(r.ahead, step)
	}
	return number
}

// Numbers returns the numbers of the runs of each step so far.
func (r *Runs) Numbers() map[string][]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.numbers)
}

// Ahead returns the steps that ran while a question of their run was open, which none may.
func (r *Runs) Ahead() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ahead
}

// execution is a run of a program.
type execution struct {
	world   World
	waits   error
	runs    *Runs
	pending error // the questions that the program went ahead of
	trace   []string

	mu    sync.Mutex
	asked map[string]*asked
}

// asked is a question that a run has asked.
type asked struct {
	once    sync.Once // and no [sync.OnceValues], which a handler cannot leave by [runtime.Goexit], as inline ones do
	outcome string
	err     error
}

// Run runs a program once, and returns its trace. The error waits is the one with which a question is open. Steps that
// run are noted in runs.
func (p Program) Run(ctx context.Context, w World, waits error, runs *Runs) (trace []string, err error) {
	x := &execution{world: w, waits: waits, runs: runs, asked: make(map[string]*asked)}
	if err := errors.Join(x.run(ctx, p), x.pending); err != nil {
		return nil, err
	}
	return x.trace, nil
}

func (x *execution) run(ctx context.Context, p Program) error {
	for _, s := range p {
		outcomes, results, err := x.statement(ctx, &s)
		if err != nil {
			return err
		}
		for i, key := range s.Keys {
			x.trace = append(x.trace, key+"="+outcomes[i])
		}
		x.trace = append(x.trace, results...)
		if s.Op != Branch {
			continue
		}
		if err := x.run(ctx, s.branch(outcomes[0])); err != nil {
			return err
		}
	}
	return nil
}

// statement runs one statement, and returns the outcomes of its questions and what else it adds to the trace.
func (x *execution) statement(ctx context.Context, s *Statement) (outcomes, results []string, err error) {
	switch s.Op {
	case Ask, Branch:
		outcomes, err = x.askAll(s.Keys)
	case Ahead:
		if outcomes, err = x.askAll(s.Keys); errors.Is(err, x.waits) {
			x.pending, err = errors.Join(x.pending, err), nil
		}
	case AtOnce:
		return x.atOnce(ctx, s)
	case Step, Once:
		results = make([]string, 1)
		results[0], err = x.step(ctx, s.Name, nil)
	case Failing:
		_, err = x.step(ctx, s.Name, func() error { return errFailing })
	case Panicking:
		err = x.panicking(ctx, s.Name)
	default:
		err = x.world.Pause(ctx, s.Op, s.Name)
	}
	if errors.Is(err, errFailing) {
		return nil, []string{string(s.Op)}, nil
	}
	return outcomes, results, err
}

var errFailing = errors.New("this step always fails")

func (x *execution) step(ctx context.Context, name string, fail func() error) (string, error) {
	waits := x.pending != nil // by now: what a step does may happen later
	return x.world.Step(ctx, name, func(context.Context) (string, error) {
		number := x.runs.add(name, waits)
		if fail != nil {
			return "", fail()
		}
		return resultOf(name, number), nil
	})
}

func (x *execution) panicking(ctx context.Context, name string) (err error) {
	defer func() {
		if v := recover(); v == errFailing {
			err = errFailing
		} else if v != nil {
			panic(v)
		}
	}()
	_, err = x.step(ctx, name, func() error { panic(errFailing) })
	return err
}

func (x *execution) atOnce(ctx context.Context, s *Statement) (outcomes, results []string, err error) {
	steps := s.steps()
	outcomes, results = make([]string, len(s.Keys)), make([]string, len(steps))
	errs := make([]error, len(s.Keys)+len(steps))
	var all sync.WaitGroup
	for i, key := range s.Keys {
		all.Go(func() { outcomes[i], errs[i] = x.ask(key) })
	}
	for i, name := range steps {
		all.Go(func() { results[i], errs[len(s.Keys)+i] = x.step(ctx, name, nil) })
	}
	all.Wait()
	return outcomes, results, errors.Join(errs...)
}

func (x *execution) askAll(keys []string) ([]string, error) {
	outcomes, errs := make([]string, len(keys)), make([]error, len(keys))
	for i, key := range keys {
		outcomes[i], errs[i] = x.ask(key)
	}
	return outcomes, errors.Join(errs...)
}

// ask asks a question, and keeps the outcome for the rest of the run.
func (x *execution) ask(key string) (string, error) {
	x.mu.Lock()
	if x.asked[key] == nil {
		x.asked[key] = new(asked)
	}
	a := x.asked[key]
	x.mu.Unlock()
	a.once.Do(func() { a.outcome, a.err = x.world.Ask(key) })
	return a.outcome, a.err
}
