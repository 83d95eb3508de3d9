// Package law holds servers to the law of docs/proof/how-a-call-travels.md with programs, clients, people and faults at
// random: the result is the same as if the handler had run once with all answers and decisions available, and a step
// that a journal has recorded does not run again under that journal.
//
// [People] is the part for calls that wait for people and for deadlines, on any store: the tests of the stores use it,
// too. The programs are those of internal/test/program.
package law

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// Options are the choices of [People].
type Options struct {
	Store task.Store
	Seed  uint64
	Calls int // at once, unless Over
	// Over is the time over which the calls begin.
	Over time.Duration
	// Unit is the unit of all times: deadlines are a few of it, and a lease is ten.
	Unit time.Duration
	// Virtual says that time is that of a bubble, in which every seam parks, and that notices are delivered.
	Virtual bool
	// Chances are the fates of what the servers do. Hosts, people and receivers have those of a network.
	Chances sim.Chances
	// Clocks is how far the clocks of servers may be off, at most. With Jumps they are set again and again.
	Clocks time.Duration
	Jumps  bool
	// Thefts is the share of writes before or after which a worker loses its lease.
	Thefts float64
	// Reworded makes half of the servers another release of the handler, which asks the same in other words.
	Reworded bool
	// Rotated has the servers take on other keys, one after the other.
	Rotated bool
	// Locked is the chance that the row of a task is locked for a while, whenever somebody looks for one.
	Locked float64
	// Poisoned makes the first call one whose deadline nobody can write down.
	Poisoned bool
	// Polled lets the callers poll for events, and Posted has events posted to them.
	Polled, Posted bool
	// Restored is the chance that the store loses what it was told since somebody copied it, whenever somebody does.
	Restored float64
	// Servers is how many there are; zero means three.
	Servers int
	// TTL is the time to live of a task in units; zero means the default. People then come late.
	TTL int
	// Dead is how many units long no notice is taken, from the beginning.
	Dead int
	// Crowded makes the receiver of one caller, who has asked very much, never answer.
	Crowded bool
	// Only are the fates that may come, or nil for all.
	Only []sim.Event
}

// Network are the chances of what goes over a network.
var Network = sim.Chances{sim.LostBefore: 0.03, sim.LostAfter: 0.03, sim.Delayed: 0.03}

// Faults are the chances of a server that everything happens to.
var Faults = sim.Chances{
	sim.LostBefore: 0.03, sim.LostAfter: 0.03, sim.Delayed: 0.03, sim.Frozen: 0.005,
	sim.KilledBefore: 0.005, sim.KilledAfter: 0.005, sim.Late: 0.01,
}

// FewFaults are as rare as in a day of which nobody speaks. What runs twice then is nearly always wrong.
var FewFaults = sim.Chances{
	sim.LostBefore: 0.001, sim.LostAfter: 0.001, sim.Delayed: 0.001, sim.KilledBefore: 0.0005, sim.KilledAfter: 0.0005,
}

// asks are the questions of all programs: for the client ("host") or for people.
var asks = map[string]struct {
	host   bool
	form   bool // with a form, or to be approved
	to     []string
	votes  int
	within int // in units
}{
	"host":       {host: true, form: true},
	"other host": {host: true, form: true},
	"soon host":  {host: true, form: true, within: 3},
	"one":        {to: []string{askback.Group("g")}},
	"pair":       {to: []string{askback.Group("g")}, votes: 2},
	"soon":       {to: []string{askback.Group("g")}, votes: 2, within: 3},
	"now":        {to: []string{askback.Group("g"), askback.User("p0")}, votes: 3, within: 1},
	"form":       {to: []string{askback.Group("g")}, votes: 2, form: true, within: 12},
	"hour":       {to: []string{askback.Group("h")}, votes: 2, within: 60},
	"users":      {to: []string{askback.User("p1"), askback.User("alice"), askback.User("p2")}, votes: 2},
	"users#2":    {to: []string{askback.User("p1"), askback.User("alice"), askback.User("p2")}, votes: 2},
}

// choices are what the programs are made of.
var choices = program.Choices{Ops: slices.Concat(
	slices.Repeat([]program.Op{program.Ask, program.Branch}, 5), slices.Repeat([]program.Op{program.Step}, 3),
	slices.Repeat([]program.Op{program.Once}, 2),
	[]program.Op{program.Ahead, program.Failing, program.Panicking, program.Checkpoint, program.Detach,
		program.AtOnce},
)}

// result is the result of a program.
type result struct {
	Release int      `json:"release"` // the words that the last run asked in
	Trace   []string `json:"trace"`
}

// number returns the number of the run of a step, or 0.
func (r result) number(step string) (n int64) {
	for _, line := range r.Trace {
		if after, is := strings.CutPrefix(line, "step "+step+"="); is {
			fmt.Sscan(after, &n)
		}
	}
	return n
}

// arguments are those of the tool that runs programs.
type arguments struct {
	Program string `json:"program"` // as JSON, because no schema describes a program
	Call    int    `json:"call"`    // tells two calls of one program apart
}

func (a arguments) String() string {
	data, _ := json.Marshal(a) // text
	return string(data)
}

// world is where a program runs in a handler.
type world struct{ call *askback.Call }

func (w world) Step(
	ctx context.Context, name string, step func(context.Context) (string, error),
) (string, error) {
	if !program.NeverTwice(name) {
		return askback.Do(ctx, w.call, name, step)
	}
	result, err := askback.AtMostOnce(ctx, w.call, name, step)
	if _, unknown := errors.AsType[*askback.UnknownOutcomeError](err); unknown {
		return program.Unknown(name), nil
	}
	return result, err
}

func (w world) Pause(ctx context.Context, op program.Op, name string) error {
	if op == program.Detach {
		return w.call.Detach()
	}
	return w.call.Checkpoint(ctx, name)
}

// decode returns the program of a call.
func (a arguments) decode() (p program.Program, err error) {
	err = json.Unmarshal([]byte(a.Program), &p)
	return p, err
}

// peopled is a world in which people answer, too.
type peopled struct {
	world
	*law
	part    *sim.Part // the server
	number  int       // of the call
	release int
	begun   *atomic.Bool // a step of this run, or of all runs in one request
}

type begunKey struct{}

// handler is the handler of all programs in one release.
func (l *law) handler(part *sim.Part, release int) askback.ToolHandler[arguments, string] {
	return func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
		p, err := in.decode()
		if err != nil {
			return "", err
		}
		begun, ok := ctx.Value(begunKey{}).(*atomic.Bool)
		if !ok {
			begun = new(atomic.Bool)
		}
		w := peopled{world{call}, l, part, in.Call, release, begun}
		call.OnCancel(w.cleanUp)
		trace, err := p.Run(ctx, w, askback.ErrInputRequired, l.ran(in.Call))
		if err != nil {
			return "", err
		}
		data, err := json.Marshal(result{release, trace})
		return string(data), err
	}
}

// Step runs a step, which takes a while and has an effect outside of the server.
func (w peopled) Step(
	ctx context.Context, name string, step func(context.Context) (string, error),
) (result string, err error) {
	return w.world.Step(ctx, name, func(ctx context.Context) (string, error) {
		w.begun.Store(true)
		for { // an author repeats what may be repeated
			takes := 0.1
			if w.Virtual {
				takes = []float64{0, 0.1, 0.1, 0.5, 1, 2, 8, 16}[w.part.IntN(8)]
			}
			w.part.Pause(ctx, takes)
			if err := context.Cause(ctx); err != nil {
				return "", err
			}
			w.checkLease(ctx)
			result, err := sim.Get(ctx, w.part, fmt.Sprintf("effect %s of call %d", name, w.number), step)
			if program.NeverTwice(name) && w.part.Happens("it dies with an effect", 20*w.part.Chances[sim.KilledAfter]) {
				w.part.Kill()
			}
			if !errors.Is(err, sim.ErrLost) || program.NeverTwice(name) {
				return result, err
			}
		}
	})
}

// cleanUp is an effect, too, of a run that begins no step.
func (w peopled) cleanUp(ctx context.Context) error {
	if w.begun.Load() {
		w.violate("call %d: the run that cleans up has begun a step", w.number)
	}
	return w.part.Do(ctx, fmt.Sprint("cleaning up after call ", w.number), func(context.Context) error {
		faults := w.faults("")
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cleaned[w.number]++; w.cleaned[w.number] > 1+faults {
			w.bad = append(w.bad, fmt.Sprintf("call %d has cleaned up again, with %d faults", w.number, faults))
		}
		return nil
	})
}

// checkLease checks that no other worker has the task, unless a lease was stolen: what begins then has two hands. It
// also checks that the task has not ended, because a worker learns of that at once where nothing fails.
func (w peopled) checkLease(ctx context.Context) {
	if !w.Virtual || w.Thefts > 0 || w.Restored > 0 || w.call.Fence() == 0 {
		return
	}
	t, _ := w.find(ctx, w.number)
	switch {
	case t == nil:
	case t.Claim.Fence != w.call.Fence():
		w.violate("call %d has an effect in its lease %d, and the store is at %d", w.number, w.call.Fence(), t.Claim.Fence)
	case t.Stopped && time.Since(t.Updated) > w.Unit && w.faults("") == 0:
		w.violate("call %d has an effect %v after it was %s", w.number, time.Since(t.Updated), t.Status)
	}
}

func (w peopled) Pause(ctx context.Context, op program.Op, name string) error {
	if op == program.Sleep {
		return w.call.Sleep(name, w.Unit)
	}
	return w.world.Pause(ctx, op, name)
}

func (w peopled) Ask(key string) (outcome string, err error) {
	if outcome, err = w.ask(key); err == nil {
		w.seen(w.number, w.release, key, outcome)
	}
	return outcome, err
}

type number struct {
	N int `json:"n"`
}

// words are the words of a question in a release. Two keys may have the same.
func words(key string, release int) string {
	key, _, _ = strings.Cut(key, "#")
	return fmt.Sprintf("%s in the words of release %d?", key, release)
}

// ask asks a question, and returns its outcome in words.
func (w peopled) ask(key string) (outcome string, err error) {
	a := asks[key]
	q := askback.Question{
		Message: words(key, w.release), For: a.to, Votes: a.votes, Within: time.Duration(a.within) * w.Unit,
	}
	outcome = "accept"
	if a.form {
		q.Schema = json.RawMessage(
			`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
		var n number
		n, err = askback.ElicitWith[number](w.call, key, q)
		outcome = fmt.Sprintf("accept %d", n.N)
	} else {
		err = askback.Approve(w.call, key, q)
	}
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		outcome, err = declined.Action, nil
	}
	if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
		if within := late.Deadline.Sub(late.Asked); within < q.Within.Round(time.Millisecond) || late.Key != key {
			return "", fmt.Errorf("%q was asked for %v: %v", key, within, late)
		}
		return "unanswered", nil
	}
	if err == nil && !a.host {
		var who []string
		for _, by := range w.call.Answers(key) {
			who = append(who, by.Who)
		}
		outcome += " by " + strings.Join(who, "+")
	}
	return outcome, err
}

// law is what one run of [People] has seen.
type law struct {
	Options
	t testing.TB

	sim *sim.Scheduler

	restored atomic.Int64 // how often the store has lost something
	steps    sync.Map     // *program.Runs of each call
	locks    sync.Map     // when others unlock the row of a task, by its ID
	poisoned sync.Map     // whose questions, and whose end, cannot be written down

	mu    sync.Mutex
	given map[string][]string // what clients have answered, and each person
	// cleaned counts how often a call has cleaned up.
	cleaned map[int]int
	memory
	bad []string
}

// memory is what was seen of the store, and is forgotten with what the store loses.
type memory struct {
	outcomes map[string][]string          // of each question in the words of each release, as handlers saw it
	cast     map[string][]vote            // that people were told of, by name of the task and key
	refused  map[string][]vote            // that people were told not to be there, or not sure to be, without an action
	told     map[string][]task.NoticeKind // by name of the task and key, each kind once, as it came first
	asked    map[string]*task.Question    // the questions for people, as they were seen last
}

func (m *memory) clone() memory {
	return memory{maps.Clone(m.outcomes), maps.Clone(m.cast), maps.Clone(m.refused), maps.Clone(m.told),
		maps.Clone(m.asked)}
}

// vote is what a person was told to have said.
type vote struct {
	who, action, content string
	at                   time.Time
}

func (l *law) violate(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = append(l.bad, fmt.Sprintf(format, args...))
}

// ran returns where the steps of a call are noted that run.
func (l *law) ran(call int) *program.Runs {
	runs, _ := l.steps.LoadOrStore(call, new(program.Runs))
	return runs.(*program.Runs)
}

// seen notes the outcome of a question that a handler saw. Each replay must see the same.
func (l *law) seen(call, release int, key, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := fmt.Sprint(call, release, key)
	if !slices.Contains(l.outcomes[of], outcome) {
		l.outcomes[of] = append(l.outcomes[of], outcome)
	}
}
