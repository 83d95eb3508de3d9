package durable

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Keys are on the disk before their file has its name: a file that cannot be synced is an error.
func TestKeysAreSynced(t *testing.T) {
	t.Parallel()
	if err := WriteAndSync(openFile(t), "a key"); err != nil {
		t.Error(err)
	}
	reader, pipe, err := os.Pipe() // Linux syncs no pipe
	expect.Check(t, err)
	defer reader.Close()
	if err := WriteAndSync(pipe, "a key"); err == nil || !strings.Contains(err.Error(), "sync") {
		t.Errorf("what was not synced: %v", err)
	}
	if text, err := io.ReadAll(reader); string(text) != "a key" || err != nil {
		t.Errorf("wrote %q, %v", text, err)
	}
	if err := pipe.Close(); err == nil {
		t.Error("the file was left open")
	}
}

func openFile(t *testing.T) *os.File {
	t.Helper()
	f := expect.Must(os.CreateTemp(t.TempDir(), ""))(t)
	return f
}
