package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// Revision is the revision of the hosts here.
const Revision = "2025-11-25"

// A Host calls tools.
type Host interface {
	// Call returns the result as it came. The error is an [*rawclient.Error] if the server answered with one.
	Call(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error)
	Close()
}

// A Session is a raw client over HTTP, which declares nothing, and so can be asked nothing.
type Session struct{ *rawclient.Client }

// OpenSession opens a session at an endpoint.
func OpenSession(ctx context.Context, url string) (*Session, error) {
	c, err := (&rawclient.Client{URL: url, Capabilities: "{}"}).Initialize(ctx, Revision)
	if err != nil {
		return nil, err
	}
	return &Session{c}, nil
}

// Call implements [Host].
func (s *Session) Call(ctx context.Context, tool string, arguments map[string]any) (result json.RawMessage, err error) {
	err = s.Client.Call(ctx, "tools/call", params(tool, arguments), &result)
	return result, err
}

// Close implements [Host].
func (s *Session) Close() {}

func params(tool string, arguments map[string]any) map[string]any {
	if arguments == nil {
		arguments = map[string]any{}
	}
	return map[string]any{"name": tool, "arguments": arguments}
}

// A Stdio is a raw client over the standard input and output of a process. It is for one goroutine.
type Stdio struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	last      int // ID of a request
	abilities map[string]any
}

// Abilities are the results of requests that a server may send to a host that can sample and has roots.
var Abilities = map[string]any{
	"sampling/createMessage": map[string]any{
		"role": "assistant", "model": "octo-1", "content": map[string]any{"type": "text", "text": "said the model"},
	},
	"roots/list": map[string]any{"roots": []any{map[string]any{"uri": "file:///octocat", "name": "octocat"}}},
}

// OpenStdio starts a process whose standard error is appended to a log, and opens a session with it. The server may
// send the requests whose results are in abilities; nil declares nothing.
func OpenStdio(cmd *exec.Cmd, log string, abilities map[string]any) (*Stdio, error) {
	s := &Stdio{cmd: cmd, abilities: abilities}
	capabilities := make(map[string]any)
	for method := range abilities {
		name, _, _ := strings.Cut(method, "/")
		capabilities[name] = map[string]any{}
	}
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stderr = file
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, err = s.request("initialize", map[string]any{
		"protocolVersion": Revision, "capabilities": capabilities,
		"clientInfo": map[string]any{"name": "raw", "version": "1"},
	})
	if err == nil {
		err = s.send(map[string]any{"method": "notifications/initialized"})
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return s, nil
}

// Call implements [Host]. When ctx is done it kills the process.
func (s *Stdio) Call(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error) {
	defer context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() })()
	return s.request("tools/call", params(tool, arguments))
}

// Tools lists the tools.
func (s *Stdio) Tools() (json.RawMessage, error) { return s.request("tools/list", map[string]any{}) }

// Close kills the process.
func (s *Stdio) Close() {
	_ = s.cmd.Process.Kill() // it may be gone
	_ = s.cmd.Wait()
}

func (s *Stdio) request(method string, params any) (json.RawMessage, error) {
	s.last++
	if err := s.send(map[string]any{"id": s.last, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		var m rawclient.Message
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%s: no message: %.200q", method, line)
		}
		switch {
		case m.Method == "" && bytes.Equal(m.ID, fmt.Append(nil, s.last)):
			if m.Error != nil {
				return nil, m.Error
			}
			return m.Result, nil
		case m.Method == "ping":
			err = s.send(map[string]any{"id": m.ID, "result": map[string]any{}})
		case m.Method != "" && m.ID != nil:
			result, declared := s.abilities[m.Method]
			if !declared {
				return nil, fmt.Errorf("%s: the server asks %s, which was not declared", method, m.Method)
			}
			err = s.send(map[string]any{"id": m.ID, "result": result})
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *Stdio) send(message map[string]any) error {
	message["jsonrpc"] = "2.0"
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = s.in.Write(append(data, '\n'))
	return err
}

// An Inspector is the command line of the MCP Inspector. Every call is a process of its own.
type Inspector struct {
	Command []string
	URL     string
}

// Call implements [Host].
func (i *Inspector) Call(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error) {
	encoded, err := json.Marshal(params(tool, arguments)["arguments"])
	if err != nil {
		return nil, err
	}
	args := append(i.Command[1:len(i.Command):len(i.Command)], "--cli", i.URL, "--transport", "http", "--format", "json",
		"--method", "tools/call", "--tool-name", tool, "--tool-args-json", string(encoded))
	cmd := exec.CommandContext(ctx, i.Command[0], args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var printed struct{ Result json.RawMessage }
	if json.Unmarshal(out, &printed) == nil && printed.Result != nil {
		return printed.Result, nil // also where the exit code says that the tool failed
	}
	return nil, fmt.Errorf("the Inspector printed no result: %v: %s", err, bytes.TrimSpace(errs.Bytes()))
}

// Close implements [Host].
func (i *Inspector) Close() {}
