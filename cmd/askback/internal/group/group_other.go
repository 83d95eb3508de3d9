//go:build !unix

package group

import "os/exec"

// Own does nothing here.
func Own(*exec.Cmd) {}

// Kill kills the program. Its children stay.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // it may be gone
