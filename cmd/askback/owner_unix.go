//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner and group of old. Otherwise the server could not read a key file that root has rotated.
func keepOwner(f *os.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	was, ok := old.Sys().(*syscall.Stat_t)
	is, ok2 := info.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || was.Uid == is.Uid && was.Gid == is.Gid {
		return nil
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}

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
