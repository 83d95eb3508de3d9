// Package tools holds what the project is checked with: the linters that its go.mod names, the fuzzer of all targets,
// and tests of what its modules bring to those who import them, and of whether every exported name has an example.
package tools

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root = "github.com/askback-mcp/askback"
	// version is that under which the modules are published for the test.
	version = "v0.0.1-importers"
)

// published are the modules that a user's build may need, by their directories, with the
// others of these that they import.
var published = map[string][]string{
	".":                    nil,
	"task/sqlite":          {"."},
	"task/postgres":        {".", "internal/test/pgtest"},
	"internal/test/pgtest": nil,
	"otelaskback":          {"."},
	"inbox":                {"."},
	"bridge":               {"."},
	"check":                {"."},
	"cmd/askback": {".", "bridge", "check", "inbox", "task/sqlite", "task/postgres", "internal/test/pgtest",
		"otelaskback"},
}

// Those who import the library get no database and no terminal: neither the module graph
// nor the download of go mod tidy has one. Those who import a store get that database.
func TestImportersGetOnlyWhatTheyImport(t *testing.T) {
	if testing.Short() {
		t.Skip("it downloads modules")
	}
	const (
		sqlite   = "modernc.org/sqlite"
		postgres = "github.com/jackc/pgx/v5"
		command  = "github.com/spf13/cobra"
		terminal = "charm.land/bubbletea/v2"
		otel     = "go.opentelemetry.io/otel"
		exporter = "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
		linter   = "honnef.co/go/tools"
		peer     = "github.com/mark3labs/mcp-go"
	)
	all := []string{sqlite, postgres, command, terminal, otel, exporter, linter, peer, "charm.land/",
		"github.com/charmbracelet/", "modernc.org/"}
	proxy := publish(t)
	for _, c := range []struct {
		name    string
		modules []string
		imports []string
		get     []string // all others of the list are not to be there
	}{
		{"library", []string{"."}, []string{"", "/askbacktest", "/client", "/seal", "/task", "/task/storetest"}, nil},
		{"task/sqlite", []string{".", "task/sqlite"}, []string{"", "/task/sqlite"}, []string{sqlite, "modernc.org/"}},
		{"task/postgres", []string{".", "task/postgres", "internal/test/pgtest"}, []string{"", "/task/postgres"},
			[]string{postgres}},
		{"bridge", []string{".", "bridge"}, []string{"", "/bridge"}, nil},
		{"otelaskback", []string{".", "otelaskback"}, []string{"", "/otelaskback"}, []string{otel}},
		{"command",
			[]string{".", "bridge", "check", "inbox", "task/sqlite", "task/postgres", "internal/test/pgtest",
				"otelaskback", "cmd/askback"}, nil,
			[]string{sqlite, postgres, command, terminal, otel, exporter, "charm.land/", "github.com/charmbracelet/",
				"modernc.org/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := &importer{t: t, dir: t.TempDir(), cache: t.TempDir(), proxy: proxy}
			source := "package main\n\nimport (\n"
			for _, p := range c.imports {
				source += fmt.Sprintf("\t_ %q\n", root+p)
			}
			i.write("main.go", source+")\n\nfunc main() {}\n")
			mod := "module example.com/importer\n\ngo 1.26.0\n"
			for _, m := range c.modules {
				mod += fmt.Sprintf("\nrequire %s %s", modulePath(m), version)
			}
			i.write("go.mod", mod+"\n")
			if c.name == "library" {
				i.run("go", "mod", "tidy") // of the others it would fetch what their tests need, too
			}
			// Everything that a build needs is loaded, and so downloaded.
			if c.name == "command" {
				i.run("go", "list", "-mod=mod", "-deps", root+"/cmd/askback")
			} else {
				i.run("go", "list", "-mod=mod", "-deps", ".")
			}
			places := map[string]string{"go.mod": i.read("go.mod"), "go.sum": i.read("go.sum"),
				"the graph": i.run("go", "list", "-mod=mod", "-m", "all"), "the download": i.downloaded()}
			for _, m := range all {
				for place, text := range places {
					has := strings.Contains("\n"+text, "\n"+m) || strings.Contains(text, "\t"+m)
					if has && !slices.Contains(c.get, m) {
						t.Errorf("%s has %s:\n%s", place, m, text)
					}
				}
				if slices.Contains(c.get, m) && !strings.Contains(places["the download"], m) {
					t.Errorf("the download lacks %s:\n%s", m, places["the download"])
				}
			}
		})
	}
}

func modulePath(dir string) string { return path.Join(root, dir) }

// importer is a module outside of the workspace, with a module cache of its own.
type importer struct {
	t                 *testing.T
	dir, cache, proxy string
}

func (i *importer) write(name, text string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

func (i *importer) read(name string) string {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(i.dir, name))
	if err != nil {
		i.t.Fatal(err)
	}
	return string(data)
}

// run runs a command of Go's as an importer does: ours come from the directory proxy, all
// else from where this machine has it, and what this machine has it need not download again.
func (i *importer) run(name string, args ...string) string {
	i.t.Helper()
	cmd := exec.CommandContext(i.t.Context(), name, args...)
	cmd.Dir = i.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+i.cache,
		"GONOSUMDB="+root, "GOPROXY=file://"+i.proxy+",file://"+goEnv(i.t, "GOMODCACHE")+"/cache/download,"+
			goEnv(i.t, "GOPROXY"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		i.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// downloaded lists the modules whose code is in the importer's cache.
func (i *importer) downloaded() string {
	i.t.Helper()
	var list strings.Builder
	at := filepath.Join(i.cache, "cache", "download")
	err := filepath.WalkDir(at, func(file string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".zip" {
			module, _ := filepath.Rel(at, filepath.Dir(filepath.Dir(file)))
			list.WriteString(filepath.ToSlash(module) + " " + filepath.Base(file) + "\n")
		}
		return err
	})
	if err != nil {
		i.t.Fatal(err)
	}
	return list.String()
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// publish makes a directory that is a module proxy with this checkout's modules as they
// would be released, which is with requirements of each other.
func publish(t *testing.T) string {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	for dir, needs := range published {
		from, to := filepath.Join(checkout, dir), filepath.Join(proxy, filepath.FromSlash(modulePath(dir)), "@v")
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		mod := filepath.Join(to, version+".mod")
		data, err := os.ReadFile(filepath.Join(from, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nreplace ") {
			t.Errorf("the go.mod of %s has a replacement, which holds for nobody who imports it", dir)
		}
		for _, need := range needs {
			data = fmt.Appendf(data, "\nrequire %s %s\n", modulePath(need), version)
		}
		for file, content := range map[string][]byte{
			mod:                                data,
			filepath.Join(to, "list"):          []byte(version + "\n"),
			filepath.Join(to, version+".info"): []byte(`{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`),
			filepath.Join(to, version+".zip"):  pack(t, from, modulePath(dir)+"@"+version, data),
		} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return proxy
}

// pack makes the zip file of a module: the Go files and what they embed, without the
// modules in directories below it.
func pack(t *testing.T, from, prefix string, mod []byte) []byte {
	t.Helper()
	var file strings.Builder
	z := zip.NewWriter(&file)
	add := func(name string, data []byte) error {
		w, err := z.Create(prefix + "/" + name)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	err := filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, at)
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(at, "go.mod"))
			if at != from && (nested == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if name == "go.mod" || !d.Type().IsRegular() || strings.Contains(name, "testdata"+string(filepath.Separator)) {
			return nil
		}
		data, err := os.ReadFile(at)
		if err == nil {
			err = add(filepath.ToSlash(name), data)
		}
		return err
	})
	if err == nil {
		err = add("go.mod", mod)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return []byte(file.String())
}
