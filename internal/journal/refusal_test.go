package journal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// An answer that does not fit is refused, and its refusal is made durable after the run. A person may correct the
// answer, and gives up by giving it again. Nobody can correct what a client's model says.
func TestRefusedAnswers(t *testing.T) {
	refuse := func(t *testing.T, j *Journal, correctable bool, answer string) Refusal {
		t.Helper()
		run := Begin(j, answers("k", answer), new(bound.Limits))
		var marks []Entry
		run.Commit = func(_ context.Context, e *Entry) error { marks = append(marks, *e); return nil }
		q := question("k", "?")
		q.Correctable = correctable
		q.Accept = func(raw []byte) ([]byte, error) { return nil, errors.New("it is none") }
		_, err := run.Ask(q)
		if !errors.Is(err, ErrInputRequired) {
			t.Fatalf("after an unfit answer: %v", err)
		}
		if _, suspended, err := run.Finish(err); err != nil || !suspended {
			t.Fatal(suspended, err)
		}
		if err := run.CommitRefused(t.Context()); err != nil || len(marks) != 1 || marks[0].Kind != Refused {
			t.Fatalf("committed %v, %v", marks, err)
		}
		if err := run.CommitRefused(t.Context()); err != nil || len(marks) != 1 {
			t.Fatalf("committed again: %v, %v", marks, err)
		}
		refused := run.Refused()
		if len(refused) != 1 || refused[0].Key != "k" || refused[0].Reason == nil {
			t.Fatalf("refused %+v", refused)
		}
		return refused[0]
	}
	pending := func() *Journal {
		return &Journal{Pending: []Question{{Key: "k", Wire: "k", Digest: question("k", "?").Digest}}}
	}
	j := pending()
	for i, c := range []struct {
		answer string
		final  bool
	}{{"a", false}, {"b", false}, {"a", false}, {"a", true}} {
		if r := refuse(t, j, true, c.answer); r.Final != c.final {
			t.Errorf("answer %d, %q: final is %v", i+1, c.answer, r.Final)
		}
	}
	r := refuse(t, pending(), false, "a")
	if err := r.Err(); !r.Final || !strings.Contains(err.Error(), `"k"`) || !errors.Is(err, r.Reason) {
		t.Errorf("an answer that nobody can correct: final is %v, %v", r.Final, err)
	}
	limit := &fault.LimitError{Limit: "rounds per call", Max: 3}
	if err := r.LimitReached(limit); !errors.Is(err, limit) || !strings.Contains(err.Error(), r.Reason.Error()) {
		t.Errorf("the limit with the reason: %v", err)
	}
}

// A refusal that cannot be committed ends the run.
func TestRefusalsThatAreNotCommitted(t *testing.T) {
	lost := errors.New("lost")
	j := &Journal{Pending: []Question{
		{Key: "k", Wire: "k", Digest: question("k", "?").Digest}, {Key: "l", Wire: "l", Digest: question("l", "?").Digest},
	}}
	run := Begin(j, answers("k", "unfit", "l", "unfit"), new(bound.Limits))
	run.Commit = func(_ context.Context, e *Entry) error {
		if e.Kind != Refused || e.Key != "k" {
			t.Errorf("%q is committed after an entry that was not", e.Key)
		}
		return lost
	}
	_, err := run.Ask(question("k", "?"))
	_, _ = run.Ask(question("l", "?"))
	if _, _, err := run.Finish(err); err != nil {
		t.Fatal(err)
	}
	expect.Is(t, "run.CommitRefused(t.Context())", run.CommitRefused(t.Context()), lost)
}

// A refusal does not make a run forget which answers its handler has read.
func TestARefusalIsNoStraying(t *testing.T) {
	j := &Journal{Pending: []Question{
		{Key: "k", Wire: "k", Digest: question("k", "?").Digest}, {Key: "l", Wire: "l", Digest: question("l", "?").Digest},
	}}
	run := Begin(j, answers("k", "unfit", "l", "v"), new(bound.Limits))
	if v, err := run.Ask(question("l", "?")); err != nil || string(v) != "v" {
		t.Fatal(string(v), err)
	}
	_, _ = run.Ask(question("k", "?"))
	_, err := run.Ask(question("new", "?"))
	if _, _, err := run.Finish(err); err != nil {
		t.Fatal(err)
	}
	if strayed := run.Strayed(); strayed != nil {
		t.Errorf("the handler has not read %q", strayed)
	}
}

// A server may end two rounds of a call without a question, and no more. The answers that came are kept.
func TestHandBack(t *testing.T) {
	j := &Journal{Pending: []Question{{Key: "k", Wire: "k", Digest: question("k", "?").Digest}, {Key: "l", Wire: "l"}}}
	for n, responses := range []map[string][]byte{answers("k", "v", "z", "not asked"), nil} {
		if !j.MayHandBack() || j.HandedBackTooOften() {
			t.Errorf("before %d rounds it may not", n+1)
		}
		j.HandBack(responses)
	}
	if j.MayHandBack() || j.HandedBackTooOften() {
		t.Error("a third round may be handed back, or the second was too much")
	}
	if j.Round != 2 || len(j.Pending) != 1 || j.Pending[0].Key != "l" {
		t.Errorf("in round %d it waits for %v", j.Round, j.Pending)
	}
	run := Begin(j, nil, new(bound.Limits))
	value, err := run.Ask(question("k", "?"))
	if err != nil || string(value) != "v" || !run.Answered() {
		t.Errorf("the answer is %q, %v", value, err)
	}
	if err := run.Checkpoint(t.Context(), "own"); !errors.Is(err, ErrInputRequired) || !j.HandedBackTooOften() {
		t.Errorf("with a checkpoint of the handler's own: %v", err)
	}
}

// A handler detaches unless a question is open, which has to be answered first.
func TestDetach(t *testing.T) {
	run := Begin(new(Journal), nil, new(bound.Limits))
	if run.Suspended() || run.Detached() || run.Answered() {
		t.Error("a run begins suspended, detached or answered")
	}
	if err := run.Detach(); !errors.Is(err, ErrInputRequired) || !run.Detached() || !run.Suspended() {
		t.Errorf("%v, detached %v, suspended %v", err, run.Detached(), run.Suspended())
	}
	run = Begin(new(Journal), nil, new(bound.Limits))
	_, _ = run.Ask(question("k", "?"))
	if err := run.Detach(); !errors.Is(err, ErrInputRequired) || run.Detached() {
		t.Errorf("past an open question: %v, detached %v", err, run.Detached())
	}
}

func TestManualJournals(t *testing.T) {
	for says, c := range map[string]struct {
		j    Journal
		want bool
	}{
		"a state of its own":              {Journal{Manual: "state"}, true},
		"a question without a digest":     {Journal{Pending: []Question{{Key: "a", Digest: Digest{1}}, {Key: "b"}}}, true},
		"questions that have all digests": {Journal{Pending: []Question{{Key: "a", Digest: Digest{1}}}}, false},
		"a new call":                      {Journal{}, false},
	} {
		if c.j.IsManual() != c.want {
			t.Errorf("%s: %v", says, !c.want)
		}
	}
}

// Nothing begins once the run may do nothing more, and a step that runs sees it.
func TestRunsThatMayDoNothingMore(t *testing.T) {
	j, lost := new(Journal), errors.New("lost")
	run := Begin(j, nil, new(bound.Limits))
	var live error
	run.Live = func() error { return live }
	_, err := run.Step(t.Context(), "s", func(ctx context.Context) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			t.Errorf("before, the step sees %v", err)
		}
		live = lost
		expect.Is(t, "the step sees", ctx.Err(), lost)
		return []byte("1"), nil
	})
	expect.Check(t, err)
	if _, err := run.Step(t.Context(), "t", nil); !errors.Is(err, lost) {
		t.Errorf("a step: %v", err)
	}
	expect.Is(t, "a checkpoint", run.Checkpoint(t.Context(), "c"), lost)
	live = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run.Step(ctx, "u", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a step of a request that has ended: %v", err)
	}
	expect.Diff(t, "the value", []Entry{{Kind: Step, Key: "s", Value: []byte("1")}}, j.Entries)
}

// A checkpoint that was not committed was not passed, and nothing is done after it.
func TestCheckpointsThatAreNotCommitted(t *testing.T) {
	j, lost := new(Journal), errors.New("lost")
	run := Begin(j, nil, new(bound.Limits))
	run.Commit = func(context.Context, *Entry) error { return lost }
	if err := run.Checkpoint(t.Context(), "c"); !errors.Is(err, lost) || len(j.Entries) > 0 || run.Suspended() {
		t.Errorf("%v, with the entries %v", err, j.Entries)
	}
	if _, err := run.Step(t.Context(), "s", nil); !errors.Is(err, lost) {
		t.Errorf("a step after it: %v", err)
	}
}

// An ID for one purpose tells neither the secret nor the ID for another purpose.
func TestDerived(t *testing.T) {
	a, b := Derived("call", "secret"), Derived("task", "secret")
	if a == b || a == Derived("call", "other") || strings.Contains(a+b, "secret") || len(a) != 26 {
		t.Errorf("%s and %s", a, b)
	}
	expect.Equal(t, "it is another one each time", a, Derived("call", "secret"))
}
