package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheStateDirectory(t *testing.T) {
	home, xdg := t.TempDir(), t.TempDir()
	for _, name := range []string{"HOME", "AppData"} {
		t.Setenv(name, home)
	}
	for _, tt := range []struct{ xdg, in string }{
		{"", home},
		{"relative", home}, // the convention wants it ignored
		{xdg, xdg},
	} {
		t.Setenv("XDG_STATE_HOME", tt.xdg)
		if got, err := StateDir(); err != nil || !strings.HasPrefix(got, tt.in) || filepath.Base(got) != "askback" {
			t.Errorf("%q: got %s, %v; want it in %s", tt.xdg, got, err, tt.in)
		}
	}
}
