// Package planted shows that chaos finds what it looks for. For each of its bugs it builds the servers from the
// repository with the bug in it, and lets chaos inject faults into three of them, until it finds a violation. The
// repository stays as it is: the compiler is given other files in the place of those that the bug changes.
//
//	go test ./judge/chaos/planted                             # can the bugs be planted in the code as it is?
//	go test -v -timeout 30m ./judge/chaos/planted -find       # does chaos find them? about ten minutes
//	go test -v ./judge/chaos/planted -find -run TestBugs/lease-taken-early
package planted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var find = flag.Bool("find", false, "let chaos find the bugs, within three minutes for each")

const root = "../../.."

// Every bug can be planted in the code as it is. Chaos finds it, and what it violates.
func TestBugs(t *testing.T) {
	chaos := filepath.Join(t.TempDir(), "chaos")
	if *find {
		command(t, nil, "go", "build", "-o", chaos, "./judge/chaos")
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			overlay := b.plant(t)
			if !*find {
				return
			}
			environment := append(os.Environ(), "GOFLAGS=-overlay="+overlay)
			command(t, environment, "go", "build", "-o", os.DevNull, "./cmd/askback") // so that chaos need not wait for it
			begun := time.Now()
			found := hunt(t, chaos, b.chaos, environment)
			t.Logf("after %v: %s", time.Since(begun).Round(time.Second), strings.Join(found, "\n"))
			if !slices.ContainsFunc(found, func(violation string) bool {
				kind, _, _ := strings.Cut(violation, ":")
				return slices.Contains(b.violates, kind)
			}) {
				t.Errorf("chaos found %q, want a violation of %q", found, b.violates)
			}
		})
	}
}

var (
	violation = regexp.MustCompile(`(?m)^  - ([a-z]+: .*)$`)
	leftFiles = regexp.MustCompile(`left in (\S+)`)
)

// hunt lets chaos run with one seed after the other until it finds violations, which it returns.
func hunt(t *testing.T, chaos string, arguments, environment []string) (found []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if arguments == nil {
		arguments = []string{"-fleet"}
	}
	for seed := 1; ctx.Err() == nil && len(found) == 0; seed++ {
		cmd := exec.CommandContext(ctx, chaos, slices.Concat(arguments, []string{"-impatient", "-seed", fmt.Sprint(seed)})...)
		cmd.Dir, cmd.Env = root, environment
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 20 * time.Second
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		err := cmd.Run()
		for _, m := range violation.FindAllStringSubmatch(out.String(), -1) {
			found = append(found, m[1])
		}
		for _, left := range leftFiles.FindAllStringSubmatch(log.String(), -1) {
			os.RemoveAll(left[1])
		}
		if err != nil && ctx.Err() == nil && len(found) == 0 {
			t.Fatalf("%v\n%s", err, &log)
		}
	}
	return found
}

// plant writes the files that a bug changes, and returns the file that tells the compiler of them.
func (b *bug) plant(t *testing.T) (overlay string) {
	t.Helper()
	dir := t.TempDir()
	replace := make(map[string]string)
	for i, p := range b.patches {
		original, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(p.file)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(cmp.Or(replace[original], original))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := p.apply(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if changed == string(text) {
			t.Errorf("%s: the bug changes nothing", p.file)
		}
		replace[original] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[original], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// apply makes the change of a patch.
func (p patch) apply(text string) (string, error) {
	if n := strings.Count(text, p.old); n != p.times {
		return "", fmt.Errorf("%s has %d times what this bug replaces, want %d: the code has changed, so change the bug\n%s",
			p.file, n, p.times, p.old)
	}
	return strings.ReplaceAll(text, p.old, p.new), nil
}

func TestABugNeedsTheCodeThatItReplaces(t *testing.T) {
	p := patch{"x.go", 1, "fence = $2", "true"}
	for _, text := range []string{"", "fence = $3", "fence = $2 fence = $2"} {
		if _, err := p.apply(text); err == nil {
			t.Errorf("planted in %q", text)
		}
	}
}

// command runs a command in the root of the repository.
func command(t *testing.T, environment []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = root, environment
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
