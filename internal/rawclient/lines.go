package rawclient

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Pipes starts a program. It returns the lines of the program's output that may be messages, and its input. Other
// lines, such as a greeting, go to aside. Closing the input ends the program in the steps of basic/transports/stdio,
// "Shutdown": after two seconds each the program is asked to terminate, and killed.
func Pipes(cmd *exec.Cmd, aside io.Writer) (io.Reader, io.WriteCloser, error) {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return &messageLines{in: bufio.NewReader(stdout), aside: aside}, &programInput{stdin, cmd}, nil
}

// programInput is the standard input of a program, which ends the program when it is closed.
type programInput struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close closes the input, and waits until the program has ended.
func (p *programInput) Close() error {
	if err := p.WriteCloser.Close(); err != nil {
		return fmt.Errorf("closing the standard input of %s: %w", p.cmd.Path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	for _, next := range []func() error{
		func() error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		p.cmd.Process.Kill,
	} {
		select {
		case err := <-ended:
			return err
		case <-time.After(2 * time.Second):
		}
		_ = next() // a program that has ended since cannot be signalled
	}
	return <-ended
}

// messageLines reads the lines that may be messages, which begin with a brace or a bracket. Other lines go to aside.
type messageLines struct {
	in        *bufio.Reader
	aside     io.Writer
	shown     int    // bytes that aside has got
	inLine    bool   // the next byte is not the first of a line
	isMessage bool   // of the line
	rest      []byte // of the line, not read yet
}

// mostAside is how many bytes of a program's other lines are shown. A pipe holds as many, so a host that does not read
// the standard error of this command does not keep it from reading messages.
const mostAside = 16 << 10

func (l *messageLines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		part, err := l.in.ReadSlice('\n')
		if len(part) == 0 {
			return 0, err
		}
		if !l.inLine {
			text := bytes.TrimLeft(part, " \t\r\n")
			if len(text) == 0 {
				continue
			}
			l.isMessage = text[0] == '{' || text[0] == '['
		}
		l.inLine = part[len(part)-1] != '\n'
		if l.isMessage {
			l.rest = part
		} else if room := min(len(part), mostAside-l.shown); room > 0 {
			_, _ = l.aside.Write(part[:room]) // if nobody can read it, the session goes on without
			l.shown += room
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
