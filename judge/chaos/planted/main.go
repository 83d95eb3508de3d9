// Command planted shows that chaos finds what it looks for. For each of its bugs it builds the servers from the repository
// with the bug in it, and lets chaos bring faults upon three of them, until it finds a violation. The repository
// stays as it is: the compiler is given other files in the place of those that the bug changes.
//
//	go run ./judge/chaos/planted                 # all bugs, about ten minutes
//	go run ./judge/chaos/planted -bug early      # one
//
// It exits with 1 if chaos finds nothing, or not what the bug violates, and if a bug cannot be planted because the code
// is no longer as it was.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	name := flag.String("bug", "", "`NAME` of the only bug to plant: "+strings.Join(names(), ", "))
	limit := flag.Duration("limit", 3*time.Minute, "`TIME` that chaos has for each bug")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	found, err := run(ctx, *name, *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
	}
	if err != nil || !found {
		stop()
		os.Exit(1)
	}
}

func names() (names []string) {
	for _, b := range bugs {
		names = append(names, b.name)
	}
	return names
}

// run plants the bugs, and reports whether chaos found all of them.
func run(ctx context.Context, name string, limit time.Duration) (all bool, err error) {
	root, err := output(ctx, "", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/askback-mcp/askback")
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "chaos")
	if _, err := output(ctx, root, nil, "go", "build", "-o", program, "./judge/chaos"); err != nil {
		return false, err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "bug\tfound after\tviolations\tthe first")
	all = true
	for _, b := range bugs {
		if name != "" && b.name != name {
			continue
		}
		overlay, err := plant(b, root, filepath.Join(dir, b.name))
		if err != nil {
			return false, err
		}
		environment := append(os.Environ(), "GOFLAGS=-overlay="+overlay)
		// So that chaos need not wait for it.
		if _, err := output(ctx, root, environment, "go", "build", "-o", program+"-unused", "./cmd/askback"); err != nil {
			return false, fmt.Errorf("%s: %w", b.name, err)
		}
		v, took, err := hunt(ctx, program, b.chaos, root, environment, limit)
		if err != nil {
			return false, fmt.Errorf("%s: %w", b.name, err)
		}
		kinds, first := "none", ""
		if len(v) > 0 {
			kinds, first = strings.Join(count(v), ", "), v[0].text
		}
		if !slices.ContainsFunc(v, func(v violation) bool { return slices.Contains(b.violates, v.kind) }) {
			all = false
			kinds += " (NOT FOUND)"
		}
		fmt.Fprintf(os.Stderr, "planted: %s: after %v %s: %.300s\n", b.name, took.Round(time.Second), kinds, first)
		fmt.Fprintf(w, "%s\t%v\t%s\t%.120s\n", b.name, took.Round(time.Second), kinds, first)
	}
	return all, nil
}

// violation is one that chaos printed.
type violation struct{ kind, text string }

var line = regexp.MustCompile(`(?m)^  - ([a-z]+): (.*)$`)

// hunt lets chaos run in a directory until it finds a violation, and returns what it found and how long the run took.
func hunt(ctx context.Context, program string, arguments []string, dir string, environment []string, limit time.Duration) (found []violation, took time.Duration, err error) {
	begun := time.Now()
	// Each seed takes one to two minutes; chaos begins another one until the time is up.
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if arguments == nil {
		arguments = []string{"-fleet"}
	}
	for seed := 1; ctx.Err() == nil; seed++ {
		cmd := exec.CommandContext(ctx, program, slices.Concat(arguments, []string{"-impatient", "-seed", fmt.Sprint(seed)})...)
		cmd.Dir, cmd.Env = dir, environment
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 20 * time.Second
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		err := cmd.Run()
		for _, m := range line.FindAllStringSubmatch(out.String(), -1) {
			found = append(found, violation{m[1], m[2]})
		}
		for _, left := range regexp.MustCompile(`left in (\S+)`).FindAllStringSubmatch(log.String(), -1) {
			os.RemoveAll(left[1])
		}
		if len(found) > 0 {
			break
		}
		if err != nil && ctx.Err() == nil {
			return nil, 0, fmt.Errorf("%w\n%s", err, &log)
		}
	}
	return found, time.Since(begun), nil
}

// count counts violations by their kinds.
func count(found []violation) (counts []string) {
	times := make(map[string]int)
	for _, v := range found {
		times[v.kind]++
	}
	for kind, n := range times {
		counts = append(counts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(counts)
	return counts
}

// plant writes the files that a bug changes to a directory, and returns the file that tells the compiler of them.
func plant(b bug, root, dir string) (overlay string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for i, p := range b.patches {
		original := filepath.Join(root, filepath.FromSlash(p.file))
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		text, err := os.ReadFile(cmp.Or(replace[original], original))
		if err != nil {
			return "", err
		}
		bad, err := p.apply(string(text))
		if err != nil {
			return "", fmt.Errorf("%s: %w", b.name, err)
		}
		if err := os.WriteFile(changed, []byte(bad), 0o600); err != nil {
			return "", err
		}
		replace[original] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// apply makes the change of a patch.
func (p patch) apply(text string) (string, error) {
	if n := strings.Count(text, p.old); n != p.times {
		return "", fmt.Errorf("%s has %d times what this bug replaces, want %d: the code has changed, so change the bug\n%s", p.file, n, p.times, p.old)
	}
	return strings.ReplaceAll(text, p.old, p.new), nil
}

// output runs a command and returns what it printed.
func output(ctx context.Context, dir string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, environment
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
