package home

import (
	"cmp"
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
	work *taskrun.Work

	ctx     context.Context // of the run
	verdict taskrun.Verdict
	void    error // why the run has no verdict

	mu   sync.Mutex
	lost error // the reason why an entry was not recorded
}

// NewStored returns the home of the call of a task.
func NewStored(w *taskrun.Work) *Stored {
	return &Stored{work: w, void: errors.New("the run has not ended")}
}

// Open implements [call.Home].
func (s *Stored) Open(ctx context.Context) (opened call.Opened, err error) {
	s.ctx = ctx
	began, err := stored.DecodeCall(s.work.Call)
	if err == nil {
		opened.Journal, err = stored.DecodeJournal(began.ID, s.work.Task.Round, s.work.Entries)
	}
	if errors.Is(err, journal.ErrNewer) { // its instances continue the task, and it has not failed here
		err = fmt.Errorf("%w: %w", taskrun.ErrElsewhere, err)
	}
	if err != nil {
		s.void = err
		return call.Opened{}, err
	}
	opened.Journal.Trace, opened.Journal.PlainForms = began.Trace, began.PlainForms
	opened.Interrupted, opened.Audited = s.interrupted, true
	return opened, nil
}

// interrupted reports whether the task is no longer this run's. An outside system that was shown the claim may say so,
// too.
func (s *Stored) interrupted(err error) bool {
	return s.ctx.Err() != nil || errors.Is(err, task.ErrLeaseLost)
}

// Begin implements [call.Home]. The answers are in the journal.
func (s *Stored) Begin(run *journal.Run, j *journal.Journal, _ call.Answers, limits *bound.Limits) {
	run.Begin(j, nil, limits)
	run.Commit = s.record
	run.Live = s.ctx.Err // which looks at the lease: the author's context may be derived from it, and end a moment later
}

func (s *Stored) record(ctx context.Context, e *journal.Entry) error {
	err := s.work.Record(ctx, e.Append(nil))
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = err
	}
	return err
}

// Suspend implements [call.Home]: the task is parked until its questions are answered. Without any it goes on at once.
func (s *Stored) Suspend(
	_ context.Context, j *journal.Journal, out *call.Outcome,
) (none call.Answers, again bool, err error) {
	if j.IsManual() {
		return none, false, errors.New("a handler in the manual style cannot run as a task: it has to ask through its Call")
	}
	v := taskrun.Verdict{Status: task.Working, Round: j.Round}
	if len(out.Questions) > 0 {
		v.Status = task.InputRequired
		open := make([]stored.Question, len(out.Questions))
		for i, q := range out.Questions {
			open[i] = stored.Question{
				Wire: q.Wire, Key: j.Pending[i].Key, Digest: q.Digest[:], Method: q.Method, Params: q.Params(),
			}
		}
		v.Pending, err = stored.EncodeQuestions(open)
	}
	s.decide(v, err)
	return none, false, err
}

// End implements [call.Home]: the task ends.
func (s *Stored) End(_ context.Context, j *journal.Journal, out *call.Outcome, err error) {
	if errors.Is(err, task.ErrLeaseLost) {
		s.decide(taskrun.Verdict{}, err)
		return
	}
	v := taskrun.Verdict{Status: task.Completed, Round: j.Round}
	if err == nil {
		var encoded []byte
		var members string
		if encoded, members, err = call.EncodeResult(out.Result); err == nil {
			v.Outcome = stored.EncodeResult(encoded, members)
		}
	}
	if err != nil {
		sent := fault.Wire(err)
		v.Status, v.Message, v.Outcome = task.Failed, sent.Message, stored.EncodeFault(sent)
	}
	s.decide(v, nil)
}

// decide sets the verdict. A run with an entry that was not recorded has none.
func (s *Stored) decide(v taskrun.Verdict, void error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdict, s.void = v, cmp.Or(s.lost, void)
}

// Verdict returns the verdict of the run for its task. An error says that the run is void.
func (s *Stored) Verdict() (taskrun.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict, s.void
}
