package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The folder is synced once the file has its name, whether it is new or replaced, and an error of that is returned.
func TestNamesAreSynced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	lost := errors.New("the disk is gone")
	synced := ""
	syncDir = func(got string) error {
		text, err := os.ReadFile(file)
		if got != dir || err != nil {
			t.Errorf("%q is synced: %v", got, err)
		}
		synced = string(text)
		return lost
	}
	defer func() { syncDir = SyncDir }()
	if err := Create(file, "old"); !errors.Is(err, lost) || synced != "old" {
		t.Errorf("a new file: %q, %v", synced, err)
	}
	if err := Replace(file, "new"); !errors.Is(err, lost) || synced != "new" {
		t.Errorf("a file is replaced: %q, %v", synced, err)
	}
	if err := SyncDir(filepath.Join(dir, "none")); runtime.GOOS != "windows" && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
}

// A file keeps its mode, a link its target. What fails leaves the old file, and no other one.
func TestReplaceInOneGo(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "keys"), filepath.Join(dir, "link")
	expect.Check(t, Create(file, "old"))
	expect.Is(t, "a file is made twice", Create(file, "older"), fs.ErrExist)
	if runtime.GOOS != "windows" {
		expect.Check(t, errors.Join(os.Chmod(file, 0o640), os.Symlink("keys", link)))
		if err := Replace(link, "new"); err == nil {
			t.Error("a link was replaced")
		}
	}
	if err := Replace(file, "new"); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	info, err2 := os.Stat(file)
	if string(text) != "new" || errors.Join(err, err2) != nil || runtime.GOOS != "windows" && info.Mode() != 0o640 {
		t.Errorf("%q, %v, %v, %v", text, info.Mode(), err, err2)
	}
	if err := Replace(dir, "new"); err == nil {
		t.Error("a directory was replaced")
	}
	if all, err := filepath.Glob(filepath.Join(dir, ".askback*")); err != nil || len(all) > 0 {
		t.Errorf("left behind: %q, %v", all, err)
	}
}
