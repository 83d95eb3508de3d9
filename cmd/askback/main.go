// Command askback calls tools that ask back, answers their questions, and parks and resumes such calls. It also serves
// example tools, makes and rotates the keys that seal requestState, and shows what a requestState holds.
//
// Each command has a file of its own name. The commands that speak with a server are built on conversation.go.
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

func main() {
	if err := withholdKeys(); err != nil {
		fmt.Fprintf(os.Stderr, "askback: %v\n", err)
		os.Exit(exitFailure)
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const rootLong = `askback helps to run and to call MCP servers whose tools ask back: a tool asks,
the call is suspended in a sealed requestState, and any server with the same
keys finishes it.`

const rootExample = `  askback serve
      serves example tools at http://127.0.0.1:8080/mcp
  askback call http://127.0.0.1:8080/mcp get_weather location=Oslo
      calls one of them, and asks you what it asks
  askback keys new askback.keys
  askback serve --keys askback.keys --addr 127.0.0.1:8081
      makes keys, and starts one of several servers that share them`

// usageTemplate is cobra's without the second usage line of commands that have subcommands, and without help in the
// list of commands.
const usageTemplate = `Usage:
  {{if and .HasAvailableSubCommands (eq .Use .Name)}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
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

// execute runs one command and returns its exit code. It is the only place that prints errors.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	// An error before the command runs is cobra's, about the command line.
	parsed := false
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		parsed = true
		return checkArguments(cmd, args)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if message := strings.TrimSpace(err.Error()); message != "" {
		fmt.Fprintf(stderr, "askback: %s\n", harmless(message))
	}
	code := exitFailure
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
	} else if !parsed {
		code = exitUsage
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "askback",
		Short:         "Run and call MCP servers whose tools ask back",
		Long:          rootLong,
		Example:       rootExample,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          needsCommand,
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate(versionLine())
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(callCommand(), toolsCommand(), promptCommand(), readCommand(), resumeCommand(), taskCommand(),
		inboxCommand())
	root.AddCommand(demoCommand(), serveCommand(), bridgeCommand(), keysCommand(), inspectCommand(), replayCommand(),
		checkCommand(), versionCommand())
	return root
}

// checkArguments compares the arguments of a command with its usage line. Those in brackets may be missing, and any
// number may follow where the line has an ellipsis. A store before other arguments may be missing, too.
func checkArguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	if len(names) > 1 && names[0] == "[STORE]" && !namesStore(args) {
		names = names[1:]
	}
	switch given := len(args); {
	case cmd.HasSubCommands():
		return nil // see needsCommand
	case given < len(names) && !strings.ContainsAny(names[given], "[…"):
		return usagef("the argument %s is missing", names[given])
	case given > len(names) && !strings.Contains(cmd.Use, "…"):
		return usagef("unexpected argument %q", args[len(names)])
	}
	for i, name := range names[:min(len(names), len(args))] {
		if args[i] == "" {
			return usagef("the argument %s is empty", strings.Trim(name, "[]"))
		}
	}
	return nil
}
