package taskcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// storeFlags select tasks of a store.
type storeFlags struct {
	statuses, principals, targets []string
}

func (f *storeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.statuses, "status", nil, "of a store: `STATUS`, such as input_required")
	flags.StringArrayVar(&f.principals, "caller", nil, "of a store: `NAME` of a caller; empty: anonymous")
	flags.StringArrayVar(&f.targets, "tool", nil, "of a store: `NAME` of a tool")
}

// check compares the flags with the target.
func (f *storeFlags) check(target string) error {
	if !storage.Is(target) && len(f.statuses)+len(f.principals)+len(f.targets) > 0 {
		return cli.Usagef("--status, --caller and --tool are for a store, sqlite:PATH or postgres://…: " +
			"a server lists only the caller's own tasks")
	}
	for _, s := range f.statuses {
		if !slices.Contains(everyStatus, task.Status(s)) {
			return cli.Usagef("--status %s: want %s", s, joined(everyStatus))
		}
	}
	return nil
}

var everyStatus = []task.Status{task.Working, task.InputRequired, task.Completed, task.Failed, task.Cancelled}

func joined(statuses []task.Status) string {
	texts := make([]string, len(statuses))
	for i, s := range statuses {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

func (f *storeFlags) filter() task.Filter {
	filter := task.Filter{Principals: f.principals, Targets: f.targets}
	for _, s := range f.statuses {
		filter.Statuses = append(filter.Statuses, task.Status(s))
	}
	return filter
}

// listStore prints the tasks of a store, the oldest first.
func listStore(cmd *cobra.Command, name string, f *storeFlags) error {
	return storage.AtDesk(cmd, name, func(ctx context.Context, d *desk.Desk, asJSON bool) error {
		list := []*desk.Task{}
		for t, err := range d.List(ctx, f.filter()) {
			if t == nil {
				return err
			}
			if err != nil {
				cli.Warn(cmd, err.Error())
			}
			if len(list) == cli.MaxListed {
				cli.Warn(cmd, fmt.Sprintf("the store has more tasks, these are %d of them: "+
					"choose with --status, --caller and --tool", cli.MaxListed))
				break
			}
			list = append(list, t)
		}
		slices.SortFunc(list, func(a, b *desk.Task) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
		})
		if asJSON {
			return cli.OutputJSON(cmd.OutOrStdout(), map[string]any{"tasks": list})
		}
		return cli.Output(cmd.OutOrStdout(), storedTaskTable(list, time.Now()))
	})
}

func storedTaskTable(list []*desk.Task, now time.Time) string {
	if len(list) == 0 {
		return "no tasks\n"
	}
	rows := []string{"TASK\tSTATUS\tTOOL\tPRINCIPAL\tAGE\tUPDATED\tEXPIRES\tWAITS FOR"}
	for _, t := range list {
		waits := questionTexts(t)
		if waits == nil {
			waits = []string{t.Message}
		}
		rows = append(rows, strings.Join([]string{
			t.Name, string(t.Status), cli.HarmlessLine(t.Target, 30), cli.HarmlessLine(cmp.Or(t.Principal, "(anonymous)"), 30),
			cli.Span(now.Sub(t.Created)), cli.Span(now.Sub(t.Updated)) + " ago", expiresText(t, now),
			cli.HarmlessLine(strings.Join(waits, "; "), 60),
		}, "\t"))
	}
	return cli.Table(rows)
}

func questionTexts(t *desk.Task) (texts []string) {
	for _, q := range t.Questions {
		texts = append(texts, fmt.Sprintf("%s: %s", q.Key, cmp.Or(q.Message, q.Method)))
	}
	return texts
}

func expiresText(t *desk.Task, now time.Time) string {
	if t.Expires.After(now) {
		return "in " + cli.Span(t.Expires.Sub(now))
	}
	return "expired"
}

// getStored prints a task of a store, by its name, the beginning of that, or its ID.
func getStored(cmd *cobra.Command, store, which string) error {
	return storage.AtDesk(cmd, store, func(ctx context.Context, d *desk.Desk, asJSON bool) error {
		t, err := d.Show(ctx, which)
		if t == nil {
			return err
		}
		if err != nil {
			cli.Warn(cmd, err.Error())
		}
		if asJSON {
			return cli.OutputJSON(cmd.OutOrStdout(), t)
		}
		return cli.Output(cmd.OutOrStdout(), storedTaskText(t, time.Now()))
	})
}

func storedTaskText(t *desk.Task, now time.Time) string {
	rows := []string{
		"task\t" + t.Name, "call\t" + cmp.Or(t.Call, "(cannot be read)"), "status\t" + string(t.Status),
		"tool\t" + cli.HarmlessLine(t.Target, 100), "caller\t" + cli.HarmlessLine(cmp.Or(t.Principal, "(anonymous)"), 100),
		"created\t" + cli.Span(now.Sub(t.Created)) + " ago", "updated\t" + cli.Span(now.Sub(t.Updated)) + " ago",
		"expires\t" + expiresText(t, now),
	}
	if t.Message != "" {
		rows = append(rows, "message\t"+cli.HarmlessLine(t.Message, 200))
	}
	for _, text := range questionTexts(t) {
		rows = append(rows, "waits for\t"+cli.HarmlessLine(text, 200))
	}
	if c := t.Cancellation; c != nil {
		rows = append(rows, fmt.Sprintf("cancelled\t%s ago by %s: %s", cli.Span(now.Sub(c.At)), cli.HarmlessLine(c.By, 100),
			cli.HarmlessLine(c.Reason, 200)))
	}
	return cli.Table(rows)
}

// cancelFlags say who cancels a task of a store, and why.
type cancelFlags struct{ by, reason string }

func (f *cancelFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.by, "as", "", "in a store: `NAME` of who cancels (default: you)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "in a store: `TEXT` for the audit; required")
}

// check compares the flags with the target.
func (f *cancelFlags) check(target string) error {
	switch {
	case !storage.Is(target) && f.by+f.reason != "":
		return cli.Usagef("--as and --reason are for a store")
	case storage.Is(target) && f.reason == "":
		return cli.Usagef("cancelling a task of a store needs --reason TEXT, for the audit; its client does not see it")
	}
	return nil
}

// cancelStored cancels a task of a store, which is named as for getStored.
func cancelStored(cmd *cobra.Command, store, which string, f *cancelFlags) error {
	by := f.by
	if by == "" {
		self, err := user.Current()
		if err != nil {
			return cli.Usagef("who cancels the task? Say it with --as NAME: %v", err)
		}
		by = self.Username
	}
	return storage.AtDesk(cmd, store, func(ctx context.Context, d *desk.Desk, asJSON bool) error {
		t, err := d.Cancel(ctx, which, desk.Cancellation{By: by, Reason: f.reason})
		if errors.Is(err, task.ErrNotFound) {
			return fmt.Errorf("%w: 'askback task list STORE' shows their names", err)
		}
		if err != nil {
			return err
		}
		if asJSON {
			return cli.OutputJSON(cmd.OutOrStdout(), t)
		}
		return cli.Output(cmd.OutOrStdout(), fmt.Sprintf("%s of %s is cancelled; a server that runs such tasks cleans up.\n",
			cli.HarmlessLine(t.Target, 60), cli.HarmlessLine(cmp.Or(t.Principal, "an anonymous caller"), 60)))
	})
}
