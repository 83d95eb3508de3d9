package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// connectFlags say how to speak to a server.
type connectFlags struct {
	output  string
	trace   bool
	headers []string
	version string
	timeout time.Duration
}

func (f *connectFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.headers, "header", nil, "`LINE` to send over HTTP: 'Name: value' or @FILE")
	flags.StringVar(&f.output, "output", "text", "`FORMAT`: text or json")
	flags.StringVar(&f.version, "protocol-version", "", "`DATE` of the protocol's revision to speak")
	flags.DurationVar(&f.timeout, "timeout", 0, "`TIME` for everything, such as 30s")
	flags.BoolVar(&f.trace, "trace", false, "tell on standard error who sends what")
}

// check finds mistakes in flags before anything is sent.
func (f *connectFlags) check(t target) (http.Header, error) {
	if f.output != "text" && f.output != "json" {
		return nil, usagef("--output %s: want text or json", f.output)
	}
	if f.timeout < 0 {
		return nil, usagef("--timeout %v: want a time above zero", f.timeout)
	}
	if known := mcp.SupportedProtocolVersions(); f.version != "" && !slices.Contains(known, f.version) {
		return nil, usagef("--protocol-version %s: want one of %s", f.version, strings.Join(known, ", "))
	}
	if t.address == nil && len(f.headers) > 0 {
		return nil, usagef("--header is for servers at a URL: a program has its environment")
	}
	return parseHeaders(f.headers)
}

func parseHeaders(flags []string) (http.Header, error) {
	header := make(http.Header)
	for _, flag := range flags {
		lines := []string{flag}
		if file, ok := strings.CutPrefix(flag, "@"); ok {
			text, err := readInput(file, nil)
			if err != nil {
				return nil, usagef("--header: %w", err)
			}
			lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
		for _, line := range lines {
			name, value, ok := strings.Cut(line, ":")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(value, "\r\n\x00") {
				return nil, usagef("--header: want 'NAME: VALUE', such as 'Authorization: Bearer …'") // not the value: it may be secret
			}
			header.Add(name, value)
		}
	}
	return header, nil
}

// answerFlags say how to answer a server.
type answerFlags struct {
	answers []string
	file    string
	park    string
	roots   []string
	sampler string

	resumed string // the file that the call was parked in before
}

func (f *answerFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.answers, "answer", nil, "`KEY=JSON` answers the question KEY")
	flags.StringVar(&f.file, "answers", "", "JSON `FILE` of answers by key, - for stdin")
	flags.StringVar(&f.park, "park", "", "`FILE` to park in where an answer is missing")
	flags.StringArrayVar(&f.roots, "root", nil, "`PATH` or file:// URI to name as a root")
	flags.StringVar(&f.sampler, "sampler", "", "`COMMAND` for sampling: JSON in, text out")
}

// maxInput is far beyond any arguments, answers or parked call.
const maxInput = 64 << 20

// readInput reads a file, or stdin for "-".
func readInput(file string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the file %s does not exist", file)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else if stdin == nil {
		return nil, errors.New("standard input is not for this")
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxInput)
	}
	return text, err
}

// conversation is what a command has to say to a server, once it is connected.
type conversation struct {
	target  target
	called  string // what messages call it
	connect *connectFlags
	answer  *answerFlags // nil for commands in which a server may not ask
	pending *client.Pending
	do      func(ctx context.Context, s *client.Session) (mcp.Result, error)
	show    func(res mcp.Result, raw json.RawMessage) error // raw is nil if it did not come in a round
	out     outgoing
}

var errTimeout = errors.New("timeout")

// hold connects, does, and shows.
func (c *conversation) hold(cmd *cobra.Command) error {
	header, err := c.connect.check(c.target)
	if err != nil {
		return err
	}
	interrupted, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(interrupted, stop) // a second signal ends the process
	ctx, fail := context.WithCancelCause(interrupted)
	defer fail(nil)
	if c.connect.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.connect.timeout, errTimeout)
		defer cancel()
	}

	console := newConsole(cmd.ErrOrStderr())
	var t *trace
	if c.connect.trace {
		t = newTrace(console)
	}
	opts := &client.Options{}
	asker := &asker{target: c.target, called: c.called, console: console, trace: t, fail: fail, ready: make(chan struct{})}
	if c.answer != nil {
		if opts, err = c.answer.options(cmd, asker); err != nil {
			return err
		}
	}
	opts.Implementation = &mcp.Implementation{Name: "askback", Version: version()}
	opts.SDK.ProgressNotificationHandler = func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		if req.Params.ProgressToken == progressToken {
			console.progress(req.Params)
		}
	}

	res, err := c.converse(ctx, client.New(opts), header, asker)
	console.done()
	switch {
	case err == nil:
		if asker.given != nil {
			for _, key := range asker.given.neverAsked() {
				warn(cmd, fmt.Sprintf("--answer %s was not asked for", key))
			}
		}
		return c.show(res, asker.result)
	case interrupted.Err() != nil, errors.Is(err, terminal.ErrInterrupted):
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case errors.Is(err, errTimeout):
		return fmt.Errorf("there is no result after the %v of --timeout", c.connect.timeout)
	}
	if pending, ok := errors.AsType[*client.Pending](err); ok {
		return c.park(cmd, pending)
	}
	return c.explain(err)
}

// converse connects and does, and closes the connection.
func (c *conversation) converse(ctx context.Context, cl *client.Client, header http.Header, a *asker) (res mcp.Result, err error) {
	transport, program := c.transport(header, a)
	patience := time.AfterFunc(10*time.Second, func() {
		a.console.line("askback: still connecting to %s; --timeout gives up, --protocol-version speaks an earlier revision", c.target.where())
	})
	session, err := cl.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: c.connect.version})
	patience.Stop()
	if err == nil {
		a.trace.connected(session.Server(), revision(session))
		a.connected(revision(session))
		if c.pending != nil {
			res, err = resume(ctx, session, a, c.pending)
		} else {
			res, err = c.do(ctx, session)
		}
		if ctx.Err() != nil && (program != nil || a.session != "") {
			c.out.wait() // before the connection closes; elsewhere the end of the request tells the server
		}
		if closeErr := session.Close(); closeErr != nil {
			a.trace.line("closing: %v", closeErr)
		}
		if _, answered := errors.AsType[*jsonrpc.Error](err); err != nil && !answered && errors.Is(err, io.EOF) {
			err = cmp.Or(program.ended(), err)
		}
	} else if ctx.Err() == nil {
		err = c.unreachable(err, program)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

func revision(s *client.Session) string {
	if res := s.SDK().InitializeResult(); res != nil {
		return res.ProtocolVersion
	}
	return ""
}

// transport leads to the target.
func (c *conversation) transport(header http.Header, a *asker) (mcp.Transport, *program) {
	c.out = outgoing{trace: a.trace, cancelled: make(chan struct{})}
	if c.target.address != nil {
		return &mcp.StreamableClientTransport{
			Endpoint:   c.target.text,
			HTTPClient: &http.Client{Transport: &roundTripper{header, &c.out}},
		}, nil
	}
	p := &program{cmd: exec.Command(c.target.program[0], c.target.program[1:]...)}
	p.cmd.Stderr = &p.stderr
	p.stderr.each = func(line string) {
		if a.trace != nil {
			a.trace.line("server: %s", line)
		} else if p.last = append(p.last, line); len(p.last) > maxLast {
			p.last = p.last[1:]
		}
	}
	p.cmd.WaitDelay = time.Second // for what the program leaves behind with its standard error
	return &wiredTransport{&mcp.CommandTransport{Command: p.cmd, TerminateDuration: 2 * time.Second}, &c.out}, p
}

// outgoing sees what is sent, below everything that adds to it.
type outgoing struct {
	trace     *trace
	once      sync.Once
	cancelled chan struct{} // closed when the server was told that a call is
}

// send sends a message.
func (o *outgoing) send(method string, params json.RawMessage, send func() error) error {
	o.trace.sent(method, params)
	err := send()
	if method == "notifications/cancelled" {
		o.once.Do(func() { close(o.cancelled) })
	}
	return err
}

// wait waits until the server was told, but not for one that does not listen.
func (o *outgoing) wait() {
	select {
	case <-o.cancelled:
	case <-time.After(300 * time.Millisecond):
	}
}

// roundTripper adds the user's headers to requests. They go to the server only: the client follows no redirect to
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

// wiredTransport is a transport to a program.
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

// program is a server that runs for this command. What it writes to standard error is shown in a trace, and its end
// when the program cannot be spoken to.
type program struct {
	cmd    *exec.Cmd
	stderr lineWriter
	last   []string // lines that nobody saw
}

const maxLast = 10

// ended says how the program ended, if it failed by itself.
func (p *program) ended() error {
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

// lineWriter hands on what is written to it, line by line.
type lineWriter struct {
	each func(line string)

	mu   sync.Mutex
	text []byte // that has no end yet
}

const maxLine = 4096

func (w *lineWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	for {
		at := bytes.IndexByte(w.text, '\n')
		rest := at + 1
		if at < 0 {
			if len(w.text) < maxLine {
				return len(text), nil
			}
			at, rest = maxLine, maxLine
		}
		w.each(strings.TrimRight(string(w.text[:at]), "\r"))
		w.text = w.text[rest:]
	}
}

// flush hands on a last line without an end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.text) > 0 {
		w.each(string(w.text))
		w.text = nil
	}
}

// unreachable explains why there is no connection.
func (c *conversation) unreachable(err error, p *program) error {
	if ended := p.ended(); ended != nil {
		return ended
	}
	reason := rootCause(err)
	switch {
	case p == nil:
		return fmt.Errorf("cannot speak to %s: %w%s", c.target.address.Redacted(), reason, httpHint(reason))
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no program %s%s", c.target.program[0], c.target.hint())
	}
	return fmt.Errorf("cannot speak to %s: %w", c.target.program[0], reason)
}

var layers = regexp.MustCompile(`^connecting: (calling "[^"]*": |sending "[^"]*": )*`)

// rootCause leaves out what the layers below add that says nothing to a user.
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
		return "; does the server run?"
	case strings.Contains(text, "Unauthorized"), strings.Contains(text, "Forbidden"):
		return "; does it want --header 'Authorization: …'?"
	case strings.Contains(text, "Not Found"), strings.Contains(text, "Method Not Allowed"), strings.Contains(text, "Not Implemented"):
		return "; is the path right? Many servers have their endpoint at /mcp"
	}
	return ""
}

// explain adds the way out to errors of a call.
func (c *conversation) explain(err error) error {
	if _, missing := errors.AsType[*missingError](err); missing {
		return &exitError{exitWaits, err}
	}
	if _, unfit := errors.AsType[*unfitError](err); unfit {
		return usageError{err}
	}
	if _, wrong := errors.AsType[*argumentsError](err); wrong {
		return usageError{err}
	}
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && c.pending != nil {
		if expires := c.pending.Expires; expires != nil && time.Now().After(*expires) {
			return fmt.Errorf("the call waited for too long, it expired at %s: call again", expires.UTC().Format(time.RFC3339))
		}
		return fmt.Errorf("the server did not take the call back: it is not the server that asked, nor one with the same keys; or the call was for another user, or may go on only once. Call again (%w)", faultText(refused.Err))
	}
	undeclared, isUndeclared := errors.AsType[*client.UndeclaredError](err)
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	wants := ""
	if isUndeclared {
		wants = undeclared.Kind
	}
	if isFault && fault.Code == mcp.CodeMissingRequiredClientCapabilities {
		wants = string(fault.Data)
	}
	err = faultText(err)
	switch {
	case strings.Contains(wants, "roots"):
		return fmt.Errorf("%w; name some with --root", err)
	case strings.Contains(wants, "tools"):
		return fmt.Errorf("%w; give a model that can use tools with --sampler", err)
	}
	return err
}

// faultText leaves of an error that the server answered with what the server said.
func faultText(err error) error {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Errorf("the server answered with error %d: %s", fault.Code, fault.Message)
	}
	return err
}
