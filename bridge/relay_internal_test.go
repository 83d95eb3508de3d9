package bridge

import "testing"

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
