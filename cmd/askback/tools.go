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
			return func() error {
				if c.asJSON() {
					return outputJSON(c.cmd.OutOrStdout(), map[string]any{"tools": tools})
				}
				return output(c.cmd.OutOrStdout(), toolsText(tools))
			}, nil
		})
	})
}

// listTools reads the server's list of tools.
func listTools(ctx context.Context, s *client.Session) ([]*mcp.Tool, error) {
	tools := []*mcp.Tool{}
	err := eachPage(func(cursor string) (string, error) {
		page, err := s.SDK().ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, tool := range page.Tools {
			if tool != nil {
				tools = append(tools, tool)
			}
		}
		return page.NextCursor, nil
	})
	return tools, err
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
