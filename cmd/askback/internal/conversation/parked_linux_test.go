package conversation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFilesOfLater(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	const call = `{"endpoint":"http://localhost/","method":"tools/call","params":{},"requestState":"x","questions":[],` +
		`"expires":"%s"}`
	at := func(d time.Duration) string {
		return strings.Replace(call, "%s", time.Now().Add(d).Format(time.RFC3339), 1)
	}
	old, err := parkAnew("../-x y"+strings.Repeat("z", 90), at(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if dir, name := filepath.Split(old); dir != state+"/askback/parked/" || !strings.HasPrefix(name, "xyzz") ||
		len(name) > 60 {
		t.Error(old)
	}
	now, err := parkAnew("", at(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an expired call stays")
	}
	if _, err := parkAnew("two", at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(now); err != nil {
		t.Error("a call that waits was removed")
	}
	own := filepath.Join(t.TempDir(), "own.json")
	if err := os.WriteFile(own, []byte(at(time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	removeParked(own)
	removeParked(now)
	if _, err := os.Stat(own); err != nil {
		t.Error("a file of the user's own was removed")
	}
	if _, err := os.Stat(now); err == nil {
		t.Error("a call that has its result stays")
	}
}
