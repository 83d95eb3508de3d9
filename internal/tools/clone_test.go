package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The two lines of README.md make a module outside build against a clone, with every module that it can import, and
// change nothing in the clone.
func TestAModuleBesideACloneBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("it downloads modules")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("(?m)^for m in .*\ngo mod tidy\n").FindString(string(readme))
	if lines == "" {
		t.Fatal("README.md has no two lines for a module beside a clone")
	}
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(t.TempDir(), "app")
	if err := os.Mkdir(app, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(clone, filepath.Join(app, "..", "askback")); err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, p := range []string{"", "/askbacktest", "/client", "/desk", "/seal", "/state", "/task/postgres", "/task/sqlite",
		"/otelaskback"} {
		source.WriteString("\t_ \"" + root + p + "\"\n")
	}
	source.WriteString(")\n\nfunc main() {}\n")
	for name, text := range map[string]string{"main.go": source.String(),
		"go.mod": "module example.com/app\n\ngo 1.26.0\n"} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := sums(t, clone)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines+"go list -deps . >/dev/null\ngo vet .\n")
	cmd.Dir = app
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath") // with -trimpath a build is found again
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, lines, out)
	}
	if after := sums(t, clone); after != before {
		t.Errorf("files of the clone changed: %s, before\n%s", after, before)
	}
}

// sums are the files of a clone that the go command writes, as git sees them.
func sums(t *testing.T, clone string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "diff", "--", "*go.mod", "*go.sum", "go.work.sum")
	cmd.Dir = clone
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
