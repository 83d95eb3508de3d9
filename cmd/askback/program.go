package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// programTransport starts a program, and speaks to it over its standard input and output. A line of the output that is
// not a message, such as a greeting, does not end the session: it goes to aside, as hosts do it.
type programTransport struct {
	cmd   *exec.Cmd
	aside io.Writer
}

func (t *programTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	stdout, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stdin, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	lines := &messageLines{in: bufio.NewReader(stdout), aside: t.aside}
	return (&mcp.IOTransport{Reader: io.NopCloser(lines), Writer: &programInput{stdin, t.cmd}}).Connect(ctx)
}

// programInput is the standard input of a program, which ends the program when it is closed.
type programInput struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close ends the program in the steps of basic/transports/stdio, "Shutdown": it closes the input, and after two seconds
// each it asks the program to terminate, and kills it.
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
	inLine    bool // the next byte is not the first of a line
	isMessage bool // of the line
	rest      []byte
}

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
		} else if _, err := l.aside.Write(part); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
