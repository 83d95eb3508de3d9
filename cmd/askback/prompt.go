package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func promptCommand() *cobra.Command {
	return conversationCommand(&cobra.Command{
		Use:   "prompt TARGET NAME [KEY=VALUE …]",
		Short: "Get a prompt, and answer what it asks",
		Long: `Get a prompt of the server at TARGET, a URL or a command line in one argument,
and answer what it asks. 'askback call --help' explains answers and
exit codes.`,
		Example: `  askback prompt http://127.0.0.1:8080/mcp summarize style=short`,
	}, withAnswers, func(c *conversation, args []string) error {
		pairs, err := parsePairs(args[2:])
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if p.raw {
				return usagef("%s:=%s: the arguments of prompts are strings, want %[1]s=VALUE", p.key, p.value)
			}
		}
		return c.hold(args[0], args[1], func(ctx context.Context, s *client.Session) (func() error, error) {
			res, err := c.getPrompt(ctx, s, args[1], pairs)
			return c.printer(res), err
		})
	})
}

// getPrompt finds the prompt in the server's list, checks the arguments, and gets it.
func (c *conversation) getPrompt(
	ctx context.Context, s *client.Session, name string, pairs []pair,
) (*mcp.GetPromptResult, error) {
	prompts, err := listItems[mcp.Prompt](ctx, c, s, "prompts/list")
	var names []string
	for _, p := range prompts {
		if p.Name != name {
			names = append(names, p.Name)
			continue
		}
		arguments := make(map[string]string)
		for _, pair := range pairs {
			arguments[pair.key] = pair.value
		}
		if _, _, err := promptSchema(p).arguments(ctx, name, pairs, nil); err != nil {
			return nil, err
		}
		params := &mcp.GetPromptParams{Name: name, Arguments: arguments}
		params.SetProgressToken(progressToken)
		return s.GetPrompt(ctx, params)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the prompts, to know the arguments of %s: %w", name, err)
	}
	return nil, unknownName("prompt", name, names)
}
