package home

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// Stored is the home of a journal in the store of tasks, for one run of its task. It implements [call.Home].
type Stored struct {
	work    *taskrun.Work
	request *call.Request
	desk    StoredDesk

	ctx     context.Context // of the run
	verdict taskrun.Verdict
	void    error                     // why the run has no verdict
	rows    map[string]*task.Question // of the task by key, once they are needed
	asks    time.Time                 // when it asks, by the clock of the store, once that is needed

	mu   sync.Mutex
	lost error // the reason why an entry was not recorded
}

// StoredDesk is what [Stored] needs for questions that wait for people or for a time.
type StoredDesk struct {
	// Questions reads the questions of a task by its name: see [task.Store].
	Questions func(ctx context.Context, name string) ([]*task.Question, error)
	// Now reads the clock of the store.
	Now func(ctx context.Context) (time.Time, error)
	// Keeps is the least time that a call lives on from when it begins to wait for people.
	Keeps time.Duration
	// Measures says that questions to the client are stored with the time at which they were asked.
	Measures bool
	// Remind is the share of the time until a deadline after which people are reminded. Zero means never.
	Remind float64
	// Continues, if set, is asked before the call takes what other people have decided. It is not called concurrently.
	Continues func(ctx context.Context) error
	// Receipts, if set, signs how people decide, in the name of Server.
	Receipts Receipts
	Server   string
	// Tell, if set, tells the operator how a question was decided.
	Tell func(e report.AuditEvent)
}

// NewStored returns the home of the call of a task, whose request is r.
func NewStored(w *taskrun.Work, r *call.Request, d StoredDesk) *Stored {
	return &Stored{work: w, request: r, desk: d, void: errors.New("the run has not ended")}
}

// Open implements [call.Home].
func (s *Stored) Open(ctx context.Context) (opened call.Opened, err error) {
	s.ctx = ctx
	began, err := stored.DecodeCall(s.work.Call)
	if err == nil {
		opened.Journal, err = stored.DecodeJournal(began.ID, s.work.Task.Round, s.work.Entries)
	}
	if err != nil {
		err = LeaveToNewer(err)
		s.void = err
		return call.Opened{}, err
	}
	opened.Journal.Trace, opened.Journal.PlainForms = began.Trace, began.PlainForms
	opened.Interrupted, opened.Audited, opened.Sleeps = s.interrupted, true, true
	open, err := stored.DecodeQuestions(s.work.Task.Pending) // while some are decided
	for _, q := range open {
		opened.Journal.Pending = append(opened.Journal.Pending,
			journal.Question{Key: q.Key, Wire: q.Wire, Digest: journal.Digest(q.Digest), Asked: q.AskedAt()})
	}
	if err != nil {
		s.void = err
		return call.Opened{}, err
	}
	return opened, nil
}

// LeaveToNewer returns the error of a task that cannot be read here. The instances of a release that has stored what
// this one does not know continue the task, and it has not failed here.
func LeaveToNewer(err error) error {
	if errors.Is(err, journal.ErrNewer) {
		err = fmt.Errorf("%w: %w", taskrun.ErrElsewhere, err)
	}
	return err
}

// interrupted reports whether another run continues the task.
func (s *Stored) interrupted(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx.Err() != nil || isVoid(err) || isVoid(s.lost)
}

// isVoid reports whether a handler's error leaves its run without an outcome. An outside system that was shown the
// claim may say that the lease is lost, and a handler that another process has what the task needs.
func isVoid(err error) bool {
	return errors.Is(err, task.ErrLeaseLost) || errors.Is(err, taskrun.ErrElsewhere)
}

// Begin implements [call.Home]. The answers are in the journal.
func (s *Stored) Begin(run *journal.Run, j *journal.Journal, _ call.Answers, limits *bound.Limits) {
	run.Begin(j, nil, limits)
	run.Commit = s.record
	run.Numbered, run.Decided = true, s.decided
	run.Outlive = s.work.Outlive
	// The context looks at the lease: the author's context may be derived from it, and end a moment later.
	run.Live = func() error { return cmp.Or(s.work.Exist(s.ctx), s.ctx.Err()) }
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
			if q.Within > 0 {
				open[i].Row = j.Pending[i].Row
			}
			if s.desk.Measures {
				if open[i].SetAsked(j.Pending[i].Asked); open[i].Asked == 0 {
					open[i].SetAsked(s.now())
				}
			}
		}
		v.Pending, err = stored.EncodeQuestions(open)
	}
	if err == nil {
		err = s.putApart(j, out, &v)
	}
	s.decide(v, err)
	return none, false, err
}

// End implements [call.Home]: the task ends.
func (s *Stored) End(_ context.Context, j *journal.Journal, out *call.Outcome, err error) {
	if isVoid(err) {
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
