package inboxcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/inboxpage"
	"github.com/askback-mcp/askback/desk"
)

func serveCommand() *cobra.Command {
	f, page := &inboxFlags{reach: singleStore}, new(inboxpage.Server)
	cmd := &cobra.Command{
		Use:   "serve [STORE]",
		Short: "Serve the page on which people answer",
		Long: `Serve a page and a JSON API on which people see the questions for them, and
answer. It prints its URL when it is ready (port 0 takes a free one). Choose how
it knows people: --local serves you alone, on this machine, and prints a URL
that signs you in once ('askback inbox open' prints others). With --oidc people
sign in at a provider. With --trust-header a proxy has signed them in. The
server must know its callers by the same names, which /whoami shows. STORE is
the server's store; see 'askback inbox --help'. It logs and stops as 'askback
serve' does.`,
		Example: `  askback inbox serve --local --groups release --open
  askback inbox serve sqlite:tasks.db --trust-header X-User --trusted 10.0.0.7`,
	}
	page.Register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := page.Check(cmd.Flags()); err != nil {
			return err
		}
		return f.at(cmd, args, func(ctx context.Context, cmd *cobra.Command, d *desk.Desk, _ bool, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%q is not a store: want sqlite:PATH or postgres://…", args[0])
			}
			page.Store = f.stores[0]
			return page.Serve(ctx, cmd, d)
		})
	}
	return cmd
}
