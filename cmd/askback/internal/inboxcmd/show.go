package inboxcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/task"
)

func showCommand() *cobra.Command {
	f := new(inboxFlags)
	whole, receipts := false, false
	cmd := &cobra.Command{
		Use:   "show [STORE] NAME",
		Short: "Show the questions of a task, and who answered",
		Long: `Show the questions that the task NAME has asked people: the text, the form, the
arguments of the call, who answered and why. NAME is the name in 'askback inbox
list' and in logs, or its beginning.

Arguments of more than 32 KB are cut. With --arguments all of them are printed,
and nothing else; into a file or a pipe without a line break, and with every
character as itself.

With --receipt the signed receipt of each decision is printed, an object on each
line, for 'askback receipt verify'.

Exit codes: 0 it is shown; 1 there is no such task or receipt, or it has asked
nobody; 2 wrong usage; 130 interrupted.`,
		Example: `  askback inbox show 23WGRG`,
	}
	f.register(cmd, func(ctx context.Context, cmd *cobra.Command, d *desk.Desk, asJSON bool, args []string) error {
		if whole && receipts {
			return cli.Usagef("--arguments and --receipt exclude each other")
		}
		questions, err := findQuestions(ctx, d, args[0])
		if err != nil {
			return err
		}
		if whole {
			all, err := d.Arguments(ctx, questions[0].Name, questions[0].Key, nil)
			if err != nil {
				return err
			}
			if cli.IsTerminal(cmd.OutOrStdout()) {
				all = []byte(cli.EndLine(foreign.JSON(all)))
			}
			return cli.Output(cmd.OutOrStdout(), string(all))
		}
		if receipts {
			return printReceipts(ctx, cmd, d, questions)
		}
		for i, q := range questions {
			text := card(q, f.where, time.Now())
			if asJSON {
				text = inertLine(q)
			} else if i > 0 {
				text = "\n" + text
			}
			if err := cli.Output(cmd.OutOrStdout(), text); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.Flags().BoolVar(&whole, "arguments", false, "print the arguments of the call")
	cmd.Flags().BoolVar(&receipts, "receipt", false, "print the receipts of the decisions")
	return cmd
}

// printReceipts prints the receipts of questions that have one.
func printReceipts(ctx context.Context, cmd *cobra.Command, d *desk.Desk, questions []*desk.Question) error {
	none := desk.ErrNoReceipt
	for _, q := range questions {
		r, err := d.Receipt(ctx, q.Name, q.Key, nil)
		if errors.Is(err, desk.ErrNoReceipt) {
			continue
		}
		if err != nil {
			return err
		}
		none = nil
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := cli.Output(cmd.OutOrStdout(), string(line)+"\n"); err != nil {
			return err
		}
	}
	return none
}

// findQuestions reads the questions of a task. Who can open the store may read them all.
func findQuestions(ctx context.Context, d *desk.Desk, name string) ([]*desk.Question, error) {
	questions, err := d.Questions(ctx, name, nil)
	if len(questions) > 0 {
		return questions, nil // those that cannot be read in full are shown as far as they can
	}
	if errors.Is(err, task.ErrNotFound) {
		err = fmt.Errorf("%w: 'askback inbox list' shows what waits", err)
	}
	return nil, err
}
