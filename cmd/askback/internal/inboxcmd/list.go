package inboxcmd

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
)

func listCommand() *cobra.Command {
	f := &inboxFlags{reach: everyStore}
	cmd := &cobra.Command{
		Use:   "list [STORE]",
		Short: "List the questions that wait, or the history of a person",
		Long: `List the questions that wait for people, the oldest first. With --as or --groups
the list has only the questions that this person may answer.

--answered lists the questions that a person has voted on. --began lists the
questions of the person's own calls, open or not. Both lists begin with the
newest. The person is --as, or you.

Each question is one line. Where a terminal is too narrow for that it is two.

--json prints an object on each line, with name, key, target, message, for,
votes, asked and more. A question with a deadline has deadline, too.

Exit codes: 0 the list is there; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback inbox list --as alice --groups release
  askback inbox list --answered --as alice
  askback inbox list sqlite:tasks.db --older-than 4h --json`,
	}
	f.register(cmd, f.list)
	f.registerPerson(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.olderThan, "older-than", 0, "only what has waited for this `TIME`, such as 4h")
	flags.StringArrayVar(&f.tools, "tool", nil, "only what this tool asks: its `NAME`")
	flags.StringVar(&f.search, "search", "", "only what has this `TEXT` in it")
	flags.BoolVar(&f.byDeadline, "by-deadline", false, "the nearest deadline first; leave out what has none")
	flags.BoolVar(&f.newest, "newest", false, "the newest first")
	flags.BoolVar(&f.answered, "answered", false, "what the person has voted on")
	flags.BoolVar(&f.began, "began", false, "what the person's calls have asked")
	return cmd
}

func (f *inboxFlags) list(ctx context.Context, cmd *cobra.Command, d *desk.Desk, asJSON bool, _ []string) error {
	now := time.Now()
	questions, err := f.listed(ctx, cmd, d, now)
	if err != nil {
		return err
	}
	show, standing, nothing := waitingRow, []string{"VOTES", "WAITS", "DEADLINE", "FOR"}, "nothing waits\n"
	if f.answered || f.began {
		show, standing, nothing = historyRow, []string{"ASKED", "STATUS"}, "there is nothing\n"
	}
	var rows []row
	for q, err := range questions {
		if q == nil {
			return err
		}
		if err != nil {
			cli.Warn(cmd, err.Error())
		}
		if asJSON {
			if err := cli.Output(cmd.OutOrStdout(), inertLine(q)); err != nil {
				return err
			}
			continue
		}
		if len(rows) == cli.MaxListed {
			cli.Warn(cmd, fmt.Sprintf("there are more, these are %d questions%s", cli.MaxListed, f.fewer()))
			break
		}
		rows = append(rows, show(q, now))
	}
	if asJSON {
		return nil
	}
	text := nothing
	if rows != nil {
		text = table(standing, rows, cli.TerminalColumns(cmd.OutOrStdout()))
	}
	return cli.Output(cmd.OutOrStdout(), f.under(text, rows != nil))
}

// under returns a list with the name of its store above it, if there are several stores. It leaves out a store without
// entries, except the last one when no other store had any.
func (f *inboxFlags) under(text string, hasRows bool) string {
	last := len(f.stores) == 1
	if f.single || f.shown == 0 && last && !hasRows {
		return text
	}
	if !hasRows {
		return ""
	}
	heading := f.stores[0] + "\n"
	if f.shown++; f.shown > 1 {
		heading = "\n" + heading
	}
	return heading + text
}

// listed returns the questions that the flags choose.
func (f *inboxFlags) listed(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, now time.Time,
) (iter.Seq2[*desk.Question, error], error) {
	p, _ := f.person()
	if f.answered && f.began {
		return nil, cli.Usagef("--answered and --began exclude each other")
	}
	if f.answered || f.began {
		for _, name := range []string{"older-than", "tool", "search", "by-deadline", "newest", "groups"} {
			if cmd.Flags().Changed(name) {
				return nil, cli.Usagef("--answered and --began list all of a person, the newest first: leave out --%s", name)
			}
		}
		if f.began {
			return d.Began(ctx, p), nil
		}
		return d.Answered(ctx, p), nil
	}
	w := desk.Waiting{Targets: f.tools, Search: f.search, ByDeadline: f.byDeadline, Newest: f.newest}
	switch {
	case f.olderThan < 0:
		return nil, cli.Usagef("--older-than %v: want a time above zero", f.olderThan)
	case f.byDeadline && f.newest:
		return nil, cli.Usagef("--by-deadline and --newest exclude each other")
	case f.olderThan > 0:
		w.Before = now.Add(-f.olderThan)
	}
	if f.as != "" || f.groups != nil {
		w.As = &p
	}
	return d.Waiting(ctx, w), nil
}

// fewer says how to get a shorter list.
func (f *inboxFlags) fewer() string {
	if f.answered || f.began {
		return "; --json prints all"
	}
	return ": choose with --as, --tool, --search and --older-than"
}
