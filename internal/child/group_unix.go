//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// Group makes a program that has not been started the first of a process group, so that KillGroup takes its children
// with it.
func Group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills the program and those of its children that are in its group.
func KillGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // they may be gone
