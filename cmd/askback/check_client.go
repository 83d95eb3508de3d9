package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/checkclient"
)

func checkClientCommand() *cobra.Command {
	var (
		to reportFlags
		o  checkclient.Options
	)
	cmd := &cobra.Command{
		Use:   "client -- COMMAND…",
		Short: "Judge a client, by a server that asks wrongly",
		Long: `Judge how a client handles questions and states: be its server on this machine,
and ask wrongly, alter, lose, repeat and redirect.

COMMAND starts the client, once for each scenario. It gets the URL in place of
{url}, or as its last argument, and in MCP_SERVER_URL. It connects, lists the
tools, calls each of them, answers what they ask and ends. A client that was
written for the official conformance suite does so: MCP_CONFORMANCE_SCENARIO
names the scenario of the suite that has these tools.

Exit codes: as for 'askback check'.`,
		Example: `  askback check client -- node client.js
  askback check client -- askback call {url} test_mrtr_echo_state \
      --answer 'confirm={"confirmed":true}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 {
				return usagef("the command of the client stands after --")
			}
			o.Command = args
			if _, err := exec.LookPath(args[0]); err != nil {
				return usagef("there is no program %s", args[0])
			}
			if !slices.Contains([]string{"", "none", "accepts", "declines"}, o.Person) {
				return usagef("--person %s: want none, accepts or declines", o.Person)
			}
			if o.Timeout < 0 {
				return usagef("--timeout %v: want a time above zero", o.Timeout)
			}
			if err := to.check(); err != nil {
				return err
			}
			if isTerminal(cmd.ErrOrStderr()) {
				o.Progress = func(what string) { fmt.Fprintf(os.Stderr, "\r\033[K%s", harmlessLine(what, columns-1)) }
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			report, err := checkclient.Run(ctx, o)
			if o.Progress != nil {
				fmt.Fprint(os.Stderr, "\r\033[K")
			}
			if err != nil {
				return usagef("%w", err)
			}
			return to.write(cmd, report)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Tool, "tool", "", "`NAME` of the tool that asks")
	flags.StringArrayVar(&o.Probes, "probe", nil, "`ID` of a probe, if not all are wanted")
	flags.StringVar(&o.Person, "person", "", "`WHO` answers: none, accepts or declines")
	flags.DurationVar(&o.Timeout, "timeout", 0, "`TIME` for each scenario (default 20s)")
	to.register(flags)
	return cmd
}
