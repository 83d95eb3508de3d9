package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/cmd/askback/internal/hostfile"
)

// behind are the servers behind a bridge.
type behind struct {
	servers  []bridge.Server
	where    string  // they are: a URL, a command line, or a file
	label    string  // the short name of where
	target   *target // the only server, or nil for the servers of a file
	warnings []string
}

// A bridge's own store has a file whose name begins and ends so, in the directory of stateDir.
const (
	bridgeStorePrefix = "bridge-"
	bridgeStoreSuffix = ".db"
)

// storeFile is the name of the file in which a bridge keeps its calls without --store. People recognise the server by
// the label. The digest tells servers with the same label apart.
func (b *behind) storeFile() string {
	label := strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c) || c == '.') {
			return c
		}
		return '-'
	}, b.label)
	sum := sha256.Sum256([]byte(b.where))
	return fmt.Sprintf("%s%.40s-%x%s", bridgeStorePrefix, label, sum[:6], bridgeStoreSuffix)
}

// behind are the servers of the command line: a URL, a program with its arguments, or a host's file.
func (o *bridgeOptions) behind(args []string, stderr io.Writer) (*behind, error) {
	file := ""
	if len(args) == 1 && strings.HasSuffix(args[0], ".json") && !strings.Contains(args[0], "://") {
		file = args[0]
	}
	switch {
	case file != "" && len(o.headers) > 0:
		return nil, usagef("--header is for the server of a URL: in %s each server has its own \"headers\"", file)
	case file != "" && o.prefix != "":
		return nil, usagef("--prefix is for one server: in %s each server has its own \"toolPrefix\"", file)
	case file != "" && o.version != "":
		return nil, usagef("--revision is for one server, and not for a file of several")
	case file != "":
		return o.serversOf(file, stderr)
	case len(args) == 0:
		return nil, usagef("the server is missing: want a URL, a program, or a file of servers")
	}
	to, err := bridgeTarget(args)
	if err != nil {
		return nil, err
	}
	if to.address == nil && len(o.headers) > 0 {
		return nil, usagef("--header is for servers at a URL: a program has its environment")
	}
	header, err := parseHeaders(o.headers)
	if err != nil {
		return nil, err
	}
	label := ""
	if to.address != nil {
		label = to.address.Host
	} else {
		label = filepath.Base(to.program[0])
	}
	return &behind{where: to.text, label: label, target: &to, servers: []bridge.Server{{
		Identity: to.shown(), Version: o.version, SessionPerCall: o.perCall, Prefix: o.prefix, NameLength: o.nameLength,
		Connect: func() (mcp.Transport, error) {
			if to.address != nil {
				return bridge.AtURL(to.text, header), nil
			}
			return startProgram(to.program, nil, "", o.most, linesOf("", stderr)), nil
		},
	}}}, nil
}

// serversOf are the servers of a host's file.
func (o *bridgeOptions) serversOf(file string, stderr io.Writer) (*behind, error) {
	read, err := hostfile.Read(file, os.LookupEnv)
	if err != nil {
		return nil, usagef("the file of the servers: %w", err)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	b := &behind{where: path, label: strings.TrimSuffix(filepath.Base(path), ".json"), warnings: read.Warnings}
	for _, s := range read.Servers {
		length := s.NameLength
		if o.nameLength != 0 && (length == 0 || o.nameLength < length) {
			length = o.nameLength
		}
		b.servers = append(b.servers, bridge.Server{
			Name: s.Name, Prefix: s.Prefix, Identity: s.Identity, NameLength: length,
			Tools:          bridge.Choice{Allow: s.Allow, Deny: s.Deny, Rename: s.Rename},
			SessionPerCall: s.SessionPerCall || o.perCall,
			Connect: func() (mcp.Transport, error) {
				if s.URL != "" {
					return bridge.AtURL(s.URL, s.Header), nil
				}
				named := linesOf(s.Name+": ", stderr)
				return startProgram(s.Program, append(hostfile.Environment(os.LookupEnv), s.Env...), s.Dir, o.most, named), nil
			},
		})
	}
	return b, nil
}

// bridgeTarget is the server of the command line: a URL, or a program with its arguments.
func bridgeTarget(args []string) (target, error) {
	if len(args) == 1 {
		return parseTarget(args[0])
	}
	to := target{text: shellJoin(args), program: args}
	if first, err := parseTarget(args[0]); err == nil && first.address != nil {
		return to, usagef("unexpected argument %q after the URL", args[1])
	}
	return to, nil
}

// shellJoin is the command line of a program.
func shellJoin(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

// linesOf writes the lines of a program to w, each behind a prefix, with its control characters spelt out.
func linesOf(prefix string, w io.Writer) io.Writer {
	return &lineWriter{each: func(line string) { fmt.Fprintf(w, "%s%s\n", prefix, harmless(line)) }}
}

// startProgram returns a transport that starts a program. Without an environment it gets the environment of this
// command, without the keys. Its standard error goes to stderr, and so do the lines of its standard output that are not
// messages.
func startProgram(program, env []string, dir string, most int, stderr io.Writer) mcp.Transport {
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Env, cmd.Dir, cmd.Stderr = env, dir, stderr
	cmd.WaitDelay = time.Second // for children of the program that keep its standard error open
	return &programTransport{cmd: cmd, aside: stderr, most: most}
}
