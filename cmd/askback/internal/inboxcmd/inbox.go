// Package inboxcmd lists and answers the questions that tasks have for people.
package inboxcmd

import (
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// Command returns 'askback inbox'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox COMMAND",
		Short: "Answer the questions that tasks have for people",
		Long: `List the questions that tasks have for people, and answer them. STORE is the
store of the server, sqlite:PATH or postgres://…, as in its --store. Without
STORE the command looks at all stores that 'askback serve' and
'askback bridge' have made for you without --store.

Anybody who can open the store can answer for everybody: the command believes
--as and --groups. It records your system's user with each answer.`,
		RunE: cli.NeedsCommand,
	}
	cmd.AddCommand(listCommand(), showCommand(), answerCommand(), rememberedCommand(), forgetCommand(), serveCommand(),
		openCommand())
	return cmd
}
