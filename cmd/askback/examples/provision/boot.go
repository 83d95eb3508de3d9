package provision

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// bootArgs is the command that stands for the boot of a machine. Every such system has it.
func bootArgs() []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", "ver"}
	}
	return []string{"uname", "-a"}
}

// bootProgram finds the program of the boot.
func bootProgram() (string, error) {
	path, err := exec.LookPath(bootArgs()[0])
	if err != nil {
		return "", fmt.Errorf("the host lacks a program that the boot needs: %w; install it, or add its directory to PATH", err)
	}
	return path, nil
}

func bootCommand(ctx context.Context) (*exec.Cmd, error) {
	path, err := bootProgram()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, bootArgs()[1:]...)
	cmd.WaitDelay = time.Second // for what it may have started
	return cmd, nil
}
