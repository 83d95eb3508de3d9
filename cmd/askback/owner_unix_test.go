//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A key file that root rotates stays readable for the server.
func TestRotateKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	file := filepath.Join(t.TempDir(), "my.keys")
	if code, _, stderr := command(t, "keys", "new", file); code != 0 {
		t.Fatal(stderr)
	}
	expect.Check(t, os.Chown(file, 1234, 5678))
	if code, _, stderr := command(t, "keys", "rotate", file); code != 0 {
		t.Fatal(stderr)
	}
	info := expect.Must(os.Stat(file))(t)
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 1234 || s.Gid != 5678 || info.Mode().Perm() != 0o600 {
		t.Errorf("owner %d:%d, mode %v", s.Uid, s.Gid, info.Mode())
	}
}
