package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// target is the place of a server: an address, or a program to start.
type target struct {
	text    string
	address *url.URL // nil for a program
	program []string
}

func parseTarget(text string) (target, error) {
	t := target{text: text}
	scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
	if scheme == "http" || scheme == "https" {
		address, err := url.Parse(text)
		if err == nil && address.Port() != "" {
			_, err = strconv.ParseUint(address.Port(), 10, 16)
		}
		if err != nil || address.Host == "" {
			if strings.Contains(text, "@") { // it may have a password
				text = scheme + "://…"
			}
			return t, usagef("the target %q is not a URL, such as http://127.0.0.1:8080/mcp", text)
		}
		t.address = address
		return t, nil
	}
	var err error
	if t.program, err = splitCommand(text); err != nil {
		return t, usagef("the target %q: %w", text, err)
	}
	if len(t.program) == 0 {
		return t, usagef("the target is empty: want a URL, or the command line of a server")
	}
	return t, nil
}

// shown is the target for a command line that is printed, without its password.
func (t target) shown() string {
	if t.address != nil && t.address.User != nil {
		return t.address.Redacted()
	}
	return t.text
}

// where names the target briefly: the host, or the program.
func (t target) where() string {
	if t.address != nil {
		return t.address.Host
	}
	return filepath.Base(t.program[0])
}

// splitCommand splits a command line into words as a shell does:
//
//   - Between single quotes every character stands for itself.
//   - Between double quotes a backslash protects " and \.
//   - Elsewhere a backslash protects any character.
//
// No other character is special. Variables, wildcards and pipes need a shell, as in sh -c '…'.
func splitCommand(line string) ([]string, error) {
	var words []string
	open := false // a word has begun
	for line != "" {
		m := commandPiece.FindStringSubmatch(line)
		if m == nil && line[0] == '\\' {
			return nil, errors.New("it ends with a backslash")
		} else if m == nil {
			return nil, errors.New("a " + line[:1] + " is not closed")
		}
		line = line[len(m[0]):]
		if m[1] != "" {
			open = false
			continue
		}
		if !open {
			words = append(words, "")
			open = true
		}
		words[len(words)-1] += m[2] + protectedQuote.ReplaceAllString(m[3], "$1") + m[4] + m[5]
	}
	return words, nil
}

// The pieces of a command line: space, the two quotes, a protected character, and plain text.
var (
	commandPiece   = regexp.MustCompile(`(?s)^(?:([ \t\n\r]+)|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^ \t\n\r'"\\]+))`)
	protectedQuote = regexp.MustCompile(`\\(["\\])`)
)

// newTransport makes the transport to a target. The program is nil if the target is an address.
func newTransport(to target, header http.Header, most int, t *trace) (mcp.Transport, *outgoing, *program) {
	out := &outgoing{trace: t, cancelled: make(chan struct{})}
	if to.address != nil {
		return &mcp.StreamableClientTransport{
			Endpoint:   to.text,
			HTTPClient: &http.Client{Transport: &roundTripper{header, out}},
		}, out, nil
	}
	p := &program{cmd: exec.Command(to.program[0], to.program[1:]...)}
	p.cmd.Stderr = &p.stderr
	p.stderr.each = func(line string) {
		if t != nil {
			t.line("server: %s", line)
		} else if p.last = append(p.last, line); len(p.last) > maxLast {
			p.last = p.last[1:]
		}
	}
	p.cmd.WaitDelay = time.Second // for children of the program that keep its standard error open
	return &wiredTransport{&programTransport{cmd: p.cmd, aside: &p.stderr, most: most}, out}, out, p
}

// outgoing observes the messages that are sent, at the lowest layer.
type outgoing struct {
	trace     *trace
	once      sync.Once
	cancelled chan struct{} // closed when a cancellation was sent
}

// send sends a message, and reports it to the trace.
func (o *outgoing) send(method string, params json.RawMessage, send func() error) error {
	o.trace.sent(method, params)
	err := send()
	if method == "notifications/cancelled" {
		o.once.Do(func() { close(o.cancelled) })
	}
	return err
}

// wait waits briefly for a cancellation to be sent.
func (o *outgoing) wait() {
	select {
	case <-o.cancelled:
	case <-time.After(300 * time.Millisecond):
	}
}

// roundTripper adds the user's headers to requests. Only the server gets them: the client does not follow redirects to
// another origin.
type roundTripper struct {
	header http.Header
	out    *outgoing
}

func (t *roundTripper) RoundTrip(req *http.Request) (res *http.Response, err error) {
	if len(t.header) > 0 {
		req = req.Clone(req.Context())
		for name, values := range t.header {
			req.Header[name] = values
		}
	}
	var msg struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			_ = json.NewDecoder(body).Decode(&msg) // a response has no method
			body.Close()
		}
	}
	err = t.out.send(msg.Method, msg.Params, func() error {
		res, err = http.DefaultTransport.RoundTrip(req)
		return err
	})
	return res, err
}

// wiredTransport is a transport to a program whose messages outgoing observes.
type wiredTransport struct {
	mcp.Transport
	out *outgoing
}

func (t *wiredTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &wiredConnection{conn, t.out}, nil
}

type wiredConnection struct {
	mcp.Connection
	out *outgoing
}

func (c *wiredConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	send := func() error { return c.Connection.Write(ctx, msg) }
	if req, ok := msg.(*jsonrpc.Request); ok {
		return c.out.send(req.Method, req.Params, send)
	}
	return send()
}

// program is a server that this command has started. The trace shows its standard error. Without a trace, the last
// lines of it are shown if the program fails.
type program struct {
	cmd    *exec.Cmd
	stderr lineWriter
	last   []string // the last lines of standard error, without a trace
}

const maxLast = 10

// failure tells how the program failed. It is nil if the program runs or ended well.
func (p *program) failure() error {
	if p == nil || p.cmd.ProcessState == nil || p.cmd.ProcessState.Success() {
		return nil
	}
	p.stderr.flush()
	text := ""
	if len(p.last) > 0 {
		text = "\nIts standard error ends with:\n  " + strings.Join(p.last, "\n  ")
	}
	return fmt.Errorf("%s ended before it answered: %v%s", p.cmd.Path, p.cmd.ProcessState, text)
}

// unreachable explains why connecting failed.
func unreachable(at target, err error, p *program) error {
	if ended := p.failure(); ended != nil {
		return ended
	}
	reason := rootCause(err)
	switch {
	case at.address != nil:
		return fmt.Errorf("cannot speak to %s: %w%s", at.address.Redacted(), reason, httpHint(reason))
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		hint := ""
		if strings.Contains(at.program[0], ":") {
			hint = ": a URL begins with http:// or https://"
		}
		return fmt.Errorf("there is no program %s%s", at.program[0], hint)
	}
	if p == nil && errors.Is(err, mcp.ErrConnectionClosed) {
		return fmt.Errorf("%s ended before it answered; what it wrote stands above", at.program[0])
	}
	return fmt.Errorf("cannot speak to %s: %w", at.program[0], reason)
}

var layers = regexp.MustCompile(`^connecting: (calling "[^"]*": |sending "[^"]*": )*`)

// rootCause removes what the layers below add to an error and a user has no use for.
func rootCause(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return faultText(err)
	}
	return errors.New(layers.ReplaceAllString(err.Error(), ""))
}

func httpHint(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; is the server running?"
	case strings.Contains(text, mcp.ErrSessionMissing.Error()):
		return noSession
	case strings.Contains(text, "Unauthorized"), strings.Contains(text, "Forbidden"):
		return "; does it want --header 'Authorization: …'?"
	case strings.Contains(text, "Not Found"), strings.Contains(text, "Method Not Allowed"),
		strings.Contains(text, "Not Implemented"):
		return "; is the path right? Many servers have their endpoint at /mcp"
	}
	return ""
}
