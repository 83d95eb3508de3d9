package home

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// Stored is the home of a journal in the store of tasks, for one run of its task. It implements [call.Home].
type Stored struct {
	Work *taskrun.Work

	ctx     context.Context // of the run
	journal *journal.Journal

	mu   sync.Mutex
	lost error // the reason why an entry was not recorded, which voids the run
}

// Open implements [call.Home].
func (s *Stored) Open(ctx context.Context) (*journal.Journal, *call.Outcome, error) {
	s.ctx = ctx
	began, err := stored.DecodeCall(s.Work.Call)
	if err != nil {
		return nil, nil, err
	}
	if s.journal, err = stored.DecodeJournal(began.ID, s.Work.Task.Round, s.Work.Entries); err != nil {
		if errors.Is(err, journal.ErrNewer) { // its instances continue the task, and it has not failed here
			err = fmt.Errorf("%w: %w", taskrun.ErrElsewhere, err)
		}
		return nil, nil, err
	}
	s.journal.Trace, s.journal.PlainForms = began.Trace, began.PlainForms
	return s.journal, nil, nil
}

// Begin implements [call.Home].
func (s *Stored) Begin(run *journal.Run, j *journal.Journal, limits *bound.Limits) {
	run.Begin(j, nil, limits)
	run.Commit = s.record
	run.Live = s.ctx.Err // which looks at the lease: the author's context may be derived from it, and end a moment later
}

func (s *Stored) record(ctx context.Context, e *journal.Entry) error {
	err := s.Work.Record(ctx, e.Append(nil))
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = err
	}
	return err
}

// Suspend implements [call.Home]: the task is parked with the verdict.
func (s *Stored) Suspend(context.Context, *journal.Journal, *call.Outcome) (again bool, err error) {
	return false, nil
}

// End implements [call.Home]: the task ends with the verdict.
func (s *Stored) End(context.Context, *journal.Journal, error) {}

// Verdict returns the verdict of the run for its task. An error says that the run is void.
func (s *Stored) Verdict(out *call.Outcome, err error) (taskrun.Verdict, error) {
	if s.journal == nil {
		return taskrun.Verdict{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return taskrun.Verdict{}, s.lost
	}
	if errors.Is(err, task.ErrLeaseLost) { // by an outside system that was shown the claim
		return taskrun.Verdict{}, err
	}
	v := taskrun.Verdict{Round: s.journal.Round}
	var encoded []byte
	if err == nil && out.Result != nil {
		var members string
		if encoded, members, err = call.EncodeResult(out.Result); err == nil {
			encoded = stored.EncodeResult(encoded, members)
		}
	}
	switch {
	case err != nil:
		sent := fault.Wire(err)
		v.Status, v.Message, v.Outcome = task.Failed, sent.Message, stored.EncodeFault(sent)
		return v, nil
	case encoded != nil:
		v.Status, v.Outcome = task.Completed, encoded
	case len(out.Questions) == 0: // a checkpoint
		v.Status = task.Working
	default:
		open := make([]stored.Question, len(out.Questions))
		for i, q := range out.Questions {
			open[i] = stored.Question{
				Wire: q.Key, Key: s.journal.Pending[i].Key, Digest: q.Digest[:], Method: q.Method, Params: q.Params(),
			}
		}
		v.Status = task.InputRequired
		v.Pending, err = stored.EncodeQuestions(open)
	}
	return v, err
}
