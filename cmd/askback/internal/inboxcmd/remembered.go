package inboxcmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
)

func rememberedCommand() *cobra.Command {
	f := &inboxFlags{reach: everyStore}
	cmd := &cobra.Command{
		Use:   "remembered [STORE]",
		Short: "List the approvals that let further calls pass",
		Long: `List the approvals that rules have remembered, the last one first: further calls
of the caller with the same arguments pass without a question. With --as or
--groups the list has only what concerns this person: what they have approved,
may approve, or make use of with their own calls.

'askback inbox forget' ends one of them.

Exit codes: 0 the list is there; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback inbox remembered --as alice --groups release`,
	}
	f.register(cmd, f.remembered)
	f.registerPerson(cmd)
	return cmd
}

func (f *inboxFlags) remembered(ctx context.Context, cmd *cobra.Command, d *desk.Desk, asJSON bool, _ []string) error {
	var as *desk.Person
	if p, _ := f.person(); f.as != "" || f.groups != nil {
		as = &p
	}
	now := time.Now()
	var rows []string
	for r, err := range d.Remembered(ctx, as) {
		if r == nil {
			return err
		}
		if err != nil {
			cli.Warn(cmd, err.Error())
		}
		if asJSON {
			if err := cli.Output(cmd.OutOrStdout(), inertLine(r)); err != nil {
				return err
			}
			continue
		}
		if len(rows) == cli.MaxListed {
			cli.Warn(cmd, fmt.Sprintf("there are more, these are %d; --json prints all", cli.MaxListed))
			break
		}
		rows = append(rows, rememberedRow(r, now))
	}
	if asJSON {
		return nil
	}
	text := "nothing is remembered\n"
	if rows != nil {
		text = cli.Table(append([]string{"NAME\tTOOL\tCALLER\tAPPROVED BY\tLEFT\tENDS\tARGUMENTS"}, rows...))
	}
	return cli.Output(cmd.OutOrStdout(), f.under(text, rows != nil))
}

// shortName is how much of a name a list shows. It is enough for forget.
const shortName = 12

func rememberedRow(r *desk.Remembered, now time.Time) string {
	return strings.Join([]string{
		r.Name[:min(len(r.Name), shortName)], cli.HarmlessLine(r.Tool, 30), cli.HarmlessLine(cmp.Or(r.Caller, "?"), 20),
		cli.HarmlessLine(approvers(r), 30), fmt.Sprintf("%d of %d", r.Left, r.Uses), "in " + cli.Span(r.Until.Sub(now)),
		cli.HarmlessLine(foreign.JSON([]byte(r.Excerpt.Begin)), 40),
	}, "\t")
}

func approvers(r *desk.Remembered) string {
	var who []string
	for _, by := range r.By {
		who = append(who, by.Who)
	}
	return cli.Keys(who)
}

func forgetCommand() *cobra.Command {
	f := &inboxFlags{reach: singleStore}
	cmd := &cobra.Command{
		Use:   "forget [STORE] NAME",
		Short: "End an approval that is remembered",
		Long: `End an approval that 'askback inbox remembered' lists: the next call is asked
for again. NAME is its name there, or at least six characters of its beginning.

Exit codes: 0 it has ended; 1 there is nothing of that name; 2 wrong usage;
130 interrupted.`,
		Example: `  askback inbox forget 3f9a0c77d1e2`,
	}
	f.register(cmd, func(ctx context.Context, cmd *cobra.Command, d *desk.Desk, asJSON bool, args []string) error {
		r, err := d.Forget(ctx, args[0], nil)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s of %s is asked for again\n", cli.HarmlessLine(r.Tool, 60), cli.HarmlessLine(r.Caller, 60))
		if asJSON {
			text = inertLine(r)
		}
		return cli.Output(cmd.OutOrStdout(), text)
	})
	return cmd
}
