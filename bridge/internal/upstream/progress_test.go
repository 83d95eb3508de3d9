package upstream

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// told is a call that is told of its progress.
type told func(ctx context.Context, message string)

func (f told) Progress(ctx context.Context, _, _ float64, message string) error {
	f(ctx, message)
	return nil
}

// A host that does not read keeps the progress of no other call from its host.
func TestSlowHostAndTheProgressOfOthers(t *testing.T) {
	s := new(reports)
	ctx, cancel := context.WithCancel(t.Context())
	slow, end := s.tell(ctx, told(func(ctx context.Context, _ string) { <-ctx.Done() }))
	got := make(chan string, 1)
	other, endOther := s.tell(t.Context(), told(func(_ context.Context, message string) { got <- message }))
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		report := func(token, message string) {
			s.reported(t.Context(), &mcp.ProgressNotificationClientRequest{
				Params: &mcp.ProgressNotificationParams{ProgressToken: token, Message: message}})
		}
		for range 2 * mostReports {
			report(slow, "slow")
		}
		report(other, "half")
	}()
	select {
	case message := <-got:
		expect.Equal(t, "it is told", message, "half")
	case <-time.After(2 * time.Minute):
		t.Error("it is told nothing")
	}
	cancel()
	<-handled
	end()
	endOther()
}
