package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// serveStdio serves until standard input ends and what it asked for is answered, or ctx is done.
func serveStdio(ctx context.Context, srv *askback.Server, log *slog.Logger) error {
	served := make(chan error, 1)
	go func() { served <- srv.Run(ctx, &mcp.StdioTransport{}) }()
	select {
	case err := <-served:
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("serving standard input: %w", err)
		}
	case <-ctx.Done():
		log.Info("stopping")
		select {
		case <-served:
		case <-time.After(grace): // a read of standard input that nothing interrupts
		}
	}
	return nil
}
