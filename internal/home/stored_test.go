package home_test

import (
	"context"
	"errors"
	"testing"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// leased is the context of a worker: its Err looks at the lease, which may be lost before Done is closed.
type leased struct {
	context.Context
	lost error
}

func (l *leased) Err() error {
	if l.lost != nil {
		return l.lost
	}
	return l.Context.Err()
}

// Nothing begins under a lease that is lost, whatever context the author passes: neither a step nor a checkpoint. A
// step that runs sees it, too.
func TestNothingBeginsAfterTheLease(t *testing.T) {
	worker := &leased{Context: t.Context()}
	kept := home.NewStored(&taskrun.Work{Task: new(task.Task),
		Call: (&stored.Call{ID: "id", Params: []byte(`{}`)}).Append(nil)})
	opened, err := kept.Open(worker)
	if err != nil {
		t.Fatal(err)
	}
	var run journal.Run
	kept.Begin(&run, opened.Journal, opened.Answers, new(bound.Limits))
	run.Commit = nil // this test has no store
	for _, name := range []string{"worker", "author"} {
		worker.lost = nil
		ctx := context.Context(worker)
		if name == "author" {
			ctx = context.WithoutCancel(worker)
		}
		_, err := run.Step(ctx, name+" before", func(ctx context.Context) ([]byte, error) {
			if err := ctx.Err(); err != nil {
				t.Errorf("%s: a step with a lease: %v", name, err)
			}
			worker.lost = task.ErrLeaseLost
			if err := ctx.Err(); !errors.Is(err, task.ErrLeaseLost) {
				t.Errorf("%s: the lease is lost, and the context of the step says %v", name, err)
			}
			return nil, nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err = run.Step(ctx, name+" after", func(context.Context) ([]byte, error) {
			t.Errorf("%s: a step began after the lease", name)
			return nil, nil
		})
		if !errors.Is(err, task.ErrLeaseLost) {
			t.Errorf("%s: a step after the lease: %v", name, err)
		}
		if err := run.Checkpoint(ctx, name); !errors.Is(err, task.ErrLeaseLost) {
			t.Errorf("%s: a checkpoint after the lease: %v", name, err)
		}
	}
}

// A task with an entry that a newer release wrote is left to that release. A damaged journal is nobody's.
func TestAJournalOfANewerReleaseIsLeftToIt(t *testing.T) {
	open := func(entry []byte) error {
		kept := home.NewStored(&taskrun.Work{Task: new(task.Task), Entries: [][]byte{entry},
			Call: (&stored.Call{ID: "id", Params: []byte(`{}`)}).Append(nil)})
		_, err := kept.Open(t.Context())
		return err
	}
	if err := open([]byte{0xff, 1, 'k'}); !errors.Is(err, taskrun.ErrElsewhere) {
		t.Errorf("a newer entry: %v", err)
	}
	if err := open([]byte{byte(journal.Step), 9}); err == nil || errors.Is(err, taskrun.ErrElsewhere) {
		t.Errorf("a damaged entry: %v", err)
	}
}
