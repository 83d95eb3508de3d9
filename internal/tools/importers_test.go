// Package tools holds what the project is checked with: the linters that its go.mod names, the fuzzer of all targets,
// and tests of what its modules bring to those who import them, and of whether every exported name has an example.
package tools

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

const (
	root = "github.com/askback-mcp/askback"
	// version is the one at which the modules require each other.
	version = "v0.1.0"
)

// published are the modules that a user's build may need, by their directories.
var published = []string{".", "task/sqlite", "task/postgres", "internal/test/pgtest", "otelaskback", "inbox", "slack",
	"bridge", "check", "cmd/askback"}

// Those who import the library get no database and no terminal: neither the module graph
// nor the download of go mod tidy has one. Those who import a store get that database.
func TestImportersGetOnlyWhatTheyImport(t *testing.T) {
	judge.Skip(t)
	const (
		sqlite   = "modernc.org/sqlite"
		postgres = "github.com/jackc/pgx/v5"
		command  = "github.com/spf13/cobra"
		terminal = "charm.land/bubbletea/v2"
		otel     = "go.opentelemetry.io/otel"
		exporter = "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
		slack    = "github.com/slack-go/slack"
		linter   = "honnef.co/go/tools"
		peer     = "github.com/mark3labs/mcp-go"
	)
	all := []string{sqlite, postgres, command, terminal, otel, exporter, slack, linter, peer, "charm.land/",
		"github.com/charmbracelet/", "modernc.org/"}
	proxy := publish(t)
	for _, c := range []struct {
		module  string
		imports []string
		get     []string // all others of the list are not to be there
		test    string   // what only the module's own tests need is in the graph, and not downloaded
	}{
		{".", []string{"", "/askbacktest", "/client", "/seal", "/task", "/task/storetest"}, nil, ""},
		{"task/sqlite", []string{"", "/task/sqlite"}, []string{sqlite, "modernc.org/"}, ""},
		{"task/postgres", []string{"", "/task/postgres"}, []string{postgres}, ""},
		{"bridge", []string{"", "/bridge"}, nil, ""},
		{"otelaskback", []string{"", "/otelaskback"}, []string{otel}, ""},
		{"slack", []string{"", "/desk/chat", "/slack"}, []string{slack}, ""},
		{"cmd/askback", nil, []string{sqlite, postgres, command, terminal, "charm.land/", "github.com/charmbracelet/",
			"modernc.org/"}, otel},
	} {
		t.Run(c.module, func(t *testing.T) {
			t.Parallel()
			i := &importer{t: t, dir: t.TempDir(), cache: t.TempDir(), proxy: proxy}
			source := "package main\n\nimport (\n"
			for _, p := range c.imports {
				source += fmt.Sprintf("\t_ %q\n", root+p)
			}
			i.write("main.go", source+")\n\nfunc main() {}\n")
			i.write("go.mod", fmt.Sprintf("module example.com/importer\n\ngo 1.26.0\n\nrequire %s %s\n",
				modulePath(c.module), version))
			if c.module == "." {
				i.run("go", "mod", "tidy") // of the others it would fetch what their tests need, too
			}
			// Everything that a build needs is loaded, and so downloaded.
			if c.module == "cmd/askback" {
				i.run("go", "list", "-mod=mod", "-deps", root+"/cmd/askback")
			} else {
				i.run("go", "list", "-mod=mod", "-deps", ".")
			}
			places := map[string]string{"go.mod": i.read("go.mod"), "go.sum": i.read("go.sum"),
				"the graph": i.run("go", "list", "-mod=mod", "-m", "all"), "the download": i.downloaded()}
			for _, m := range all {
				for place, text := range places {
					has := strings.Contains("\n"+text, "\n"+m) || strings.Contains(text, "\t"+m)
					tested := m == c.test && place != "the download"
					if has && !tested && !slices.Contains(c.get, m) {
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
	expect.Check(i.t, os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600))
}

func (i *importer) read(name string) string {
	i.t.Helper()
	data := expect.Must(os.ReadFile(filepath.Join(i.dir, name)))(i.t)
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
	return output(i.t, cmd)
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
	expect.Check(i.t, err)
	return list.String()
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return output(t, exec.CommandContext(t.Context(), "go", "env", name))
}

// output runs a command, and returns what it prints.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// publish makes a directory that is a module proxy with this checkout's modules.
func publish(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	for _, dir := range published {
		from, to := filepath.Join("../..", dir), filepath.Join(proxy, filepath.FromSlash(modulePath(dir)), "@v")
		expect.Check(t, os.MkdirAll(to, 0o700))
		mod := expect.Must(os.ReadFile(filepath.Join(from, "go.mod")))(t)
		if strings.Contains(string(mod), "\nreplace ") {
			t.Errorf("the go.mod of %s has a replacement, which holds for nobody who imports it", dir)
		}
		var file bytes.Buffer
		expect.Check(t, zip.CreateFromDir(&file, module.Version{Path: modulePath(dir), Version: version}, from))
		for name, content := range map[string][]byte{
			version + ".mod":  mod,
			version + ".info": []byte(`{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`),
			version + ".zip":  file.Bytes(),
			"list":            []byte(version + "\n"),
		} {
			expect.Check(t, os.WriteFile(filepath.Join(to, name), content, 0o600))
		}
	}
	return proxy
}
