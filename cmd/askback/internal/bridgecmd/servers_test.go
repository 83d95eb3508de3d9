package bridgecmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/stdio"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Programs of a file get their own variables and those that say where things are, and nothing else.
func TestServersOfAFileAreApart(t *testing.T) {
	t.Setenv("SECRET_OF_OTHERS", "s3cret")
	path := filepath.Join(t.TempDir(), "mcp.json")
	text := `{"mcpServers":{"a":{"command":"a","env":{"OWN":"1"},"cwd":"/"},` +
		`"b c":{"command":"b"},"d":{"url":"http://h/"}}}`
	expect.Check(t, os.WriteFile(path, []byte(text), 0o600))
	var stderr bytes.Buffer
	behind := expect.Must(new(bridgeOptions).behind([]string{path}, &stderr))(t)
	if n := len(behind.servers); n != 3 || behind.servers[1].Prefix != "b-c" {
		t.Fatalf("the servers are %+v", behind.servers)
	}
	for i, own := range []bool{true, false} {
		transport := expect.Must(behind.servers[i].Connect())(t)
		cmd := transport.(*stdio.Transport).Cmd
		if slices.Contains(cmd.Env, "OWN=1") != own || strings.Contains(strings.Join(cmd.Env, " "), "s3cret") ||
			!slices.Contains(cmd.Env, "PATH="+os.Getenv("PATH")) {
			t.Errorf("the server %d has the environment %q", i, cmd.Env)
		}
	}
}

// A command line without a server, or with flags that are not for a file, is refused.
func TestServersAreNamedOnce(t *testing.T) {
	for want, o := range map[string]*bridgeOptions{
		`its own "headers"`:     {headers: []string{"A: b"}},
		"is for one server":     {version: "2025-11-25"},
		"the server is missing": {},
	} {
		args := map[string][]string{`its own "headers"`: {"x.json"}, "is for one server": {"x.json"}}[want]
		expect.Fails(t, fmt.Sprintf("%q", args)+": the error", expect.Err(o.behind(args, nil)), want)
	}
}

// What the flags say of names and sessions is said of the only server. Of a file's servers they shorten the names.
func TestFlagsAreForTheServers(t *testing.T) {
	t.Parallel()
	o := &bridgeOptions{prefix: "tidy", nameLength: 20, perCall: true, version: "2025-11-25"}
	one := expect.Must(o.behind([]string{"http://h/"}, nil))(t)
	if s := one.servers[0]; s.Prefix != "tidy" || s.NameLength != 20 || !s.SessionPerCall || s.Version != "2025-11-25" {
		t.Errorf("the only server is %+v", s)
	}
	path := filepath.Join(t.TempDir(), "mcp.json")
	text := `{"mcpServers":{"a":{"url":"http://a/","toolNameLength":16},"b":{"url":"http://b/","toolNameLength":64,` +
		`"includeTools":["x"],"excludeTools":["y"],"renameTools":{"x":"z"}},"c":{"url":"http://c/"}}}`
	expect.Check(t, os.WriteFile(path, []byte(text), 0o600))
	file := expect.Must((&bridgeOptions{nameLength: 20}).behind([]string{path}, nil))(t)
	for i, want := range []int{16, 20, 20} {
		if s := file.servers[i]; s.NameLength != want || s.SessionPerCall {
			t.Errorf("the server %d is %+v", i, s)
		}
	}
	tools := file.servers[1].Tools
	if !slices.Equal(tools.Allow, []string{"x"}) || !slices.Equal(tools.Deny, []string{"y"}) || tools.Rename["x"] != "z" {
		t.Errorf("the tools are %+v", tools)
	}
}
