package conversation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestFilesOfLater(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	const call = `{"endpoint":"http://localhost/","method":"tools/call","params":{},"requestState":"x","questions":[],` +
		`"expires":"%s"}`
	at := func(d time.Duration) string {
		return strings.Replace(call, "%s", time.Now().Add(d).Format(time.RFC3339), 1)
	}
	old := expect.Must(parkAnew("../-x y"+strings.Repeat("z", 90), at(-time.Hour)))(t)
	if dir, name := filepath.Split(old); dir != state+"/askback/parked/" || !strings.HasPrefix(name, "xyzz") ||
		len(name) > 60 {
		t.Error(old)
	}
	now := expect.Must(parkAnew("", at(time.Hour)))(t)
	if _, err := os.Stat(old); err == nil {
		t.Error("an expired call stays")
	}
	expect.Must(parkAnew("two", at(time.Hour)))(t)
	if _, err := os.Stat(now); err != nil {
		t.Error("a call that waits was removed")
	}
	own := filepath.Join(t.TempDir(), "own.json")
	expect.Check(t, os.WriteFile(own, []byte(at(time.Hour)), 0o600))
	removeParked(own)
	removeParked(now)
	if _, err := os.Stat(own); err != nil {
		t.Error("a file of the user's own was removed")
	}
	if _, err := os.Stat(now); err == nil {
		t.Error("a call that has its result stays")
	}
}
