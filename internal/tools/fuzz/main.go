// Fuzz runs every fuzz test of every module of the workspace for a short while, so that a new one is never forgotten.
//
//	go run ./internal/tools/fuzz [-time 10s] [-keep 20] [-list] [REGEXP]
//
// The regular expression selects targets by IMPORTPATH.NAME. A failing input is written below testdata/fuzz of its
// package, where go test finds it again. With -keep, the smallest inputs that reached new code are added there.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	duration := flag.Duration("time", 10*time.Second, "how long to fuzz each target")
	concurrent := flag.Int("concurrent", 2, "how many targets to fuzz at once, each on one processor")
	keep := flag.Int("keep", 0, "how many inputs to add to the corpus of each target")
	list := flag.Bool("list", false, "only list the targets")
	flag.Parse()
	if err := run(flag.Arg(0), *duration, *concurrent, *keep, *list); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(pattern string, duration time.Duration, concurrent, keep int, list bool) error {
	selected, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	targets, err := find()
	if err != nil {
		return err
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !selected.MatchString(t.String()) })
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz test matches %q; -list shows all", pattern)
	}
	if list {
		for _, t := range targets {
			fmt.Println(t)
		}
		return nil
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	slots := make(chan struct{}, max(1, concurrent))
	begun := time.Now()
	for _, t := range targets {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			summary, err := t.fuzz(duration)
			if err == nil && keep > 0 {
				err = t.keep(keep)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, t.String())
				summary = err.Error()
			}
			fmt.Printf("%-70s %s\n", t, summary)
		})
	}
	all.Wait()
	fmt.Printf("%d targets in %v\n", len(targets), time.Since(begun).Round(time.Second))
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// target is one fuzz test.
type target struct{ dir, pkg, name string }

func (t target) String() string { return t.pkg + "." + t.name }

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// find reads the names from the sources, because go test -list would build every test of the workspace.
func find() ([]target, error) {
	list := exec.Command("go", "list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "work")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of the workspace: %w", err)
	}
	var targets []target
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return targets, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the packages of the workspace: %w", err)
		}
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, found := range declaration.FindAllSubmatch(source, -1) {
				targets = append(targets, target{p.Dir, p.ImportPath, string(found[1])})
			}
		}
	}
}

// fuzz returns the last line of progress.
func (t target) fuzz(duration time.Duration) (summary string, err error) {
	for range 2 {
		test := exec.Command("go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+duration.String(), "-fuzzminimizetime=1s", "-parallel=1", ".")
		test.Dir = t.dir
		out, err := test.CombinedOutput()
		text := string(out)
		if err == nil {
			return lastProgress(text), nil
		}
		// When the time is over, the fuzzer may report its own deadline as a failure. Then there is no failing input.
		if !strings.Contains(text, "context deadline exceeded") || strings.Contains(text, "Failing input written") {
			return "", fmt.Errorf("%w\n%s", err, text)
		}
		summary = lastProgress(text)
	}
	return summary, nil
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

// keep copies the smallest inputs that fuzzing has found from the build cache into the corpus of the repository, up to a
// number of inputs in all. Large ones would slow down every run of the tests.
func (t target) keep(most int) error {
	const largest = 2 << 10
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	found, err := os.ReadDir(filepath.Join(strings.TrimSpace(string(out)), "fuzz", t.pkg, t.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	corpus := filepath.Join(t.dir, "testdata", "fuzz", t.name)
	known, err := os.ReadDir(corpus)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	type input struct {
		name string
		data []byte
	}
	var inputs []input
	for _, entry := range found {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "fuzz", t.pkg, t.name, entry.Name()))
		if err != nil {
			return err
		}
		isKnown := slices.ContainsFunc(known, func(k os.DirEntry) bool { return k.Name() == entry.Name() })
		if len(data) <= largest && !isKnown {
			inputs = append(inputs, input{entry.Name(), data})
		}
	}
	slices.SortFunc(inputs, func(a, b input) int { return cmp.Compare(len(a.data), len(b.data)) })
	inputs = inputs[:min(len(inputs), max(0, most-len(known)))]
	if len(inputs) == 0 {
		return nil
	}
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		return err
	}
	for _, in := range inputs {
		if err := os.WriteFile(filepath.Join(corpus, in.name), in.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
