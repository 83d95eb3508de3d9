package inboxcmd

import (
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/inboxpage"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
)

func openCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "open [STORE]",
		Short: "Print a URL that signs you in at the page that runs here",
		Long: `Print a URL that signs you in at the page of 'askback inbox serve --local' or
'askback bridge --local', if you run it on this machine. The URL works once, for
five minutes, and ends the one before. If several pages run, each URL is below
its store; STORE chooses one.

Exit codes: 0 it is printed; 1 no such page runs, or it does not answer; 2 wrong
usage; 130 interrupted.`,
		Example: `  askback inbox open`,
		RunE: func(cmd *cobra.Command, args []string) error {
			store := ""
			if len(args) > 0 {
				if !storage.Leads(args) {
					return cli.Usagef("%q is not a store: want sqlite:PATH or postgres://…", args[0])
				}
				store = storage.Public(args[0])
			}
			return inboxpage.Open(cmd, store)
		},
	}
}
