// Package rig has what the judges of the bridge share: bridges as processes, hosts that call them and can be asked
// nothing, and a person who answers at the desk.
package rig

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/judge/process"
)

// Caller is the name of everybody who calls through a bridge, and of the person who answers.
const Caller = "carol"

// A Bridge says how bridges are started. All that are started of one share its store and its keys.
type Bridge struct {
	Program string   // the askback command
	Dir     string   // of the keys and logs
	Store   string   // a file
	Server  []string // the URL of the server behind, or its command
}

// NewBridge makes keys in dir, and returns a bridge whose store is there, too.
func NewBridge(program, dir string, server ...string) (*Bridge, error) {
	b := &Bridge{Program: program, Dir: dir, Store: filepath.Join(dir, "bridge.db"), Server: server}
	return b, process.NewKeys(filepath.Join(dir, "keys"))
}

// Command returns the command of a bridge with these flags. Without --addr it serves standard input and output.
func (b *Bridge) Command(flags ...string) *exec.Cmd {
	args := []string{"bridge", "--as", Caller, "--keys", filepath.Join(b.Dir, "keys"), "--store", "sqlite:" + b.Store}
	if !strings.HasPrefix(b.Server[0], "http") {
		flags = append(flags, "--")
	}
	return exec.Command(b.Program, slices.Concat(args, flags, b.Server)...)
}

// Log is the file that all bridges append to.
func (b *Bridge) Log() string { return filepath.Join(b.Dir, "bridge.log") }

// Start starts a bridge that serves HTTP.
func (b *Bridge) Start(flags ...string) (*process.Server, error) {
	return process.StartServer(b.Command(append(flags, "--addr", "127.0.0.1:0")...), b.Log())
}
