//go:build unix

package law_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/law"
)

// BenchmarkFleet says how many seconds of a processor an hour of three servers takes, in which 50 calls begin.
func BenchmarkFleet(b *testing.B) {
	var all law.Summary
	o := law.Options{Calls: 50, Over: time.Hour, Unit: 5 * time.Second, Virtual: true, Chances: law.Network}
	run := func(t *testing.T) { // a bubble belongs to a test
		summary, bad, _ := play(t, o)
		if len(bad) > 0 {
			t.Errorf("seed %d: %q", o.Seed, bad)
		}
		all.Add(summary)
		o.Seed++
	}
	every := func(string, string) (bool, error) { return true, nil }
	before := processor(b)
	for b.Loop() {
		if !testing.RunTests(every, []testing.InternalTest{{Name: b.Name(), F: run}}) {
			b.FailNow()
		}
	}
	b.ReportMetric((processor(b)-before).Seconds()/all.Took.Hours(), "processor-s/h")
}

// processor returns how long this process has used processors.
func processor(t testing.TB) time.Duration {
	var u syscall.Rusage
	expect.Check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
