package conversation

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// silent is a person who answers everything.
type silent struct {
	mu    sync.Mutex
	asked string // the messages
}

func (p *silent) wasAsked() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *silent) Form(_ context.Context, _, message string, _ json.RawMessage) (*mcp.ElicitResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked += message
	if message == "stop" {
		return nil, terminal.ErrInterrupted
	}
	return &mcp.ElicitResult{Action: "accept"}, nil
}

func (p *silent) URL(context.Context, string, string, string, func(string) error) (*mcp.ElicitResult, error) {
	return nil, nil
}

func (p *silent) Sample(context.Context, string,
	*mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	return nil, nil
}

// A question that never comes to the person holds up none that do.
func TestNoQuestionWaitsForOneThatDoesNotCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, fail := context.WithCancelCause(t.Context())
		p := new(silent)
		a := &asker{person: p, console: newConsole(io.Discard), fail: fail, given: new(answers),
			target: cli.Target{Program: []string{"x"}}, ready: make(chan struct{})}
		a.leaving.watch(t.Context(), fail)
		a.connected("2026-07-28")
		var round []*client.Question
		for _, key := range []string{"A", "B", "C", "D"} {
			round = append(round, &client.Question{Key: key, Method: input.MethodElicit, Message: key})
		}
		expect.Check(t, a.begin(round))
		for _, i := range []int{3, 1} { // and neither A nor C
			go func() {
				if _, err := a.elicit(ctx, round[i]); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		expect.Equal(t, "asked at once", p.wasAsked(), "")
		time.Sleep(2 * joinTimeout)
		synctest.Wait()
		expect.Equal(t, "asked", p.wasAsked(), "BD")

		a.answered.Store(false) // as at the first question
		if _, err := a.elicit(ctx, &client.Question{Key: "E", Method: input.MethodElicit, Message: "stop"}); err == nil ||
			context.Cause(ctx) != terminal.ErrInterrupted {
			t.Errorf("interrupted: %v, the call's end: %v", err, context.Cause(ctx))
		}
	})
}
