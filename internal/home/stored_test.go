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
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
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
			Call: (&stored.Call{ID: "id", Params: []byte(`{}`)}).Append(nil)}, nil, home.StoredDesk{})
		_, err := kept.Open(t.Context())
		if _, void := kept.Verdict(); void != err {
			t.Errorf("the journal does not open: %v, and the run is void: %v", err, void)
		}
		return err
	}
	if err := open([]byte{2, 's', 1, 'k', 0}); !errors.Is(err, taskrun.ErrElsewhere) {
		t.Errorf("a newer entry: %v", err)
	}
	if err := open([]byte{1, byte(journal.Step), 9}); err == nil || errors.Is(err, taskrun.ErrElsewhere) {
		t.Errorf("a damaged entry: %v", err)
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
			runs, store := 0, full{new(task.MemoryStore), time.Now().Add(test.full)}
			calls := &call.Engine{Limits: bound.Limits{Rounds: 5, Questions: 5}, Log: slog.New(slog.DiscardHandler)}
			engine, err := taskrun.NewEngine(store, &taskrun.Options{
				Settings: task.Settings{TaskBytes: 1 << 16},
				Failure:  func(message string) []byte { return stored.EncodeFault(wire.Errorf(-32603, "%s", message)) },
				Logger:   slog.New(slog.DiscardHandler),
				Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
					runs++
					r := &call.Request{Params: new(wire.Params), Can: wire.Form, Fence: w.Task.Claim.Fence}
					r.Handler = &call.Handler{
						Method: wire.CallTool,
						Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
							return test.handler(ctx, c)
						},
						Fail: func(err error) mcp.Result {
							failed := text(err.Error())
							failed.IsError = true
							return failed
						},
					}
					kept := home.NewStored(w, &call.Request{Params: new(wire.Params)}, home.StoredDesk{})
					if w.Stopped {
						return taskrun.Verdict{}, calls.CleanUp(ctx, r, kept, "failed")
					}
					if _, err := kept.Verdict(); err == nil {
						t.Error("there is a verdict before the run")
					}
					_, _ = calls.Serve(ctx, r, kept)
					return kept.Verdict()
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go engine.Run(ctx)
			began := stored.Call{ID: "id", Params: []byte(`{}`)}
			row, err := engine.Create(ctx, &taskrun.New{Method: wire.CallTool, Target: "x", Call: began.Append(nil)})
			for err == nil && row.Status == task.Working {
				row, err = engine.Wait(ctx, "", row.ID, row.Version)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // for a run that cleans up
			if row, err = engine.Row(ctx, row.ID); err != nil {
				t.Fatal(err)
			}
			all := row.Message + string(row.Outcome) + string(row.Pending)
			if row.Status != test.status || runs != test.runs || !strings.Contains(all, test.outcome) {
				t.Errorf("%s: %s after %d runs: %s; want %s after %d: %s",
					test.says, row.Status, runs, all, test.status, test.runs, test.outcome)
			}
			if row.Round != test.rounds {
				t.Errorf("%s: the row is in round %d, want %d", test.says, row.Round, test.rounds)
			}
			cancel()
			synctest.Wait()
		})
	}
}
