package askback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// A call that is a task runs the same handler as any other: the journal is in the store
// instead of in requestState. The dialects of its clients are in task_serve.go.

// The dialects in which a task was created: that of the extension, or that of the proposals
// from which Multi Round-Trip Requests grew, its seeds. See "Two dialects" in docs/tasks.md.
const (
	dialectExtension = "extension"
	dialectSeeds     = "seeds"
)

// newTasks makes the engine of a Server's tasks.
func (s *Server) newTasks(o *Tasks) (*task.Engine, error) {
	if o.Store == nil {
		return nil, errors.New("askback: Options.Tasks needs a Store")
	}
	return task.NewEngine(o.Store, &task.Options{
		Handler: s.runTask,
		Failure: func(message string) []byte {
			return encodeError(wire.Errorf(jsonrpc.CodeInternalError, "%s", message))
		},
		// A round that detached can be repeated for as long as its state lives, and must find
		// its task.
		Grace: max(10*time.Minute, s.opts.Limits.RoundTTL),
		TTL:   o.TTL, MaxTTL: o.MaxTTL, PollInterval: o.PollInterval, PerPrincipal: o.PerPrincipal,
		Workers: o.Workers, Lease: o.Lease, Attempts: o.Attempts, Logger: s.log,
	})
}

// RunTasks runs tasks in this process until ctx is done; then it gives what it has not
// finished to other instances and returns. Every deployment needs at least one process
// that does; those that only serve need not. The error is for a Server without
// [Options.Tasks].
func (s *Server) RunTasks(ctx context.Context) error {
	if s.tasks == nil {
		return errors.New("askback: RunTasks needs Options.Tasks")
	}
	s.runsTasks.Store(true)
	return s.tasks.Run(ctx)
}

// taskWish is what a request says of tasks.
type taskWish struct {
	dialect string // in which its client can take one; empty if it cannot
	ttl     time.Duration
}

// wish reads what a call says of tasks, and refuses it where its tool cannot do without
// one, or cannot be one.
func (s *Server) wish(x *exchange, session bool) error {
	support := x.handler.tasks
	extension := x.can&KindTasks != 0 // which no session has
	x.can &^= KindTasks
	switch {
	case s.tasks == nil || x.handler.method != wire.CallTool: // which ignores the member (2025-11-25, "Task Support and Handling")
	case support != nil && extension:
		x.wish.dialect = dialectExtension
	case extension: // which never heard of the member task
	case x.params.Task == nil || strictjson.TypeOf(x.params.Task) == strictjson.TypeNull:
	case support == nil:
		return wire.Errorf(jsonrpc.CodeMethodNotFound, "the tool %q cannot run as a task: call it without the member task", x.params.Target)
	default:
		ttl, fault := wire.ParseTTL(x.params.Task)
		if fault != nil {
			return fault
		}
		x.wish = taskWish{dialectSeeds, ttl}
	}
	if x.wish.dialect != "" {
		x.can |= KindTasks
	} else if support != nil && support.Required {
		if session {
			return wire.Errorf(jsonrpc.CodeMethodNotFound, "the tool %q runs as a task only: call it with the member task", x.params.Target)
		}
		return &CapabilityError{Need: KindTasks}
	}
	return nil
}

// atOnce reports whether a call becomes a task before its handler runs.
func (x *exchange) atOnce() bool { return x.wish.dialect != "" && !x.handler.tasks.AtDetach }

// taskCall is what a task begins with, as it is stored.
type taskCall struct {
	Call   string          `json:"call"` // the call's secret id
	Can    Kind            `json:"can"`
	Params json.RawMessage `json:"params"` // name, arguments and _meta of the request
}

// createTask makes a task of a call that came as far as j.
func (s *Server) createTask(ctx context.Context, x *exchange, j *journal.Journal) (*reply, error) {
	if !s.runsTasks.Load() {
		s.warnIdle.Do(func() {
			s.log.WarnContext(ctx, "askback: a task was created by a process that runs none; unless another instance does, it will never begin: call Server.RunTasks")
		})
	}
	params := map[string]json.RawMessage{}
	for _, name := range []string{"name", "arguments", "_meta"} {
		if member := strictjson.Get(x.raw, name); member != nil {
			params[name] = member
		}
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	call, err := json.Marshal(&taskCall{Call: j.ID, Can: x.can, Params: encoded})
	if err != nil {
		return nil, err
	}
	n := &task.New{
		ID:        journal.Derived("task", j.ID), // a repeated round must not make a second task
		Principal: x.principal, Method: x.handler.method, Target: x.params.Target, Dialect: x.wish.dialect,
		TTL: x.wish.ttl, PollInterval: x.handler.tasks.PollInterval, Round: j.Round, Call: call,
	}
	for i := range j.Entries {
		n.Entries = append(n.Entries, j.Entries[i].Append(nil))
	}
	t, err := s.tasks.Create(ctx, n)
	switch {
	case errors.Is(err, task.ErrQuota):
		return nil, wire.Errorf(jsonrpc.CodeInternalError, "too many unfinished tasks: at most %d may be under way for one caller; wait for some to end, or cancel them", s.perPrincipal())
	case err != nil:
		return nil, s.storeFailed(ctx, "creating a task", err)
	}
	return s.created(x, t)
}

// created answers a call with its task. One that was created in the extension's dialect is
// not for a client that does not declare it now.
func (s *Server) created(x *exchange, t *task.Task) (*reply, error) {
	if t.Dialect == dialectExtension && x.wish.dialect != dialectExtension {
		return nil, &CapabilityError{Need: KindTasks}
	}
	return &reply{task: t, dialect: x.wish.dialect}, nil
}

// knownTask is the error of a repeated round whose call became a task before.
type knownTask struct{ task *task.Task }

func (*knownTask) Error() string { return "the call is a task already" }

// taskOf returns the task that a call became, or nil.
func (s *Server) taskOf(ctx context.Context, x *exchange, j *journal.Journal) *task.Task {
	if x.wish.dialect == "" {
		return nil
	}
	t, err := s.tasks.Get(ctx, x.principal, journal.Derived("task", j.ID))
	if err != nil {
		return nil
	}
	return t
}

func (s *Server) perPrincipal() int {
	n := s.opts.Tasks.PerPrincipal
	setDefault(&n, 1000)
	return n
}

// storeFailed tells the operator what is wrong with the store, and the client only that
// something is.
func (s *Server) storeFailed(ctx context.Context, doing string, err error) error {
	s.log.ErrorContext(ctx, "askback: "+doing+" failed", "error", err)
	return wire.Errorf(jsonrpc.CodeInternalError, "internal error: %s failed", doing)
}

// taskRun is a call that runs as a task.
type taskRun struct {
	work *task.Work

	mu   sync.Mutex
	lost error // why an entry was not recorded: then the run counts for nothing
}

// record makes an entry of the journal durable.
func (t *taskRun) record(ctx context.Context, e *journal.Entry) error {
	err := t.work.Record(ctx, e.Append(nil))
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lost = err
	}
	return err
}

// errTaskEnded is what a handler gets that runs again to clean up, for all that it had not
// done before.
var errTaskEnded = fmt.Errorf("the task was ended from outside: %w", context.Canceled)

// cleanUp runs what a handler registered to undo what it began, once it has returned err. The
// error says that the handler has to run once more for it.
func (c *Call) cleanUp(ctx context.Context, err error) error {
	c.mu.Lock()
	undo := c.undo
	c.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		err = nil // it came as far as ever
	}
	for _, f := range slices.Backward(undo) {
		err = errors.Join(err, safely(func() error { return f(ctx) }))
	}
	return err
}

// runTask runs the handler of a task from its journal.
func (s *Server) runTask(ctx context.Context, w *task.Work) (task.Verdict, error) {
	h := s.lookup(w.Task.Method, w.Task.Target)
	if h == nil || h.tasks == nil {
		return task.Verdict{}, fmt.Errorf("%w: it has no task tool %q", task.ErrElsewhere, w.Task.Target)
	}
	var call taskCall
	if err := json.Unmarshal(w.Call, &call); err != nil {
		return task.Verdict{}, fmt.Errorf("the stored call: %w", err)
	}
	params, fault := wire.ParseParams(w.Task.Method, call.Params)
	if fault != nil {
		return task.Verdict{}, fmt.Errorf("the stored call: %w", fault)
	}
	j, err := taskJournal(&call, w.Task.Round, w.Entries)
	if err != nil {
		return task.Verdict{}, err
	}
	run := &taskRun{work: w}
	r, err := s.round(ctx, &exchange{
		handler:   h,
		params:    params,
		raw:       call.Params,
		can:       call.Can,
		principal: w.Task.Principal,
		task:      run,
		progress: func(_ context.Context, progress, total float64, message string) error {
			w.Report(progressMessage(progress, total, message))
			return nil
		},
		request: func(mine manualState) mcp.Request {
			return sdkRequest(w.Task.Method, call.Params, nil, nil, mine)
		},
	}, j, false)
	if w.Stopped {
		return task.Verdict{}, err
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.lost != nil {
		return task.Verdict{}, run.lost
	}
	return verdict(r, j, err)
}

func taskJournal(call *taskCall, round int, entries [][]byte) (*journal.Journal, error) {
	j := &journal.Journal{ID: call.Call, Round: round}
	for i, data := range entries {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return nil, fmt.Errorf("entry %d of the journal: %w", i, err)
		}
		j.Entries = append(j.Entries, e)
	}
	return j, nil
}

// verdict is what a run of a handler means for its task.
func verdict(r *reply, j *journal.Journal, err error) (task.Verdict, error) {
	v := task.Verdict{Round: j.Round}
	var encoded []byte
	if err == nil && r.result != nil {
		var members string
		if encoded, members, err = encodeResult(r.result); err == nil {
			encoded = slices.Concat([]byte("{"+members), encoded[1:])
		}
	}
	switch {
	case err != nil:
		fault := protocolError(err)
		v.Status, v.Message, v.Outcome = task.Failed, fault.Message, encodeError(fault)
		return v, nil
	case encoded != nil:
		v.Status, v.Outcome = task.Completed, encoded
	case len(r.questions) == 0: // a checkpoint
		v.Status = task.Working
	default:
		open := make([]openQuestion, len(r.questions))
		for i, q := range r.questions {
			open[i] = openQuestion{q.key, j.Pending[i].Key, j.Pending[i].Digest[:], q.method, q.params}
		}
		v.Status = task.InputRequired
		v.Pending, err = json.Marshal(open)
	}
	return v, err
}

func encodeError(fault *jsonrpc.Error) []byte {
	return strictjson.Get(wire.AppendError(nil, nil, fault), "error")
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

// openQuestion is a question that a parked task waits for, as it is stored.
type openQuestion struct {
	Wire   string          `json:"wire"`
	Key    string          `json:"key"` // the author's
	Digest []byte          `json:"digest"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func openQuestions(t *task.Task) ([]openQuestion, error) {
	if len(t.Pending) == 0 {
		return nil, nil
	}
	var open []openQuestion
	if err := json.Unmarshal(t.Pending, &open); err != nil {
		return nil, fmt.Errorf("the stored questions: %w", err)
	}
	for _, q := range open {
		if len(q.Digest) != len(journal.Digest{}) {
			return nil, fmt.Errorf("the stored question %q has no digest", q.Wire)
		}
	}
	return open, nil
}

// answerTask gives a parked task the answers to its open questions. It goes on when none
// is left. What answers no open question is ignored; an answer that does not fit its
// question uses up the question's key, and the question is asked again under another.
func (s *Server) answerTask(ctx context.Context, t *task.Task, responses map[string][]byte) error {
	_, err := s.tasks.Change(ctx, t.Principal, t.ID, func(t *task.Task) (*task.Update, error) {
		open, err := openQuestions(t)
		if err != nil {
			return nil, err
		}
		u := &task.Update{Keep: true}
		var left, refused []openQuestion
		for _, q := range open {
			raw, ok := responses[q.Wire]
			if !ok {
				left = append(left, q)
				continue
			}
			check, err := acceptFor(q.Method, q.Params)
			if err != nil {
				return nil, err
			}
			if _, err := check(raw); err != nil {
				refused = append(refused, q)
			} else {
				answer := journal.Entry{Kind: journal.Unread, Key: q.Key, Digest: journal.Digest(q.Digest), Value: raw}
				u.Entries = append(u.Entries, answer.Append(nil))
			}
			delivered := journal.Entry{Kind: journal.Delivered, Key: q.Wire}
			u.Entries = append(u.Entries, delivered.Append(nil))
		}
		if len(left) == len(open) {
			return nil, nil
		}
		if len(refused) > 0 {
			// Each costs a round, so that nobody can make a journal grow without end.
			if t.Round++; t.Round > s.opts.Limits.Rounds {
				return s.failTask(t, &LimitError{Limit: "rounds per call", Max: s.opts.Limits.Rounds}), nil
			}
			if refused, err = s.askAgain(ctx, t, left, refused, u.Entries); err != nil {
				return nil, err
			}
		}
		if left = append(left, refused...); len(left) > 0 {
			t.Pending, err = json.Marshal(left)
			return u, err
		}
		t.Status, t.Pending = task.Working, nil
		u.Keep, u.Due = false, 0
		return u, nil
	})
	return err
}

// failTask fails a parked task, whose handler then cleans up.
func (s *Server) failTask(t *task.Task, err error) *task.Update {
	fault := protocolError(err)
	t.Status, t.Message, t.Pending, t.Outcome = task.Failed, fault.Message, nil, encodeError(fault)
	t.Stopped, t.Attempts = true, 0
	return &task.Update{}
}

// askAgain gives refused questions keys that were never used in their task.
func (s *Server) askAgain(ctx context.Context, t *task.Task, left, refused []openQuestion, more [][]byte) ([]openQuestion, error) {
	_, entries, err := s.tasks.Journal(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	j, err := taskJournal(new(taskCall), t.Round, slices.Concat(entries, more))
	if err != nil {
		return nil, err
	}
	for _, q := range left {
		j.Pending = append(j.Pending, journal.Question{Wire: q.Wire})
	}
	for i := range refused {
		refused[i].Wire = j.WireKey(refused[i].Key)
		j.Pending = append(j.Pending, journal.Question{Wire: refused[i].Wire})
	}
	return refused, nil
}
