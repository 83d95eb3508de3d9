//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package audit

import (
	"fmt"
	"syscall"
)

// lock keeps other processes from writing to the same chain. It ends with the process.
func lock(path string) (unlock func(), err error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is locked: another process writes to this audit; give each process a file of its own: %w",
			path, err)
	}
	return func() { f.Close() }, nil
}
