package durable

import (
	"io"
	"os"
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
	expect.Fails(t, "what was not synced", WriteAndSync(pipe, "a key"), "sync")
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
