//go:build !unix

package checkclient

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills the program. Its children stay.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // it may be gone

func crashOf(*exec.ExitError) string { return "" }
