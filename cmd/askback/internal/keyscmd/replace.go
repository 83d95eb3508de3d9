package keyscmd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

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
