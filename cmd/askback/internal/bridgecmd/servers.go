package bridgecmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/hostfile"
	"github.com/askback-mcp/askback/internal/stdio"
)

// behind are the servers behind a bridge.
type behind struct {
	servers  []bridge.Server
	where    string      // they are: a URL, a command line, or a file
	label    string      // the short name of where
	target   *cli.Target // the only server, or nil for the servers of a file
	warnings []string
}

// behind are the servers of the command line: a URL, a program with its arguments, or a host's file.
func (o *bridgeOptions) behind(args []string, stderr io.Writer) (*behind, error) {
	file := ""
	if len(args) == 1 && strings.HasSuffix(args[0], ".json") && !strings.Contains(args[0], "://") {
		file = args[0]
	}
	switch {
	case file != "" && len(o.headers) > 0:
		return nil, cli.Usagef("--header is for the server of a URL: in %s each server has its own \"headers\"", file)
	case file != "" && o.prefix != "":
		return nil, cli.Usagef("--prefix is for one server: in %s each server has its own \"toolPrefix\"", file)
	case file != "" && o.version != "":
		return nil, cli.Usagef("--protocol-version is for one server, and not for a file of several")
	case file != "":
		return o.serversOf(file, stderr)
	case len(args) == 0:
		return nil, cli.Usagef("the server is missing: want a URL, a program, or a file of servers")
	}
	to, err := bridgeTarget(args)
	if err != nil {
		return nil, err
	}
	if to.Address == nil && len(o.headers) > 0 {
		return nil, cli.Usagef("--header is for servers at a URL: a program has its environment")
	}
	header, err := cli.ParseHeaders(o.headers)
	if err != nil {
		return nil, err
	}
	label := ""
	if to.Address != nil {
		label = to.Address.Host
	} else {
		label = filepath.Base(to.Program[0])
	}
	return &behind{where: to.Text, label: label, target: &to, servers: []bridge.Server{{
		Identity: to.Shown(), Version: o.version, SessionPerCall: o.perCall, Prefix: o.prefix, NameLength: o.nameLength,
		Events: true, // all hosts are of one caller
		Connect: func() (mcp.Transport, error) {
			if to.Address != nil {
				return bridge.AtURL(to.Text, header), nil
			}
			return stdio.NewTransport(to.Program, o.most, linesOf("", stderr)), nil
		},
	}}}, nil
}

// serversOf are the servers of a host's file.
func (o *bridgeOptions) serversOf(file string, stderr io.Writer) (*behind, error) {
	read, err := hostfile.Read(file, os.LookupEnv)
	if err != nil {
		return nil, cli.Usagef("the file of the servers: %w", err)
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
			Events:         true,
			Connect: func() (mcp.Transport, error) {
				if s.URL != "" {
					return bridge.AtURL(s.URL, s.Header), nil
				}
				t := stdio.NewTransport(s.Program, o.most, linesOf(s.Name+": ", stderr))
				t.Cmd.Env, t.Cmd.Dir = append(hostfile.Environment(os.LookupEnv), s.Env...), s.Dir
				return t, nil
			},
		})
	}
	return b, nil
}

// unreachable explains why connecting to the only server failed.
func (b *behind) unreachable(err error) error {
	if b.target.Address == nil && errors.Is(err, mcp.ErrConnectionClosed) {
		return fmt.Errorf("%s ended before it answered; what it wrote stands above", b.target.Program[0])
	}
	return cli.Unreachable(*b.target, err)
}

// bridgeTarget is the server of the command line: a URL, or a program with its arguments.
func bridgeTarget(args []string) (cli.Target, error) {
	if len(args) == 1 {
		return cli.ParseTarget(args[0])
	}
	to := cli.Target{Text: shellJoin(args), Program: args}
	if first, err := cli.ParseTarget(args[0]); err == nil && first.Address != nil {
		return to, cli.Usagef("unexpected argument %q after the URL", args[1])
	}
	return to, nil
}

// shellJoin is the command line of a program.
func shellJoin(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = cli.ShellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

// linesOf writes the lines of a program to w, each behind a prefix, with its control characters spelt out.
func linesOf(prefix string, w io.Writer) io.Writer {
	return &cli.LineWriter{Each: func(line string) { fmt.Fprintf(w, "%s%s\n", prefix, cli.Harmless(line)) }}
}
