package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Out of raw mode, Ctrl-C is a signal to the process whose terminal this is.
func TestByLineCtrlC(t *testing.T) {
	const helper = "ASKBACK_TERMINAL_TEST"
	if os.Getenv(helper) != "" {
		result, err := (&Terminal{}).Form(context.Background(), "tracker", "How?", json.RawMessage(bug))
		fmt.Println("ended", result == nil, err)
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestByLineCtrlC$")
	cmd.Env = append(os.Environ(), helper+"=1", "TERM=dumb")
	keyboard, tty := ptytest.Open(t, 40, 80)
	defer keyboard.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	expect.Check(t, cmd.Start())
	tty.Close()
	p := &person{t: t, keyboard: keyboard}
	p.watch()
	p.sees("Resolution", "\n>")
	p.types(ctrlC)
	p.sees("ended true interrupted")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
