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
	"flag"
	"fmt"
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
	f := &fuzzer{cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz"), work: work, duration: duration}
	begun := time.Now()
	var all sync.WaitGroup
	slots := make(chan struct{}, concurrent)
	for _, p := range packages {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f.fuzzPackage(p)
		})
	}
	all.Wait()
	fmt.Printf("%d targets in %v\n", f.fuzzed, time.Since(begun).Round(time.Second))
	if len(f.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(f.failed, ", "))
	}
	return nil
}

// pkg is a package with fuzz tests, as go list describes it.
type pkg struct {
	Dir, ImportPath                 string
	Deps, TestGoFiles, XTestGoFiles []string

	targets []string // the names of those that are selected
}

// large is the part of the import paths of a database in Go, which takes many minutes to build for fuzzing.
const large = "modernc.org/"

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// find returns the packages that have selected targets, those with most of them first, which take longest. It reads
// the names from the sources, because go test -list would build every test of the workspace.
func find(selected *regexp.Regexp) (found []*pkg, err error) {
	list := exec.Command("go", "list", "-json=Dir,ImportPath,Deps,TestGoFiles,XTestGoFiles", "work")
	list.Dir = "judge" // whose workspace has every module
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of the workspace: %w", err)
	}
	for packages := json.NewDecoder(bytes.NewReader(out)); packages.More(); {
		p := new(pkg)
		if err := packages.Decode(p); err != nil {
			return nil, fmt.Errorf("listing the packages of the workspace: %w", err)
		}
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, name := range declaration.FindAllSubmatch(source, -1) {
				if target := string(name[1]); selected.MatchString(p.ImportPath + "." + target) {
					p.targets = append(p.targets, target)
				}
			}
		}
		if p.targets != nil {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b *pkg) int { return cmp.Compare(len(b.targets), len(a.targets)) })
	return found, nil
}

// fuzzer fuzzes packages.
type fuzzer struct {
	cache    string // where fuzzing keeps what it finds, as go test does
	work     string // a directory for the tests' programs
	duration time.Duration

	mu     sync.Mutex
	fuzzed int
	failed []string
}

// fuzzPackage builds the tests of a package once, and fuzzes its targets one after the other. Fuzz tests of a large
// package are built as they are for go test: their inputs are random, and are not led to new code.
func (f *fuzzer) fuzzPackage(p *pkg) {
	program := filepath.Join(f.work, strings.ReplaceAll(p.ImportPath, "/", "_"))
	build := exec.Command("go", "test", "-c", "-o", program)
	if !slices.ContainsFunc(p.Deps, func(path string) bool { return strings.HasPrefix(path, large) }) {
		build.Args = append(build.Args, "-fuzz=.")
	}
	build.Dir = p.Dir
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the tests: %w\n%s", err, out)
	}
	for _, target := range p.targets {
		summary, fault := "", err
		if fault == nil {
			summary, fault = f.fuzz(program, p, target)
		}
		f.mu.Lock()
		f.fuzzed++
		name := p.ImportPath + "." + target
		if fault != nil {
			f.failed = append(f.failed, name)
			summary = fault.Error()
		}
		fmt.Printf("%-70s %s\n", name, summary)
		f.mu.Unlock()
	}
}

// attempts is how often a target is fuzzed if it ends with the fuzzer's own deadline.
const attempts = 3

var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: (.*)$`)

// fuzz returns the last line of progress.
func (f *fuzzer) fuzz(program string, p *pkg, target string) (summary string, err error) {
	for n := 1; ; n++ {
		test := exec.Command(program, "-test.run=^$", "-test.fuzz=^"+target+"$", "-test.fuzztime="+f.duration.String(),
			"-test.fuzzminimizetime=1s", "-test.parallel=1", "-test.fuzzcachedir="+filepath.Join(f.cache, p.ImportPath))
		test.Dir = p.Dir
		out, err := test.CombinedOutput()
		text := string(out)
		if lines := progress.FindAllStringSubmatch(text, -1); err == nil && lines != nil {
			return strings.TrimSpace(lines[len(lines)-1][1]), nil
		} else if err == nil {
			return "no progress was reported", nil
		}
		// When the time is over, the fuzzer may report its own deadline as a failure. Then there is no failing input, and
		// the target is fuzzed again. A target that ends so every time fails: an input may hang in it.
		own := strings.Contains(text, "context deadline exceeded") && !strings.Contains(text, "Failing input written")
		if !own || n == attempts {
			return "", fmt.Errorf("%w, in attempt %d\n%s", err, n, text)
		}
	}
}
