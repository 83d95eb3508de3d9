// Fuzz runs every fuzz test of every module of the workspace for a short while, so that a new one is never forgotten.
//
//	go run ./internal/tools/fuzz [-time 10s] [REGEXP]
//
// The regular expression selects targets by IMPORTPATH.NAME. A failing input is written below testdata/fuzz of its
// package, where go test finds it again.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// concurrent is how many packages are fuzzed at once, each on one processor.
const concurrent = 2

func main() {
	duration := flag.Duration("time", 10*time.Second, "how long to fuzz each target")
	flag.Parse()
	if err := run(flag.Arg(0), *duration); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(pattern string, duration time.Duration) error {
	selected, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	packages, err := find(selected)
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return fmt.Errorf("no fuzz test matches %q", pattern)
	}
	work, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("looking for the build cache: %w", err)
	}
	f := &fuzzer{filepath.Join(strings.TrimSpace(string(cache)), "fuzz"), work, duration}
	begun := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	fuzzed := 0
	slots := make(chan struct{}, concurrent)
	for _, p := range packages {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f.fuzzPackage(p, func(t target, summary string, err error) {
				mu.Lock()
				defer mu.Unlock()
				fuzzed++
				if err != nil {
					failed = append(failed, t.String())
					summary = err.Error()
				}
				fmt.Printf("%-70s %s\n", t, summary)
			})
		})
	}
	all.Wait()
	fmt.Printf("%d targets in %v\n", fuzzed, time.Since(begun).Round(time.Second))
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// target is one fuzz test.
type target struct {
	dir, pkg, name string
	large          bool // the package imports a database
}

// large is the part of the import paths of a database in Go, which takes many minutes to build for fuzzing.
const large = "modernc.org/"

func (t target) String() string { return t.pkg + "." + t.name }

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// find returns the selected targets of each package that has some, those with most of them first, which take longest.
// It reads the names from the sources, because go test -list would build every test of the workspace.
func find(selected *regexp.Regexp) ([][]target, error) {
	list := exec.Command("go", "list", "-json=Dir,ImportPath,Deps,TestGoFiles,XTestGoFiles", "work")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of the workspace: %w", err)
	}
	var found [][]target
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath                 string
			Deps, TestGoFiles, XTestGoFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			slices.SortStableFunc(found, func(a, b []target) int { return cmp.Compare(len(b), len(a)) })
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the packages of the workspace: %w", err)
		}
		var targets []target
		isLarge := slices.ContainsFunc(p.Deps, func(path string) bool { return strings.HasPrefix(path, large) })
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, name := range declaration.FindAllSubmatch(source, -1) {
				t := target{p.Dir, p.ImportPath, string(name[1]), isLarge}
				if selected.MatchString(t.String()) {
					targets = append(targets, t)
				}
			}
		}
		if targets != nil {
			found = append(found, targets)
		}
	}
}

// fuzzer fuzzes packages.
type fuzzer struct {
	cache    string // where fuzzing keeps what it finds, as go test does
	work     string // a directory for the tests' programs
	duration time.Duration
}

// fuzzPackage builds the tests of a package once, and fuzzes its targets one after the other. Fuzz tests of a large
// package are built as they are for go test: their inputs are random, and are not led to new code.
func (f *fuzzer) fuzzPackage(targets []target, report func(t target, summary string, err error)) {
	program := filepath.Join(f.work, strings.ReplaceAll(targets[0].pkg, "/", "_"))
	build := exec.Command("go", "test", "-c", "-o", program)
	if !targets[0].large {
		build.Args = append(build.Args, "-fuzz=.")
	}
	build.Dir = targets[0].dir
	out, err := build.CombinedOutput()
	for _, t := range targets {
		if err != nil {
			report(t, "", fmt.Errorf("building the tests: %w\n%s", err, out))
			continue
		}
		summary, fault := f.fuzz(program, t)
		report(t, summary, fault)
	}
}

// attempts is how often a target is fuzzed if it ends with the fuzzer's own deadline.
const attempts = 3

// fuzz returns the last line of progress.
func (f *fuzzer) fuzz(program string, t target) (summary string, err error) {
	for n := 1; ; n++ {
		test := exec.Command(program, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+f.duration.String(),
			"-test.fuzzminimizetime=1s", "-test.parallel=1", "-test.fuzzcachedir="+filepath.Join(f.cache, t.pkg))
		test.Dir = t.dir
		out, err := test.CombinedOutput()
		text := string(out)
		if err == nil {
			return lastProgress(text), nil
		}
		// When the time is over, the fuzzer may report its own deadline as a failure. Then there is no failing input, and
		// the target is fuzzed again. A target that ends so every time fails: an input may hang in it.
		own := strings.Contains(text, "context deadline exceeded") && !strings.Contains(text, "Failing input written")
		if !own || n == attempts {
			return "", fmt.Errorf("%w, in attempt %d\n%s", err, n, text)
		}
	}
}

func lastProgress(output string) string {
	last := "no progress was reported"
	for line := range strings.Lines(output) {
		if progress, ok := strings.CutPrefix(line, "fuzz: elapsed: "); ok {
			last = strings.TrimSpace(progress)
		}
	}
	return last
}
