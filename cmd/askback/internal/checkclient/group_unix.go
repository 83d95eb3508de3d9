//go:build unix

package checkclient

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a program in a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the program and its children.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // they may be gone

// crashOf names the signal that ended a program.
func crashOf(err *exec.ExitError) string {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
