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
	"strings"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	only := flag.String("only", "", "check only peers with this in their name")
	keep := flag.String("o", "", "keep reports and logs in this directory")
	serve := flag.Bool("serve", false, "start the first of these peers, print its URL, and serve until an interrupt")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *only, *keep, *serve); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "field:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, keep string, serve bool) error {
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
	askback, err := process.Build(ctx, work)
	if err != nil {
		return err
	}
	var errs []error
	for _, peer := range peers {
		if !strings.Contains(peer.name, only) {
			continue
		}
		if serve {
			p, err := peer.start(ctx, work, filepath.Join(work, "serve.log"))
			if err != nil {
				return err
			}
			defer p.Kill()
			fmt.Println(p.URL)
			<-ctx.Done()
			return nil
		}
		for _, allowed := range []bool{false, true} {
			c := &check{peer: peer, allowed: allowed, file: filepath.Join(work, peer.name)}
			if allowed {
				c.file += "-allowed"
			}
			if err := c.run(ctx, work, askback); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", peer.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// check is one run of the command against one server.
type check struct {
	peer    peer
	allowed bool   // everything may be called to its end
	file    string // of the report, without its extension
}

func (c *check) run(ctx context.Context, work, askback string) error {
	args := []string{"check", "--json"}
	for i, token := range c.peer.tokens {
		args = append(args, []string{"--header", "--other-header"}[i], "Authorization: Bearer "+token)
	}
	if c.allowed {
		args = append(args, "--allow", "*", "--requests", "5000") // for servers with many tools
	}
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	server, err := c.peer.start(ctx, work, c.file+".log")
	if err != nil {
		return err
	}
	defer server.Kill()
	cmd := exec.CommandContext(ctx, askback, append(args, server.URL)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run() // the status says what was found, and the report says it better
	if err := os.WriteFile(c.file+".json", out.Bytes(), 0o644); err != nil {
		return err
	}
	var r findings.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return fmt.Errorf("no report (%w): %v: %s", err, failed, said.String())
	}
	c.print(&r)
	return c.judge(&r)
}

// print prints the findings, the gravest first.
func (c *check) print(r *findings.Report) {
	mode := "without permission"
	if c.allowed {
		mode = "allowed"
	}
	fmt.Printf("%s, %s:", c.peer.name, mode)
	for _, level := range findings.Levels {
		fmt.Printf(" %s %d,", level, r.Count(level))
	}
	fmt.Printf(" %d requests in %v. %s\n", r.Requests, r.Took.Round(10*time.Millisecond), r.Stopped)
	for _, level := range findings.Levels[:3] {
		for _, v := range r.Verdicts {
			if v.Level == level {
				fmt.Printf("  %-4s %s %s (%s): %s\n", level, v.Probe, v.Target, cmp.Or(v.Proof, "no proof"), v.Reason)
			}
		}
	}
}

// judge compares the findings with what is known of the server.
func (c *check) judge(r *findings.Report) error {
	switch fails, warns := r.Count(findings.Fail), r.Count(findings.Warn); {
	case c.peer.correct && fails+warns > 0:
		return fmt.Errorf("it is correct, and the check finds something: see %s.json", c.file)
	case c.peer.correct && c.allowed && r.Count(findings.Pass) == 0:
		return errors.New("nothing is judged")
	case c.peer.forged && !c.allowed && warns == 0:
		return errors.New("no warning of its unprotected state")
	case c.peer.forged && c.allowed && fails == 0:
		return errors.New("its forged state is not found")
	}
	return nil
}
