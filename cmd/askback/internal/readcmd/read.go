// Package readcmd reads a resource.
package readcmd

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
)

// Command returns 'askback read'.
func Command() *cobra.Command {
	return conversation.Command(&cobra.Command{
		Use:   "read TARGET URI",
		Short: "Read a resource, and answer what it asks",
		Long: `Read a resource of the server at TARGET, a URL or a command line in one
argument, and answer what it asks. 'askback call --help' explains answers and
exit codes. Contents that are not text are only named; --json prints
them.`,
		Example: `  askback read http://127.0.0.1:8080/mcp file:///notes.txt`,
	}, conversation.WithAnswers, func(c *conversation.Conversation, args []string) error {
		return c.Hold(args[0], args[1], func(ctx context.Context, s *client.Session) (func() error, error) {
			params := &mcp.ReadResourceParams{URI: args[1]}
			params.SetProgressToken(conversation.ProgressToken)
			res, err := s.ReadResource(ctx, params)
			return c.Printer(res), err
		})
	})
}
