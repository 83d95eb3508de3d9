// Command servers compares published servers of npm with and without the bridge. It speaks to each of them directly and
// through `askback bridge`, with the same requests in the same order, and compares what comes back as JSON, field by
// field:
//
//	cd judge && go run ./bridge/servers                  # all of them
//	cd judge && go run ./bridge/servers -only memory     # those with "memory" in their name
//	cd judge && go run ./bridge/servers -v               # also what the differences are that the program explains
//
// The requests are the lists, the prompts, resources and completions that the lists name, calls of tools with harmless
// arguments, and what a server refuses: arguments that are missing or of another type, and names and methods that it
// does not know. Servers with a state are also used as a user would: what one call leaves behind is used by the next,
// by three at once, and after a call was cancelled.
//
// The first run installs the servers with npm into the user's cache, in the versions that the table has. They need no
// account and no network. Each runs in an empty directory with a home of its own, as the user who runs this program.
// What differs is compared with further runs without the bridge, because times and identifiers differ by themselves.
// The program exits with 1 if a difference is left that it does not explain.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	only := flag.String("only", "", "compare only servers with `TEXT` in their name")
	verbose := flag.Bool("v", false, "also print the differences that are explained")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := judge(ctx, *only, *verbose); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

// judge compares the servers, and prints a table. The error says that a difference is left, or why it cannot.
func judge(ctx context.Context, only string, verbose bool) error {
	work, err := os.MkdirTemp("", "servers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	modules, node, err1 := install()
	program, err2 := process.Build(ctx, work)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b := &bench{node: node, modules: modules, program: program, dir: filepath.Join(work, "run")}
	var all report
	number := 0
	fmt.Println("| server | version | tools | requests | vary | explained | differences |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, s := range servers {
		if !strings.Contains(s.name, only) {
			continue
		}
		r, err := b.compare(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.row(s.name, s.version) // and below it, on standard error:
		for _, d := range r.differences {
			fmt.Fprintf(os.Stderr, "  %s\n", d)
		}
		for _, d := range r.explained {
			if verbose {
				fmt.Fprintf(os.Stderr, "  %s\n  is explained: %s\n", d, d.why)
			}
		}
		all.add(r)
		number++
	}
	all.row(fmt.Sprintf("%d servers", number), "")
	if n := len(all.differences); n > 0 {
		return fmt.Errorf("%d differences are not explained", n)
	}
	return nil
}

// report is what the comparison of a server found.
type report struct {
	tools, requests, vary  int
	explained, differences []difference
}

func (r *report) add(other *report) {
	r.tools += other.tools
	r.requests += other.requests
	r.vary += other.vary
	r.explained = append(r.explained, other.explained...)
	r.differences = append(r.differences, other.differences...)
}

func (r *report) row(name, version string) {
	fmt.Printf("| %s | %s | %d | %d | %d | %d | %d |\n",
		name, version, r.tools, r.requests, r.vary, len(r.explained), len(r.differences))
}
