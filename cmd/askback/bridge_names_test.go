package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// tidy starts a server whose tools say what they are.
func tidy(t *testing.T, tools ...string) (url string) {
	t.Helper()
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tidy", Version: "1"}, nil),
		&askback.Options{Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	for _, tool := range tools {
		askback.AddTool(srv, &mcp.Tool{Name: tool}, func(context.Context, *askback.Call, struct{}) (string, error) {
			return "this is " + tool, nil
		})
	}
	web := httptest.NewServer(srv.HTTPHandler(nil))
	t.Cleanup(web.Close)
	return web.URL
}

// The file of the servers and the flags say which tools the bridge offers, and under which names.
func TestABridgeChoosesTools(t *testing.T) {
	t.Parallel()
	a, b := tidy(t, "create", "delete", "drop"), tidy(t, "create", "list", "purge")
	file := filepath.Join(t.TempDir(), "servers.json")
	text := fmt.Sprintf(`{"mcpServers":{
		"a": {"url": %q, "excludeTools": ["delete", "delte"], "renameTools": {"create": "new"}},
		"b": {"url": %q, "includeTools": ["*"], "toolPrefix": ""}}}`, a, b)
	expect.Check(t, os.WriteFile(file, []byte(text), 0o600))
	var stderr harness.Log
	url, _ := startBridgeTo(t, &stderr, t.TempDir(), file, "--deny", "p?rge", "--rename", "a_drop=lose")
	_, listed, _ := command(t, "tools", url)
	names := regexp.MustCompile(`(?m)^\S+$`).FindAllString(listed, -1)
	slices.Sort(names)
	expect.Same(t, "the tools", names, []string{"a_new", "askback_result", "create", "list", "lose"})
	if code, out, errs := command(t, "call", url, "a_new"); code != 0 || !strings.Contains(out, "this is create") {
		t.Errorf("a renamed tool returns %d, %s, %s", code, out, errs)
	}
	unused := `no tool matches a pattern of what is denied at a" pattern=delte`
	if !strings.Contains(stderr.String(), unused) {
		t.Errorf("the log does not name the pattern without a tool: %s", &stderr)
	}
}

// Flags that no name can have are refused before anything is started.
func TestChoicesOfToolsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, args string }{
		{"want OLD=NEW", "http://127.0.0.1:1/ --rename a"},
		{"once for each tool", "http://127.0.0.1:1/ --rename a=b --rename a=c"},
		{"letters, digits", "http://127.0.0.1:1/ --rename a=b/c"},
		{"the pattern", "http://127.0.0.1:1/ --deny ["},
		{"16 to 128", "http://127.0.0.1:1/ --name-length 9"},
		{"the prefix", "http://127.0.0.1:1/ --prefix a/b"},
		{`its own "toolPrefix"`, "servers.json --prefix a"},
	} {
		args := append([]string{"bridge", "--store", filepath.Join(t.TempDir(), "bridge.db")}, strings.Fields(c.args)...)
		if code, _, errs := command(t, args...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", c.args, code, errs)
		}
	}
}
