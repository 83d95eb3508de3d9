//go:build unix

// Package group starts a program in a process group of its own, so that its children end with it.
package group

import (
	"os/exec"
	"syscall"
)

// Own makes a program that has not been started the first of a group.
func Own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Kill kills the program and those of its children that are in its group.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // they may be gone
