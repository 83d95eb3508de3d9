package cli

import (
	"strings"
	"testing"
)

func TestTheNearestName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, among, want string }{
		{"resolution", "resolution", "resolution"},
		{"Resolution", "x resolution", "resolution"},
		{"dup-of", "dup_of", "dup_of"},
		{"resolutoin", "revolution resolution", "resolution"}, // neighbours that changed places
		{"reslutoin", "resolution", "resolution"},
		{"gihtub_logn", "google_login github_login", "github_login"},
		{"location", "vocation", "vocation"},
		{"resolution", "evolution", "evolution"},
		{"resolution", "absolute institution", ""},
		{"abc", "abd", ""}, // too short to be sure
		{"ABC", "abc", "abc"},
		{"x", "", ""},
		{strings.Repeat("x", 1000), strings.Repeat("x", 999), ""},
	} {
		if got := Nearest(tt.name, strings.Fields(tt.among)); got != tt.want {
			t.Errorf("%.20q among %.40q: got %q, want %q", tt.name, tt.among, got, tt.want)
		}
	}
}
