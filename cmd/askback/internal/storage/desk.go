package storage

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Is reports whether a target is a store of tasks, and not a server.
func Is(target string) bool {
	scheme, _, _ := strings.Cut(target, ":")
	return scheme == "sqlite" || scheme == "postgres" || scheme == "postgresql"
}

// Leads reports whether the first argument is the store of a command whose store may be missing.
func Leads(args []string) bool {
	return len(args) > 0 && strings.Contains(args[0], ":") && Is(args[0])
}

// openTasks opens the store that a command names, which is not made if it is not there.
func openTasks(ctx context.Context, name string) (task.Store, error) {
	if err := Check(name); err != nil || name == "" || name == "none" {
		return nil, cli.Usagef("want the store of a server's tasks, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE, " +
			"as its --store has it")
	}
	if path, ok := strings.CutPrefix(name, "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the store of the tasks: %w", err)
		}
	}
	s, err := Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return s.Store, nil
}

// AtDesk opens a desk on the store that a command names, and calls do with it and with the command's flag --json.
func AtDesk(cmd *cobra.Command, name string, do func(ctx context.Context, d *desk.Desk, asJSON bool) error) error {
	asJSON, _ := cmd.Flags().GetBool("json")
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
	return do(ctx, d, asJSON)
}
