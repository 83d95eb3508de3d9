// Package tasks serves calls that are durable tasks: it creates them, runs their handlers, and answers the requests
// about them in both dialects, and about their events. The engine is internal/taskrun's.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// startsWithin is how long after the first task a process may take to begin running tasks: serving and running start at
// once, in any order.
const startsWithin = 10 * time.Second

func (s *Service) warnIfIdle(ctx context.Context) {
	if !s.runs.Load() {
		s.Log.WarnContext(ctx, "askback: a task was created by a process that runs none; "+
			"unless another instance does, it will never begin: call Server.RunTasks")
	}
}

// Create makes a task of a call, which goes on from the journal j.
func (s *Service) Create(
	ctx context.Context, r *call.Request, as home.TaskRequest, j *journal.Journal,
) (*call.Outcome, error) {
	if !s.runs.Load() {
		s.warnIdle.Do(func() { time.AfterFunc(startsWithin, func() { s.warnIfIdle(context.WithoutCancel(ctx)) }) })
	}
	began := stored.Call{ID: j.ID, Trace: j.Trace, Can: r.Can, PlainForms: j.PlainForms, Desk: s.Desk != nil,
		Params: r.Raw}
	n := &taskrun.New{
		ID: taskID(j.ID), Fresh: as.Fresh,
		Principal: r.Principal, Method: r.Handler.Method, Target: r.Params.Target,
		Dialect: as.Dialect, TTL: as.TTL, Round: j.Round,
		Call:    began.Append(make([]byte, 0, len(r.Raw)+len(j.Trace)+128)),
		Entries: stored.EncodeEntries(j.Entries),
	}
	if r.Handler.Tasks != nil {
		n.PollInterval = r.Handler.Tasks.PollInterval
	}
	t, err := s.Engine.Create(ctx, n)
	if err != nil {
		return nil, s.failed(ctx, "creating a task", err)
	}
	if as.Fresh && as.Dialect != "" {
		// Every task begins as working (2025-11-25, "Task Status Lifecycle"), also if its first run is over by now.
		t.Status, t.Message, t.Pending, t.Outcome, t.Version = task.Working, n.Message, nil, nil, 0
	}
	return s.reply(r, as, t)
}

// taskID returns the ID of the task that a call becomes. It is always the same, so that a
// repeated round makes no second task.
func taskID(callID string) string { return journal.Derived("task", callID) }

// Find returns the outcome of a request whose call became a task before, or nil.
func (s *Service) Find(
	ctx context.Context, r *call.Request, as home.TaskRequest, callID string,
) (*call.Outcome, error) {
	if as.Dialect == "" && s.Desk == nil {
		return nil, nil
	}
	t, err := s.Engine.Get(ctx, r.Principal, taskID(callID))
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, s.failed(ctx, "retrieving a task", err)
	}
	return s.reply(r, as, t)
}

// reply answers a call with its task. A client that cannot take one follows it. A task that was created in
// the extension's dialect is an error for a client of the other dialect. What is told of the request from now on names
// the task.
func (s *Service) reply(r *call.Request, as home.TaskRequest, t *task.Task) (*call.Outcome, error) {
	r.Task = task.Name(t.ID)
	r.Watch.SetTask(r.Task)
	if as.Dialect == "" {
		return &call.Outcome{Task: &call.Task{Task: s.row(t, false)}, Follow: s.follower(r.Handler, t)}, nil
	}
	extension := as.Dialect == home.DialectExtension
	if t.Dialect == home.DialectExtension && !extension {
		return nil, wire.MissingCapability(wire.Tasks)
	}
	w := s.row(t, extension)
	if extension && w.Message == "" && t.Status == task.Working {
		w.Message = "The operation is now in progress."
	}
	return &call.Outcome{Task: &call.Task{Task: w, Extension: extension}}, nil
}

// EncodeFailure makes the outcome of a task that fails without its handler.
func EncodeFailure(message string) []byte {
	return stored.EncodeFault(wire.Errorf(jsonrpc.CodeInternalError, "%s", message))
}

// Handle runs the handler of a task from its journal. It is the engine's [taskrun.Handler].
func (s *Service) Handle(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
	h := s.Handlers.Lookup(w.Task.Method, w.Task.Target)
	if h == nil || h.Tasks == nil && s.Desk == nil {
		return taskrun.Verdict{}, fmt.Errorf("%w: it has no task tool %q", taskrun.ErrElsewhere, w.Task.Target)
	}
	began, err := stored.DecodeCall(w.Call)
	if err != nil {
		return taskrun.Verdict{}, home.LeaveToNewer(err)
	}
	if began.Desk && s.Desk == nil {
		return taskrun.Verdict{}, fmt.Errorf("%w: it has no desk, which the task may need", taskrun.ErrElsewhere)
	}
	params, fault := wire.ParseParams(w.Task.Method, began.Params)
	if fault != nil {
		return taskrun.Verdict{}, fmt.Errorf("the stored call: %w", fault)
	}
	r := &call.Request{
		Handler:   h,
		Params:    params,
		Raw:       began.Params,
		Can:       began.Can,
		Principal: w.Task.Principal,
		Task:      task.Name(w.Task.ID),
		Fence:     w.Task.Claim.Fence,
		Nonce:     w.Task.Claim.Nonce,
		Progress: func(_ context.Context, progress, total float64, message string) error {
			w.Report(progressMessage(progress, total, message))
			return nil
		},
	}
	run := &running{Service: s, work: w, callID: journal.Derived("call", began.ID)}
	kept := home.NewStored(w, r, run.desk(ctx))
	recovered := run.logRecovered(ctx)
	r.WatchRun(s.Calls.Observer, recovered, dueFor(ctx, w.Task, recovered))
	if w.Stopped {
		run.tellCancelled(ctx)
		err := s.Calls.CleanUp(ctx, r, kept, string(w.Task.Status))
		r.Watch.SetOutcome("cleaned_up")
		finishRun(ctx, r.Watch, err, err)
		return taskrun.Verdict{}, err
	}
	err, void := error(nil), errors.New("the handler ended its goroutine")
	defer func() { finishRun(ctx, r.Watch, err, void) }()
	_, err = s.Calls.Serve(ctx, r, kept)
	verdict, void := kept.Verdict()
	return verdict, void
}

// running is a run of the handler of a task.
type running struct {
	*Service
	work   *taskrun.Work
	callID string
	asked  bool // the operator lets the call go on
}

// desk is what the home of the task needs for questions that wait for people or for a time.
func (r *running) desk(ctx context.Context) (d home.StoredDesk) {
	d.Questions, d.Now, d.Keeps = r.Engine.Questions, r.Engine.Now, r.Engine.Settings().TTL
	if r.Continues != nil {
		d.Continues = r.mayContinue
	}
	if r.Desk != nil {
		d.Remind, d.Measures, d.Receipts, d.Server = r.Desk.Remind, true, r.Desk.Receipts, r.Desk.Server
	}
	if r.Calls.Audit != nil {
		t := r.work.Task
		d.Tell = func(e report.AuditEvent) {
			e.Principal, e.Method, e.Target = t.Principal, t.Method, t.Target
			e.Call, e.Task, e.Round = r.callID, task.Name(t.ID), t.Round+1
			r.Calls.Audit.Tell(ctx, e)
		}
	}
	return d
}

// Expire decides a question whose deadline has passed. It is the engine's [taskrun.Options.Expire].
func Expire(q *task.Question) (err error) {
	q.Decision, err = stored.Encode(&stored.Decision{Action: stored.Unanswered, When: q.Deadline})
	return err
}

// tellCancelled tells the operator that another operator has cancelled the task, if it was not its client.
func (r *running) tellCancelled(ctx context.Context) {
	t := r.work.Task
	if r.Calls.Audit == nil || t.Status != task.Cancelled {
		return
	}
	if c, ok := stored.DecodeCancellation(t.Outcome); ok {
		r.Calls.Audit.Tell(ctx, report.AuditEvent{
			Kind: report.AuditCancelled, Principal: t.Principal, Method: t.Method, Target: t.Target,
			Call: r.callID, Task: task.Name(t.ID), Round: t.Round + 1, By: c.By, Why: c.Reason,
		})
	}
}

// finishRun tells the operator how a run ended: with err for its client or, if it is void, with nothing.
func finishRun(ctx context.Context, w *report.Watch, err, void error) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, task.ErrLeaseLost) || errors.Is(void, task.ErrLeaseLost):
		w.SetOutcome("lease_lost")
	case errors.Is(cause, taskrun.ErrStopped):
		w.SetOutcome("stopped")
	case errors.Is(cause, taskrun.ErrShutdown):
		w.SetOutcome("shutdown")
	case errors.Is(void, taskrun.ErrElsewhere):
		w.SetOutcome("elsewhere")
	case void != nil:
		w.SetOutcome("failed")
	}
	w.Finish(ctx, err)
}

// logRecovered tells of a task whose last run did not end, park or hand over the task, and reports whether this is
// one. Such a run recorded nothing before the task was claimed again, or it recorded a step last. After a run that
// handed the task over, this claim is not an attempt. For a task that was ended from outside only the number of
// attempts to clean up counts, because its journal may end with a step in any case.
func (r *running) logRecovered(ctx context.Context) bool {
	w := r.work
	if w.Task.Attempts < 2 {
		if w.Stopped || len(w.Entries) == 0 || w.Task.Fence < 2 || w.Task.Attempts < 1 {
			return false
		}
		last, err := journal.DecodeEntry(w.Entries[len(w.Entries)-1])
		if err != nil || last.Kind != journal.Step && last.Kind != journal.Begun {
			return false
		}
	}
	r.Log.InfoContext(ctx, "askback: a task goes on after a run that did not end: "+
		"its worker stopped, failed or lost its lease", "call", r.callID,
		"target", w.Task.Target, "task", task.Name(w.Task.ID), "fence", w.Task.Fence, "attempt", w.Task.Attempts)
	return true
}

func progressMessage(progress, total float64, message string) string {
	switch {
	case message == "" && total > 0:
		return fmt.Sprintf("%.4g of %.4g", progress, total)
	case message == "":
		return fmt.Sprintf("%.4g", progress)
	case total > 0:
		return fmt.Sprintf("%s (%.4g of %.4g)", message, progress, total)
	}
	return message
}
