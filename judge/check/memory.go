package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measureWord makes this program run a command and measure its memory.
const measureWord = "measure-memory"

// measured returns a command that runs a program, and a function that then returns the program's memory at its peak, in
// bytes. A small process starts the program: the peak of a process counts from that of the one that starts it, and this
// one has the servers.
func measured(ctx context.Context, program string, args ...string) (*exec.Cmd, func() (int64, error), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("measuring memory: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("measuring memory: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{measureWord, program}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which it passes on
	cmd.WaitDelay = 10 * time.Second
	cmd.ExtraFiles = []*os.File{write}
	return cmd, func() (int64, error) {
		defer read.Close()
		if err := write.Close(); err != nil {
			return 0, err
		}
		text, err := io.ReadAll(read)
		if err != nil {
			return 0, fmt.Errorf("measuring memory: %w", err)
		}
		return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}, nil
}

// measure runs a command, writes its memory to the third file, and returns its exit code.
func measure(args []string) int {
	ctx, stop := interrupted()
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if left := new(exec.ExitError); err != nil && !errors.As(err, &left) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		fmt.Fprintln(os.NewFile(3, "memory"), usage.Maxrss<<10)
	}
	return cmd.ProcessState.ExitCode()
}
