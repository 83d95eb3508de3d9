package keyscmd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// replaceKeyFile replaces the text of a key file atomically: a reader finds the old text or the new one, also after a
// crash. The file keeps its mode and owner.
func replaceKeyFile(file, text string) error {
	old, err := os.Lstat(file)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, ".askback-keys-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the renaming there is no such file
	defer f.Close()
	if err := keepOwner(f, old); err != nil {
		return fmt.Errorf("%s belongs to another user, and the new one cannot be given to them: rotate as that user: %w",
			file, err)
	}
	if err := f.Chmod(old.Mode().Perm()); err != nil {
		return err
	}
	if err := cli.WriteAndSync(f, text); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	return cli.SyncDir(dir)
}

// checkReplaceable refuses a symbolic link, which a rename would replace instead of its target, and a special file.
func checkReplaceable(file string) error {
	info, err := os.Lstat(file)
	switch {
	case err != nil:
		return nil // the error of reading the file tells more
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := filepath.EvalSymlinks(file)
		if err != nil {
			return fmt.Errorf("key file: %w", err)
		}
		return fmt.Errorf("%s is a symbolic link: rotate the file itself, 'askback keys rotate %s'", file, target)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: want a key file, or - to read standard input and write standard output",
			file)
	}
	return nil
}
