package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func promptCommand() *cobra.Command {
	return conversationCommand(&cobra.Command{
		Use:   "prompt TARGET NAME [KEY=VALUE …]",
		Short: "Get a prompt, and answer what it asks",
		Long: `Get a prompt of the server at TARGET, a URL or a command line in one argument,
and answer what it asks. Answers and exit codes are those of 'askback call'.`,
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
			res, err := getPrompt(ctx, s, args[1], pairs)
			return c.printer(res), err
		})
	})
}

// getPrompt finds the prompt in the server's list, checks the arguments, and gets it.
func getPrompt(ctx context.Context, s *client.Session, name string, pairs []pair) (*mcp.GetPromptResult, error) {
	var names []string
	var found *mcp.Prompt
	err := eachPage(func(cursor string) (string, error) {
		page, err := s.SDK().ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, p := range page.Prompts {
			if p != nil && p.Name == name {
				found = p
			} else if p != nil {
				names = append(names, p.Name)
			}
		}
		if found != nil {
			return "", nil
		}
		return page.NextCursor, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the prompts, to know the arguments of %s: %w", name, err)
	}
	if found == nil {
		return nil, usagef("there is no prompt %q%s", name, cmp.Or(didYouMean(name, names), thereAre("prompts", names)))
	}
	arguments, err := promptArguments(found, pairs)
	if err != nil {
		return nil, err
	}
	params := &mcp.GetPromptParams{Name: name, Arguments: arguments}
	params.SetProgressToken(progressToken)
	return s.GetPrompt(ctx, params)
}

// promptArguments makes the arguments of a prompt, which are all strings.
func promptArguments(prompt *mcp.Prompt, pairs []pair) (map[string]string, error) {
	var list []argument
	var names []string
	for _, a := range prompt.Arguments {
		if a == nil {
			continue
		}
		names = append(names, a.Name)
		list = append(list, argument{name: a.Name, about: cmp.Or(a.Description, a.Title), required: a.Required})
	}
	var missing []string
	for _, a := range list {
		if a.required && !has(pairs, a.name) {
			missing = append(missing, a.name)
		}
	}
	arguments := make(map[string]string)
	var problem error
	for _, p := range pairs {
		arguments[p.key] = p.value
		if !slices.Contains(names, p.key) {
			problem = fmt.Errorf("there is no argument %q%s", p.key, didYouMean(p.key, names))
		}
	}
	if problem == nil && len(missing) > 0 {
		problem = fmt.Errorf("missing: %s", strings.Join(missing, ", "))
	}
	if problem != nil {
		return nil, wrongArguments(prompt.Name, problem, listArguments(list))
	}
	return arguments, nil
}
