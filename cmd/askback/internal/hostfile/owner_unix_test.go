//go:build unix

package hostfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file says which programs are started, so others must not write it. Secrets that others can read are told.
func TestReadLooksWhoElseCan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	secret := `{"mcpServers":{"a":{"command":"c","env":{"API_KEY":"s3cret"}},"b":{"url":"https://u:p@h/"}}}`
	clear := `{"mcpServers":{"a":{"command":"c","env":{"API_KEY":"${TOKEN}","LANG":"C"}}}}`
	for _, c := range []struct {
		text      string
		mode      os.FileMode
		warning   string
		writeable bool
	}{
		{secret, 0o600, "", false},
		{secret, 0o644, "mcpServers.a.env.API_KEY, mcpServers.b.url", false},
		{clear, 0o644, "", false},
		{clear, 0o664, "", true},
		{clear, 0o602, "", true},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		file, err := Read(path, variables)
		if c.writeable {
			if err == nil || !strings.Contains(err.Error(), "chmod go-w") {
				t.Errorf("%v: the error is %v", c.mode, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		warnings := strings.Join(file.Warnings, "\n")
		told := (c.warning != "") == (warnings != "") && strings.Contains(warnings, c.warning)
		if !told || strings.Contains(warnings, "s3cret") {
			t.Errorf("%v: the warnings are %q, want %q", c.mode, warnings, c.warning)
		}
	}
	if _, err := Read(t.TempDir(), variables); err == nil {
		t.Error("a directory is read")
	}
}
