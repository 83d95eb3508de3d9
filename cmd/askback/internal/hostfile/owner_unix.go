//go:build unix

package hostfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a file that somebody else can write, except root.
func checkOwner(path string, info fs.FileInfo) error {
	return check(path, info, "says which programs are started")
}

// checkSecret also refuses a file that every user of the machine can read. The group may: see [seal.File].
func checkSecret(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o004 != 0 {
		return fmt.Errorf("every user of this machine can read %s, which has secrets: chmod 600 %[1]s", path)
	}
	return check(path, info, "says who the bridge is")
}

func check(path string, info fs.FileInfo, what string) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others can write %s, which %s: chmod go-w %[1]s", path, what)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s, which %s, belongs to another user", path, what)
	}
	return nil
}

// othersRead returns whether others can read a file.
func othersRead(info fs.FileInfo) bool { return info.Mode().Perm()&0o044 != 0 }
