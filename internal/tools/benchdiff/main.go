// Benchdiff compares the benchmarks of the working tree with those of the last commit of main.
//
//	go run ./internal/tools/benchdiff [-bench REGEXP] [-count N] [-time T] [-base COMMIT] [PACKAGE...]
//
// It builds the tests of both, runs them in turn, so that what else the machine does meets both, and hands the results to
// benchstat. Packages are directories of the repository, and the default is the root. Trust the columns B/op and allocs/op;
// for sec/op look at the confidence that benchstat shows.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	bench := flag.String("bench", ".", "benchmarks to run, as in go test -bench")
	count := flag.Int("count", 10, "how often each side runs; benchstat wants at least 6")
	duration := flag.String("time", "500ms", "time or iterations of one benchmark, as in go test -benchtime")
	base := flag.String("base", "main", "commit to compare with")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"."}
	}
	if err := run(*bench, *count, *duration, *base, packages); err != nil {
		fmt.Fprintln(os.Stderr, "benchdiff:", err)
		os.Exit(1)
	}
}

// side is one of the two trees.
type side struct {
	name     string
	dir      string
	programs []string // the tests of the packages
	results  *os.File
}

func run(bench string, count int, duration, base string, packages []string) error {
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "benchdiff")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	old := filepath.Join(work, "base")
	if _, err := output(root, "git", "worktree", "add", "--detach", old, base); err != nil {
		return fmt.Errorf("checking out what to compare with (-base names another commit): %w", err)
	}
	defer func() {
		if _, err := output(root, "git", "worktree", "remove", "--force", old); err != nil {
			fmt.Fprintln(os.Stderr, "benchdiff:", err)
		}
	}()
	sides := []*side{{name: base, dir: old}, {name: "here", dir: root}}
	for i, s := range sides {
		if s.results, err = os.Create(filepath.Join(work, fmt.Sprint("results", i))); err != nil {
			return err
		}
		defer s.results.Close()
		for j, p := range packages {
			program := filepath.Join(work, fmt.Sprintf("tests%d-%d", i, j))
			if _, err := output(filepath.Join(s.dir, p), "go", "test", "-c", "-o", program, "."); err != nil {
				return fmt.Errorf("building the benchmarks of %s: %w", s.name, err)
			}
			s.programs = append(s.programs, program)
		}
	}
	for n := range count {
		fmt.Fprintf(os.Stderr, "Run %d of %d\n", n+1, count)
		for _, s := range sides {
			for i, program := range s.programs {
				if err := s.measure(program, packages[i], bench, duration); err != nil {
					return err
				}
			}
		}
	}
	// Benchstat is a module outside of the workspace.
	stat := exec.Command("go", "tool", "benchstat", base+"="+sides[0].results.Name(), "here="+sides[1].results.Name())
	stat.Dir = filepath.Join(root, "internal", "tools", "benchstat")
	stat.Env = append(os.Environ(), "GOWORK=off")
	stat.Stdout, stat.Stderr = os.Stdout, os.Stderr
	if err := stat.Run(); err != nil {
		return fmt.Errorf("benchstat: %w", err)
	}
	return nil
}

// measure runs the benchmarks of a package once.
func (s *side) measure(program, pkg, bench, duration string) error {
	cmd := exec.Command(program, "-test.run", "^$", "-test.bench", bench, "-test.benchtime", duration, "-test.benchmem")
	cmd.Dir = filepath.Join(s.dir, pkg)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.MultiWriter(s.results, &said), &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the benchmarks of %s in %s: %w\n%s", s.name, pkg, err, said.String())
	}
	return nil
}

// output runs a command and returns what it prints.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
