// Package cli has what the commands share: exit codes, flags, input and output, wording, and what they ask of the
// system.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// UntilSignal returns a context that ends with the first signal that asks the process to end. The second one ends it.
func UntilSignal(ctx context.Context, more ...os.Signal) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, append(more, os.Interrupt, syscall.SIGTERM)...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// NeedsCommand runs a command that has only subcommands. It is always a mistake, which it explains.
func NeedsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(cmd.ErrOrStderr())
		cmd.HelpFunc()(cmd, args)
		return Usagef("a command is missing")
	}
	message := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("%s", message)
}

// Version returns the module's version that the go command recorded, or "devel".
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "devel")
	}
	return "devel"
}
