// Package typescript installs packages of npm and a Node.js. This directory has the servers and clients that are
// written with the TypeScript SDK.
package typescript

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Install installs the packages of dir, such as this package's directory, as its package-lock.json pins them, unless
// they are there already. It returns the path of the Node.js among them.
func Install(dir string) (node string, err error) { return install(dir, "package-lock.json", "ci") }

// Resolve installs the packages that the package.json of dir names, and whatever else they need at present.
func Resolve(dir string) (node string, err error) {
	return install(dir, "package.json", "install", "--no-package-lock")
}

// install runs npm, unless it has done so for a file with this text.
func install(dir, file string, args ...string) (node string, err error) {
	node = filepath.Join(dir, "node_modules", ".bin", "node")
	wanted, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return "", err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(wanted))
	mark := filepath.Join(dir, "node_modules", ".interop-lock")
	if installed, err := os.ReadFile(mark); err == nil && string(installed) == sum {
		return node, nil
	}
	fmt.Fprintln(os.Stderr, "Installing the packages of", filepath.Base(dir))
	npm := exec.Command("npm", append(args, "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund",
		"--loglevel=error")...)
	npm.Stdout, npm.Stderr = os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", npm, err)
	}
	return node, os.WriteFile(mark, []byte(sum), 0o644)
}
