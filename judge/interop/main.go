// Interop runs the interoperation matrices: every client against every server, in every
// scenario, over every transport.
//
//	cd judge/interop && go run .
//
// It builds the Go peers, installs the TypeScript SDK, prints the tables and writes
// them into README.md. It fails if a cell in Askback's row or column fails for a reason
// that is not listed in known.go as the peer's, if such a listing no longer applies, and
// if a cell fails that passed when README.md was written.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == "tap" {
		if err := tapCommand(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "interop tap:", err)
			os.Exit(1)
		}
		return
	}
	only := flag.String("only", "", "run only cells with this in CLIENT/SERVER/TOOL/TRANSPORT, and write no README")
	keep := flag.String("o", "", "keep the messages of every cell in this directory")
	timeout := flag.Duration("timeout", 30*time.Second, "for one cell")
	parallel := flag.Int("parallel", 2, "cells at a time")
	flag.Parse()
	if err := run(*only, *keep, *timeout, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(only, keep string, timeout time.Duration, parallel int) error {
	if _, err := os.Stat("known.go"); err != nil {
		return errors.New("not in the directory judge/interop: run it as \"cd judge/interop && go run .\"")
	}
	work, err := filepath.Abs(keep)
	if keep == "" {
		work, err = os.MkdirTemp("", "interop")
		defer func() { os.RemoveAll(work) }()
	}
	if err == nil {
		err = os.MkdirAll(work, 0o755)
	}
	if err != nil {
		return err
	}
	m := &matrix{
		work: work, timeout: timeout,
		programs: make(map[string]func(string) []string), servers: make(map[string]*endpoint),
	}
	defer func() {
		for _, server := range m.servers {
			server.Kill()
		}
	}()
	if err := m.prepare(); err != nil {
		return err
	}
	cells := allCells(only)
	m.runAll(cells, parallel)
	versions, err := versions()
	if err != nil {
		return err
	}
	report := &report{cells, known, versions}
	fmt.Print(report.tables())
	err = report.verdict()
	if only == "" {
		err = errors.Join(err, report.writeREADME("README.md"))
	}
	return err
}

type matrix struct {
	work     string // directory for programs and records
	timeout  time.Duration
	programs map[string]func(role string) []string // the command of each peer's "server" and "client", without arguments
	servers  map[string]*endpoint                  // by their peers
}

// endpoint is an HTTP server that runs, with its URLs.
type endpoint struct {
	*child.Process
	modern, legacy string
}

// prepare builds and installs the peers, and starts their HTTP servers.
func (m *matrix) prepare() error {
	for _, name := range []string{"askback", "gosdk", "mcpgo"} {
		binary := filepath.Join(m.work, "bin", name)
		if err := command("go", "build", "-o", binary, "./"+name); err != nil {
			return err
		}
		m.programs[name] = func(role string) []string { return []string{binary, role} }
	}
	m.programs["tasks-askback"], m.programs["extension-askback"] = m.programs["askback"], m.programs["askback"]
	dir, err := filepath.Abs("typescript")
	if err != nil {
		return err
	}
	node, err := typescript.Install(dir)
	if err != nil {
		return err
	}
	for name, prefix := range map[string]string{
		"typescript": "", "tasks-typescript1": "tasks-", "extension-exttasks": "extension-",
	} {
		m.programs[name] = func(role string) []string { return []string{node, filepath.Join(dir, prefix+role+".ts")} }
	}
	for _, peer := range peers {
		server, err := m.startHTTP(peer.name)
		if err != nil {
			return err
		}
		m.servers[peer.name] = server
	}
	return nil
}

// versions says what the peers are.
func versions() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}",
		"github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	modules := strings.Fields(string(out)) // their versions, in this order
	if len(modules) != 2 {
		return "", fmt.Errorf("go list -m: unexpected output %q", out)
	}
	file, err := os.ReadFile(filepath.Join("typescript", "package.json"))
	if err != nil {
		return "", err
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(file, &manifest); err != nil {
		return "", fmt.Errorf("package.json: %w", err)
	}
	const scope = "@modelcontextprotocol/"
	return fmt.Sprintf("Askback of this tree; Go SDK %s; TypeScript SDK: client %s, server %s, node %s, v1 %s; "+
		"ext-tasks %s; mcp-go %s.",
		modules[0], manifest.Dependencies[scope+"client"], manifest.Dependencies[scope+"server"],
		manifest.Dependencies[scope+"node"], manifest.Dependencies[scope+"sdk"],
		manifest.Dependencies[scope+"ext-tasks"], modules[1]), nil
}

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// startHTTP starts a server over HTTP.
func (m *matrix) startHTTP(program string) (*endpoint, error) {
	command := append(m.programs[program]("server"), "http")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+m.work) // it is killed, and leaves what it has there
	log := filepath.Join(m.work, program+".log")
	server, line, err := process.StartReady(cmd, log)
	if err != nil {
		return nil, fmt.Errorf("the server of %s: %w", program, err)
	}
	urls := strings.Fields(line)
	if len(urls) != 2 {
		server.Kill()
		return nil, fmt.Errorf("the server of %s printed no URLs: %s", program, process.Tail(log))
	}
	return &endpoint{server, urls[0], urls[1]}, nil
}

// cell is one run of one scenario.
type cell struct {
	section        *section
	client, server string
	scenario       scenario
	transport      string
	fault          string // why it failed, or empty
}

func (c *cell) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", c.client, c.server, c.scenario.tool, c.transport)
}

func (c *cell) askbacks() bool { return c.client == "askback" || c.server == "askback" }

func allCells(only string) []*cell {
	var cells []*cell
	for _, section := range sections {
		for _, t := range section.transports {
			for _, client := range section.clients {
				for _, server := range section.servers {
					for _, s := range section.scenarios {
						c := &cell{section, client.name, server.name, s, t.name, ""}
						if strings.Contains(c.String(), only) {
							cells = append(cells, c)
						}
					}
				}
			}
		}
	}
	return cells
}

func (m *matrix) runAll(cells []*cell, parallel int) {
	var wg errgroup.Group
	wg.SetLimit(parallel)
	for i, c := range cells {
		if i%100 == 0 {
			fmt.Fprintf(os.Stderr, "Running cell %d of %d\n", i+1, len(cells))
		}
		wg.Go(func() error {
			c.fault = m.runCell(c)
			return nil
		})
	}
	_ = wg.Wait() // a fault is in its cell
}

// runCell runs a client against a server and says what went wrong, or nothing.
func (m *matrix) runCell(c *cell) string {
	tap := new(wiretap)
	record := filepath.Join(m.work, strings.ReplaceAll(c.String(), "/", "-"))
	program := c.section.prefix + c.server
	var target string
	var end func() error // ends the record
	if strings.HasSuffix(c.transport, "stdio") {
		self, err := os.Executable()
		if err != nil {
			return err.Error()
		}
		tapped := slices.Concat([]string{self, "tap", record + ".tap"}, m.programs[program]("server"), []string{"stdio"})
		command, err := json.Marshal(tapped)
		if err != nil {
			return err.Error()
		}
		target = string(command)
		_ = os.Remove(record + ".tap") // of an earlier run
		end = func() error { return tap.load(record + ".tap") }
	} else {
		server := m.servers[c.server]
		if c.section.private {
			var err error
			if server, err = m.startHTTP(program); err != nil {
				return err.Error()
			}
			defer server.Kill()
		}
		url := server.modern
		if c.transport == "legacy" {
			url = server.legacy
		}
		proxy, via, err := tap.proxy(url)
		if err != nil {
			return err.Error()
		}
		target = via
		end = func() error {
			proxy.CloseClientConnections()
			proxy.Close() // waits until all responses are recorded
			return nil
		}
	}
	stdout, fault := m.call(c, target)
	if err := end(); err != nil && fault == "" {
		return err.Error()
	}
	if fault == "" {
		fault = judgeResult(c.scenario, stdout)
	}
	if wrong := c.section.judge(c.scenario, c.transport, tap.messages); fault == "" && wrong != "" {
		fault = "on the wire: " + wrong
	}
	var messages bytes.Buffer
	for _, message := range tap.messages {
		fmt.Fprintf(&messages, "%s %s\n", message.From, message.Data)
	}
	fmt.Fprintf(&messages, "\nclient printed %s\nfault %s\n", stdout, fault)
	if err := os.WriteFile(record+".txt", messages.Bytes(), 0o644); err != nil && fault == "" {
		fault = err.Error()
	}
	return fault
}

// call runs the client's program.
func (m *matrix) call(c *cell, target string) (stdout []byte, fault string) {
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	transport := strings.TrimPrefix(c.transport, c.section.prefix)
	command := append(m.programs[c.section.prefix+c.client]("client"), transport, target, c.scenario.tool)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // for children that hold its output open
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return out.Bytes(), fmt.Sprintf("the client did not end in %v", m.timeout)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return out.Bytes(), "the client failed: " + strings.TrimSpace(errs.String())
	}
	return out.Bytes(), ""
}
