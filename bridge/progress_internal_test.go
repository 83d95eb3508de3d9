package bridge

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// told is a call that is told of its progress.
type told func(ctx context.Context, message string)

func (f told) Progress(ctx context.Context, _, _ float64, message string) error {
	f(ctx, message)
	return nil
}

// A host that does not read keeps the progress of no other call from its host.
func TestSlowHostAndTheProgressOfOthers(t *testing.T) {
	s := new(server)
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
		if message != "half" {
			t.Errorf("it is told %q", message)
		}
	case <-time.After(30 * time.Second):
		t.Error("it is told nothing")
	}
	cancel()
	<-handled
	end()
	endOther()
}

// What waits for a host that does not read keeps nobody who adds to it, and nothing of another host; it is bounded, and
// in order.
func TestAMailboxOfASlowHost(t *testing.T) {
	var slow, other mailbox
	reads, passed := make(chan struct{}), make(chan int, 2*mostMail)
	for i := range 2 * mostMail {
		slow.add(func() { <-reads; passed <- i })
	}
	got := make(chan bool)
	other.add(func() { got <- true })
	<-got
	close(reads)
	for i := range mostMail {
		if n := <-passed; n != i {
			t.Fatalf("message %d came in place of %d", n, i)
		}
	}
	slow.add(func() { got <- true }) // after the last one
	<-got
	if len(passed) > 1 { // one was on its way while the others waited
		t.Errorf("%d more waited", len(passed))
	}
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
