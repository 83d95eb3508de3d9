package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checkPark checks before a call that it can be parked in the file, which must not exist. Only a resumed call may be
// parked in the file where it was.
func checkPark(file, resumed string) error {
	if file == "-" || file == resumed && file != "" {
		return nil
	}
	if _, err := os.Lstat(file); err == nil {
		return usagef("--park %s: it exists already, choose another name", file)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return usagef("--park %s: there is no directory %s", file, filepath.Dir(file))
	}
	return nil
}

// writeParked writes a parked call atomically. It replaces an existing file only if replace is set.
func writeParked(file, text string, replace bool) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".askback-parked-*") // mode 0600
	if err != nil {
		return err
	}
	if err := writeAndSync(f, text); err != nil {
		os.Remove(f.Name())
		return err
	}
	if replace {
		return os.Rename(f.Name(), file)
	}
	// If another call was parked there meanwhile, this one stays in the new file.
	if linkErr := os.Link(f.Name(), file); linkErr != nil {
		return fmt.Errorf("%w; the call is in %s", linkErr, f.Name())
	}
	return os.Remove(f.Name())
}
