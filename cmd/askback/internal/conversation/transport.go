package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/stdio"
)

// newTransport makes the transport to a target. The program is nil if the target is an address.
func newTransport(to cli.Target, header http.Header, most int, t *trace) (mcp.Transport, *outgoing, *program) {
	out := &outgoing{trace: t, cancelled: make(chan struct{})}
	if to.Address != nil {
		return &mcp.StreamableClientTransport{
			Endpoint:   to.Text,
			HTTPClient: &http.Client{Transport: &roundTripper{header, out}},
		}, out, nil
	}
	p := new(program)
	started := stdio.NewTransport(to.Program, most, &p.stderr)
	p.cmd = started.Cmd
	p.stderr.Each = func(line string) {
		if t != nil {
			t.line("server: %s", line)
		} else if p.last = append(p.last, line); len(p.last) > maxLast {
			p.last = p.last[1:]
		}
	}
	return &wiredTransport{started, out}, out, p
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
	stderr cli.LineWriter
	last   []string // the last lines of standard error, without a trace
}

const maxLast = 10

// failure tells how the program failed. It is nil if the program runs or ended well.
func (p *program) failure() error {
	if p == nil || p.cmd.ProcessState == nil || p.cmd.ProcessState.Success() {
		return nil
	}
	p.stderr.Flush()
	text := ""
	if len(p.last) > 0 {
		text = "\nIts standard error ends with:\n  " + strings.Join(p.last, "\n  ")
	}
	return fmt.Errorf("%s ended before it answered: %v%s", p.cmd.Path, p.cmd.ProcessState, text)
}
