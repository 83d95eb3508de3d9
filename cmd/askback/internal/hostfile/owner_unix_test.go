//go:build unix

package hostfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A file of headers has secrets, so nobody else may read or write it. What is no file is not opened: a pipe would wait
// for a writer.
func TestHeadersFileLooksWhoElseCan(t *testing.T) {
	dir := t.TempDir()
	path, pipe := filepath.Join(dir, "headers"), filepath.Join(dir, "pipe")
	expect.Check(t, os.WriteFile(path, []byte("Authorization: Bearer s3cret\n"), 0o600))
	expect.Check(t, syscall.Mkfifo(pipe, 0o600))
	for _, c := range []struct {
		path string
		mode os.FileMode
		want string // empty: it is read
	}{
		{path, 0o600, ""}, {path, 0o440, ""},
		{path, 0o604, "every user of this machine can read"},
		{path, 0o644, "every user of this machine can read"},
		{path, 0o602, "others can write"}, {path, 0o620, "others can write"},
		{pipe, 0o600, "is not a file"}, {dir, 0o700, "is not a file"}, {os.DevNull, 0, "is not a file"},
	} {
		if c.mode != 0 {
			expect.Check(t, os.Chmod(c.path, c.mode))
		}
		_, err := Parse([]byte(`{"mcpServers":{"a":{"url":"http://h/","headersFile":"`+c.path+`"}}}`), variables)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with the mode %v: %v, want %q", c.path, c.mode, err, c.want)
		}
	}
	expect.Fails(t, "a pipe in place of the host's file", expect.Err(Read(pipe, variables)), "is not a file")
}

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
		expect.Check(t, os.WriteFile(path, []byte(c.text), 0o600))
		expect.Check(t, os.Chmod(path, c.mode))
		file, err := Read(path, variables)
		if c.writeable {
			expect.Fails(t, fmt.Sprint(c.mode)+": the error", err, "chmod go-w")
			continue
		}
		expect.Check(t, err)
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
