package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitToolError   = 3 // the tool answered with an error
	exitWaits       = 4 // the call waits for answers
	exitAtOnce      = 5 // there is no task to detach from: the result is printed
	exitInterrupted = 130
)

const rootLong = `askback helps to run and to call MCP servers whose tools ask back: a tool asks,
the call is suspended in a sealed requestState, and any server with the same
keys finishes it.`

const rootExample = `  askback serve
      serves example tools at http://127.0.0.1:8080/mcp
  askback call http://127.0.0.1:8080/mcp get_weather location=Oslo
      calls one of them, and asks you what it asks
  askback keys new askback.keys
  askback serve --keys askback.keys --addr 127.0.0.1:8081
      makes keys, and starts one of several servers that share them
  askback inspect --keys askback.keys ab1.…
      shows what a requestState holds
  askback keys rotate askback.keys
      takes the next of the three steps that replace the key`

// usageTemplate is cobra's, without what says nothing here: a usage line for commands that only hold others, and help
// among the commands.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if and .IsAvailableCommand (ne .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableSubCommands}}

'{{.CommandPath}} COMMAND --help' tells more about a command.{{end}}
`

// usageError is the caller's mistake: it exits with [exitUsage] and points to the help.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// exitError exits with a code of its own. Without an error nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// run runs the command of the process and returns its exit code.
func run() int {
	return execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// execute runs one command. Errors are printed here and nowhere else.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	// What fails before a command runs is cobra's judgement of the command line.
	parsed := false
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }

	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if message := strings.TrimSpace(err.Error()); message != "" {
		fmt.Fprintf(stderr, "askback: %s\n", harmless(message))
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if _, usage := errors.AsType[usageError](err); usage || !parsed {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "askback",
		Short:         "Run and call MCP servers whose tools ask back",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          needsCommand,
	}
	root.SetUsageTemplate(usageTemplate)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(callCommand(), toolsCommand(), promptCommand(), readCommand(), resumeCommand(), taskCommand())
	root.AddCommand(demoCommand(), serveCommand(), keysCommand(), inspectCommand(), replayCommand(), versionCommand())
	return root
}

// needsCommand runs a command that only holds others.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(cmd.ErrOrStderr())
		cmd.HelpFunc()(cmd, args)
		return usagef("a command is missing")
	}
	message := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s", message)
}

// takes checks that a command was given the named arguments; one in brackets may be missing.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return usagef("unexpected argument %q", args[len(names)])
		}
		if len(args) < len(names) && !strings.HasPrefix(names[len(args)], "[") {
			return usagef("the argument %s is missing", names[len(args)])
		}
		return nil
	}
}

// warn tells of something that does not stop the command.
func warn(cmd *cobra.Command, message string) {
	if message != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "askback: warning: %s\n", message)
	}
}

// output writes a command's output. A full disk or a closed pipe must not look like success.
func output(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
