package cli

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                "less than 1s",
		999 * time.Millisecond:           "less than 1s",
		59 * time.Second:                 "59s",
		time.Minute:                      "1m",
		59*time.Minute + 48*time.Second:  "59m48s",
		time.Hour + 59*time.Second:       "1h",
		23*time.Hour + 59*time.Minute:    "23h59m",
		49*time.Hour + 10*time.Minute:    "2d1h",
		400*24*time.Hour + 3*time.Minute: "400d",
	} {
		if got := Span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}
