package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func toolsCommand() *cobra.Command {
	var connect connectFlags
	cmd := &cobra.Command{
		Use:   "tools TARGET",
		Short: "List a server's tools and their arguments",
		Long: `List the tools of the server at TARGET, a URL or a command line in one argument,
with their arguments.`,
		Example: `  askback tools http://127.0.0.1:8080/mcp
  askback tools 'npx -y @modelcontextprotocol/server-everything'`,
		Args: takes("TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newConversation(args[0], "the server", &connect, nil)
			if err != nil {
				return err
			}
			list := &mcp.ListToolsResult{Tools: []*mcp.Tool{}}
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				list.Tools, err = listTools(ctx, s)
				return list, err
			}
			c.show = func(mcp.Result, json.RawMessage) error {
				if connect.output == "json" {
					return outputJSON(cmd, map[string]any{"tools": list.Tools})
				}
				return output(cmd.OutOrStdout(), toolsText(list.Tools))
			}
			return c.hold(cmd)
		},
	}
	connect.register(cmd.Flags())
	return cmd
}

// maxPages is how much of a list is read: a server can make it as long as it likes, and a
// page as large as a message may be.
const maxPages = 16

func listTools(ctx context.Context, s *client.Session) ([]*mcp.Tool, error) {
	tools := []*mcp.Tool{}
	params := new(mcp.ListToolsParams)
	for range maxPages {
		page, err := s.SDK().ListTools(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("listing the tools: %w", err)
		}
		for _, tool := range page.Tools {
			if tool != nil {
				tools = append(tools, tool)
			}
		}
		if page.NextCursor == "" {
			return tools, nil
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("listing the tools: %w", fmt.Errorf("the server's list has more than %d pages", maxPages))
}

// findTool returns the tool, or the names of those that are there.
func findTool(ctx context.Context, s *client.Session, name string) (*mcp.Tool, []string, error) {
	tools, err := listTools(ctx, s)
	if err != nil {
		return nil, nil, errors.Unwrap(err)
	}
	var names []string
	for _, tool := range tools {
		if tool.Name == name {
			return tool, nil, nil
		}
		names = append(names, tool.Name)
	}
	return nil, names, nil
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
