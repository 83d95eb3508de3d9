package keyscmd

import (
	"os"
	"path/filepath"
	"testing"
)

// A failure on the way leaves the old file, and no other one.
func TestRotateReplacesInOneGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "my.keys")
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceKeyFile(file, "new"); err == nil {
		t.Fatal("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
