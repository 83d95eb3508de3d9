package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
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

// usageTemplate is cobra's without the second usage line of commands that have subcommands, and without help in the list
// of commands.
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

// execute runs one command and returns its exit code. It is the only place that prints errors.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	// An error before the command runs is cobra's, about the command line.
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
