// Interop runs Askback against other libraries: its client against their servers, and their clients against its
// server, in every scenario and over every transport.
//
//	cd judge/interop && go run .
//
// It builds the Go peers, installs the TypeScript SDK, and prints how many cells pass. It fails if a cell fails for
// another reason than report.go lists as the peer's, and if a failure that is listed there does not occur.
package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
)

const (
	patience   = 30 * time.Second // with one cell
	concurrent = 2                // cells at a time
)

func main() {
	only := flag.String("only", "", "run only cells with this in CLIENT/SERVER/TOOL/TRANSPORT")
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(only string) error {
	work, err := os.MkdirTemp("", "interop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs, err1 := prepare(work)
	if err := errors.Join(err1, certify(work)); err != nil {
		return err
	}
	var cells []*cell
	for _, c := range allCells() {
		if strings.Contains(c.String(), only) {
			cells = append(cells, c)
		}
	}
	var running errgroup.Group
	running.SetLimit(concurrent)
	for i, c := range cells {
		if i%50 == 0 {
			fmt.Fprintf(os.Stderr, "Running cell %d of %d\n", i+1, len(cells))
		}
		running.Go(func() error {
			c.fault = programs.run(c)
			return nil
		})
	}
	_ = running.Wait() // a fault is in its cell
	return report(os.Stdout, cells)
}

// programs are the peers, by their names: the command of each one's "server" and "client", without arguments.
type programs map[string]func(role string) []string

// prepare builds and installs the peers.
func prepare(dir string) (programs, error) {
	all := make(programs)
	for _, name := range []string{"askback", "gosdk", "mcpgo"} {
		binary := filepath.Join(dir, name)
		if err := process.BuildGo(context.Background(), binary, "./"+name); err != nil {
			return nil, fmt.Errorf("in the directory judge/interop: %w", err)
		}
		all[name] = func(role string) []string { return []string{binary, role} }
	}
	sources, err := filepath.Abs("typescript")
	if err != nil {
		return nil, err
	}
	node, err := typescript.Install(sources)
	if err != nil {
		return nil, err
	}
	for name, prefix := range map[string]string{
		"typescript": "", "typescript1": "tasks-", "exttasks": "extension-", "aisdk": "events-",
	} {
		all[name] = func(role string) []string { return []string{node, filepath.Join(sources, prefix+role+".ts")} }
	}
	return all, nil
}

// certify writes the certificate of every server of httptest, which the servers here trust, and tells the receivers of
// events that are not written in Go where it is.
func certify(dir string) error {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	pair := web.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	for name, block := range map[string]*pem.Block{
		"INTEROP_CERTIFICATE": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"INTEROP_KEY":         {Type: "PRIVATE KEY", Bytes: secret},
	} {
		file := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(file, pem.EncodeToMemory(block), 0o600), os.Setenv(name, file))
	}
	return err
}

// run runs a client against a server of its own, and says what went wrong, or nothing.
func (p programs) run(c *cell) (fault string) {
	command := append(p[c.server]("server"), c.transport.name)
	target, err := json.Marshal(command)
	if err != nil {
		return err.Error()
	}
	if c.transport.name != "stdio" {
		server, err := process.StartServer(exec.Command(command[0], command[1:]...), os.DevNull)
		if err != nil {
			return err.Error()
		}
		defer server.Kill()
		target = []byte(server.URL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command = append(p[c.client]("client"), c.transport.name, string(target), c.scenario.tool)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // for children that hold its output open
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("the client did not end in %v", patience)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "the client failed: " + strings.TrimSpace(errs.String())
	}
	return c.judge(out.Bytes())
}

// judge says what is wrong with what a client printed, or nothing.
func (c *cell) judge(printed []byte) (fault string) {
	var got struct {
		Revision string
		Result   struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(printed, &got); err != nil {
		return fmt.Sprintf("the client printed no result: %.200q", printed)
	}
	text := ""
	if len(got.Result.Content) > 0 {
		text = got.Result.Content[0].Text
	}
	switch {
	case got.Revision != c.transport.revision:
		return fmt.Sprintf("the revision is %q instead of %q", got.Revision, c.transport.revision)
	case got.Result.IsError:
		return "tool error: " + text
	case text != c.scenario.text:
		return fmt.Sprintf("the result says %q instead of %q", text, c.scenario.text)
	}
	return ""
}
