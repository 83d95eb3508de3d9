//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// crashOf names the signal that ended a program.
func crashOf(err *exec.ExitError) string {
	if status, ok := err.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
