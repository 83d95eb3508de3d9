package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// serveStdio serves until ctx is done, or until standard input ends and its requests are answered.
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
		case <-time.After(grace): // nothing interrupts a read of standard input
		}
	}
	return nil
}
