package home_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A step that never runs twice outlives the shutdown of its process by three quarters of a lease, and nothing else.
func TestStepOnceOutlivesAShutdown(t *testing.T) {
	for _, test := range []struct {
		says      string
		takes     time.Duration
		cancelled bool // instead of a shutdown
		lasts     time.Duration
		outcome   string
	}{
		{says: "it ends in time", takes: 7 * time.Second, lasts: 7 * time.Second, outcome: "paid"},
		{says: "it does not", takes: time.Hour, lasts: 7500 * time.Millisecond,
			outcome: "unknown: " + taskrun.ErrShutdown.Error()},
		{says: "the task is cancelled", takes: time.Hour, cancelled: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ran, ended := 0, make(chan time.Duration, 1)
			pay := func(ctx context.Context) ([]byte, error) {
				ran++
				began := time.Now()
				defer func() { ended <- time.Since(began) }()
				select {
				case <-time.After(test.takes):
					return []byte("paid"), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			handler := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
				value, err := c.StepOnce(ctx, "pay", pay)
				if unknown, ok := errors.AsType[*journal.UnknownOutcomeError](err); ok {
					return text(fmt.Sprint("unknown: ", unknown.Cause)), nil
				}
				return text(string(value)), err
			}
			store := new(task.MemoryStore)
			first := newWorker(t, store, handler)
			row := first.create("", "")
			synctest.Wait() // the step runs
			if test.cancelled {
				expect.Must(first.Cancel(t.Context(), "", row.ID))(t)
			} else {
				first.stop()
			}
			expect.Equal(t, test.says+": the step lasted", <-ended, test.lasts)
			newWorker(t, store, handler)
			time.Sleep(time.Minute)
			outcome := ""
			if test.outcome != "" {
				outcome = fmt.Sprintf(`{"isError":false,"content":[{"type":"text","text":%q}]}`, test.outcome)
			}
			if row = first.row(row.ID); ran != 1 || string(row.Outcome) != outcome {
				t.Errorf("%s: %d runs, and then %q, want %q", test.says, ran, row.Outcome, outcome)
			}
		})
	}
}
