package journal

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A step that never runs twice is recorded before and after it runs. Every run gets the same of it, also one whose
// release has made an ordinary step of it.
func TestStepOnce(t *testing.T) {
	begun := Entry{Kind: Begun, Key: "pay", Value: appendBytes(appendTime(nil, noon), "host, process 7")}
	unknown := &UnknownOutcomeError{Step: "pay", Since: noon, By: "host, process 7"}
	late := *unknown
	late.Cause = "no answer"
	full := errors.New("the store is full")
	none := &DidNotHappenError{"no money"}
	for _, tt := range []struct {
		name    string
		journal []Entry
		step    error
		commits int // those that do not fail
		want    error
		ran     bool
		kinds   string // of the journal afterwards
	}{
		{name: "it has a result", commits: 2, ran: true, kinds: "bs"},
		{name: "it fails", step: errors.New("no answer"), commits: 2, want: &late, ran: true, kinds: "bf"},
		{name: "it did not happen", step: errors.Join(none), commits: 2, want: none, ran: true, kinds: "bf"},
		{name: "its process died", journal: []Entry{begun}, want: unknown, kinds: "b"},
		{name: "its beginning is not recorded", want: full, kinds: ""},
		{name: "its result is not recorded", commits: 1, want: full, ran: true, kinds: "b"},
		{name: "its failure is not recorded", step: none, commits: 1, want: full, ran: true, kinds: "b"},
	} {
		j := &Journal{Entries: slices.Clone(tt.journal)}
		ran, again := 0, errors.New("again")
		for i := range 3 {
			run := Begin(j, nil, new(bound.Limits))
			run.Commit = func(context.Context, *Entry) error {
				if tt.commits--; tt.commits < 0 {
					return full
				}
				return nil
			}
			do := func(context.Context) ([]byte, error) { ran++; return []byte("1"), tt.step }
			var value []byte
			var err error
			if i < 2 {
				value, err = run.StepOnce(t.Context(), "pay", noon, "host, process 7", do)
			} else {
				value, err = run.Step(t.Context(), "pay", do)
			}
			if errors.Is(tt.want, full) {
				expect.Is(t, tt.name, err, full)
				break
			}
			if diff := cmp.Diff(tt.want, err, cmp.Comparer(sameError)); diff != "" || tt.want == nil && string(value) != "1" {
				t.Errorf("%s, run %d: %q, %v, want %v", tt.name, i, value, err, tt.want)
			}
			if i > 0 && err != nil && err.Error() != again.Error() {
				t.Errorf("%s, run %d: %q, and before that %q", tt.name, i, err, again)
			}
			again = err
		}
		kinds := ""
		for _, e := range j.Entries {
			kinds += string(e.Kind)
		}
		if ran > 1 || ran == 1 != tt.ran || kinds != tt.kinds {
			t.Errorf("%s: ran %d times, with the entries %q, want %v and %q", tt.name, ran, kinds, tt.ran, tt.kinds)
		}
	}
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return cmp.Equal(a, b) && a.Error() == b.Error()
}

// A step whose context ends while its beginning is recorded does not run, then or later.
func TestStepOnceThatIsEndedBeforeItRuns(t *testing.T) {
	j := new(Journal)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := errors.New("the lease is lost")
	for i := range 2 {
		run := Begin(j, nil, new(bound.Limits))
		run.Commit = func(context.Context, *Entry) error { cancel(ended); return nil }
		_, err := run.StepOnce(ctx, "pay", noon, "here", func(context.Context) ([]byte, error) {
			t.Error("the step ran")
			return nil, nil
		})
		if _, unknown := errors.AsType[*UnknownOutcomeError](err); unknown != (i == 1) || i == 0 && !errors.Is(err, ended) {
			t.Errorf("run %d ends with %v", i, err)
		}
	}
}
