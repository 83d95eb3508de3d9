// Package stdio speaks with a server over its standard input and output.
package stdio

import (
	"context"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// Transport starts a program, and speaks to it over its standard input and output.
type Transport struct {
	Cmd  *exec.Cmd
	most int // bytes of a message; 0 is the default
}

// NewTransport returns a transport for a program and its arguments. The program has the environment of this
// command. Its standard error goes to stderr, and so do the lines of its standard output that are not messages, such as
// a greeting. Most is the size of a message in bytes; 0 is the default.
func NewTransport(program []string, most int, stderr io.Writer) *Transport {
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second // for children of the program that keep its standard error open
	return &Transport{cmd, most}
}

// Connect starts the program.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	lines, stdin, err := rawclient.Pipes(t.Cmd, t.most, t.Cmd.Stderr)
	if err != nil {
		return nil, err
	}
	return Connect(ctx, lines, stdin)
}

// Connect speaks to a program that runs: it reads the lines of its output, of which each has a message, and writes to
// its input.
func Connect(ctx context.Context, lines io.Reader, stdin io.WriteCloser) (mcp.Connection, error) {
	counted := &countedInput{WriteCloser: stdin}
	conn, err := (&mcp.IOTransport{Reader: io.NopCloser(lines), Writer: counted, MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{conn, counted}, nil
}

// connection counts what is written to the program, because a call did not run if nothing of it was written.
// Package client looks for Written.
type connection struct {
	mcp.Connection
	input *countedInput
}

// Written returns how many bytes were written to the program.
func (c *connection) Written() int64 { return c.input.written.Load() }

// countedInput counts the bytes that are written to a program.
type countedInput struct {
	io.WriteCloser
	written atomic.Int64
}

func (w *countedInput) Write(p []byte) (int, error) {
	n, err := w.WriteCloser.Write(p)
	w.written.Add(int64(n))
	return n, err
}
