package legacy

import (
	"context"
	"testing"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
)

// The result of a call stands although the host has not yet said what its roots are: servers ask that when a session
// begins. A form that nobody answered is why a call failed.
func TestUnansweredQuestions(t *testing.T) {
	for method, fails := range map[string]bool{input.MethodElicit: true, input.MethodListRoots: false} {
		c := &openCall{questions: []*openQuestion{{Question: &client.Question{Method: method}}}}
		if got := c.unanswered() != nil; got != fails {
			t.Errorf("%s is why a call failed: %v", method, got)
		}
	}
}

// told is a call that is told of its progress.
type told func(ctx context.Context, message string)

func (f told) Progress(ctx context.Context, _, _ float64, message string) error {
	f(ctx, message)
	return nil
}

// A report that its host is slow to read holds nothing of its call.
func TestASlowReportHoldsNothingOfItsCall(t *testing.T) {
	c := new(openCall)
	reporting, read := make(chan struct{}), make(chan struct{})
	c.run = told(func(context.Context, string) { close(reporting); <-read })
	go func() { _ = c.Progress(t.Context(), 1, 0, "half") }()
	<-reporting
	c.give(&openQuestion{answer: make(chan answer, 1)}, answer{})
	close(read)
	c.reports.Wait()
}
