package home_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
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
		Call: (&stored.Call{ID: "id", Params: []byte(`{}`)}).Append(nil)}, nil, home.StoredDesk{})
	opened := expect.Must(kept.Open(worker))(t)
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
			expect.Is(t, name+": the lease is lost, and the context of the step", ctx.Err(), task.ErrLeaseLost)
			return nil, nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err = run.Step(ctx, name+" after", func(context.Context) ([]byte, error) {
			t.Errorf("%s: a step began after the lease", name)
			return nil, nil
		})
		expect.Is(t, name+": a step after the lease", err, task.ErrLeaseLost)
		expect.Is(t, name+": a checkpoint after the lease", run.Checkpoint(ctx, name), task.ErrLeaseLost)
	}
}

// A task with an entry that a newer release wrote is left to that release. A damaged journal is nobody's.
func TestAJournalOfANewerReleaseIsLeftToIt(t *testing.T) {
	open := func(pending string, entries ...[]byte) error {
		kept := home.NewStored(&taskrun.Work{Task: &task.Task{Pending: []byte(pending)}, Entries: entries,
			Call: (&stored.Call{ID: "id", Params: []byte(`{}`)}).Append(nil)}, nil, home.StoredDesk{})
		_, err := kept.Open(t.Context())
		if _, void := kept.Verdict(); void != err {
			t.Errorf("the journal does not open: %v, and the run is void: %v", err, void)
		}
		return err
	}
	expect.Is(t, "a newer entry", open("", []byte{2, 's', 1, 'k', 0}), taskrun.ErrElsewhere)
	if err := open("", []byte{1, byte(journal.Step), 9}); err == nil || errors.Is(err, taskrun.ErrElsewhere) {
		t.Errorf("a damaged entry: %v", err)
	}
	if err := open(`[{"digest":"AA=="}]`); err == nil || errors.Is(err, taskrun.ErrElsewhere) {
		t.Errorf("damaged questions: %v", err)
	}
}

// full is a store that takes no entries until a time.
type full struct {
	*task.MemoryStore
	until time.Time
}

func (f full) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if time.Now().Before(f.until) {
		return errors.New("disk full")
	}
	return f.MemoryStore.Append(ctx, id, claim, there, entry)
}

// worker is an engine that runs the tasks of a store with one handler, in a bubble of time.
type worker struct {
	*taskrun.Engine
	t       *testing.T
	handler handler
	runs    int
	desk    home.StoredDesk
	people  *call.Desk
	told    []string           // what the operator is told of decisions
	ended   []report.Operation // the questions whose end is observed
	notices []*task.Notice
	stop    context.CancelFunc
}

func newWorker(t *testing.T, store task.Store, h handler) *worker {
	t.Helper()
	w := &worker{t: t, handler: h}
	var err error
	w.Engine, err = taskrun.NewEngine(store, &taskrun.Options{
		Settings: task.Settings{TaskBytes: 1 << 16},
		Failure:  func(message string) []byte { return stored.EncodeFault(wire.Errorf(-32603, "%s", message)) },
		Expire: func(q *task.Question) (err error) {
			q.Decision, err = stored.Encode(&stored.Decision{Action: stored.Unanswered, When: q.Deadline})
			return err
		},
		Notify: func(_ context.Context, n *task.Notice) error {
			w.notices = append(w.notices, n) // one at a time
			return nil
		},
		Logger:  slog.New(slog.DiscardHandler),
		Handler: w.run,
	})
	expect.Check(t, err)
	w.desk = home.StoredDesk{Questions: w.Questions, Now: w.Now, Tell: func(e report.AuditEvent) {
		w.told = append(w.told, strings.Join([]string{e.Kind, e.Key, e.For, e.By, e.Channel, e.Action, e.Why}, " "))
	}}
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	go w.Run(ctx)
	t.Cleanup(func() { cancel(); synctest.Wait() })
	return w
}

func (w *worker) run(ctx context.Context, work *taskrun.Work) (taskrun.Verdict, error) {
	w.runs++
	began, err := stored.DecodeCall(work.Call)
	if err != nil {
		return taskrun.Verdict{}, err
	}
	r := &call.Request{
		Params: &wire.Params{Target: "x", Arguments: strictjson.Get(began.Params, "arguments")},
		Can:    wire.Form, Principal: work.Task.Principal, Task: task.Name(work.Task.ID), Fence: work.Task.Claim.Fence,
		Handler: &call.Handler{
			Method: wire.CallTool,
			Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) { return w.handler(ctx, c) },
			Fail: func(err error) mcp.Result {
				failed := text(err.Error())
				failed.IsError = true
				return failed
			},
		},
	}
	r.WatchRun(&report.Observer{Hook: func(ctx context.Context, op *report.Operation) (context.Context, func()) {
		if op.Kind == report.OperationQuestion {
			w.ended = append(w.ended, *op)
		}
		return ctx, nil
	}}, false, 0)
	calls := &call.Engine{Limits: bound.Limits{Rounds: 5, Questions: 5}, Log: slog.New(slog.DiscardHandler),
		Desk: w.people}
	kept := home.NewStored(work, r, w.desk)
	if work.Stopped {
		return taskrun.Verdict{}, calls.CleanUp(ctx, r, kept, "failed")
	}
	if _, err := kept.Verdict(); err == nil {
		w.t.Error("there is a verdict before the run")
	}
	_, _ = calls.Serve(ctx, r, kept)
	return kept.Verdict()
}

// create begins a task of a call of a principal, with arguments unless they are empty.
func (w *worker) create(principal, arguments string) *task.Task {
	w.t.Helper()
	params := `{}`
	if arguments != "" {
		params = `{"arguments":` + arguments + `}`
	}
	began := stored.Call{ID: "id", Params: []byte(params)}
	row, err := w.Create(w.t.Context(), &taskrun.New{
		Principal: principal, Method: wire.CallTool, Target: "x", Call: began.Append(nil),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

// settled returns a task once it does not work, which may be at once.
func (w *worker) settled(row *task.Task) *task.Task {
	w.t.Helper()
	for row.Status == task.Working {
		var err error
		if row, err = w.Wait(w.t.Context(), row.Principal, row.ID, row.Version); err != nil {
			w.t.Fatal(err)
		}
	}
	return row
}

func (w *worker) row(id string) *task.Task {
	w.t.Helper()
	row, err := w.Row(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

// What a run of a task came to is what the row of its task says, written by the engine that runs it.
func TestVerdicts(t *testing.T) {
	ask := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		q, err := question.FormOf("Who?", reflect.TypeFor[name]())
		if err != nil {
			return nil, err
		}
		record, err := c.Ask("who", q)
		return text(string(record)), err
	}
	for _, test := range []struct {
		says    string
		handler handler
		status  task.Status // once it has ended, or waits
		outcome string      // or the message
		runs    int
		rounds  int
		full    time.Duration // how long the store takes no entries
	}{
		{
			says: "a result", status: task.Completed, runs: 1,
			handler: func(context.Context, *call.Call) (mcp.Result, error) { return text("done"), nil },
			outcome: `{"isError":false,"content":[{"type":"text","text":"done"}]}`,
		},
		{
			says: "an error of the tool", status: task.Completed, runs: 1,
			handler: func(context.Context, *call.Call) (mcp.Result, error) { return nil, errors.New("no room") },
			outcome: `{"content":[{"type":"text","text":"no room"}],"isError":true}`,
		},
		{
			says: "an error of the protocol", status: task.Failed, runs: 1,
			handler: func(context.Context, *call.Call) (mcp.Result, error) { return nil, wire.Errorf(-32099, "no") },
			outcome: `{"code":-32099,"message":"no"}`,
		},
		{
			says: "a result that is not JSON", status: task.Failed, runs: 1,
			handler: func(context.Context, *call.Call) (mcp.Result, error) {
				return &mcp.CallToolResult{StructuredContent: func() {}}, nil
			},
			outcome: `json: unsupported type: func()`,
		},
		{
			says: "a question", status: task.InputRequired, runs: 1, rounds: 1, handler: ask,
			outcome: `"wire":"who","key":"who"`,
		},
		{
			says: "a checkpoint", status: task.Completed, runs: 2, rounds: 1,
			handler: func(ctx context.Context, c *call.Call) (mcp.Result, error) {
				return text(fmt.Sprint("round ", c.Round)), c.Checkpoint(ctx, "here")
			},
			outcome: `{"isError":false,"content":[{"type":"text","text":"round 2"}]}`,
		},
		{
			says: "the manual style", status: task.Completed, runs: 1, rounds: 1,
			handler: func(context.Context, *call.Call) (mcp.Result, error) {
				return &mcp.CallToolResult{RequestState: "s"}, nil
			},
			outcome: `a handler in the manual style cannot run as a task`,
		},
		{
			says: "more than a task may hold", status: task.Failed, runs: 2, // once more, to clean up
			handler: func(ctx context.Context, c *call.Call) (mcp.Result, error) {
				_, err := c.Step(ctx, "large", func(context.Context) ([]byte, error) { return make([]byte, 1<<20), nil })
				return text("done"), err
			},
			outcome: `would have more than`,
		},
		{
			says:   "a step that was not recorded, whatever the handler says",
			status: task.Completed, runs: 2, full: 15 * time.Second,
			handler: func(ctx context.Context, c *call.Call) (mcp.Result, error) {
				_, err := c.Step(ctx, "small", func(context.Context) ([]byte, error) { return []byte("1"), nil })
				return text(fmt.Sprint("recorded: ", err)), nil
			},
			outcome: `"text":"recorded: \u003cnil\u003e"`,
		},
		{
			says: "another claim, as an outside system says", status: task.Completed, runs: 2,
			handler: func(ctx context.Context, c *call.Call) (mcp.Result, error) {
				if c.Fence == 1 {
					return nil, fmt.Errorf("fenced off: %w", task.ErrLeaseLost)
				}
				return text(fmt.Sprint("fence ", c.Fence)), nil
			},
			outcome: `"text":"fence 2"`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorker(t, full{new(task.MemoryStore), time.Now().Add(test.full)}, test.handler)
			row := w.settled(w.create("", ""))
			time.Sleep(time.Minute) // for a run that cleans up
			row = w.row(row.ID)
			all := row.Message + string(row.Outcome) + string(row.Pending)
			if row.Status != test.status || w.runs != test.runs || !strings.Contains(all, test.outcome) {
				t.Errorf("%s: %s after %d runs: %s; want %s after %d: %s",
					test.says, row.Status, w.runs, all, test.status, test.runs, test.outcome)
			}
			expect.Equal(t, test.says+": the row is in round", row.Round, test.rounds)
		})
	}
}
