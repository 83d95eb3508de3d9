// Package law_test holds servers to the law of docs/proof/how-a-call-travels.md with programs, clients and faults at
// random: the result is the same as if the handler had run once with all answers available, and a step that a journal
// has recorded does not run again under that journal.
//
// What is expected comes from an interpreter of its own ([program.expect]), which knows nothing of Askback. The result
// of a step is another one in each run, so that a step that runs again shows.
package law_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// program is a handler made at random: statements run in order, and each adds what it learned to the trace, which is
// the handler's result.
type program []statement

type statement struct {
	Op   string   // ask, ahead (ask and go on), together, atOnce, step, failing, panicking, checkpoint, branch, detach
	Name string   // of the statement's own steps
	Keys []string `json:",omitempty"` // of its questions
	Then program  `json:",omitempty"` // of a branch on the answer to the first
	Else program  `json:",omitempty"`
}

// questions are the keys of questions. Their first letter says what they are: a form, a form that is declined or
// cancelled, a URL, a question to the model, or one for the roots.
var questions = []string{"form1", "form2", "form3", "declined", "cancelled", "url", "model", "roots"}

// programs makes programs; at says where in the whole one this part stands, so that each step has a name of its own.
func programs(depth int, at string, more ...string) *rapid.Generator[program] {
	return rapid.Custom(func(t *rapid.T) program {
		var p program
		for i := range rapid.IntRange(0, 4).Draw(t, "length") {
			ops := append([]string{"ask", "ahead", "together", "atOnce", "step", "step", "failing", "panicking", "checkpoint"},
				more...)
			if depth > 0 {
				ops = append(ops, "branch")
			}
			s := statement{Op: rapid.SampledFrom(ops).Draw(t, "op"), Name: fmt.Sprintf("%s.%d", at, i)}
			switch s.Op {
			case "ask", "ahead", "branch":
				s.Keys = []string{rapid.SampledFrom(questions).Draw(t, "key")}
			case "together", "atOnce":
				s.Keys = rapid.SliceOfNDistinct(rapid.SampledFrom(questions), 1, 3, rapid.ID).Draw(t, "keys")
			}
			if s.Op == "branch" {
				s.Then = programs(depth-1, s.Name+"y", more...).Draw(t, "then")
				s.Else = programs(depth-1, s.Name+"n", more...).Draw(t, "else")
			}
			p = append(p, s)
		}
		return p
	})
}

// arguments returns the arguments of a call of the program, as JSON in JSON, because no schema describes a program.
func (p program) arguments() arguments {
	data, _ := json.Marshal(p) // text
	return arguments{Program: string(data)}
}

type arguments struct {
	Program string `json:"program"`
	Mark    int    `json:"mark,omitempty"` // tells two calls of one program apart
}

func (a arguments) String() string {
	data, _ := json.Marshal(a) // text
	return string(data)
}

// expected is what a program comes to when it runs once with all answers available.
type expected struct {
	trace      []string // where a step stands by its name
	steps      []string
	unrecorded []string // steps that fail or panic
}

// expect runs the program. The answers are by key; one that is missing is an error.
func (p program) expect(answers map[string]string) (e expected, err error) {
	for _, s := range p {
		for _, key := range s.Keys {
			answer, ok := answers[key]
			if !ok {
				return e, fmt.Errorf("nobody answered %q", key)
			}
			e.trace = append(e.trace, key+"="+answer)
		}
		var names []string
		switch s.Op {
		case "step":
			names = []string{s.Name}
		case "atOnce":
			names = []string{s.Name + "l", s.Name + "r"}
		case "failing", "panicking":
			e.unrecorded = append(e.unrecorded, s.Name)
			e.trace = append(e.trace, s.Op)
		case "branch":
			next := s.Then
			if len(answers[s.Keys[0]])%2 == 0 {
				next = s.Else
			}
			more, err := next.expect(answers)
			if err != nil {
				return e, err
			}
			e.trace, e.steps, e.unrecorded = append(e.trace, more.trace...), append(e.steps, more.steps...),
				append(e.unrecorded, more.unrecorded...)
		}
		for _, name := range names {
			e.steps, e.trace = append(e.steps, name), append(e.trace, "step "+name)
		}
	}
	return e, nil
}

// serial counts the runs of all steps: each gives its own number back.
var serial atomic.Int64

// runs are the steps that ran, with their numbers.
type runs struct {
	mu    sync.Mutex
	done  map[string][]int64
	ahead sync.Map // those that ran while a question was open
}

func (r *runs) add(step string) int64 {
	n := serial.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(map[string][]int64)
	}
	r.done[step] = append(r.done[step], n)
	return n
}

// soFar returns the steps that have run by now.
func (r *runs) soFar() map[string][]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.done)
}

type runsKey struct{}

// execution is a run of a program in a handler.
type execution struct {
	call  *askback.Call
	runs  *runs
	open  error // questions that the program went ahead of
	trace []string
	asked map[string]func() (string, error) // what the run has asked already
	mu    sync.Mutex
}

// handle is the handler of all programs. The steps that run are noted in the request's context or, without one, in
// those that elsewhere returns.
func handle(elsewhere func(*askback.Call) *runs) askback.ToolHandler[arguments, string] {
	return func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
		noted, ok := ctx.Value(runsKey{}).(*runs)
		if !ok {
			noted = elsewhere(call)
		}
		var p program
		if err := json.Unmarshal([]byte(in.Program), &p); err != nil {
			return "", err
		}
		x := &execution{call: call, runs: noted, asked: make(map[string]func() (string, error))}
		if err := errors.Join(x.run(ctx, p), x.open); err != nil {
			return "", err
		}
		return strings.Join(x.trace, "\n"), nil
	}
}

func (x *execution) run(ctx context.Context, p program) error {
	for _, s := range p {
		var answers, results []string
		var err error
		switch s.Op {
		case "ask", "branch", "together":
			answers, err = x.askAll(s.Keys)
		case "ahead":
			if answers, err = x.askAll(s.Keys); errors.Is(err, askback.ErrInputRequired) {
				x.open, err = errors.Join(x.open, err), nil
			}
		case "atOnce":
			answers, results, err = x.atOnce(ctx, s)
		case "step":
			results = make([]string, 1)
			results[0], err = x.step(ctx, s.Name, nil)
		case "failing":
			_, err = x.step(ctx, s.Name, func() error { return errFailing })
			if errors.Is(err, errFailing) {
				err, results = nil, []string{s.Op}
			}
		case "panicking":
			if err = x.panicking(ctx, s.Name); err == nil {
				results = []string{s.Op}
			}
		case "checkpoint":
			err = x.call.Checkpoint(ctx, s.Name)
		case "detach":
			err = x.call.Detach()
		}
		if err != nil {
			return err
		}
		for i, key := range s.Keys {
			x.trace = append(x.trace, key+"="+answers[i])
		}
		x.trace = append(x.trace, results...)
		if s.Op == "branch" {
			next := s.Then
			if len(answers[0])%2 == 0 {
				next = s.Else
			}
			if err := x.run(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

var errFailing = errors.New("this step always fails")

// step does a step, whose result names it and its run.
func (x *execution) step(ctx context.Context, name string, fail func() error) (string, error) {
	return askback.Do(ctx, x.call, name, func(context.Context) (string, error) {
		n := x.runs.add(name)
		if x.open != nil {
			x.runs.ahead.Store(name, x.open)
		}
		if fail != nil {
			return "", fail()
		}
		return fmt.Sprintf("step %s=%d", name, n), nil
	})
}

// panicking does a step that panics, and goes on.
func (x *execution) panicking(ctx context.Context, name string) (err error) {
	defer func() {
		if v := recover(); v != nil && v != errFailing {
			panic(v)
		}
	}()
	_, err = x.step(ctx, name, func() error { panic(errFailing) })
	return err
}

// atOnce asks and does steps in goroutines of their own.
func (x *execution) atOnce(ctx context.Context, s statement) (answers, results []string, err error) {
	answers, results = make([]string, len(s.Keys)), make([]string, 2)
	errs := make([]error, len(s.Keys)+2)
	var all sync.WaitGroup
	for i, key := range s.Keys {
		all.Go(func() { answers[i], errs[i] = x.ask(key) })
	}
	for i, side := range []string{"l", "r"} {
		all.Go(func() { results[i], errs[len(s.Keys)+i] = x.step(ctx, s.Name+side, nil) })
	}
	all.Wait()
	return answers, results, errors.Join(errs...)
}

func (x *execution) askAll(keys []string) ([]string, error) {
	answers, errs := make([]string, len(keys)), make([]error, len(keys))
	for i, key := range keys {
		answers[i], errs[i] = x.ask(key)
	}
	return answers, errors.Join(errs...)
}

type number struct {
	N int `json:"n"`
}

// ask asks a question, and keeps the answer for the rest of the run.
func (x *execution) ask(key string) (string, error) {
	x.mu.Lock()
	asked, before := x.asked[key]
	if !before {
		asked = sync.OnceValues(func() (string, error) { return x.askOnce(key) })
		x.asked[key] = asked
	}
	x.mu.Unlock()
	return asked()
}

func (x *execution) askOnce(key string) (string, error) {
	switch key {
	case "url":
		return "accept", askback.ElicitURL(x.call, key, "Please log in.", "https://example.com/login")
	case "model":
		res, err := askback.Sample(x.call, key, harness.Sampling("Which?"))
		if err != nil {
			return "", err
		}
		return res.Content[0].(*mcp.TextContent).Text, nil
	case "roots":
		roots, err := askback.Roots(x.call, key)
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	}
	n, err := askback.Elicit[number](x.call, key, "How many "+key+"?")
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		return declined.Action, nil
	}
	return fmt.Sprint(n.N), err
}

// reply is the answer of one of several clients to a question: as the program sees it, and as it travels.
func reply(client int, key string) (seen, travels string) {
	switch key {
	case "url":
		return "accept", `{"action":"accept"}`
	case "model":
		seen = fmt.Sprintf("model %d%s", client, strings.Repeat("!", client%2))
		return seen, `{"role":"assistant","model":"m","content":{"type":"text","text":` + harness.Quote(seen) + `}}`
	case "roots":
		seen = fmt.Sprintf("file:///client/%d", client)
		return seen, `{"roots":[{"uri":` + harness.Quote(seen) + `}]}`
	case "declined":
		return "decline", `{"action":"decline"}`
	case "cancelled":
		return "cancel", `{"action":"cancel"}`
	}
	seen = fmt.Sprint(int(key[4]-'0')*7 + client*95) // of one, two or three digits
	return seen, `{"action":"accept","content":{"n":` + seen + `}}`
}

// unfit is an answer that does not fit the question, or "" if any fits.
func unfit(key string) string {
	if strings.HasPrefix(key, "form") {
		return `{"action":"accept","content":{"n":"many"}}`
	}
	return ""
}
