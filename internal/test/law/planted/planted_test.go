// Package planted shows that the simulations see what they look for. For each of its bugs it builds the test of the
// law, or of the bridge's world, from the repository with the bug in it, and counts the seeds of one world that find
// it. The repository stays as it is: the compiler is given other files in the place of those that the bug changes.
//
//	go test ./internal/test/law/planted                     # can the bugs be planted in the code as it is?
//	go test -v -timeout 1h ./internal/test/law/planted -find # do ten of a hundred seeds find each of them?
//	go test -v ./internal/test/law/planted -find -run TestBugs/lease-taken-early
package planted

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

var find = flag.Bool("find", false, "let a hundred seeds look for each bug, of which ten must find it")

const (
	root  = "../../../.."
	seeds = 100
	bar   = 10
)

// Every bug can be planted in the code as it is. Its simulation finds it, in a minute of one processor.
func TestBugs(t *testing.T) {
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			overlay := b.plant(t)
			if !*find {
				return
			}
			dir, test := "./internal/test/law", "TestPeople/^"+regexp.QuoteMeta(b.world)+"$"
			if b.world == bridge {
				dir, test = "./bridge/internal/world", "TestWorld"
			}
			law := filepath.Join(t.TempDir(), "law.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", law, dir)
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", build, err, out)
			}
			found, last, took := hunt(t, law, test)
			t.Logf("%d of %d seeds, in %v", len(found), last+1, took.Round(time.Second))
			t.Log(found[:min(1, len(found))])
			if len(found) < bar || took > time.Minute {
				t.Errorf("%d seeds found it within %v, want %d within a minute", len(found), took, bar)
			}
		})
	}
}

var (
	began = regexp.MustCompile(`^=== RUN +Test\w+/(?:[^/]*/)?seed_(\d+)$`)
	says  = regexp.MustCompile(`: (seed \d+: .*)$`)
)

// hunt lets the seeds of a test look for violations until enough of them have found one. It returns those, the last
// seed, and the time of the processor.
func hunt(t *testing.T, law, test string) (found []string, last int, took time.Duration) {
	for next := 0; next < seeds && len(found) < bar; next = last + 1 {
		cmd := exec.CommandContext(t.Context(), law, "-test.v", "-test.run", test, "-shrink=false",
			fmt.Sprint("-first=", next), fmt.Sprint("-seeds=", seeds-next))
		out := expect.Must(cmd.StdoutPipe())(t)
		expect.Check(t, cmd.Start())
		before := len(found)
		for lines := bufio.NewScanner(out); lines.Scan() && len(found) < bar; {
			if m := began.FindStringSubmatch(lines.Text()); m != nil {
				last, _ = strconv.Atoi(m[1])
			}
			if m := says.FindStringSubmatch(lines.Text()); m != nil {
				found = append(found, m[1])
			}
		}
		if len(found) == bar {
			_ = cmd.Process.Kill()
		}
		if cmd.Wait() != nil && len(found) == before {
			found = append(found, fmt.Sprintf("seed %d ends the process", last))
		}
		took += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return found, last, took
}

// plant writes the files that a bug changes, and returns the file that tells the compiler of them.
func (b *bug) plant(t *testing.T) (overlay string) {
	t.Helper()
	dir := t.TempDir()
	replace := make(map[string]string)
	for i, p := range b.patches {
		original := expect.Must(filepath.Abs(filepath.Join(root, filepath.FromSlash(p.file))))(t)
		text := expect.Must(os.ReadFile(cmp.Or(replace[original], original)))(t)
		changed := expect.Must(p.apply(string(text)))(t)
		if changed == string(text) {
			t.Errorf("%s: the bug changes nothing", p.file)
		}
		replace[original] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		expect.Check(t, os.WriteFile(replace[original], []byte(changed), 0o600))
	}
	data := expect.Must(json.Marshal(map[string]any{"Replace": replace}))(t)
	overlay = filepath.Join(dir, "overlay.json")
	expect.Check(t, os.WriteFile(overlay, data, 0o600))
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
