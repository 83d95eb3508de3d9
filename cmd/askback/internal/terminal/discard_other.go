//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package terminal

import "os"

// discardTyped does nothing where terminals have no way to throw away what was typed.
func discardTyped(*os.File) {}
