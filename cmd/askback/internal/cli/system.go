package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
)

// StateDir returns the directory for the data of this user's servers, by the XDG conventions or the system's
// conventions.
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "askback"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "askback"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "askback"), err
}

// OpenPage opens a page in the user's browser.
func OpenPage(address string) error {
	page, err := url.Parse(address)
	if err != nil || page.Scheme != "https" && page.Scheme != "http" || page.Host == "" {
		return errors.New("only pages at http:// and https:// are opened")
	}
	return StartOpener(page.String())
}

// StartOpener starts the program of the system that opens a page or a file.
func StartOpener(what string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.Command(command[0], slices.Concat(command[1:], []string{what})...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("opening the page: %w", err)
	}
	return cmd.Process.Release() // it may run as long as the browser does
}

// DefaultCaller returns the name of the system's user who runs this process, or else the number.
func DefaultCaller() string {
	if self, err := user.Current(); err == nil && self.Username != "" {
		return self.Username
	}
	return fmt.Sprint("uid ", os.Getuid())
}
