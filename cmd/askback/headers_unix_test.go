//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// owned is a file of another user.
type owned struct {
	os.FileInfo
	uid uint32
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: o.uid} }

func TestOnlyOwnFilesArePrivate(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/headers.json"
	for mode, private := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o610: false} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkPrivate(info); (err == nil) != private {
			t.Errorf("%v: %v", mode, err)
		}
		os.Remove(file)
		other := owned{info, uint32(os.Geteuid()) + 1}
		if err := checkPrivate(other); private && (err == nil || !strings.Contains(err.Error(), "belongs to the user")) {
			t.Errorf("another user's: %v", err)
		}
	}
	info, err := os.Stat(t.TempDir())
	if err != nil || checkPrivate(info) == nil {
		t.Errorf("a directory: %v", err)
	}
}
