package postgres

import (
	"testing"
	"time"
)

// WatchTimes changes the times of a watch for a test.
func WatchTimes(t *testing.T, answers, silences time.Duration) {
	a, s := answer, silence
	t.Cleanup(func() { answer, silence = a, s })
	answer, silence = answers, silences
}
