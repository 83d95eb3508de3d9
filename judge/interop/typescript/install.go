// Package typescript installs packages of npm and a Node.js, as a package-lock.json pins them. This directory has the
// servers and clients that are written with the TypeScript SDK.
package typescript

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Install installs the packages of dir, such as this package's directory, unless they are there already. It returns
// the path of the Node.js among them.
func Install(dir string) (node string, err error) {
	node = filepath.Join(dir, "node_modules", ".bin", "node")
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return "", err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(lock))
	mark := filepath.Join(dir, "node_modules", ".interop-lock")
	if installed, err := os.ReadFile(mark); err == nil && string(installed) == sum {
		return node, nil
	}
	fmt.Fprintln(os.Stderr, "Installing the packages of", filepath.Base(dir))
	npm := exec.Command("npm", "ci", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Stdout, npm.Stderr = os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return "", fmt.Errorf("npm ci, which installs the packages of %s: %w", dir, err)
	}
	return node, os.WriteFile(mark, []byte(sum), 0o644)
}
