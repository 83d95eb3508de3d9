package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

var (
	docWords = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	goFlag   = regexp.MustCompile(`\.(?:Bool|Duration|Float64|Func|Int|Int64|String|Uint64|\w+Var)\((?:&[\w.]+, ` +
		`*)?"([\w-]+)"`)
	testNames = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
)

// lookUp checks that what a command names exists: its packages, its tests and benchmarks, and its flags.
func lookUp(t *testing.T, text string) {
	t.Helper()
	dir := "."
	for part := range strings.SplitSeq(text, "&&") {
		var args []string
		for _, word := range docWords.FindAllString(part, -1) {
			args = append(args, strings.Trim(word, `'",;)`))
		}
		if len(args) > 0 && args[0] == "ASKBACK_JUDGE=1" {
			args = args[1:]
		}
		switch {
		case len(args) == 2 && args[0] == "cd":
			dir = args[1]
		case len(args) > 2 && args[0] == "go" && args[1] == "run":
			lookUpRun(t, text, filepath.Join(dir, args[2]), args[3:])
		case len(args) > 2 && args[0] == "go" && args[1] == "test":
			lookUpTest(t, text, dir, args[2:])
		case len(args) > 1 && args[0] == "askback":
			lookUpAskback(t, text, args[1:])
		case len(args) > 0 && strings.HasSuffix(args[0], "/run"):
			if err := exec.Command("bash", "-n", filepath.Join(repository(t), args[0])).Run(); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

func lookUpRun(t *testing.T, text, dir string, args []string) {
	t.Helper()
	source := sourceOf(t, dir, false)
	if !strings.Contains(source, "\npackage main\n") {
		t.Errorf("%s: %s is not a program", text, dir)
		return
	}
	if dir == "cmd/askback" {
		lookUpAskback(t, text, args)
		return
	}
	flags := []string{}
	for _, f := range goFlag.FindAllStringSubmatch(source, -1) {
		flags = append(flags, f[1])
	}
	for _, arg := range args {
		if arg == "--" { // what follows are a program's own
			return
		}
		if name := strings.TrimLeft(arg, "-"); name != arg && !slices.Contains(flags, name) {
			t.Errorf("%s: %s has no flag -%s, only %q", text, dir, name, flags)
		}
	}
}

// everywhere are patterns of tests that match all or none.
var everywhere = []string{".", "^$", "xxx"}

func lookUpTest(t *testing.T, text, dir string, args []string) {
	t.Helper()
	var patterns, dirs []string
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		switch name {
		case "-run", "-bench", "-fuzz":
			if !inline && i+1 < len(args) {
				i++
				value = args[i]
			}
			patterns = append(patterns, value)
		case "-benchtime", "-timeout", "-count":
			if !inline {
				i++
			}
		default:
			if strings.HasPrefix(name, "./") && !strings.HasSuffix(name, "...") {
				dirs = append(dirs, filepath.Join(dir, name))
			}
		}
	}
	if len(dirs) == 0 && (len(patterns) > 0 || !slices.Contains(args, "./...")) {
		dirs = []string{dir}
	}
	var names []string
	for _, d := range dirs {
		for _, found := range testNames.FindAllStringSubmatch(sourceOf(t, d, true), -1) {
			names = append(names, found[1])
		}
	}
	for _, pattern := range patterns {
		pattern, _, _ = strings.Cut(pattern, "/") // the names within a test are not looked up
		re, err := regexp.Compile(pattern)
		if err != nil || !slices.Contains(everywhere, pattern) && !slices.ContainsFunc(names, re.MatchString) {
			t.Errorf("%s: no test in %q has a name like %q (%v)", text, dirs, pattern, err)
		}
	}
}

func lookUpAskback(t *testing.T, text string, args []string) {
	t.Helper()
	cmd, rest, err := rootCommand().Find(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "…" }))
	if err != nil || cmd.HasSubCommands() && cmd.Use == cmd.Name() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		t.Errorf("%s: there is no such command (%v)", text, err)
		return
	}
	for _, arg := range rest {
		if arg == "--" {
			break // what follows is the command line of another program
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		known := name == "help" || name == "version" || cmd.Flags().Lookup(name) != nil ||
			cmd.InheritedFlags().Lookup(name) != nil
		if strings.HasPrefix(arg, "--") && !known {
			t.Errorf("%s: %s has no flag --%s", text, cmd.CommandPath(), name)
		}
	}
}

// sourceOf returns the code of a package, or of its tests.
func sourceOf(t *testing.T, dir string, tests bool) string {
	t.Helper()
	root := os.DirFS(repository(t))
	files, err := fs.Glob(root, path.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("there is no package in %s (%v)", dir, err)
	}
	var all strings.Builder
	for _, file := range files {
		data := expect.Must(fs.ReadFile(root, file))(t)
		if strings.HasSuffix(file, "_test.go") == tests {
			all.Write(data)
		}
	}
	return all.String()
}
