package main

import (
	"context"
	"io"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// programTransport starts a program, and speaks to it over its standard input and output. A line of the output that is
// not a message, such as a greeting, goes to aside, and the session goes on.
type programTransport struct {
	cmd   *exec.Cmd
	aside io.Writer
}

func (t *programTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	lines, stdin, err := rawclient.Pipes(t.cmd, t.aside)
	if err != nil {
		return nil, err
	}
	return (&mcp.IOTransport{Reader: io.NopCloser(lines), Writer: stdin}).Connect(ctx)
}
