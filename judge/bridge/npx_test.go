package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
)

// A machine has Node.js, and no Go. Its npm installs from a registry that has only our packages.
type machine struct {
	programs, home string
	environment    []string
}

// TestNPM packs the command as a release does. A host's file then starts the bridge with npx.
func TestNPM(t *testing.T) {
	t.Parallel()
	if !*withNPM {
		t.Skip("it needs npm, and is run with -npm")
	}
	m := newMachine(t, packed(t))
	b := expect.Must(rig.NewBridge("askback", m.home, askback(t), "serve", "--stdio", "--data", t.TempDir()))(t)

	t.Run("npx", func(t *testing.T) {
		cmd := m.command("npx", append([]string{"-y"}, b.Command().Args...)...)
		host, ctx := m.open(t, b, cmd)
		listTools(ctx, t, host)
		// Npm signals its shell only, so hosts close the input first.
		host.Close()
	})
	if out, err := m.command("npm", "install", "askback").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	installed := filepath.Join(m.home, "node_modules")
	launcher := filepath.Join(installed, ".bin/askback")
	t.Run("installed", func(t *testing.T) {
		cmd := m.command(launcher, b.Command().Args[1:]...)
		host, ctx := m.open(t, b, cmd)
		for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
			listTools(ctx, t, host) // also after SIGINT, which a terminal sends to the bridge itself
			expect.Check(t, cmd.Process.Signal(signal))
		}
		// The output ends when no process has it any more.
		for open := true; open; {
			select {
			case _, open = <-host.Notices:
			case <-ctx.Done():
				t.Fatal("SIGTERM does not end the bridge")
			}
		}
		if others := expect.Must(filepath.Glob(installed + "/@askback-mcp/*"))(t); len(others) != 1 {
			t.Errorf("npm installs %q, and not only the program for this platform", others)
		}
	})
	t.Run("exit code", func(t *testing.T) {
		if out, err := m.command(launcher, "nonsense").CombinedOutput(); exitCode(err) != 2 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("without optional packages", func(t *testing.T) {
		expect.Check(t, os.RemoveAll(installed+"/@askback-mcp"))
		out, err := m.command(launcher, "version").CombinedOutput()
		want := "is missing: install askback again, without --omit=optional"
		if exitCode(err) != 1 || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func exitCode(err error) int {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// open starts a bridge, and ends it with the test.
func (m *machine) open(t *testing.T, b *rig.Bridge, cmd *exec.Cmd) (*rig.Stdio, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	host, err := rig.OpenStdio(ctx, cmd, b.Log(), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, process.Tail(b.Log()))
	}
	t.Cleanup(host.Close)
	return host, ctx
}

func listTools(ctx context.Context, t *testing.T, host *rig.Stdio) {
	t.Helper()
	var tools json.RawMessage
	expect.Check(t, host.Call(ctx, "tools/list", nil, &tools))
	if !strings.Contains(string(tools), "get_weather") {
		t.Errorf("its tools are %s", tools)
	}
}

// packed returns the folder with the packages. The command stands there for what goreleaser builds.
func packed(t *testing.T) string {
	t.Helper()
	folder, dist := t.TempDir(), "dist"
	other := filepath.Join(folder, "askback.exe")
	files := map[string]any{
		dist + "/metadata.json": map[string]any{"version": "0.1.0"},
		dist + "/artifacts.json": []any{
			map[string]any{"type": "Binary", "goos": runtime.GOOS, "goarch": runtime.GOARCH, "path": askback(t)},
			map[string]any{"type": "Binary", "goos": "windows", "goarch": "arm64", "path": other},
			map[string]any{"type": "Archive", "goos": runtime.GOOS, "goarch": runtime.GOARCH, "path": "none"},
		},
		"askback.exe": "MZ",
	}
	expect.Check(t, os.Mkdir(filepath.Join(folder, dist), 0o700))
	for name, content := range files {
		expect.Check(t, os.WriteFile(filepath.Join(folder, name), expect.Must(json.Marshal(content))(t), 0o600))
	}
	packages := filepath.Join(folder, dist, "npm")
	write := exec.Command(expect.Must(filepath.Abs("../../cmd/askback/npm/packages.js"))(t))
	write.Dir = folder
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	scoped := expect.Must(filepath.Glob(packages + "/@askback-mcp/*"))(t)
	pack := exec.Command("npm", append([]string{"pack", packages + "/askback"}, scoped...)...)
	pack.Dir = packages
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return packages
}

func newMachine(t *testing.T, packages string) *machine {
	t.Helper()
	files := http.FileServer(http.Dir(packages))
	var registry *httptest.Server
	registry = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			files.ServeHTTP(w, r)
			return
		}
		about := make(map[string]any)
		file, err := os.ReadFile(filepath.Join(packages, r.URL.Path, "package.json"))
		if err != nil || json.Unmarshal(file, &about) != nil {
			http.NotFound(w, r)
			return
		}
		version := about["version"].(string)
		tarball := strings.NewReplacer("@", "", "/", "-").Replace(r.URL.Path[1:]) + "-" + version + ".tgz"
		about["dist"] = map[string]any{"tarball": registry.URL + "/" + tarball}
		_ = json.NewEncoder(w).Encode(map[string]any{ // a client that is gone needs nothing
			"name": about["name"], "dist-tags": map[string]any{"latest": version}, "versions": map[string]any{version: about},
		})
	}))
	t.Cleanup(registry.Close)

	m := &machine{programs: t.TempDir(), home: t.TempDir()}
	m.environment = []string{"PATH=" + m.programs, "HOME=" + m.home, "npm_config_registry=" + registry.URL,
		"npm_config_audit=false", "npm_config_update_notifier=false"}
	for _, name := range []string{"node", "npm", "npx", "sh"} {
		program := expect.Must(exec.LookPath(name))(t)
		expect.Check(t, os.Symlink(program, filepath.Join(m.programs, name)))
	}
	return m
}

// command is a command in the home of the user. Its name is a path, or a program of the machine.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.programs, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = m.home, m.environment
	return cmd
}
