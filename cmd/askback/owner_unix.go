//go:build unix

package main

import (
	"errors"
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

// checkPrivate refuses a file that belongs to another user, or that others can open.
func checkPrivate(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("its mode is %04o, so that others can open it: change the headers, and its mode to 0600", perm)
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && int(is.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to the user %d, and not to you", is.Uid)
	}
	return nil
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
