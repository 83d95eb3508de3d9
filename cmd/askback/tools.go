package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func toolsCommand() *cobra.Command {
	return conversationCommand(&cobra.Command{
		Use:   "tools TARGET",
		Short: "List a server's tools and their arguments",
		Long: `List the tools of the server at TARGET, a URL or a command line in one argument,
with their arguments.`,
		Example: `  askback tools http://127.0.0.1:8080/mcp
  askback tools 'npx -y @modelcontextprotocol/server-everything'`,
	}, connectOnly, func(c *conversation, args []string) error {
		return c.hold(args[0], "the server", func(ctx context.Context, s *client.Session) (func() error, error) {
			tools, err := listTools(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("listing the tools: %w", err)
			}
			return func() error { return c.show(map[string]any{"tools": tools}, toolsText(tools)) }, nil
		})
	})
}

// listTools reads the server's list of tools.
func listTools(ctx context.Context, s *client.Session) ([]*mcp.Tool, error) {
	return readPages(func(cursor string) ([]*mcp.Tool, string, error) {
		page, err := s.SDK().ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return page.Tools, page.NextCursor, nil
	})
}

func toolsText(tools []*mcp.Tool) string {
	var b strings.Builder
	for i, tool := range tools {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n", harmlessLine(tool.Name, 200))
		if tool.Description != "" {
			b.WriteString(wrap(harmless(tool.Description), "  "))
		}
		b.WriteString(parseSchema(tool.InputSchema).list())
	}
	return b.String()
}
