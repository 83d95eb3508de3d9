// The command client judges a client of Multi Round-Trip Requests by being its server: one that asks wrongly, alters,
// loses, repeats and redirects.
//
//	cd judge && go run ./check/client -- node client.js
//	cd judge && go run ./check/client -probe client-id -- askback call {url} test_mrtr_echo_state \
//	    --answer 'confirm={"confirmed":true}'
//
// The client is any program that connects to the URL it gets, lists the tools, calls them, and answers what they ask in
// its own way. The URL stands in place of {url} in its arguments, or is its last argument, and is in MCP_SERVER_URL.
// MCP_CONFORMANCE_SCENARIO names the scenario of the official suite whose tools are listed, so a client that was
// written for the suite needs no change.
//
// The program is started once for each scenario of the corpus, and for an honest call before the first scenario and
// after the last. It runs in a process group of its own, which is killed in the end.
//
// The report is for people, and with -json for programs. The status is 1 if the client breaks a requirement or a
// recommendation, or if nothing could be judged, and 2 if the arguments are wrong.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the judge with its arguments, and returns its status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) (status int) {
	opts, asJSON, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var r *findings.Report
	if err == nil {
		r, err = run(ctx, opts)
	}
	if err != nil {
		fmt.Fprintln(stderr, "client:", err)
		return 2
	}
	text := report.Text(r, report.TextOptions{})
	if asJSON {
		text, err = report.JSON(r)
	}
	_, failed := io.WriteString(stdout, text)
	if err = cmp.Or(err, failed); err != nil {
		fmt.Fprintln(stderr, "client:", err)
	}
	if err != nil || !r.Judged() || r.Count(findings.Fail)+r.Count(findings.Warn) > 0 {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (opts options, asJSON bool, err error) {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.tool, "tool", "", "`name` of the tool that asks; empty is the tool of the official suite")
	probes := flags.String("probe", "", "`IDs` of the only probes, with commas between them")
	flags.StringVar(&opts.person, "person", "", "`who` answers: none, accepts or declines")
	flags.DurationVar(&opts.timeout, "timeout", 0, "`time` for each scenario (default 20s)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	err = flags.Parse(args)
	if opts.command = flags.Args(); *probes != "" {
		opts.probes = strings.Split(*probes, ",")
	}
	switch {
	case err != nil:
	case len(opts.command) == 0:
		err = errors.New("the command of the client is missing: it stands after --")
	case !slices.Contains([]string{"", "none", "accepts", "declines"}, opts.person):
		err = fmt.Errorf("-person %s: want none, accepts or declines", opts.person)
	case opts.timeout < 0:
		err = fmt.Errorf("-timeout %v: want a time above zero", opts.timeout)
	}
	return opts, asJSON, err
}
