package conversation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Two calls that are parked in one file at the same moment are both kept.
func TestParkingLosesNoCall(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "call.json")
	expect.Check(t, writeParked(file, "first", false))
	err := writeParked(file, "second", false)
	if err == nil {
		t.Fatal("the first call was overwritten")
	}
	_, kept, _ := strings.Cut(err.Error(), "the call is in ")
	if text, err := os.ReadFile(kept); err != nil || string(text) != "second" {
		t.Errorf("the second call: %q, %v", text, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "first" {
		t.Errorf("the first call: %q, %v", text, err)
	}
	if err := writeParked(file, "third", true); err != nil {
		t.Errorf("a call that was resumed from the file: %v", err)
	}
}
