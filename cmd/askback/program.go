package main

import (
	"context"
	"io"
	"os/exec"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// programTransport starts a program, and speaks to it over its standard input and output. A line of the output that is
// not a message, such as a greeting, goes to aside, and the session goes on.
type programTransport struct {
	cmd   *exec.Cmd
	aside io.Writer
	most  int // bytes of a message; 0 is the default
}

func (t *programTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	lines, stdin, err := rawclient.Pipes(t.cmd, t.most, t.aside)
	if err != nil {
		return nil, err
	}
	counted := &countedInput{WriteCloser: stdin}
	conn, err := (&mcp.IOTransport{Reader: io.NopCloser(lines), Writer: counted, MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &programConnection{conn, counted}, nil
}

// programConnection counts what is written to the program, because a call did not run if nothing of it was written.
// Package client looks for Written.
type programConnection struct {
	mcp.Connection
	input *countedInput
}

// Written returns how many bytes were written to the program.
func (c *programConnection) Written() int64 { return c.input.written.Load() }

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
