// Package child runs the servers of the programs that demonstrate, measure and judge this module. Each server is a
// process that prints one line on standard output when it listens.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a server that was started.
type Process struct {
	Started time.Time
	Ready   chan struct{} // closed when the server listens
	Line    string        // what it printed then; valid once Ready is closed
	Dead    chan struct{} // closed when the process has ended

	cmd   *exec.Cmd
	stdin io.Closer // held, because a pipe without references is closed
}

// Start starts a server. Its standard input stays open until the process that starts it ends, so that the server can
// notice that.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, Ready: make(chan struct{}), Dead: make(chan struct{})}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.Started = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewReader(stdout)
		if line, err := lines.ReadString('\n'); err == nil {
			p.Line = strings.TrimSpace(line)
			close(p.Ready)
		}
		go func() { _, _ = io.Copy(io.Discard, lines) }() // or a server that prints more would wait for a reader
		_ = cmd.Wait()                                    // a server is usually killed
		close(p.Dead)
	}()
	return p, nil
}

// Wait returns the line of a server that listens. It kills a server that takes longer than limit.
func (p *Process) Wait(limit time.Duration) (line string, err error) {
	select {
	case <-p.Ready:
		return p.Line, nil
	case <-p.Dead:
		return "", fmt.Errorf("it ended before it was ready")
	case <-time.After(limit):
		p.Kill()
		return "", fmt.Errorf("it was not ready within %v", limit)
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Alive reports whether the process runs. Dead is closed a moment after the process is gone, when its output has been
// read.
func (p *Process) Alive() bool {
	return !closed(p.Dead) && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Listened reports whether the server listens, or did before it ended.
func (p *Process) Listened() bool { return closed(p.Ready) }

// Kill ends the process, with SIGKILL where there are signals, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone this very moment
	<-p.Dead
}

// Signal sends a signal to the process. The error says that it is gone, or that this system has no such signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
