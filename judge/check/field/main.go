// Field checks published servers that ask, and prints and stores what the command finds in each, first without
// permission to call a tool to its end, then with it:
//
//	cd judge && go run ./check/field
//
// It needs Go and, the first time, npm and a network. The packages are pinned by go.mod and by package-lock.json in the
// directory typescript. README.md says which findings are right. The program fails if a correct server has a
// finding, if the example of mcp-go has fewer than it must, and if a server cannot be started or judged at all.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	only := flag.String("only", "", "check only peers with this in their name")
	keep := flag.String("o", "", "keep reports and logs in this directory")
	runs := flag.Int("runs", 1, "how often each server is checked")
	program := flag.String("askback", "", "check with this program, not with the command of this tree")
	serve := flag.Bool("serve", false, "start the first of these peers, print its URL, and serve until an interrupt")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *only, *keep, *program, *runs, *serve); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "field:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, keep, askback string, runs int, serve bool) error {
	work, err := filepath.Abs(keep)
	if keep == "" {
		work, err = os.MkdirTemp("", "field")
		defer func() { os.RemoveAll(work) }()
	}
	if err == nil {
		err = os.MkdirAll(work, 0o755)
	}
	if err != nil {
		return err
	}
	if askback == "" && !serve {
		if askback, err = process.Build(ctx, work); err != nil {
			return err
		}
	}
	var errs []error
	for _, peer := range peers {
		if !strings.Contains(peer.name, only) {
			continue
		}
		start, err := peer.build(ctx, work)
		if err != nil {
			return fmt.Errorf("%s: %w", peer.name, err)
		}
		if serve {
			return serveOnly(ctx, start, work)
		}
		for n := range runs {
			for _, allowed := range []bool{false, true} {
				c := &check{peer: peer, allowed: allowed, file: filepath.Join(work, fmt.Sprint(peer.name, "-", n+1))}
				if allowed {
					c.file += "-allowed"
				}
				if err := c.run(ctx, askback, start); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// serveOnly serves a peer for somebody who wants to look at it.
func serveOnly(ctx context.Context, start starter, work string) error {
	target, stop, err := start(ctx, filepath.Join(work, "serve.log"))
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(strings.Join(target, " "))
	<-ctx.Done()
	return nil
}

// check is one run of the command against one server.
type check struct {
	peer    peer
	allowed bool   // everything may be called to its end
	file    string // of the report, without its extension
}

// report is what this program reads of a report.
type report struct {
	Name     string        `json:"name"`
	Took     time.Duration `json:"tookNanoseconds"`
	Requests int           `json:"requests"`
	Stopped  string        `json:"stopped"`
	Verdicts []verdict     `json:"verdicts"`
}

type verdict struct {
	Probe  string `json:"probe"`
	Target string `json:"target"`
	Level  string `json:"level"`
	Proof  string `json:"proof"`
	Reason string `json:"reason"`
}

func (c *check) run(ctx context.Context, askback string, start starter) error {
	args := []string{"check", "--json"}
	for i, token := range c.peer.tokens {
		args = append(args, []string{"--header", "--other-header"}[i], "Authorization: Bearer "+token)
	}
	if c.allowed {
		args = append(args, "--allow", "*", "--requests", "5000") // for servers with many tools
	}
	target, stop, err := start(ctx, c.file+".log")
	if err != nil {
		return fmt.Errorf("%s: %w", c.peer.name, err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, askback, append(args, target...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run() // the status says what was found, and the report says it better
	if err := os.WriteFile(c.file+".json", out.Bytes(), 0o644); err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return fmt.Errorf("%s: no report (%w): %v: %s", c.peer.name, err, failed, said.String())
	}
	c.print(&r)
	return c.judge(&r)
}

// print prints the findings, the gravest first.
func (c *check) print(r *report) {
	counts := make(map[string]int)
	for _, v := range r.Verdicts {
		counts[v.Level]++
	}
	mode := "without permission"
	if c.allowed {
		mode = "allowed"
	}
	fmt.Printf("%s, %s: fail %d, warn %d, note %d, pass %d, not judged %d; %d requests in %v. %s\n", c.peer.name, mode,
		counts["fail"], counts["warn"], counts["note"], counts["pass"], counts["not-judged"], r.Requests,
		r.Took.Round(10*time.Millisecond), r.Stopped)
	for _, level := range []string{"fail", "warn", "note"} {
		for _, v := range r.Verdicts {
			if v.Level == level {
				fmt.Printf("  %-4s %s %s (%s): %s\n", level, v.Probe, v.Target, cmp.Or(v.Proof, "no proof"), v.Reason)
			}
		}
	}
}

// judge compares the findings with what is known of the server.
func (c *check) judge(r *report) error {
	has := func(levels ...string) bool {
		return slices.ContainsFunc(r.Verdicts, func(v verdict) bool { return slices.Contains(levels, v.Level) })
	}
	switch {
	case c.peer.correct && has("fail", "warn"):
		return fmt.Errorf("%s is correct, and the check finds something: see %s.json", c.peer.name, c.file)
	case c.peer.correct && c.allowed && !has("pass"):
		return fmt.Errorf("%s: nothing is judged", c.peer.name)
	case c.peer.forged && !c.allowed && !has("warn"):
		return fmt.Errorf("%s: no warning of its unprotected state", c.peer.name)
	case c.peer.forged && c.allowed && !has("fail"):
		return fmt.Errorf("%s: its forged state is not found", c.peer.name)
	}
	return nil
}
