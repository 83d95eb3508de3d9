package edits_test

import (
	"testing"

	"github.com/askback-mcp/askback/internal/edits"
)

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "oslo", 4},
		{"oslo", "oslo", 0},
		{"oslo", "osloo", 1},
		{"oslo", "slo", 1},
		{"oslo", "osla", 1},
		{"oslo", "olso", 1},
		{"yrok", "york", 1},
		{"kitten", "sitting", 3},
		{"日本", "日木", 1},
	} {
		if got := edits.Count([]rune(tt.a), []rune(tt.b)); got != tt.want {
			t.Errorf("Count(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := edits.Count([]rune(tt.b), []rune(tt.a)); got != tt.want {
			t.Errorf("Count(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
