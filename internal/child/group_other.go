//go:build !unix

package child

import "os/exec"

// Group does nothing here.
func Group(*exec.Cmd) {}

// KillGroup kills the program. Its children stay.
func KillGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // it may be gone
