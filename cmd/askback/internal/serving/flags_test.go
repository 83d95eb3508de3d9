package serving

import (
	"testing"
	"time"
)

// A --drain-delay of zero means none, and not the default of package drain.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]time.Duration{
		0: -1, time.Millisecond: time.Millisecond, 5 * time.Second: 5 * time.Second,
	} {
		f := &Flags{Delay: delay}
		if got := f.Draining(nil, nil).Delay; got != want {
			t.Errorf("--drain-delay %v: %v, want %v", delay, got, want)
		}
	}
}
