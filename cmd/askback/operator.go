package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/input"
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
		return nil, usagef("want the store of a server's tasks, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE, as its --store has it")
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
	all                           bool
	statuses, principals, targets []string
}

func (f *storeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "the tasks of everybody in a store")
	flags.StringSliceVar(&f.statuses, "status", nil, "with --all: `STATUS`, such as input_required")
	flags.StringArrayVar(&f.principals, "principal", nil, "with --all: `NAME` of a caller; empty: anonymous")
	flags.StringArrayVar(&f.targets, "tool", nil, "with --all: `NAME` of a tool")
}

// check compares the flags with the target, which is a store only for --all.
func (f *storeFlags) check(target string) error {
	switch {
	case f.all && !isStore(target):
		return usagef("--all wants a store, sqlite:PATH or postgres://…, and not a server: a server lists only the caller's own tasks")
	case !f.all && isStore(target):
		return usagef("a store is listed with --all")
	case !f.all && len(f.statuses)+len(f.principals)+len(f.targets) > 0:
		return usagef("--status, --principal and --tool are for --all")
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

// selectTasks yields the tasks of a store until each returns false.
func selectTasks(ctx context.Context, s task.Store, f task.Filter, each func(*task.Task) bool) error {
	for after := ""; ; {
		page, err := s.Select(ctx, f, after, 1000)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, t := range page {
			if !each(t) {
				return nil
			}
		}
		after = page[len(page)-1].ID
	}
}

// listStore prints the tasks of a store, the oldest first.
func listStore(cmd *cobra.Command, name string, f *storeFlags) error {
	format := cmd.Flags().Lookup("output").Value.String()
	if format != "text" && format != "json" {
		return usagef("--output %s: want text or json", format)
	}
	store, err := openTasks(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer store.Close()
	var list []*task.Task
	more := false
	err = selectTasks(cmd.Context(), store, f.filter(), func(t *task.Task) bool {
		if more = len(list) == maxTasks; !more {
			list = append(list, t)
		}
		return !more
	})
	if err != nil {
		return err
	}
	if more {
		warn(cmd, fmt.Sprintf("the store has more tasks, these are %d of them: choose with --status, --principal and --tool", maxTasks))
	}
	slices.SortFunc(list, func(a, b *task.Task) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	rows := make([]storedTask, len(list))
	for i, t := range list {
		if rows[i], err = storedTaskOf(t); err != nil {
			return err
		}
	}
	if format == "json" {
		return outputJSON(cmd.OutOrStdout(), map[string]any{"tasks": rows})
	}
	return output(cmd.OutOrStdout(), storedTaskTable(rows, time.Now()))
}

// storedTask is a task as its operator sees it. Its id stays secret: who knows it can act on the task of an anonymous caller.
type storedTask struct {
	Fingerprint string           `json:"fingerprint"`
	Principal   string           `json:"principal"`
	Method      string           `json:"method"`
	Target      string           `json:"target"`
	Status      task.Status      `json:"status"`
	Message     string           `json:"statusMessage,omitempty"`
	Created     time.Time        `json:"createdAt"`
	Updated     time.Time        `json:"lastUpdatedAt"`
	Expires     time.Time        `json:"expiresAt"`
	Attempts    int              `json:"attempts,omitempty"`
	WaitsFor    []input.Question `json:"waitsFor,omitempty"`
}

func storedTaskOf(t *task.Task) (storedTask, error) {
	questions, err := askback.TaskQuestions(t)
	if err != nil {
		return storedTask{}, fmt.Errorf("task %s: %w", task.Name(t.ID), err)
	}
	return storedTask{
		Fingerprint: task.Name(t.ID), Principal: t.Principal, Method: t.Method, Target: t.Target, Status: t.Status, Message: t.Message,
		Created: t.Created, Updated: t.Updated, Expires: t.Expires, Attempts: t.Attempts, WaitsFor: questions,
	}, nil
}

func storedTaskTable(list []storedTask, now time.Time) string {
	if len(list) == 0 {
		return "no tasks\n"
	}
	rows := []string{"TASK\tSTATUS\tTOOL\tPRINCIPAL\tAGE\tUPDATED\tEXPIRES\tWAITS FOR"}
	for _, t := range list {
		expires := "expired"
		if t.Expires.After(now) {
			expires = "in " + span(t.Expires.Sub(now))
		}
		var waits []string
		for _, q := range t.WaitsFor {
			waits = append(waits, fmt.Sprintf("%s: %s", q.Key, cmp.Or(q.Message, q.Method)))
		}
		if waits == nil {
			waits = []string{t.Message}
		}
		rows = append(rows, strings.Join([]string{
			t.Fingerprint, string(t.Status), harmlessLine(t.Target, 30), harmlessLine(cmp.Or(t.Principal, "(anonymous)"), 30),
			span(now.Sub(t.Created)), span(now.Sub(t.Updated)) + " ago", expires, harmlessLine(strings.Join(waits, "; "), 60),
		}, "\t"))
	}
	return table(rows)
}

// cancelStored cancels a task of a store, whose fingerprint, the beginning of it, or id is given.
func cancelStored(cmd *cobra.Command, name, which string) error {
	ctx := cmd.Context()
	store, err := openTasks(ctx, name)
	if err != nil {
		return err
	}
	defer store.Close()
	const enough = 6
	var found []*task.Task
	err = selectTasks(ctx, store, task.Filter{Statuses: []task.Status{task.Working, task.InputRequired}}, func(t *task.Task) bool {
		if t.ID == which || len(which) >= enough && strings.HasPrefix(task.Name(t.ID), which) {
			found = append(found, t)
		}
		return len(found) < 2
	})
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("no task that has not ended has the fingerprint %s: 'askback task list --all' shows them; at least %d characters tell one from the others", harmlessLine(which, 60), enough)
	case len(found) > 1:
		return fmt.Errorf("several tasks have fingerprints that begin with %s: give more of it", harmlessLine(which, 60))
	}
	engine, err := task.NewEngine(store, nil)
	if err != nil {
		return err
	}
	t, err := engine.Cancel(ctx, found[0].Principal, found[0].ID)
	if errors.Is(err, task.ErrEnded) {
		return fmt.Errorf("the task has ended meanwhile: it is %s", t.Status)
	}
	if err != nil {
		return err
	}
	return output(cmd.OutOrStdout(), fmt.Sprintf("%s of %s is cancelled; a server that runs such tasks cleans up.\n", harmlessLine(t.Target, 60), harmlessLine(cmp.Or(t.Principal, "an anonymous caller"), 60)))
}
