package serving

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
)

// Stdio serves until ctx is done, or until standard input ends and its requests are answered.
func Stdio(ctx context.Context, srv *askback.Server, o *drain.Options) error {
	served := make(chan error, 1)
	go func() { served <- srv.Run(ctx, &mcp.StdioTransport{}) }()
	select {
	case err := <-served:
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("serving standard input: %w", err)
		}
	case <-ctx.Done():
		o.Logger.Info("stopping")
		select {
		case <-served:
		case <-time.After(o.Grace): // nothing interrupts a read of standard input
		}
	}
	return nil
}
