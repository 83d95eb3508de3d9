// Package durable writes files that are whole also after a crash: first the text is on the disk, then the name.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Create writes a new file that only its owner can open. It is an error if the file exists.
func Create(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := WriteAndSync(f, text); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return syncDir(filepath.Dir(file))
}

// Replace replaces the text of a regular file: a reader finds the old text or the new one, also after a crash. The file
// keeps its mode and owner.
func Replace(file, text string) error {
	old, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if !old.Mode().IsRegular() { // a link would be replaced, and not its target
		return fmt.Errorf("%s is not a regular file: name the file itself", file)
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
	if err := WriteAndSync(f, text); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	return syncDir(dir)
}

// WriteAndSync writes and closes a new file.
func WriteAndSync(f *os.File, text string) error {
	_, err := f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

var syncDir = SyncDir // tests look at the files at this moment

// SyncDir makes new names of files in a directory durable.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync directories
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
