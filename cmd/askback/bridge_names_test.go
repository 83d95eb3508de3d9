package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// tidy starts a server whose tools say what they are.
func tidy(t *testing.T, tools ...string) (url string) {
	t.Helper()
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tidy", Version: "1"}, nil),
		&askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
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
	long := strings.Repeat("long", 20)
	a, b := tidy(t, "create", "delete", "drop", long), tidy(t, "create", "list", "purge")
	file := filepath.Join(t.TempDir(), "servers.json")
	text := fmt.Sprintf(`{"mcpServers":{
		"a": {"url": %q, "excludeTools": ["delete", "delte"], "renameTools": {"create": "new"}, "toolNameLength": 64},
		"b": {"url": %q, "includeTools": ["*"], "toolPrefix": ""}}}`, a, b)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		server      string
		args        []string
		has, hasNot []string
		calls, says string
	}{
		{file, []string{"--deny", "p?rge", "--rename", "a_drop=lose"},
			[]string{"a_new", "lose", "a_longlong", "create", "list"}, []string{"delete", "a_create", "a_drop", "purge", long},
			"a_new", "this is create"},
		{b, []string{"--allow", "*e", "--deny", "purge", "--prefix", "tidy", "--rename", "create=new"},
			[]string{"tidy_new"}, []string{"tidy_list", "tidy_purge", "create"}, "tidy_new", "this is create"},
		{a, []string{"--name-length", "20", "--allow", "long*"}, []string{"longlonglon-"}, []string{"create", long}, "", ""},
	} {
		var stderr syncBuffer
		url, _ := startBridgeTo(t, &stderr, t.TempDir(), c.server, c.args...)
		_, listed, _ := command(t, "tools", url)
		for _, name := range c.has {
			if !strings.Contains(listed, name) {
				t.Errorf("%q: there is no %s: %s", c.args, name, listed)
			}
		}
		for _, name := range c.hasNot {
			if strings.Contains("\n"+listed, "\n"+name+" ") || strings.Contains("\n"+listed, "\n"+name+"\n") {
				t.Errorf("%q: there is %s: %s", c.args, name, listed)
			}
		}
		if c.calls == "" {
			continue
		}
		if code, out, errs := command(t, "call", url, c.calls); code != 0 || !strings.Contains(out, c.says) {
			t.Errorf("%q: %s returns %d, %s, %s", c.args, c.calls, code, out, errs)
		}
		if code, _, _ := command(t, "call", url, "purge"); code == 0 {
			t.Errorf("%q: a denied tool is called", c.args)
		}
		unused := `no tool matches a pattern of what is denied at a" pattern=delte`
		if c.server == file && !strings.Contains(stderr.String(), unused) {
			t.Errorf("the log does not name the pattern without a tool: %s", &stderr)
		}
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
