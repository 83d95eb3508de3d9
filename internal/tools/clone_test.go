package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// What README.md gives for a module beside a clone makes it build with every module that is named there, and changes
// nothing in the clone.
func TestAModuleBesideACloneBuilds(t *testing.T) {
	judge.Skip(t)
	clone := expect.Must(filepath.Abs("../.."))(t)
	page := expect.Must(os.ReadFile(filepath.Join(clone, "README.md")))(t)
	commands := regexp.MustCompile(`(?s)\nfor module in "" (/[^;]*); do\n.*?\ngo mod tidy\n`).FindSubmatch(page)
	if commands == nil {
		t.Fatal("README.md has no commands for a module beside a clone")
	}
	app := filepath.Join(t.TempDir(), "app")
	expect.Check(t, os.Mkdir(app, 0o700))
	expect.Check(t, os.Symlink(clone, filepath.Join(app, "..", "askback")))
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, p := range append([]string{"/askbacktest", "/client", "/desk", "/drain", "/seal", "/state"},
		strings.Fields(string(commands[1]))...) {
		if !strings.HasPrefix(p, "/internal/") {
			source.WriteString("\t_ \"" + root + p + "\"\n")
		}
	}
	source.WriteString(")\n\nfunc main() {}\n")
	for name, text := range map[string]string{"main.go": source.String(),
		"go.mod": "module example.com/app\n\ngo 1.26.0\n"} {
		expect.Check(t, os.WriteFile(filepath.Join(app, name), []byte(text), 0o600))
	}
	before := sums(t, clone)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", string(commands[0])+"go vet .\n")
	cmd.Dir = app
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath") // with -trimpath a build is found again
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands[0], out)
	}
	expect.Equal(t, "files of the clone changed", sums(t, clone), before)
}

// sums are the files of a clone that the go command writes, as git sees them.
func sums(t *testing.T, clone string) string {
	t.Helper()
	return output(t, exec.Command("git", "-C", clone, "diff", "--", "*go.mod", "*go.sum", "go.work.sum"))
}
