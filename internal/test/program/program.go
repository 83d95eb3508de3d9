// Package program makes handlers at random, for the law of docs/proof/how-a-call-travels.md: the result is the same as
// if the handler had run once with all answers available, and a step that a journal has recorded does not run again
// under that journal.
//
// The test of each home of a journal runs programs in a [World] of its own: internal/journal in a journal alone, and
// internal/test/law over HTTP, in sessions, in tasks, and where people answer. [Program.Expect] says how a program
// ends, and knows nothing of Askback. The result of a step is another one in each run, so that a step that runs again
// shows.
package program

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Program is a handler: its statements run in order, and each adds what it learned to the trace, which is the result.
type Program []Statement

// Statement is a part of a program.
type Statement struct {
	Op   Op
	Name string   // of the statement's own steps, or of its pause
	Keys []string `json:",omitempty"` // of its questions
	Then Program  `json:",omitempty"` // of a branch, if the outcome of its question has an odd length
	Else Program  `json:",omitempty"` // if it has an even one
}

// Op says what a statement does.
type Op string

// The statements.
const (
	Ask        Op = "ask"        // one question, or several together
	Ahead      Op = "ahead"      // one question, whose answer the program does not wait for
	AtOnce     Op = "at once"    // questions and two steps, in goroutines of their own
	Branch     Op = "branch"     // on one question
	Step       Op = "step"       // with a result
	Once       Op = "once"       // a step that never runs twice: see [NeverTwice]
	Failing    Op = "failing"    // a step that returns an error, which the program ignores
	Panicking  Op = "panicking"  // a step that panics, after which the program goes on
	Checkpoint Op = "checkpoint" // as Call.Checkpoint
	Detach     Op = "detach"     // as Call.Detach
	Sleep      Op = "sleep"      // as Call.Sleep
)

// Choices are what programs are made of. An operation that stands twice is chosen twice as often.
type Choices struct {
	Keys []string // at least three
	Ops  []Op
}

// Program makes a program, whose branches have branches down to this depth. The function intN chooses from as many
// possibilities, as [math/rand/v2.Rand.IntN] does.
func (c Choices) Program(depth int, intN func(n int) int) Program { return c.part(depth, "", intN) }

// part makes the part of a program that stands at this place, so that each step has a name of its own.
func (c Choices) part(depth int, place string, intN func(n int) int) (p Program) {
	ops := c.Ops
	if depth == 0 {
		ops = slices.DeleteFunc(slices.Clone(ops), func(op Op) bool { return op == Branch })
	}
	for i := range intN(5) {
		s := Statement{Op: ops[intN(len(ops))], Name: fmt.Sprintf("%s.%d", place, i)}
		switch s.Op {
		case Once:
			s.Name += "!"
		case Ahead, Branch:
			s.Keys = c.keys(1, intN)
		case Ask, AtOnce:
			s.Keys = c.keys(1+intN(3), intN)
		}
		if s.Op == Branch {
			s.Then, s.Else = c.part(depth-1, s.Name+"y", intN), c.part(depth-1, s.Name+"n", intN)
		}
		p = append(p, s)
	}
	return p
}

// keys chooses n different keys.
func (c Choices) keys(n int, intN func(n int) int) []string {
	left := slices.Clone(c.Keys)
	for i := range n {
		j := i + intN(len(left)-i)
		left[i], left[j] = left[j], left[i]
	}
	return left[:n]
}

func (p Program) String() string {
	data, _ := json.Marshal(p) // text
	return string(data)
}

// branch returns what follows on the outcome of a branch's question.
func (s *Statement) branch(outcome string) Program {
	if len(outcome)%2 == 0 {
		return s.Else
	}
	return s.Then
}

// steps returns the names of the steps of a statement that are recorded.
func (s *Statement) steps() []string {
	switch s.Op {
	case Step, Once:
		return []string{s.Name}
	case AtOnce:
		return []string{s.Name + "l", s.Name + "r"}
	}
	return nil
}

// Records reports whether a step is recorded: one that fails or panics is not.
func (p Program) Records(step string) bool {
	for _, s := range p {
		if s.Name == step && (s.Op == Failing || s.Op == Panicking) || !s.Then.Records(step) || !s.Else.Records(step) {
			return false
		}
	}
	return true
}

// Checkpoints counts the checkpoints of a program.
func (p Program) Checkpoints() (n int) {
	for _, s := range p {
		if s.Op == Checkpoint {
			n++
		}
		n += s.Then.Checkpoints() + s.Else.Checkpoints()
	}
	return n
}

// Expected is how a program ends if it runs once with all answers available.
type Expected struct {
	Steps      []string // that are recorded
	Unrecorded []string // steps that fail or panic
	trace      []string // in which a step stands without the number of its run
}

// Expect interprets the program. The outcomes of its questions are by key; one that is missing is an error.
func (p Program) Expect(outcomes map[string]string) (e Expected, err error) {
	for _, s := range p {
		for _, key := range s.Keys {
			outcome, known := outcomes[key]
			if !known {
				return e, fmt.Errorf("the question %q has no outcome", key)
			}
			e.trace = append(e.trace, key+"="+outcome)
		}
		for _, name := range s.steps() {
			e.Steps, e.trace = append(e.Steps, name), append(e.trace, "step "+name)
		}
		switch s.Op {
		case Failing, Panicking:
			e.Unrecorded, e.trace = append(e.Unrecorded, s.Name), append(e.trace, string(s.Op))
		case Branch:
			more, err := s.branch(outcomes[s.Keys[0]]).Expect(outcomes)
			if err != nil {
				return e, err
			}
			e.trace, e.Steps = append(e.trace, more.trace...), append(e.Steps, more.Steps...)
			e.Unrecorded = append(e.Unrecorded, more.Unrecorded...)
		}
	}
	return e, nil
}

// Trace returns the trace of the program whose steps had these numbers when they were recorded.
func (e *Expected) Trace(numbers map[string]int64) []string {
	trace := slices.Clone(e.trace)
	for i, line := range trace {
		if step, ok := strings.CutPrefix(line, "step "); ok {
			trace[i] = resultOf(step, numbers[step])
		}
	}
	return trace
}

// NeverTwice reports whether the step of this name never runs twice. If nobody knows what came of it, its result has
// the number 0.
func NeverTwice(step string) bool { return strings.HasSuffix(step, "!") }

// Unknown is the result of such a step.
func Unknown(step string) string { return resultOf(step, 0) }

// resultOf is the result of a step in the run that has this number.
func resultOf(step string, number int64) string { return fmt.Sprintf("step %s=%d", step, number) }

// Number returns the number of the run in the result of a step, as it is recorded.
func Number(result []byte) (number int64) {
	_, after, _ := strings.Cut(string(result), "=")
	fmt.Sscan(after, &number)
	return number
}
