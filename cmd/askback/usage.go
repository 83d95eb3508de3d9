package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// takes checks that a command has the named arguments. One in brackets may be missing.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return usagef("unexpected argument %q", args[len(names)])
		}
		if len(args) < len(names) && !strings.HasPrefix(names[len(args)], "[") {
			return usagef("the argument %s is missing", names[len(args)])
		}
		return nil
	}
}

// takesPairs checks that a command has the named arguments. Any number of others may follow.
func takesPairs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return takes(names...)(cmd, args[:min(len(args), len(names))])
	}
}

// needsCommand runs a command that has only subcommands. It is always a mistake, which it explains.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(cmd.ErrOrStderr())
		cmd.HelpFunc()(cmd, args)
		return usagef("a command is missing")
	}
	message := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s", message)
}
