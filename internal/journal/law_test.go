package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/bound"
)

// program is a handler made at random: statements run in order, and each adds what it
// learned to the trace, which is the handler's result.
type program []statement

type statement struct {
	op   string // ask, ahead (ask and go on), together, step, checkpoint, branch
	keys []string
	then program // of a branch on the answer to keys[0]
	els  program
}

// programs makes programs; at says where in the whole one this part stands, so that
// each step and checkpoint has a name of its own.
func programs(depth int, at string) *rapid.Generator[program] {
	return rapid.Custom(func(t *rapid.T) program {
		var p program
		for i := range rapid.IntRange(0, 4).Draw(t, "length") {
			ops := []string{"ask", "ahead", "together", "step", "checkpoint", "branch"}
			if depth == 0 {
				ops = ops[:5]
			}
			s := statement{op: rapid.SampledFrom(ops).Draw(t, "op")}
			place := fmt.Sprintf("%s.%d", at, i)
			switch s.op {
			case "ask", "ahead", "branch":
				s.keys = []string{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")}
			case "together":
				keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
				s.keys = rapid.SliceOfNDistinct(keys, 1, 4, rapid.ID).Draw(t, "keys")
			default:
				s.keys = []string{place}
			}
			if s.op == "branch" {
				s.then = programs(depth-1, place+"y").Draw(t, "then")
				s.els = programs(depth-1, place+"n").Draw(t, "else")
			}
			p = append(p, s)
		}
		return p
	})
}

// oracle is what the client answers: a function of the question alone.
func oracle(key string) string { return strings.Repeat(key, int(key[0]-'a')%3+1) }

// execute runs p against run and returns its result.
func (p program) execute(run *Run, did func(step string)) ([]string, error) {
	asked := make(map[string]func() (string, error)) // an answer is kept for the rest of the run
	ask := func(key string) (string, error) {
		if asked[key] == nil {
			asked[key] = sync.OnceValues(func() (string, error) {
				v, err := run.Ask(Ask{Key: key, Digest: Digest{key[0]}, Accept: func(raw []byte) ([]byte, error) {
					if string(raw) == "unfit" {
						return nil, errors.New("unfit")
					}
					return append([]byte("ok:"), raw...), nil
				}})
				return string(v), err
			})
		}
		return asked[key]()
	}
	return p.follow(run, ask, did)
}

func (p program) follow(
	run *Run, ask func(key string) (string, error), did func(step string),
) ([]string, error) {
	var trace []string
	var open error // a question that the handler has gone ahead of
	for _, s := range p {
		switch s.op {
		case "ask", "branch":
			v, err := ask(s.keys[0])
			if err != nil {
				return nil, err
			}
			trace = append(trace, s.keys[0]+"="+v)
			if s.op == "branch" {
				next := s.then
				if len(v)%2 == 0 {
					next = s.els
				}
				more, err := next.follow(run, ask, did)
				if err != nil {
					return nil, err
				}
				trace = append(trace, more...)
			}
		case "ahead":
			v, err := ask(s.keys[0])
			if err != nil {
				open = err
			}
			trace = append(trace, s.keys[0]+"="+v)
		case "together":
			for _, key := range s.keys {
				v, err := ask(key)
				if err != nil {
					open = err
				}
				trace = append(trace, key+"="+v)
			}
			if open != nil {
				return nil, open
			}
		case "step":
			v, err := run.Step(context.Background(), s.keys[0], func(context.Context) ([]byte, error) {
				did(s.keys[0])
				return []byte("did " + s.keys[0]), nil
			})
			if err != nil {
				return nil, err
			}
			trace = append(trace, string(v))
		case "checkpoint":
			if err := run.Checkpoint(context.Background(), s.keys[0]); err != nil {
				return nil, err
			}
		}
	}
	return trace, open
}

// uninterrupted is the result with all answers at hand.
func (p program) uninterrupted(t *rapid.T) []string {
	j := new(Journal)
	for range 1000 {
		all := map[string][]byte{}
		for _, q := range j.Pending {
			all[q.Wire] = []byte(oracle(q.Key))
		}
		run := Begin(j, all, new(bound.Limits))
		trace, err := p.execute(run, func(string) {})
		_, suspended, err := run.Finish(err)
		if err != nil {
			t.Fatal(err)
		}
		if !suspended {
			return trace
		}
	}
	t.Fatal("the program does not end")
	return nil
}

// The law of the package: cut into rounds in any way, with answers that are missing,
// unfit or unasked for, responses that are lost and requests that are repeated, the
// result is that of the uninterrupted run, and no step runs that the journal recorded.
func TestLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := programs(2, "").Draw(t, "program")
		want := p.uninterrupted(t)

		// What a client holds: the states it received, oldest first, encoded as they
		// would travel. It may go on from any of them, as one does whose later
		// responses were lost.
		states := [][]byte{(&Journal{ID: "call"}).Append(nil)}
		for round := 0; ; round++ {
			at := len(states) - 1
			lossy := round < 12 // then the network heals
			if lossy && at > 0 && rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
				at = rapid.IntRange(0, at).Draw(t, "back to")
			}
			j, err := Decode(states[at])
			if err != nil {
				t.Fatal(err)
			}
			recorded := map[string]bool{}
			for _, e := range j.Entries {
				if e.Kind == Step {
					recorded[e.Key] = true
				}
			}
			responses := map[string][]byte{"z": []byte("unasked for")}
			for _, q := range j.Pending {
				switch {
				case !lossy || rapid.IntRange(0, 3).Draw(t, "answers") > 0:
					responses[q.Wire] = []byte(oracle(q.Key))
				case rapid.Bool().Draw(t, "unfit"):
					responses[q.Wire] = []byte("unfit")
				}
			}
			j.By = rapid.SampledFrom([][]input.Provenance{nil, {alice}, {alice, bob}}).Draw(t, "by")
			run := Begin(j, responses, new(bound.Limits))
			got, err := p.execute(run, func(step string) {
				if recorded[step] {
					t.Fatalf("step %s ran again although the journal has it", step)
				}
				if run.Suspended() {
					t.Fatalf("step %s ran past an open question", step)
				}
			})
			_, suspended, err := run.Finish(err)
			if strayed := run.Strayed(); strayed != nil {
				t.Fatalf("a deterministic program strays from its answers to %q", strayed)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !suspended {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("the result differs from the uninterrupted run (-want +got):\n%s", diff)
				}
				return
			}
			states = append(states[:at+1:at+1], j.Append(nil))
			if round > 1000 {
				t.Fatal("the call does not end")
			}
		}
	})
}

// A journal that stays in memory between rounds, as in a legacy session, obeys the law
// as one that travels does.
func TestLawInMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := programs(2, "").Draw(t, "program")
		want := p.uninterrupted(t)
		did := map[string]int{}
		j := new(Journal)
		for {
			responses := map[string][]byte{}
			for _, q := range j.Pending {
				if rapid.IntRange(0, 2).Draw(t, "answers") > 0 {
					responses[q.Wire] = []byte(oracle(q.Key))
				}
			}
			run := Begin(j, responses, new(bound.Limits))
			got, err := p.execute(run, func(step string) { did[step]++ })
			_, suspended, err := run.Finish(err)
			if strayed := run.Strayed(); strayed != nil {
				t.Fatalf("a deterministic program strays from its answers to %q", strayed)
			}
			if err != nil {
				t.Fatal(err)
			}
			if suspended {
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("the result differs from the uninterrupted run (-want +got):\n%s", diff)
			}
			for step, times := range did {
				if times != 1 {
					t.Fatalf("step %s ran %d times", step, times)
				}
			}
			return
		}
	})
}
