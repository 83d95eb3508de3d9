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
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others can write %s, which says which programs are started: chmod go-w %[1]s", path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s, which says which programs are started, belongs to another user", path)
	}
	return nil
}

// othersRead returns whether others can read a file.
func othersRead(info fs.FileInfo) bool { return info.Mode().Perm()&0o044 != 0 }
