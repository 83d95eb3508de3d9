package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A host that waits is told the address of the bridge's page, and the user of the machine gets URLs that sign in there:
// each once, at the page of the right store, as long as it runs.
func TestAUserOpensThePageThatRuns(t *testing.T) {
	t.Parallel()
	state, err := os.MkdirTemp("", "askback") // sockets have short names on some systems
	expect.Check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	env := append(os.Environ(), "GORACE=atexit_sleep_ms=1", "XDG_STATE_HOME="+state)
	inboxOpen := func(args ...string) (lines []string, failed string) {
		t.Helper()
		var stderr strings.Builder
		cmd := exec.CommandContext(t.Context(), "askback", append([]string{"inbox", "open"}, args...)...)
		cmd.Env, cmd.Stderr = env, &stderr
		out, err := cmd.Output()
		if (err != nil) != (stderr.Len() > 0) {
			t.Errorf("%v, but it wrote %q", err, stderr.String())
		}
		return strings.Fields(string(out)), stderr.String()
	}
	const none = "start one with 'askback inbox serve --local'"
	if lines, failed := inboxOpen(); len(lines) > 0 || !strings.Contains(failed, none) {
		t.Errorf("no page: %q, %q", lines, failed)
	}

	var stderr harness.Log
	bridge, kill := startBridgeTo(t, &stderr, state, newStuck(t).url, "--local", "--approve", "*", "--wait", "100ms")
	var first string
	harness.Eventually(t, "the address is printed", func() bool {
		m := regexp.MustCompile(`(?m)^sign in at (\S+)$`).FindStringSubmatch(stderr.String())
		if m != nil {
			first = m[1]
		}
		return m != nil
	})
	var lines []string
	harness.Eventually(t, "it can be opened", func() bool { lines, _ = inboxOpen(); return len(lines) > 0 })
	if len(lines) != 1 || strings.Split(lines[0], "#")[0] != strings.Split(first, "#")[0] {
		t.Fatalf("opened %q, and %s is printed", lines, first)
	}
	for i, tt := range []struct {
		url  string
		want int
	}{{first, http.StatusForbidden}, {lines[0], http.StatusSeeOther}, {lines[0], http.StatusForbidden}} {
		expect.Equal(t, fmt.Sprint(i, ": the status"), useToken(t, tt.url), tt.want)
	}
	page := strings.TrimSuffix(strings.Split(first, "#")[0], "auth/")
	host, err := client.New(&client.Options{Tasks: client.TasksOff}).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: bridge}, nil)
	expect.Check(t, err)
	defer host.Close()
	harness.Eventually(t, "the host is told", func() bool { // that the call is running, if the machine is slow
		told, err := host.CallTool(t.Context(), &mcp.CallToolParams{Name: "pay"})
		return err == nil && strings.Contains(told.Content[0].(*mcp.TextContent).Text, "Open "+page+" to answer.")
	})

	store := filepath.Join(state, "bridge.db")
	cmd := exec.Command("askback", "inbox", "serve", "sqlite:"+store, "--local", "--addr", "127.0.0.1:0")
	cmd.Env = env
	other, err := child.Start(cmd)
	expect.Check(t, err)
	t.Cleanup(other.Kill)
	harness.Eventually(t, "there are two", func() bool { lines, _ = inboxOpen(); return len(lines) > 1 })
	if len(lines) != 4 || lines[0] != "sqlite:"+store || lines[1] == lines[3] {
		t.Errorf("two pages: %q", lines)
	}
	if lines, failed := inboxOpen("sqlite:" + state + "/./bridge.db"); len(lines) != 4 {
		t.Errorf("of their store: %q, %s", lines, failed)
	}
	if lines, failed := inboxOpen("sqlite:other.db"); len(lines) > 0 || !strings.Contains(failed, "no page of this") {
		t.Errorf("of another store: %q, %s", lines, failed)
	}

	kill() // its socket stays
	lines, failed := inboxOpen()
	if len(lines) != 1 || failed != "" {
		t.Errorf("after one was killed: %q, %s", lines, failed)
	}
	sockets := filepath.Join(state, "askback", "inbox")
	entries, err := os.ReadDir(sockets)
	expect.Check(t, err)
	long := time.Now().Add(-time.Hour)
	for _, e := range entries {
		expect.Check(t, os.Chtimes(filepath.Join(sockets, e.Name()), long, long))
	}
	if lines, failed := inboxOpen(); len(lines) != 1 || failed != "" {
		t.Errorf("after one was removed: %q, %s", lines, failed)
	}
	if left, _ := os.ReadDir(sockets); len(entries) != 2 || len(left) != 1 && runtime.GOOS != "windows" {
		t.Errorf("%d sockets, and then %d", len(entries), len(left))
	}
	if runtime.GOOS == "windows" {
		return // its directories have no modes
	}
	for _, path := range []string{sockets, filepath.Join(sockets, entries[0].Name())} {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can open %s: %v", path, info.Mode())
		}
	}
	expect.Check(t, os.Chmod(sockets, 0o755))
	if lines, failed := inboxOpen(); len(lines) > 0 || !strings.Contains(failed, "for you alone") {
		t.Errorf("a directory that others enter: %q, %s", lines, failed)
	}
}

// useToken sends the token of a URL to the page, and returns the status.
func useToken(t *testing.T, address string) int {
	t.Helper()
	at, token, _ := strings.Cut(address, "#")
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.PostForm(at, url.Values{"token": {token}})
	expect.Check(t, err)
	res.Body.Close()
	return res.StatusCode
}
