package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
)

// patience is how long a server may take to start or to answer, and a run to end.
const patience = time.Minute

// bench is where servers run.
type bench struct {
	node    string // the program of Node.js
	modules string // the directory of the packages
	program string // the askback command
	dir     string // of a run; the same for all, because servers name it in what they answer
}

// again is how often a server runs without the bridge, at most, to find out what varies by itself.
const again = 6

// compare runs a server without the bridge and with it.
func (b *bench) compare(ctx context.Context, s *server) (*report, error) {
	without, err := b.run(ctx, s, false)
	if err != nil {
		return nil, fmt.Errorf("without the bridge: %w", err)
	}
	with, err := b.run(ctx, s, true)
	if err != nil {
		return nil, fmt.Errorf("through the bridge: %w", err)
	}
	r := &report{tools: without.tools, requests: len(without.steps)}
	var found []difference
	for _, d := range compare(nil, nil, without.steps, with.steps) {
		if d.why = explain(d); d.why != "" {
			r.explained = append(r.explained, d)
		} else {
			found = append(found, d)
		}
	}
	for range again {
		if len(found) == 0 {
			break
		}
		other, err := b.run(ctx, s, false)
		if err != nil {
			return nil, fmt.Errorf("without the bridge: %w", err)
		}
		left := found[:0]
		for _, d := range found {
			if variesAlike(d, d.path.in(other.steps)) {
				r.vary++
			} else {
				left = append(left, d)
			}
		}
		found = left
	}
	r.differences = found
	return r, nil
}

// run starts a server in an empty directory, and returns what it answered to all requests.
func (b *bench) run(ctx context.Context, s *server, bridged bool) (_ *transcript, err error) {
	home, work := filepath.Join(b.dir, "home"), filepath.Join(b.dir, "work")
	if err := errors.Join(os.RemoveAll(b.dir), os.MkdirAll(home, 0o755), os.CopyFS(work, files)); err != nil {
		return nil, err
	}
	cmd, err := b.command(s, work, bridged)
	if err != nil {
		return nil, err
	}
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "NO_COLOR=1")
	for _, variable := range s.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(variable, placeholder, work))
	}
	log := filepath.Join(b.dir, "log")
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// What the bridge declares, too: a server may list tools only to hosts that can be asked.
	abilities := maps.Clone(rig.Abilities)
	abilities["elicitation/create"] = object{"action": "accept", "content": object{}}
	host, err := rig.OpenStdio(opening, cmd, log, abilities)
	if err != nil {
		return nil, fmt.Errorf("%w; its log ends with\n%s", err, process.Tail(log))
	}
	t := &transcript{host: host, dir: work, steps: object{}}
	t.all(ctx, s)
	if s.uses != nil {
		s.uses(ctx, t)
	}
	host.Close()
	if text := host.Strays.String(); bridged && text != "" {
		t.add("a line that is no message", text)
	}
	return t, context.Cause(ctx)
}

// command returns the command of a server, or of the bridge in front of it.
func (b *bench) command(s *server, work string, bridged bool) (*exec.Cmd, error) {
	program, err := programOf(b.modules, s.name)
	if err != nil {
		return nil, err
	}
	command := []string{b.node, program}
	for _, argument := range s.args {
		command = append(command, strings.ReplaceAll(argument, placeholder, work))
	}
	if !bridged {
		return exec.Command(command[0], command[1:]...), nil
	}
	own := filepath.Join(b.dir, "bridge")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	bridge, err := rig.NewBridge(b.program, own, command...)
	if err != nil {
		return nil, err
	}
	return bridge.Command("--wait", "1m", "--start-wait", "1m"), nil
}

// files are in the directory that servers work in.
var files = fstest.MapFS{
	"a.txt":                 {Data: []byte("octocat\nhubot\n")},
	"sub/b.md":              {Data: []byte("# Octocats\n\nThey like #fish, see [[a]].\n")},
	"vault/.obsidian/x":     {},
	"vault/Octocat.md":      {Data: []byte("---\ntags: [cat]\n---\n# Octocat\n\nIt likes fish.\n")},
	"projects/octocat/n.md": {Data: []byte("fish\n")},
	"schema.graphqls": {Data: []byte("type Query { octocat(name: String!): Cat }\n" +
		"type Cat { name: String! tentacles: Int }\n")},
}
