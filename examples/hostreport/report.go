package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/foreign"
)

// mostOfMessage bounds the part of a message that is read for the report, in bytes.
const mostOfMessage = 1 << 20

// mostOfLine bounds a line of the report, in characters.
const mostOfLine = 10_000

// report writes a line for each thing that a host says or does.
type report struct {
	mu    sync.Mutex
	to    io.Writer
	line  []byte               // the line of standard input that is still arriving
	last  string               // the last declaration: each request of 2026-07-28 repeats it
	calls map[string]time.Time // when each call began, by its ID
}

func newReport(to io.Writer) *report { return &report{to: to, calls: make(map[string]time.Time)} }

func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.to, foreign.Line(fmt.Sprintf(format, args...), mostOfLine)) // a host may send escape sequences
}

// begun returns a function that says how long ago the call began, in whichever round that was.
func (r *report) begun(call string) func() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, known := r.calls[call]
	if !known {
		at = time.Now()
		r.calls[call] = at
	}
	return func() string { return time.Since(at).Round(time.Millisecond).String() }
}

// Write reads the messages of standard input, each of them a line. It is for an io.TeeReader, so it never fails.
func (r *report) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		if len(r.line) < mostOfMessage {
			r.line = append(r.line, part...)
		}
		if part[len(part)-1] == '\n' {
			r.read(r.line)
			r.line = r.line[:0]
		}
	}
	return len(b), nil
}

// reading reads the messages that are posted to next.
func (r *report) reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, mostOfMessage))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.read(body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, req)
	})
}

// read reports what a message says about the host. Before 2026-07-28 initialize says it, and since then the _meta of
// each request.
func (r *report) read(message []byte) {
	var m struct {
		Method string
		Params struct {
			ProtocolVersion string
			ClientInfo      mcp.Implementation
			Capabilities    json.RawMessage
			Meta            map[string]json.RawMessage `json:"_meta"`
		}
	}
	if json.Unmarshal(message, &m) != nil {
		return // the server answers it with an error
	}
	p := &m.Params
	if m.Method != "initialize" {
		if p.Meta[mcp.MetaKeyProtocolVersion] == nil {
			return
		}
		_ = json.Unmarshal(p.Meta[mcp.MetaKeyProtocolVersion], &p.ProtocolVersion) // a wrong type is reported as ""
		_ = json.Unmarshal(p.Meta[mcp.MetaKeyClientInfo], &p.ClientInfo)
		p.Capabilities = p.Meta[mcp.MetaKeyClientCapabilities]
	}
	said := fmt.Sprintf("%s %s speaks %s and declares %s", p.ClientInfo.Name, p.ClientInfo.Version,
		p.ProtocolVersion, p.Capabilities)
	r.mu.Lock()
	again := said == r.last
	r.last = said
	r.mu.Unlock()
	if !again {
		r.say("%s", said)
	}
}
