package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// isStore reports whether a target is a store of tasks, and not a server.
func isStore(target string) bool {
	scheme, _, _ := strings.Cut(target, ":")
	return scheme == "sqlite" || scheme == "postgres" || scheme == "postgresql"
}

// openTasks opens the store that a command names, which is not made if it is not there.
func openTasks(ctx context.Context, name string) (task.Store, error) {
	if err := checkStore(name); err != nil || name == "" || name == "none" {
		return nil, usagef("want the store of a server's tasks, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE, " +
			"as its --store has it")
	}
	if path, ok := strings.CutPrefix(name, "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the store of the tasks: %w", err)
		}
	}
	s, err := openStorage(ctx, os.TempDir(), name)
	if err != nil {
		return nil, err
	}
	return s.tasks, nil
}

// storeFlags select tasks of a store.
type storeFlags struct {
	statuses, principals, targets []string
}

func (f *storeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.statuses, "status", nil, "of a store: `STATUS`, such as input_required")
	flags.StringArrayVar(&f.principals, "principal", nil, "of a store: `NAME` of a caller; empty: anonymous")
	flags.StringArrayVar(&f.targets, "tool", nil, "of a store: `NAME` of a tool")
}

// check compares the flags with the target.
func (f *storeFlags) check(target string) error {
	if !isStore(target) && len(f.statuses)+len(f.principals)+len(f.targets) > 0 {
		return usagef("--status, --principal and --tool are for a store, sqlite:PATH or postgres://…: " +
			"a server lists only the caller's own tasks")
	}
	for _, s := range f.statuses {
		if !slices.Contains(everyStatus, task.Status(s)) {
			return usagef("--status %s: want %s", s, joined(everyStatus))
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

// atDesk opens a desk on the store that a command names, and calls do with it. The flags --output and --json set the
// format.
func atDesk(cmd *cobra.Command, name string, do func(ctx context.Context, d *desk.Desk, format string) error) error {
	format := "text"
	if flag := cmd.Flags().Lookup("output"); flag != nil {
		format = flag.Value.String()
	} else if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		format = "json"
	}
	if format != "text" && format != "json" {
		return usagef("--output %s: want text or json", format)
	}
	ctx := cmd.Context()
	store, err := openTasks(ctx, name)
	if err != nil {
		return err
	}
	defer store.Close()
	d, err := desk.Open(store, nil)
	if err != nil {
		return err
	}
	return do(ctx, d, format)
}

// listStore prints the tasks of a store, the oldest first.
func listStore(cmd *cobra.Command, name string, f *storeFlags) error {
	return atDesk(cmd, name, func(ctx context.Context, d *desk.Desk, format string) error {
		list := []*desk.Task{}
		for t, err := range d.List(ctx, f.filter()) {
			if t == nil {
				return err
			}
			if err != nil {
				warn(cmd, err.Error())
			}
			if len(list) == maxTasks {
				warn(cmd, fmt.Sprintf("the store has more tasks, these are %d of them: "+
					"choose with --status, --principal and --tool", maxTasks))
				break
			}
			list = append(list, t)
		}
		slices.SortFunc(list, func(a, b *desk.Task) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
		})
		if format == "json" {
			return outputJSON(cmd.OutOrStdout(), map[string]any{"tasks": list})
		}
		return output(cmd.OutOrStdout(), storedTaskTable(list, time.Now()))
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
			t.Name, string(t.Status), harmlessLine(t.Target, 30), harmlessLine(cmp.Or(t.Principal, "(anonymous)"), 30),
			span(now.Sub(t.Created)), span(now.Sub(t.Updated)) + " ago", expiresText(t, now),
			harmlessLine(strings.Join(waits, "; "), 60),
		}, "\t"))
	}
	return table(rows)
}

func questionTexts(t *desk.Task) (texts []string) {
	for _, q := range t.Questions {
		texts = append(texts, fmt.Sprintf("%s: %s", q.Key, cmp.Or(q.Message, q.Method)))
	}
	return texts
}

func expiresText(t *desk.Task, now time.Time) string {
	if t.Expires.After(now) {
		return "in " + span(t.Expires.Sub(now))
	}
	return "expired"
}

// getStored prints a task of a store, by its name, the beginning of that, or its ID.
func getStored(cmd *cobra.Command, store, which string) error {
	return atDesk(cmd, store, func(ctx context.Context, d *desk.Desk, format string) error {
		t, err := d.Show(ctx, which)
		if t == nil {
			return err
		}
		if err != nil {
			warn(cmd, err.Error())
		}
		if format == "json" {
			return outputJSON(cmd.OutOrStdout(), t)
		}
		return output(cmd.OutOrStdout(), storedTaskText(t, time.Now()))
	})
}

func storedTaskText(t *desk.Task, now time.Time) string {
	rows := []string{
		"task\t" + t.Name, "call\t" + cmp.Or(t.Call, "(cannot be read)"), "status\t" + string(t.Status),
		"tool\t" + harmlessLine(t.Target, 100), "principal\t" + harmlessLine(cmp.Or(t.Principal, "(anonymous)"), 100),
		"created\t" + span(now.Sub(t.Created)) + " ago", "updated\t" + span(now.Sub(t.Updated)) + " ago", "expires\t" +
			expiresText(t, now),
	}
	if t.Message != "" {
		rows = append(rows, "message\t"+harmlessLine(t.Message, 200))
	}
	for _, text := range questionTexts(t) {
		rows = append(rows, "waits for\t"+harmlessLine(text, 200))
	}
	if c := t.Cancellation; c != nil {
		rows = append(rows, fmt.Sprintf("cancelled\t%s ago by %s: %s", span(now.Sub(c.At)), harmlessLine(c.By, 100),
			harmlessLine(c.Reason, 200)))
	}
	return table(rows)
}

// cancelFlags say who cancels a task of a store, and why.
type cancelFlags struct{ by, reason string }

func (f *cancelFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.by, "by", "", "in a store: `NAME` of who decided (default: you)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "in a store: `TEXT` for the audit; required")
}

// check compares the flags with the target.
func (f *cancelFlags) check(target string) error {
	switch {
	case !isStore(target) && f.by+f.reason != "":
		return usagef("--by and --reason are for a store")
	case isStore(target) && f.reason == "":
		return usagef("cancelling a task of a store needs --reason TEXT, for the audit; its client does not see it")
	}
	return nil
}

// cancelStored cancels a task of a store, which is named as for getStored.
func cancelStored(cmd *cobra.Command, store, which string, f *cancelFlags) error {
	by := f.by
	if by == "" {
		self, err := user.Current()
		if err != nil {
			return usagef("who cancels the task? Say it with --by NAME: %v", err)
		}
		by = self.Username
	}
	return atDesk(cmd, store, func(ctx context.Context, d *desk.Desk, format string) error {
		t, err := d.Cancel(ctx, which, desk.Cancellation{By: by, Reason: f.reason})
		if errors.Is(err, task.ErrNotFound) {
			return fmt.Errorf("%w: 'askback task list STORE' shows their names", err)
		}
		if err != nil {
			return err
		}
		if format == "json" {
			return outputJSON(cmd.OutOrStdout(), t)
		}
		return output(cmd.OutOrStdout(), fmt.Sprintf("%s of %s is cancelled; a server that runs such tasks cleans up.\n",
			harmlessLine(t.Target, 60), harmlessLine(cmp.Or(t.Principal, "an anonymous caller"), 60)))
	})
}
