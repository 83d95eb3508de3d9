// Package law holds servers to the law of docs/proof/how-a-call-travels.md with programs, clients, people and faults at
// random: the result is the same as if the handler had run once with all answers and decisions available, and a step
// that a journal has recorded does not run again under that journal.
//
// [People] is the part for calls that wait for people and for deadlines, on any store: the tests of the stores use it,
// too. What is expected comes from an interpreter of its own ([Program.expect]), which knows nothing of Askback.
package law

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// Store is what a store needs for the law of people.
type Store interface {
	task.Store
	task.Evicter
	task.Lister
	task.Counter
	task.Versioner
	task.Asker
}

// Options are the choices of [People].
type Options struct {
	Store Store
	Seed  uint64
	Calls int // at once
	// Unit is the unit of all times: deadlines are a few of it, and a lease is ten.
	Unit time.Duration
	// Loss is the share of calls to the store whose request or answer is lost.
	Loss float64
	// Kills is how often a worker is killed.
	Kills int
	// Thefts is the share of writes before or after which a worker loses its lease.
	Thefts float64
	// Reworded makes half of the workers another release of the handler, which asks the same in other words.
	Reworded bool
}

// Program is a handler made at random: statements run in order, and each adds what it learned to the trace, which is
// the handler's result.
type Program []statement

type statement struct {
	Op   string   // ask (all at once), branch (on the first), step, sleep, checkpoint
	Name string   // of its step, sleep or checkpoint
	Keys []string `json:",omitempty"` // of its questions
	Then Program  `json:",omitempty"` // of a branch, if it was accepted
	Else Program  `json:",omitempty"` // if it was not: it was declined, or nobody answered in time
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
	"users":      {to: []string{askback.User("p1"), askback.User("alice"), askback.User("p2")}, votes: 2},
	"users#2":    {to: []string{askback.User("p1"), askback.User("alice"), askback.User("p2")}, votes: 2},
}

// program makes a program; at says where in the whole one this part stands, so that each step has a name of its own.
func program(r *rand.Rand, depth int, at string, keys []string, sleeps bool) (p Program) {
	for i := range 1 + r.IntN(4) {
		s := statement{Name: fmt.Sprintf("%s.%d", at, i)}
		switch n := r.IntN(10); {
		case n < 3:
			s.Op = "ask"
			for _, k := range r.Perm(len(keys))[:1+r.IntN(3)] {
				s.Keys = append(s.Keys, keys[k])
			}
		case n < 6 && depth > 0:
			s.Op, s.Keys = "branch", []string{keys[r.IntN(len(keys))]}
			s.Then = program(r, depth-1, s.Name+"y", keys, sleeps)
			s.Else = program(r, depth-1, s.Name+"n", keys, sleeps)
		case n < 8:
			s.Op = "step"
		case n < 9 && sleeps:
			s.Op = "sleep"
		default:
			s.Op = "checkpoint"
		}
		p = append(p, s)
	}
	return p
}

// expect returns the trace of the program if it runs once with these outcomes of its questions, and its steps.
func (p Program) expect(outcomes map[string]string) (trace, steps []string, err error) {
	for _, s := range p {
		for _, key := range s.Keys {
			outcome, known := outcomes[key]
			if !known {
				return nil, nil, fmt.Errorf("nothing has become of the question %q", key)
			}
			trace = append(trace, key+"="+outcome)
		}
		switch s.Op {
		case "step":
			trace, steps = append(trace, "step "+s.Name), append(steps, s.Name)
		case "branch":
			next := s.Then
			if !strings.HasPrefix(outcomes[s.Keys[0]], "accept") {
				next = s.Else
			}
			more, done, err := next.expect(outcomes)
			if err != nil {
				return nil, nil, err
			}
			trace, steps = append(trace, more...), append(steps, done...)
		}
	}
	return trace, steps, nil
}

// result is the result of a program.
type result struct {
	Release int      `json:"release"` // the words that the last run asked in
	Trace   []string `json:"trace"`
}

type arguments struct {
	Program string `json:"program"` // as JSON, because no schema describes a program
	Call    int    `json:"call"`
}

// execution is a run of a program in a handler.
type execution struct {
	*law
	call    *askback.Call
	number  int // of the call
	release int
	trace   []string
	asked   map[string]outcome // what the run has asked already
}

// outcome is what the handler has made of an ask.
type outcome struct {
	text string
	err  error
}

// handler is the handler of all programs in one release.
func (l *law) handler(release int) askback.ToolHandler[arguments, string] {
	return func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
		var p Program
		if err := json.Unmarshal([]byte(in.Program), &p); err != nil {
			return "", err
		}
		x := &execution{law: l, call: call, number: in.Call, release: release, asked: make(map[string]outcome)}
		if err := x.run(ctx, p); err != nil {
			return "", err
		}
		data, err := json.Marshal(result{release, x.trace})
		return string(data), err
	}
}

func (x *execution) run(ctx context.Context, p Program) error {
	for _, s := range p {
		var outcomes []string
		var err error
		switch s.Op {
		case "ask", "branch":
			outcomes, err = x.askAll(s.Keys)
		case "step":
			var done string
			if done, err = askback.Do(ctx, x.call, s.Name, func(context.Context) (string, error) {
				n := x.ran(x.number, s.Name)
				x.pause(ctx, 0.2)
				return fmt.Sprintf("step %s=%d", s.Name, n), nil
			}); err == nil {
				x.trace = append(x.trace, done)
			}
		case "sleep":
			err = x.call.Sleep(s.Name, x.Unit)
		case "checkpoint":
			err = x.call.Checkpoint(ctx, s.Name)
		}
		if err != nil {
			return err
		}
		for i, key := range s.Keys {
			x.trace = append(x.trace, key+"="+outcomes[i])
		}
		if s.Op != "branch" {
			continue
		}
		next := s.Then
		if !strings.HasPrefix(outcomes[0], "accept") {
			next = s.Else
		}
		if err := x.run(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

func (x *execution) askAll(keys []string) (outcomes []string, err error) {
	for _, key := range keys {
		o, before := x.asked[key]
		if !before {
			o.text, o.err = x.ask(key)
			x.asked[key] = o
		}
		outcomes, err = append(outcomes, o.text), errors.Join(err, o.err)
		if o.err == nil {
			x.seen(x.number, x.release, key, o.text)
		}
	}
	return outcomes, err
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
func (x *execution) ask(key string) (outcome string, err error) {
	a := asks[key]
	q := askback.Question{
		Message: words(key, x.release), For: a.to, Votes: a.votes, Within: time.Duration(a.within) * x.Unit,
	}
	outcome = "accept"
	if a.form {
		q.Schema = json.RawMessage(
			`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
		var n number
		n, err = askback.ElicitWith[number](x.call, key, q)
		outcome = fmt.Sprintf("accept %d", n.N)
	} else {
		err = askback.Approve(x.call, key, q)
	}
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		outcome, err = declined.Action, nil
	}
	if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
		if within := late.Deadline.Sub(late.Asked); within != q.Within.Round(time.Millisecond) || late.Key != key {
			return "", fmt.Errorf("%q was asked for %v: %v", key, within, late)
		}
		return "unanswered", nil
	}
	if err == nil && !a.host {
		var who []string
		for _, by := range x.call.Answers(key) {
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

	mu       sync.Mutex
	random   *rand.Rand
	steps    map[string][]int    // the runs of each step of each call
	outcomes map[string][]string // of each question in the words of each release, as handlers saw it
	given    map[string][]string // what clients have answered
	cast     map[string][]vote   // that people were told of, by name of the task and key
	serial   int
	lost     int // leases, by theft or kill
	bad      []string
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

// ran notes that a step runs, and returns the number of the run.
func (l *law) ran(call int, step string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serial++
	key := fmt.Sprint(call, step)
	l.steps[key] = append(l.steps[key], l.serial)
	return l.serial
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

// chance decides by the seed.
func (l *law) chance(share float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.Float64() < share
}

func (l *law) intN(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func register(l *law, release int) func(*askback.Server) {
	return func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "whole"}, nil, l.handler(release))
		askback.AddTool(s, &mcp.Tool{Name: "program"}, l.handler(release))
	}
}

// pause waits about so many units.
func (l *law) pause(ctx context.Context, units float64) bool {
	l.mu.Lock()
	d := time.Duration(2 * l.random.Float64() * units * float64(l.Unit))
	l.mu.Unlock()
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
