package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/test/program"
)

var choices = program.Choices{
	Keys: []string{"a", "b", "c", "d", "e"},
	Ops:  []program.Op{program.Ask, program.Ahead, program.Step, program.Checkpoint, program.Branch},
}

// answerTo is what the client answers to a question: its length depends on the key.
func answerTo(key string) string { return strings.Repeat(key, int(key[0]-'a')%3+1) }

// alone is a world that has a journal and nothing else.
type alone struct{ *Run }

func (w alone) Ask(key string) (string, error) {
	value, err := w.Run.Ask(Ask{Key: key, Digest: Digest{key[0]}, Accept: func(raw []byte) ([]byte, error) {
		if string(raw) == "unfit" {
			return nil, errors.New("unfit")
		}
		return append([]byte("ok:"), raw...), nil
	}})
	return string(value), err
}

func (w alone) Step(
	ctx context.Context, name string, step func(context.Context) (string, error),
) (string, error) {
	value, err := w.Run.Step(ctx, name, func(ctx context.Context) ([]byte, error) {
		result, err := step(ctx)
		return []byte(result), err
	})
	return string(value), err
}

func (w alone) Pause(ctx context.Context, _ program.Op, name string) error {
	return w.Checkpoint(ctx, name)
}

// runProgram runs a program against a journal that has recorded steps in the runs with these numbers, to which it adds
// those that run now. At the end of the program the trace is compared with what is expected.
func runProgram(
	t *rapid.T, p program.Program, j *Journal, responses map[string][]byte, steps map[string]int64,
) (suspended bool) {
	run, ran := Begin(j, responses, new(bound.Limits)), new(program.Runs)
	trace, err := p.Run(t.Context(), alone{run}, ErrInputRequired, ran)
	_, suspended, err = run.Finish(err)
	if strayed := run.Strayed(); strayed != nil {
		t.Fatalf("a deterministic program strays from its answers to %q", strayed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if ahead := ran.Ahead(); len(ahead) > 0 {
		t.Fatalf("the steps %q ran past an open question", ahead)
	}
	for step, numbers := range ran.Numbers() {
		if _, again := steps[step]; again || len(numbers) > 1 {
			t.Fatalf("step %s ran again although the journal has it", step)
		}
		steps[step] = numbers[0]
	}
	if suspended {
		return true
	}
	outcomes := make(map[string]string)
	for _, key := range choices.Keys {
		outcomes[key] = "ok:" + answerTo(key)
	}
	want, err := p.Expect(outcomes)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Trace(steps), trace, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the result differs from the uninterrupted run (-want +got):\n%s", diff)
	}
	if done := slices.Sorted(maps.Keys(steps)); !slices.Equal(done, slices.Sorted(slices.Values(want.Steps))) {
		t.Fatalf("the steps %q were done, want %q", done, want.Steps)
	}
	return false
}

// The law of the package: cut into rounds in any way, with answers that are missing, unfit or unasked for, responses
// that are lost and requests that are repeated, the result is that of the uninterrupted run, and no step runs that the
// journal recorded.
func TestLaw(t *testing.T) {
	// What a client holds: a state as it travels, and the steps that are recorded in it.
	type position struct {
		state []byte
		steps map[string]int64
	}
	law := func(t *rapid.T) {
		p := choices.Program(2, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "program") })
		// The client may go on from any state, as one does whose later responses were lost.
		known := []position{{(&Journal{ID: "call"}).Append(nil), map[string]int64{}}}
		for n := 0; n <= 1000; n++ {
			at := len(known) - 1
			lossy := n < 12 // then the network heals
			if lossy && at > 0 && rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
				at = rapid.IntRange(0, at).Draw(t, "back to")
			}
			j, err := Decode(known[at].state)
			if err != nil {
				t.Fatal(err)
			}
			responses := map[string][]byte{"z": []byte("unasked for")}
			for _, q := range j.Pending {
				switch {
				case !lossy || rapid.IntRange(0, 3).Draw(t, "answers") > 0:
					responses[q.Wire] = []byte(answerTo(q.Key))
				case rapid.Bool().Draw(t, "unfit"):
					responses[q.Wire] = []byte("unfit")
				}
			}
			j.By = rapid.SampledFrom([][]input.Provenance{nil, {alice}, {alice, bob}}).Draw(t, "by")
			steps := maps.Clone(known[at].steps)
			if !runProgram(t, p, j, responses, steps) {
				return
			}
			known = append(known[:at+1:at+1], position{j.Append(nil), steps})
		}
		t.Fatal("the call does not end")
	}
	for range 5 {
		rapid.Check(t, law)
	}
}

// A journal that stays in memory between rounds, as in a legacy session, obeys the law as one that travels does.
func TestLawInMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := choices.Program(2, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "program") })
		j, steps := new(Journal), make(map[string]int64)
		for suspended := true; suspended; {
			responses := map[string][]byte{}
			for _, q := range j.Pending {
				if rapid.IntRange(0, 2).Draw(t, "answers") > 0 {
					responses[q.Wire] = []byte(answerTo(q.Key))
				}
			}
			suspended = runProgram(t, p, j, responses, steps)
		}
	})
}
