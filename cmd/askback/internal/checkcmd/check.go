// Package checkcmd judges a server.
package checkcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/check"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// judgeFlags are the flags of 'askback check' and of its command init.
type judgeFlags struct {
	headers, others []string
	file            string
	check.Options
}

func (f *judgeFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.headers, "header", nil, "`LINE` to send: 'Name: value' or @FILE")
	flags.StringArrayVar(&f.Allow, "allow", nil, "`NAME` that may be called to its end; '*' is all")
	flags.IntVar(&f.MaxRequests, "requests", 0, "`NUMBER` of requests at most (default 500)")
	flags.Float64Var(&f.PerSecond, "rate", 0, "`NUMBER` of requests a second")
	flags.DurationVar(&f.Timeout, "timeout", 0, "`TIME` for everything (default 1m, or 5m away)")
}

func (f *judgeFlags) registerAttacks(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.others, "other-header", nil, "`LINE` of another principal: 'Name: value' or @FILE")
	flags.StringVar(&f.file, "file", "", "`FILE` that 'askback check init' wrote")
	flags.StringArrayVar(&f.Only, "probe", nil, "`ID` of a probe, or a family: no other one runs")
	flags.BoolVar(&f.Load, "load", false, "send what is large, many or long")
	flags.BoolVar(&f.Raw, "raw", false, "leave what --file has in transcripts")
	flags.BoolVar(&f.Own, "i-own-this-server", false, "allow --load away from this machine")
}

// options reads the command line into the options of a check.
func (f *judgeFlags) options(cmd *cobra.Command, args []string) (o check.Options, err error) {
	o = f.Options
	if o.Server, err = checkTarget(cmd, args); err != nil {
		return o, err
	}
	if o.Server.Header, err = cli.ParseHeaders(f.headers); err != nil {
		return o, err
	}
	if len(f.others) > 0 {
		if o.Second, err = cli.ParseHeaders(f.others); err != nil {
			return o, err
		}
	}
	if f.file != "" {
		text, err := cli.ReadInput(f.file, cmd.InOrStdin())
		if err != nil {
			return o, err
		}
		if o.Plan, err = check.ParsePlan(text); err != nil {
			return o, cli.Usagef("%s: %w", f.file, err)
		}
	}
	if stderr := cmd.ErrOrStderr(); cli.IsTerminal(stderr) {
		o.Progress = func(what string) { fmt.Fprintf(stderr, "\r\033[K%s", cli.HarmlessLine(what, cli.Columns-1)) }
	}
	return o, nil
}

// Command returns 'askback check'.
func Command() *cobra.Command {
	var (
		f  judgeFlags
		to reportFlags
	)
	cmd := &cobra.Command{
		Use:   "check [URL] [-- COMMAND…]",
		Short: "Judge a server that asks back, in any language",
		Long: `Send a server what an attacker would, and report what has an effect. Call what
is marked read-only, and on this machine the rest up to the first question.

Exit codes: 0 fine; 1 it failed; 2 wrong usage; 6 see --fail-on; 7 not judged.`,
		Example: `  askback check http://127.0.0.1:8080/mcp --allow '*'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := to.check(); err != nil {
				return err
			}
			o, err := f.options(cmd, args)
			if err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			report, err := check.Run(ctx, o)
			endProgress(cmd, o)
			if _, wrong := errors.AsType[check.OptionError](err); wrong {
				return cli.Usagef("%w", err)
			}
			if err != nil {
				return err
			}
			return to.write(cmd, report)
		},
	}
	f.register(cmd.Flags())
	f.registerAttacks(cmd.Flags())
	to.register(cmd.Flags())
	cmd.AddCommand(initCommand())
	return cmd
}

// endProgress clears the line of the progress.
func endProgress(cmd *cobra.Command, o check.Options) {
	if o.Progress != nil {
		fmt.Fprint(cmd.ErrOrStderr(), "\r\033[K")
	}
}

func initCommand() *cobra.Command {
	var f judgeFlags
	cmd := &cobra.Command{
		Use:   "init [URL] [-- COMMAND…]",
		Short: "Write what a check finds in a server, to be completed",
		Long: `Call what may be called, without an attack, and print a file for the flag --file
of 'askback check': with which arguments each name is called, and whether to its
end (toTheEnd). Complete it with

  answers     the content of forms, by the keys of the questions
  useUp       values of arguments that serve one call each
  once        true if a state of this name must not be taken twice
  never       true if it must not be called at all
  stateTTL    how long a state is valid, such as "30s"
  replica     the URL of another instance with the same keys
  elsewhere   the URL of a server with other keys
  oneIdentity true if both tokens are of one principal

In an argument, "any text" stands for another text in each call.

Exit codes: 0 the file is printed; 1 the server has nothing; 2 wrong usage.`,
		Example: `  askback check init http://127.0.0.1:8080/mcp > check.json
  askback check http://127.0.0.1:8080/mcp --file check.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args)
			if err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			plan, report, err := check.Init(ctx, o)
			endProgress(cmd, o)
			if err == nil && len(plan.Calls) == 0 {
				err = errors.New(cli.Harmless(report.Stopped))
			}
			if err != nil {
				return err
			}
			for _, t := range report.Targets {
				fmt.Fprintf(cmd.ErrOrStderr(), "askback: %s asks (%s)\n", cli.HarmlessLine(t.Method+" "+t.Name, cli.Columns),
					cli.HarmlessLine(strings.Join(t.Asks, ", "), cli.Columns))
			}
			return cli.OutputJSON(cmd.OutOrStdout(), plan)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// checkTarget is the server on the command line: a URL, or what follows --.
func checkTarget(cmd *cobra.Command, args []string) (check.Endpoint, error) {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == 0 && len(args) > 0:
		return check.Endpoint{Program: args}, nil
	case dash > 0 || len(args) > 1:
		return check.Endpoint{}, cli.Usagef("want one URL, or -- and a command; there are %d arguments", len(args))
	case len(args) == 0:
		return check.Endpoint{}, cli.Usagef("the argument URL is missing")
	}
	if t, err := cli.ParseTarget(args[0]); err != nil || t.Address == nil { // a wrong URL may have a password, too
		return check.Endpoint{}, cli.Usagef(
			"the argument is not a URL, such as http://127.0.0.1:8080/mcp; a command stands after --")
	}
	return check.Endpoint{URL: args[0]}, nil
}
