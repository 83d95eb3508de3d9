//go:build unix

package inboxpage

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkPrivateDir refuses a directory that belongs to another user, or that others can enter.
func checkPrivateDir(info fs.FileInfo) error {
	if is, ok := info.Sys().(*syscall.Stat_t); ok && int(is.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to the user %d, and not to you", is.Uid)
	}
	if perm := info.Mode().Perm(); !info.IsDir() || perm&0o077 != 0 {
		return fmt.Errorf("it is no directory for you alone (mode %04o): remove it", perm)
	}
	return nil
}
