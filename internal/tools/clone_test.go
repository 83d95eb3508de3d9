package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The line that README.md and the tutorial give makes a module outside build against a clone, with every module that
// the line names, and changes nothing in the clone.
func TestAModuleBesideACloneBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("it downloads modules")
	}
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"README.md", "docs/tutorial.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(clone, page))
			if err != nil {
				t.Fatal(err)
			}
			line := regexp.MustCompile(`(?m)^go work init \.( .*)? \.\./askback( .*)?$`).FindString(string(text))
			if line == "" {
				t.Fatalf("%s has no 'go work init' for a module beside a clone", page)
			}
			buildBeside(t, clone, line)
		})
	}
}

func buildBeside(t *testing.T, clone, line string) {
	t.Helper()
	app := filepath.Join(t.TempDir(), "app")
	if err := os.Mkdir(app, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(clone, filepath.Join(app, "..", "askback")); err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, p := range []string{"/askbacktest", "/client", "/desk", "/drain", "/seal", "/state"} {
		source.WriteString("\t_ \"" + root + p + "\"\n")
	}
	for _, module := range regexp.MustCompile(`\.\./askback(\S*)`).FindAllStringSubmatch(line, -1) {
		source.WriteString("\t_ \"" + root + module[1] + "\"\n")
	}
	source.WriteString(")\n\nfunc main() {}\n")
	for name, text := range map[string]string{"main.go": source.String(),
		"go.mod": "module example.com/app\n\ngo 1.26.0\n"} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := sums(t, clone)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", line+"\ngo vet .\n")
	cmd.Dir = app
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath") // with -trimpath a build is found again
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, line, out)
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
