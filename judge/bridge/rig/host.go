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
	"sync"

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
	return func(ctx context.Context, tool string, arguments map[string]any) (result json.RawMessage, err error) {
		err = c.Call(ctx, "tools/call", params(tool, arguments), &result)
		return result, err
	}, err
}

func params(tool string, arguments map[string]any) map[string]any {
	if arguments == nil {
		arguments = map[string]any{}
	}
	return map[string]any{"name": tool, "arguments": arguments}
}

// A Stdio is a raw client over the standard input and output of a process.
type Stdio struct {
	cmd       *exec.Cmd
	abilities map[string]any

	writing sync.Mutex
	in      io.WriteCloser

	mu      sync.Mutex
	last    int                                // ID of a request
	waiting map[string]chan *rawclient.Message // by the IDs of requests
	notices chan *rawclient.Message            // that nobody has read; of a flood the first
	strays  []byte                             // lines that are no messages
	over    chan struct{}                      // closed when nothing comes any more
	err     error                              // why; valid when over is closed
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
func OpenStdio(ctx context.Context, cmd *exec.Cmd, log string, abilities map[string]any) (*Stdio, error) {
	s := &Stdio{cmd: cmd, abilities: abilities, waiting: make(map[string]chan *rawclient.Message),
		notices: make(chan *rawclient.Message, 1000), over: make(chan struct{})}
	capabilities := make(map[string]any)
	for method := range abilities {
		name, _, _ := strings.Cut(method, "/")
		capabilities[name] = map[string]any{}
		if name == "elicitation" {
			capabilities[name] = map[string]any{"form": map[string]any{}, "url": map[string]any{}}
		}
	}
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stderr = file
	out, in, err := rawclient.Pipes(cmd, 0, strays{s})
	if err != nil {
		return nil, err
	}
	s.in = in
	go s.read(bufio.NewReader(out))
	_, err = s.Request(ctx, "initialize", map[string]any{
		"protocolVersion": Revision, "capabilities": capabilities,
		"clientInfo": map[string]any{"name": "raw", "version": "1"},
	})
	if err == nil {
		err = s.Notify("notifications/initialized", nil)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return s, nil
}

// Call is a [Host].
func (s *Stdio) Call(ctx context.Context, tool string, arguments map[string]any) (json.RawMessage, error) {
	return s.Request(ctx, "tools/call", params(tool, arguments))
}

// End closes the standard input of the process, and waits until it has ended. A process that takes longer is ended.
func (s *Stdio) End() {
	_ = s.in.Close()
	<-s.over
}

// Close kills the process.
func (s *Stdio) Close() {
	_ = s.cmd.Process.Kill() // it may be gone
	s.End()
}

// Request sends a request and waits for its result. The error is an [*rawclient.Error] if the server answered with one.
func (s *Stdio) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	_, response, err := s.Begin(method, params)
	if err != nil {
		return nil, err
	}
	return response(ctx)
}

// Begin sends a request, and returns its ID, and what waits for its result.
func (s *Stdio) Begin(method string, params any) (
	id int, response func(context.Context) (json.RawMessage, error), err error,
) {
	answer := make(chan *rawclient.Message, 1)
	s.mu.Lock()
	s.last++
	id = s.last
	s.waiting[fmt.Sprint(id)] = answer
	s.mu.Unlock()
	response = func(ctx context.Context) (json.RawMessage, error) {
		select {
		case m := <-answer:
			if m.Error != nil {
				return nil, m.Error
			}
			return m.Result, nil
		case <-s.over:
			return nil, fmt.Errorf("%s: %w", method, s.err)
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", method, context.Cause(ctx))
		}
	}
	return id, response, s.send(map[string]any{"id": id, "method": method, "params": params})
}

// Notify sends a notification. Nil params are left out.
func (s *Stdio) Notify(method string, params map[string]any) error {
	message := map[string]any{"method": method}
	if params != nil {
		message["params"] = params
	}
	return s.send(message)
}

// Notice waits for a notification of a method, and returns its parameters. What comes before it is passed over.
func (s *Stdio) Notice(ctx context.Context, method string) (json.RawMessage, error) {
	for {
		select {
		case m := <-s.notices:
			if m.Method == method {
				return m.Params, nil
			}
		case <-s.over:
			return nil, fmt.Errorf("%s: %w", method, s.err)
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", method, context.Cause(ctx))
		}
	}
}

// Strays returns the lines that the server printed beside its messages.
func (s *Stdio) Strays() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.strays)
}

type strays struct{ *Stdio }

func (s strays) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = append(s.strays, line...)
	return len(line), nil
}

// read reads what the server sends, until its output ends.
func (s *Stdio) read(lines *bufio.Reader) {
	for {
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = s.receive(line)
		}
		if err != nil {
			s.err = err
			close(s.over)
			_, _ = io.Copy(io.Discard, lines) // so that the server can write its last words
			return
		}
	}
}

func (s *Stdio) receive(line []byte) error {
	var m rawclient.Message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("%.200s: %w", line, err)
	}
	switch {
	case m.Method == "":
		s.mu.Lock()
		defer s.mu.Unlock()
		if answer := s.waiting[string(m.ID)]; answer != nil {
			delete(s.waiting, string(m.ID))
			answer <- &m
		}
		return nil
	case m.ID == nil:
		select {
		case s.notices <- &m:
		default:
		}
		return nil
	case m.Method == "ping":
		return s.send(map[string]any{"id": m.ID, "result": map[string]any{}})
	}
	result, declared := s.abilities[m.Method]
	if !declared {
		return fmt.Errorf("the server asks %s, which was not declared", m.Method)
	}
	return s.send(map[string]any{"id": m.ID, "result": result})
}

func (s *Stdio) send(message map[string]any) error {
	message["jsonrpc"] = "2.0"
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err = s.in.Write(append(data, '\n'))
	return err
}

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
