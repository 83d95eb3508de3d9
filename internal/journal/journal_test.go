package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func question(key, text string) Ask {
	var d Digest
	copy(d[:], text)
	return Ask{Key: key, Digest: d, Accept: func(raw []byte) ([]byte, error) {
		if string(raw) == "unfit" {
			return nil, errors.New("unfit")
		}
		return raw, nil
	}}
}

func answers(pairs ...string) map[string][]byte {
	m := make(map[string][]byte)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return m
}

// round runs one round of a handler that asks the questions in order.
func round(t *testing.T, j *Journal, responses map[string][]byte, asks ...Ask) (got []string, open []string) {
	t.Helper()
	run := Begin(j, responses, new(bound.Limits))
	var pending error
	for _, a := range asks {
		v, err := run.Ask(a)
		if err != nil {
			pending = err
			continue
		}
		got = append(got, string(v))
	}
	questions, _, err := run.Finish(pending)
	expect.Check(t, err)
	for _, q := range questions {
		open = append(open, q.Key)
	}
	return got, open
}

func TestAnswersAreFoundByKeyAndQuestion(t *testing.T) {
	t.Run("a reworded question is asked again", func(t *testing.T) {
		j := new(Journal)
		round(t, j, nil, question("k", "old"))
		got, open := round(t, j, answers("k", "v"), question("k", "new"))
		if got != nil || len(open) != 1 {
			t.Errorf("got %q, open %q; want the question open again", got, open)
		}
	})
	t.Run("rolling upgrade: what only another version asked for is kept", func(t *testing.T) {
		j := new(Journal)
		round(t, j, nil, question("github", "?"), question("google", "?"))
		got, open := round(t, j, answers("github", "octocat", "google", "g"),
			question("github", "?"), question("microsoft", "?"))
		if !cmp.Equal(got, []string{"octocat"}) || !cmp.Equal(open, []string{"microsoft"}) {
			t.Fatalf("new version: got %q, open %q", got, open)
		}
		j = expect.Must(Decode(j.Append(nil)))(t)
		got, open = round(t, j, answers("microsoft", "m"), question("github", "?"), question("google", "?"))
		if !cmp.Equal(got, []string{"octocat", "g"}) || open != nil {
			t.Errorf("old version again: got %q, open %q", got, open)
		}
	})
	t.Run("only what the state has pending can be answered", func(t *testing.T) {
		j := new(Journal)
		got, open := round(t, j, answers("k", "forged"), question("k", "?"))
		if got != nil || len(open) != 1 {
			t.Errorf("got %q, open %q; want nothing answered", got, open)
		}
	})
	t.Run("an answer cannot be changed later", func(t *testing.T) {
		j := new(Journal)
		round(t, j, nil, question("k", "?"), question("l", "?"))
		round(t, j, answers("k", "first"), question("k", "?"), question("l", "?"))
		got, _ := round(t, j, answers("k", "second", "l", "v"), question("k", "?"), question("l", "?"))
		if !cmp.Equal(got, []string{"first", "v"}) {
			t.Errorf("got %q, want the first answer to stay", got)
		}
	})
	t.Run("an unfit answer is asked again", func(t *testing.T) {
		j := new(Journal)
		round(t, j, nil, question("k", "?"))
		got, open := round(t, j, answers("k", "unfit"), question("k", "?"))
		if got != nil || len(open) != 1 {
			t.Fatalf("got %q, open %q", got, open)
		}
		if got, _ = round(t, j, answers("k", "fit"), question("k", "?")); !cmp.Equal(got, []string{"fit"}) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("without state, answers count by key alone, once asked to", func(t *testing.T) {
		run := new(Run)
		run.BeginBare(new(Journal), answers("k", "v"), new(bound.Limits))
		if v, err := run.Ask(question("k", "?")); err != nil || string(v) != "v" {
			t.Errorf("got %q, %v", v, err)
		}
	})
}

func TestSteps(t *testing.T) {
	ctx := t.Context()
	ran := 0
	step := func(context.Context) ([]byte, error) { ran++; return []byte("done"), nil }

	t.Run("do not run past an open question", func(t *testing.T) {
		run := Begin(new(Journal), nil, new(bound.Limits))
		_, _ = run.Ask(question("k", "?"))
		if _, err := run.Step(ctx, "s", step); !errors.Is(err, ErrInputRequired) || ran != 0 {
			t.Errorf("err = %v after %d runs", err, ran)
		}
	})
	t.Run("record nothing when they fail", func(t *testing.T) {
		j := new(Journal)
		down := func(context.Context) ([]byte, error) { return nil, errors.New("down") }
		_, err := Begin(j, nil, new(bound.Limits)).Step(ctx, "s", down)
		if err == nil || len(j.Entries) != 0 {
			t.Errorf("err = %v, entries %v", err, j.Entries)
		}
	})
	t.Run("run once per journal", func(t *testing.T) {
		ran = 0
		j := new(Journal)
		for range 3 {
			if v, err := Begin(j, nil, new(bound.Limits)).Step(ctx, "s", step); err != nil || string(v) != "done" {
				t.Fatalf("got %q, %v", v, err)
			}
		}
		expect.Equal(t, "ran", ran, 1)
	})
	t.Run("need a name of their own", func(t *testing.T) {
		run := Begin(new(Journal), nil, new(bound.Limits))
		_, _ = run.Step(ctx, "s", step)
		expect.Fails(t, "err", expect.Err(run.Step(ctx, "s", step)), `"s"`)
	})
	t.Run("do not start once the request is cancelled", func(t *testing.T) {
		ran = 0
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := Begin(new(Journal), nil, new(bound.Limits)).Step(ctx, "s", step)
		if !errors.Is(err, context.Canceled) || ran != 0 {
			t.Errorf("err = %v after %d runs", err, ran)
		}
	})
}

// A question inside a step is an error, whether it has an answer or not. Questions of other
// goroutines are asked while a step runs.
func TestAStepCannotAsk(t *testing.T) {
	j := new(Journal)
	round(t, j, nil, question("answered", "?"))
	run := Begin(j, answers("answered", "yes"), new(bound.Limits))
	refused := func(name string, a Ask) {
		t.Helper()
		_, err := run.Step(t.Context(), name, func(context.Context) ([]byte, error) { return run.Ask(a) })
		if err == nil || errors.Is(err, ErrInputRequired) || !strings.Contains(err.Error(), "a step cannot ask") {
			t.Errorf("a question in the step %q: %v", name, err)
		}
	}
	refused("an answered question", question("answered", "?"))
	refused("an open question", question("open", "?"))
	_, err := run.Step(t.Context(), "a question far down", func(context.Context) ([]byte, error) {
		var down func(n int) ([]byte, error)
		down = func(n int) ([]byte, error) {
			if n == 0 {
				return run.Ask(question("open", "?"))
			}
			return down(n - 1)
		}
		return down(1000)
	})
	expect.Fails(t, "a question far down in a step", err, "a step cannot ask")
	if run.Suspended() {
		t.Fatal("a question in a step suspended the call")
	}

	running, asked, stepped := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := run.Step(t.Context(), "elsewhere", func(context.Context) ([]byte, error) {
			close(running)
			<-asked
			return nil, nil
		})
		stepped <- err
	}()
	<-running
	if v, err := run.Ask(question("answered", "?")); err != nil || string(v) != "yes" {
		t.Errorf("an answered question beside a step: %q, %v", v, err)
	}
	if _, err := run.Ask(question("open", "?")); !errors.Is(err, ErrInputRequired) {
		t.Errorf("an open question beside a step: %v", err)
	}
	close(asked)
	if err := <-stepped; err != nil {
		t.Errorf("the step beside the questions: %v", err)
	}
}

// A step that panics has ended, and the questions after it are asked.
func TestAskAfterAStepThatPanicked(t *testing.T) {
	run := Begin(new(Journal), nil, new(bound.Limits))
	_, err := run.Step(t.Context(), "outer", func(ctx context.Context) ([]byte, error) {
		func() {
			defer func() { _ = recover() }()
			_, _ = run.Step(ctx, "inner", func(context.Context) ([]byte, error) { panic("inside") })
		}()
		_, err := run.Ask(question("k", "?"))
		return nil, err
	})
	expect.Fails(t, "a question in a step after one that panicked", err, "a step cannot ask")
	if _, err := run.Ask(question("k", "?")); !errors.Is(err, ErrInputRequired) {
		t.Errorf("a question after steps: %v", err)
	}
	expect.Equal(t, "steps run after all have ended", run.active, 0)
}

func TestCheckpointSuspendsOnce(t *testing.T) {
	j := new(Journal)
	run := Begin(j, nil, new(bound.Limits))
	asks, suspended, err := run.Finish(run.Checkpoint(t.Context(), "c"))
	if err != nil || !suspended || len(asks) != 0 {
		t.Fatalf("asks %v, suspended %v, err %v; want suspended without questions", asks, suspended, err)
	}
	if err := Begin(j, nil, new(bound.Limits)).Checkpoint(t.Context(), "c"); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// One answer stands for one question, however it was settled, and however many entries are before it. A question that
// asks for something else under the same key is another one.
func TestAnAnswerIsReadOnce(t *testing.T) {
	j := new(Journal)
	for i := range 100 {
		key := fmt.Sprint("k", i)
		round(t, j, nil, question(key, "?"))
		round(t, j, answers(key, "v"), question(key, "?"))
	}
	j.Pending = []Question{{Key: "k", Wire: "k", Digest: question("k", "?").Digest}}
	run := Begin(j, answers("k", "unfit"), new(bound.Limits))
	_, _ = run.Ask(question("k", "?")) // forgotten, and so asked again
	for _, key := range []string{"k99", "k", "k0", "k98"} {
		first, again := question(key, "?"), question(key, "?")
		if key != "k" {
			if _, err := run.Ask(first); err != nil {
				t.Fatal(key, err)
			}
		}
		if _, err := run.Ask(again); err == nil || !strings.Contains(err.Error(), "is asked twice") {
			t.Errorf("%q asked again: %v", key, err)
		}
	}
	if _, err := run.Ask(question("k99", "another?")); !errors.Is(err, ErrInputRequired) {
		t.Errorf("another question under a key: %v", err)
	}
	if v, err := Begin(j, nil, new(bound.Limits)).Ask(question("k99", "?")); err != nil || string(v) != "v" {
		t.Errorf("in the next run: %q, %v", v, err)
	}
}

func TestOutcomes(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name      string
		handler   func(*Run) error
		suspended bool
		err       string
	}{
		{"done", func(*Run) error { return nil }, false, ""},
		{"failed", func(*Run) error { return boom }, false, "boom"},
		{"asked and returned the ask's error", func(r *Run) error {
			_, err := r.Ask(question("k", "?"))
			return err
		}, true, ""},
		{"asked and returned nothing", func(r *Run) error { _, _ = r.Ask(question("k", "?")); return nil }, true, ""},
		{"asked and failed otherwise", func(r *Run) error { _, _ = r.Ask(question("k", "?")); return boom }, false, "boom"},
		{"suspended without asking", func(*Run) error { return ErrInputRequired }, false, "without having asked"},
		{"two questions under one key", func(r *Run) error {
			_, _ = r.Ask(question("k", "?"))
			_, err := r.Ask(question("k", "!"))
			return err
		}, false, `"k"`},
		{"one question asked twice", func(r *Run) error {
			_, _ = r.Ask(question("k", "?"))
			_, err := r.Ask(question("k", "?"))
			return err
		}, false, `question "k" is asked twice in one run: give each question its own key, such as fmt.Sprintf("k %d", i)`},
		{"one checkpoint reached twice", func(r *Run) error {
			_ = r.Checkpoint(t.Context(), "c")
			return r.Checkpoint(t.Context(), "c")
		}, false, `the checkpoint "c" is reached twice in one run`},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := Begin(new(Journal), nil, new(bound.Limits))
			_, suspended, err := run.Finish(test.handler(run))
			if suspended != test.suspended || (err == nil) != (test.err == "") ||
				err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("suspended %v, err %v", suspended, err)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	run := Begin(new(Journal), nil, &bound.Limits{Questions: 1})
	_, _ = run.Ask(question("a", "?"))
	_, err := run.Ask(question("b", "?"))
	if limit, ok := errors.AsType[*fault.LimitError](err); !ok || limit.Limit != "questions per round" {
		t.Errorf("second question: %v", err)
	}

	j := new(Journal)
	for i := range 3 {
		run := Begin(j, nil, &bound.Limits{Rounds: 2})
		_, err := run.Ask(question("a", "?"))
		_, suspended, err := run.Finish(err)
		if i < 2 && !suspended {
			t.Errorf("round %d: %v", i+1, err)
		}
		if limit, ok := errors.AsType[*fault.LimitError](err); i == 2 && (!ok || limit.Limit != "rounds per call") {
			t.Errorf("round 3: %v", err)
		}
	}
}

// A round of sleeps alone does not count against the limit of rounds. One with a question or a checkpoint does.
func TestSleepsHaveNoLimitOfRounds(t *testing.T) {
	limits := &bound.Limits{Rounds: 1}
	sleep := question("(sleep)", "")
	sleep.Apart, sleep.Sleep, sleep.Within = true, true, time.Hour
	for says, beside := range map[string]func(run *Run){
		"a question":   func(run *Run) { _, _ = run.Ask(question("a", "?")) },
		"a checkpoint": func(run *Run) { _ = run.Checkpoint(t.Context(), "half") },
	} {
		j := &Journal{Round: 2, Entries: []Entry{{Kind: Slept}}}
		run := Begin(j, nil, limits)
		_, err := run.Ask(sleep)
		if _, suspended, err := run.Finish(err); !suspended || err != nil || !j.Asleep || j.Round != 3 {
			t.Errorf("at the limit it sleeps: %v, %v, in round %d", suspended, err, j.Round)
		}
		run = Begin(j, nil, limits)
		beside(run)
		_, err = run.Ask(sleep)
		if _, suspended, err := run.Finish(err); suspended || fault.Of(err) != fault.Limit || j.Asleep {
			t.Errorf("%s beside a sleep: %v, %v", says, suspended, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, j := range examples {
		f.Add(j.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(j.Append(nil))
		if diff := cmp.Diff(j, again); err != nil || diff != "" {
			t.Errorf("what was decoded does not survive encoding: %v\n%s", err, diff)
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(name(n), func(b *testing.B) {
			j := &Journal{ID: "CALLID", Started: time.UnixMilli(1795171200123)}
			asks := make([]Ask, n)
			for i := range asks {
				asks[i] = question(name(i), name(i))
				j.Entries = append(j.Entries, Entry{
					Kind: Answer, Key: asks[i].Key, Digest: asks[i].Digest,
					Value: []byte(`{"action":"accept","content":{"name":"octocat"}}`),
				})
			}
			data := j.Append(nil)
			b.ReportAllocs()
			for b.Loop() {
				j, err := Decode(data)
				expect.Check(b, err)
				run := Begin(j, nil, new(bound.Limits))
				for _, a := range asks {
					if _, err := run.Ask(a); err != nil {
						b.Fatal(err)
					}
				}
				if _, suspended, err := run.Finish(nil); suspended || err != nil {
					b.Fatal(suspended, err)
				}
			}
		})
	}
}

func name(i int) string {
	return "entries-" + string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range examples["every kind of entry"].Entries {
		f.Add(e.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := DecodeEntry(data)
		if err != nil {
			return
		}
		again, err := DecodeEntry(e.Append(nil))
		if diff := cmp.Diff(e, again); err != nil || diff != "" {
			t.Errorf("what was decoded does not survive encoding: %v\n%s", err, diff)
		}
	})
}

func TestWireKeysAreNeverUsedTwice(t *testing.T) {
	j := &Journal{
		Pending: []Question{{Wire: "a#2"}},
		Entries: []Entry{{Kind: Delivered, Key: "a"}, {Kind: Delivered, Key: "a#3"}, {Kind: Step, Key: "b"}},
	}
	for key, want := range map[string]string{"a": "a#4", "b": "b", "a#2": "a#2#2"} {
		if got := j.WireKey(key); got != want {
			t.Errorf("the wire key of %q is %q, want %q", key, got, want)
		}
	}
}

// No two questions of a call share a wire key, whether the first was answered or not, also if none was asked in
// between.
func TestDistinctKeys(t *testing.T) {
	ask := func(j *Journal, responses map[string][]byte, digests ...byte) string {
		run := Begin(j, responses, new(bound.Limits))
		for _, d := range digests {
			_, _ = run.Ask(Ask{Key: "k", Digest: Digest{15: d}, Accept: func(raw []byte) ([]byte, error) { return raw, nil }})
		}
		if len(digests) == 0 {
			_ = run.Checkpoint(t.Context(), fmt.Sprint("between ", j.Round))
		}
		if _, suspended, err := run.Finish(ErrInputRequired); !suspended || err != nil {
			t.Fatal(suspended, err)
		}
		if len(digests) == 0 {
			return ""
		}
		return j.Pending[len(j.Pending)-1].Wire
	}
	wire := func(d byte) string { return "k#" + hex.EncodeToString(append(make([]byte, 15), d)) }
	j := new(Journal)
	for _, c := range []struct {
		responses map[string][]byte
		digests   []byte
		want      string
	}{
		{nil, []byte{1}, "k"},
		{nil, []byte{1}, "k"},
		{nil, []byte{2}, wire(2)}, // in place of one that was not answered
		{nil, []byte{2}, wire(2)},
		{map[string][]byte{wire(2): []byte("2")}, []byte{2, 3}, wire(3)},
		{nil, []byte{2, 3}, wire(3)},
		{map[string][]byte{wire(3): []byte("3")}, []byte{2, 3, 4}, wire(4)},
		{nil, nil, ""},
		{nil, []byte{5}, wire(5)},
		{nil, []byte{1}, wire(1)},
	} {
		expect.Equal(t, "the wire key", ask(j, c.responses, c.digests...), c.want)
	}
}

// A run that is halted finds what is recorded, and begins nothing else.
func TestHaltedRunGoesAsFarAsItCame(t *testing.T) {
	j := &Journal{Entries: []Entry{{Kind: Step, Key: "done", Value: []byte("1")}, {Kind: Checkpoint, Key: "passed"}}}
	halt := errors.New("halted")
	run := Begin(j, nil, new(bound.Limits))
	run.Halt = halt
	if value, err := run.Step(t.Context(), "done", nil); err != nil || string(value) != "1" {
		t.Errorf("a recorded step: %q, %v", value, err)
	}
	if err := run.Checkpoint(t.Context(), "passed"); err != nil {
		t.Errorf("a checkpoint that was passed: %v", err)
	}
	if _, err := run.Step(t.Context(), "new", nil); !errors.Is(err, halt) {
		t.Errorf("a new step: %v", err)
	}
	expect.Is(t, "a new checkpoint", run.Checkpoint(t.Context(), "new"), halt)
	if _, err := run.Ask(Ask{Key: "new"}); !errors.Is(err, halt) {
		t.Errorf("a new question: %v", err)
	}
}

// What could not be committed is not recorded, and nothing is begun after it.
func TestRunEndsWithAFailedCommit(t *testing.T) {
	j := new(Journal)
	lost := errors.New("lost")
	run := Begin(j, nil, new(bound.Limits))
	run.Commit = func(context.Context, *Entry) error { return lost }
	one := func(context.Context) ([]byte, error) { return []byte("1"), nil }
	if _, err := run.Step(t.Context(), "first", one); !errors.Is(err, lost) || len(j.Entries) > 0 {
		t.Errorf("%v, with the entries %v", err, j.Entries)
	}
	if _, err := run.Step(t.Context(), "second", func(context.Context) ([]byte, error) {
		t.Error("the second step ran")
		return nil, nil
	}); !errors.Is(err, lost) {
		t.Errorf("after that: %v", err)
	}
}

// What a state carries is a journal or a reference, and never both.
func FuzzDecodeReference(f *testing.F) {
	f.Add(AppendReference(nil, [32]byte{1, 2, 255}))
	f.Add([]byte("stored:"))
	f.Add(append(AppendReference(nil, [32]byte{}), 0))
	f.Add(examples["a trace"].Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		sum, ok := DecodeReference(data)
		_, err := Decode(data)
		if ok && err == nil {
			t.Errorf("%q is both", data)
		}
		if again := AppendReference(nil, sum); ok && string(again) != string(data) {
			t.Errorf("%q is a second spelling of %q", data, again)
		}
		want := [32]byte(append(data, make([]byte, 32)...))
		if sum, ok := DecodeReference(AppendReference(nil, want)); !ok || sum != want {
			t.Errorf("a reference does not survive encoding")
		}
	})
}

// A step that another goroutine runs while a question ends the round is recorded.
func TestFinishWaitsForSteps(t *testing.T) {
	j := &Journal{ID: "x"}
	begun, end := make(chan bool), make(chan bool)
	run := Begin(j, nil, new(bound.Limits))
	go func() {
		_, _ = run.Step(t.Context(), "slow", func(context.Context) ([]byte, error) {
			begun <- true
			<-end
			return []byte("1"), nil
		})
	}()
	<-begun
	time.AfterFunc(10*time.Millisecond, func() { close(end) })
	if _, err := run.Ask(Ask{Key: "q"}); !errors.Is(err, ErrInputRequired) {
		t.Fatal(err)
	}
	if _, suspended, err := run.Finish(ErrInputRequired); !suspended || err != nil {
		t.Fatal(suspended, err)
	}
	if j.find(Step, "slow") == nil {
		t.Error("the step ran, and is not recorded")
	}
}

// What a handler left running does not reach the journal, which is on its way by then.
func TestNothingIsRecordedAfterTheRun(t *testing.T) {
	j := new(Journal)
	run := Begin(j, nil, new(bound.Limits))
	started, finished, late := make(chan bool), make(chan bool), make(chan error)
	go func() {
		_, err := run.Step(context.Background(), "step", func(context.Context) ([]byte, error) {
			close(started)
			<-finished
			return nil, nil
		})
		late <- err
	}()
	<-started
	if _, _, err := run.Finish(errors.New("gone")); err == nil {
		t.Error("no error")
	}
	close(finished)
	size := len(j.Append(nil))
	if err := <-late; err == nil || len(j.Append(nil)) != size {
		t.Errorf("the late step: %v, and the journal has %v", err, j.Entries)
	}
	if _, err := run.Step(t.Context(), "next", nil); err == nil {
		t.Error("another step began")
	}
	if err := run.Checkpoint(t.Context(), "checkpoint"); err == nil || errors.Is(err, ErrInputRequired) {
		t.Errorf("a checkpoint: %v", err)
	}
	if _, err := run.Ask(Ask{Key: "key"}); err == nil || errors.Is(err, ErrInputRequired) {
		t.Errorf("a question: %v", err)
	}
}

// Two releases word a question differently, and both wordings were answered: each run is told who answered what it
// asks.
func TestByTellsWhoAnsweredWhatWasAsked(t *testing.T) {
	first, second := question("a", "first"), question("a", "second")
	j := &Journal{Entries: []Entry{
		{Kind: Answer, Key: "a", Digest: first.Digest, Value: []byte("1"), By: []input.Provenance{alice}},
		{Kind: Answer, Key: "a", Digest: second.Digest, Value: []byte("2"), By: []input.Provenance{bob}},
		{Kind: Answer, Key: "b", Digest: second.Digest, Value: []byte("3"), By: []input.Provenance{alice}},
	}}
	if by := Begin(j, nil, new(bound.Limits)).By("a"); len(by) != 1 || by[0].Who != bob.Who {
		t.Errorf("before a question is asked, its last answer is by %v", by)
	}
	for _, c := range []struct {
		ask  Ask
		want input.Provenance
	}{{first, alice}, {second, bob}} {
		run := Begin(j, nil, new(bound.Limits))
		expect.Must(run.Ask(c.ask))(t)
		if by := run.By("a"); len(by) != 1 || by[0].Who != c.want.Who {
			t.Errorf("the answer to %v is by %v, want %v", c.ask.Digest, by, c.want)
		}
	}
}
