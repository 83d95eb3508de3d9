// Command askback calls tools that ask back, answers their questions, and parks and resumes such calls. It also serves
// example tools, makes and rotates the keys that seal requestState, and shows what a requestState holds.
//
// Each command is a package below internal, and main lists them. All of them build on package cli, those that speak
// with a server on package conversation, and those that are servers on package serving.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/auditcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/bridgecmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/callcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/checkcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/democmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/eventscmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/inboxcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/inspectcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyscmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/promptcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/readcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/receiptcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/replaycmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/resumecmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/rulescmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/servecmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
	"github.com/askback-mcp/askback/cmd/askback/internal/taskcmd"
	"github.com/askback-mcp/askback/cmd/askback/internal/toolscmd"
)

func main() {
	if err := keyfile.Withhold(); err != nil {
		fmt.Fprintf(os.Stderr, "askback: %v\n", err)
		os.Exit(cli.ExitFailure)
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const rootLong = `askback helps to run and to call MCP servers whose tools ask back: a call is
suspended with what it asks, and any server with the same keys finishes it.`

const rootExample = `  askback serve
      serves example tools at http://127.0.0.1:8080/mcp
  askback call http://127.0.0.1:8080/mcp get_weather location=Oslo
  askback keys new askback.keys
      makes keys, which several servers share with serve --keys`

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
		return cli.ExitOK
	}
	if message := strings.TrimSpace(err.Error()); message != "" {
		fmt.Fprintf(stderr, "askback: %s\n", cli.Harmless(message))
	}
	code, given := cli.ExitCode(err)
	if !given && !parsed {
		code = cli.ExitUsage
	}
	if code == cli.ExitUsage {
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
		Version:       cli.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          cli.NeedsCommand,
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate(versionLine())
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		callcmd.Command(), toolscmd.Command(), eventscmd.Command(), promptcmd.Command(), readcmd.Command(),
		resumecmd.Command(), taskcmd.Command(),
		inboxcmd.Command(), democmd.Command(), servecmd.Command(), bridgecmd.Command(), keyscmd.Command(),
		inspectcmd.Command(), replaycmd.Command(), checkcmd.Command(), auditcmd.Command(), receiptcmd.Command(),
		rulescmd.Command(), versionCommand(),
	)
	return root
}

// checkArguments compares the arguments of a command with its usage line. Those in brackets may be missing, and any
// number may follow where the line has an ellipsis. A store before other arguments may be missing, too.
func checkArguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	if len(names) > 1 && names[0] == "[STORE]" && !storage.Leads(args) {
		names = names[1:]
	}
	switch given := len(args); {
	case cmd.HasSubCommands():
		return nil // see cli.NeedsCommand
	case given < len(names) && !strings.ContainsAny(names[given], "[…"):
		return cli.Usagef("the argument %s is missing", names[given])
	case given > len(names) && !strings.Contains(cmd.Use, "…"):
		return cli.Usagef("unexpected argument %q", args[len(names)])
	}
	for i, name := range names[:min(len(names), len(args))] {
		if args[i] == "" {
			return cli.Usagef("the argument %s is empty", strings.Trim(name, "[]"))
		}
	}
	return nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.Output(cmd.OutOrStdout(), versionLine())
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("askback %s (%s %s/%s)\n", cli.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
