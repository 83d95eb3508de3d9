//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped throws away what was typed on a terminal and not read. It is not an answer to a question that was not on
// the screen yet, and one Enter may send a form.
func discardTyped(tty *os.File) {
	const input = 1                                                   // FREAD in <sys/fcntl.h>
	_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCFLUSH, input) // if it fails, the person sees what was typed
}
