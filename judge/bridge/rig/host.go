package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// Revision is the revision of the hosts here.
const Revision = "2025-11-25"

// A Host calls tools, and returns their results as they came. The error is an [*rawclient.Error] if the server answered
// with one.
type Host func(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error)

// OpenSession opens a session at an endpoint. It declares nothing, and so can be asked nothing.
func OpenSession(ctx context.Context, url string) (Host, error) {
	c, err := (&rawclient.Client{URL: url, Capabilities: "{}"}).Initialize(ctx, Revision)
	return HostOf(c), err
}

// HostOf returns a host that calls in a session.
func HostOf(c *rawclient.Client) Host {
	return func(ctx context.Context, tool string, arguments map[string]any) (result json.RawMessage, err error) {
		err = c.Call(ctx, "tools/call", params(tool, arguments), &result)
		return result, err
	}
}

func params(tool string, arguments map[string]any) map[string]any {
	if arguments == nil {
		arguments = map[string]any{}
	}
	return map[string]any{"name": tool, "arguments": arguments}
}

// Abilities are the results of requests that a server may send to a host that can sample and has roots.
var Abilities = map[string]any{
	"sampling/createMessage": map[string]any{
		"role": "assistant", "model": "octo-1", "content": map[string]any{"type": "text", "text": "said the model"},
	},
	"roots/list": map[string]any{"roots": []any{map[string]any{"uri": "file:///octocat", "name": "octocat"}}},
}

// A Stdio is a session with a process over its standard input and output. It answers what the server asks.
type Stdio struct {
	*rawclient.Client
	Notices chan *rawclient.Message // that nobody has read; of a flood the first. It is closed with the output.
	Strays  bytes.Buffer            // lines that are no messages; valid after Close
}

// OpenStdio starts a process whose standard error is appended to a log, and opens a session with it. The server may
// send the requests whose results are in abilities; nil declares nothing. Another request ends the process.
func OpenStdio(ctx context.Context, cmd *exec.Cmd, log string, abilities map[string]any) (*Stdio, error) {
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stderr = file
	s := &Stdio{Notices: make(chan *rawclient.Message, 1000)}
	program, err := rawclient.Start(cmd, &s.Strays)
	if err != nil {
		return nil, err
	}
	capabilities := make(map[string]any)
	for method := range abilities {
		name, _, _ := strings.Cut(method, "/")
		capabilities[name] = map[string]any{}
		if name == "elicitation" {
			capabilities[name] = map[string]any{"form": map[string]any{}, "url": map[string]any{}}
		}
	}
	declared, _ := json.Marshal(capabilities) // of texts
	client := &rawclient.Client{Program: program, Capabilities: string(declared)}
	go s.answer(client, program.Listen(context.Background()), abilities)
	if s.Client, err = client.Initialize(ctx, Revision); err != nil {
		_ = program.Close() // its error says less than the first one
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return s, nil
}

// answer answers the requests of a server, and keeps its notifications. A message that cannot be read ends the process.
func (s *Stdio) answer(c *rawclient.Client, from *rawclient.Stream, abilities map[string]any) {
	defer c.Program.Close()
	defer close(s.Notices)
	for m, err := from.Next(); err == nil; m, err = from.Next() {
		result, declared := abilities[m.Method]
		if m.Method == "ping" {
			result, declared = map[string]any{}, true
		}
		switch {
		case m.ID == nil:
			select {
			case s.Notices <- m:
			default:
			}
		case declared:
			_ = c.Answer(context.Background(), m, result) // a program that has ended needs none
		default:
			fmt.Fprintf(os.Stderr, "the server asks %s, which was not declared\n", m.Method)
			_ = c.Program.Close()
		}
	}
}

// Close closes the standard input of the process, and waits until it has ended. A process that takes longer is ended.
func (s *Stdio) Close() { _ = s.Program.Close() }

// Inspector is the command line of the MCP Inspector, at an endpoint. Every call is a process of its own.
func Inspector(command []string, url string) Host {
	return func(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error) {
		encoded, err := json.Marshal(params(tool, arguments)["arguments"])
		if err != nil {
			return nil, err
		}
		args := append(command[1:len(command):len(command)], "--cli", url, "--transport", "http", "--format", "json",
			"--method", "tools/call", "--tool-name", tool, "--tool-args-json", string(encoded))
		cmd := exec.CommandContext(ctx, command[0], args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		var printed struct{ Result json.RawMessage }
		if json.Unmarshal(out, &printed) == nil && printed.Result != nil {
			return printed.Result, nil // also where the exit code says that the tool failed
		}
		return nil, fmt.Errorf("the Inspector printed no result: %v: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
}
