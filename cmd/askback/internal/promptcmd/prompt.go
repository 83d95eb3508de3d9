// Package promptcmd gets a prompt.
package promptcmd

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
)

// Command returns 'askback prompt'.
func Command() *cobra.Command {
	return conversation.Command(&cobra.Command{
		Use:   "prompt TARGET NAME [KEY=VALUE …]",
		Short: "Get a prompt, and answer what it asks",
		Long: `Get a prompt of the server at TARGET, a URL or a command line in one argument,
and answer what it asks. 'askback call --help' explains answers and
exit codes.`,
		Example: `  askback prompt http://127.0.0.1:8080/mcp summarize style=short`,
	}, conversation.WithAnswers, func(c *conversation.Conversation, args []string) error {
		pairs, err := arguments.ParsePairs(args[2:])
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if p.Raw {
				return cli.Usagef("%s:=%s: the arguments of prompts are strings, want %[1]s=VALUE", p.Key, p.Value)
			}
		}
		return c.Hold(args[0], args[1], func(ctx context.Context, s *client.Session) (func() error, error) {
			res, err := getPrompt(ctx, c, s, args[1], pairs)
			return c.Printer(res), err
		})
	})
}

// getPrompt finds the prompt in the server's list, checks the arguments, and gets it.
func getPrompt(ctx context.Context, c *conversation.Conversation, s *client.Session, name string,
	pairs []arguments.Pair,
) (*mcp.GetPromptResult, error) {
	prompts, err := conversation.List[mcp.Prompt](ctx, c, s, "prompts/list")
	var names []string
	for _, p := range prompts {
		if p.Name != name {
			names = append(names, p.Name)
			continue
		}
		sent := make(map[string]string)
		for _, pair := range pairs {
			sent[pair.Key] = pair.Value
		}
		if _, _, err := arguments.PromptSchema(p).Arguments(ctx, name, pairs, nil); err != nil {
			return nil, err
		}
		params := &mcp.GetPromptParams{Name: name, Arguments: sent}
		params.SetProgressToken(conversation.ProgressToken)
		return s.GetPrompt(ctx, params)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the prompts, to know the arguments of %s: %w", name, err)
	}
	return nil, cli.UnknownName("prompt", name, names)
}
