package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/askback-mcp/askback/seal"
)

const keysVariable = "ASKBACK_KEYS"

// environmentKeys is the value of [keysVariable] at the start of the process.
var environmentKeys struct {
	text string
	set  bool
}

// withholdKeys removes the keys from the environment, so that no program that the command starts inherits them: no
// server, sampler or browser.
func withholdKeys() error {
	environmentKeys.text, environmentKeys.set = os.LookupEnv(keysVariable)
	if err := os.Unsetenv(keysVariable); err != nil {
		return fmt.Errorf("keeping %s from other programs: %w", keysVariable, err)
	}
	return nil
}

// configuredKeys returns the keys of the file or, if file is empty, of the environment. Source names the place in
// messages. The ring is nil if there are no keys. The warning is that of readKeys.
func configuredKeys(file string, stdin io.Reader) (ring *seal.Ring, source, warning string, err error) {
	switch {
	case file != "":
		ring, warning, err = readKeys(file, stdin)
		return ring, file, warning, err
	case !environmentKeys.set:
		return nil, "", "", nil
	case environmentKeys.text == "":
		// The secret did not arrive. A random key in its place would fail later and on another server.
		return nil, "", "", fmt.Errorf("the environment variable %s is empty: set it to the text of a key file, or unset it", keysVariable)
	}
	if ring, err = seal.ParseRing(environmentKeys.text); err != nil {
		return nil, "", "", fmt.Errorf("the environment variable %s: %w", keysVariable, err)
	}
	return ring, keysVariable, "", nil
}

// readKeys reads a key file, or stdin for "-". The warning is not empty if every user of the machine can open the file.
func readKeys(file string, stdin io.Reader) (ring *seal.Ring, warning string, err error) {
	name := "standard input"
	if file != "-" {
		name = "key file " + file
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("%s does not exist: make it with 'askback keys new %s'", name, file)
		}
		if isExposed(info, err) {
			warning = fmt.Sprintf("%s is open to every user of this machine (mode %04o), who can forge requestState with it: chmod 600 %[1]s",
				file, info.Mode().Perm())
		}
	}
	text, err := readInput(file, stdin)
	if err == nil {
		ring, err = seal.ParseRing(string(text))
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return ring, warning, nil
}

// isExposed reports whether every user of the machine can open a file. It takes the results of Stat.
func isExposed(info fs.FileInfo, err error) bool {
	return err == nil && info.Mode().IsRegular() && runtime.GOOS != "windows" && info.Mode()&0o007 != 0
}

// createKeyFile writes a new file that only its owner can open.
func createKeyFile(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: replace its keys with 'askback keys rotate %[1]s', or choose another name", file)
	}
	if err != nil {
		return err
	}
	if err := writeAndSync(f, text); err != nil {
		os.Remove(file)
		return err
	}
	return syncDir(filepath.Dir(file))
}

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
		return fmt.Errorf("%s belongs to another user, and the new one cannot be given to them: rotate as that user: %w", file, err)
	}
	if err := f.Chmod(old.Mode().Perm()); err != nil {
		return err
	}
	if err := writeAndSync(f, text); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	return syncDir(dir)
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
		return fmt.Errorf("%s is not a regular file: want a key file, or - to read standard input and write standard output", file)
	}
	return nil
}

// writeAndSync writes and closes a new file.
func writeAndSync(f *os.File, text string) error {
	_, err := f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the new name of a file in the directory durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync directories
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
