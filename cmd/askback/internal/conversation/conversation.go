// Package conversation speaks with a server for a command: it connects, answers what the server asks, shows how the
// work goes on, and parks a call that waits.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// Conversation is one command's conversation with a server. It has the flags, makes the client from them, and handles
// signals, timeouts and errors.
type Conversation struct {
	Cmd    *cobra.Command
	Tasks  taskFlags
	TaskID string // the task that the command is about, if there is one

	groups  FlagGroups
	connect connectFlags
	answer  answerFlags
	asker   *asker
}

// Exchange makes the requests of a command. It returns a function that prints the outcome once the connection is
// closed.
type Exchange func(ctx context.Context, s *client.Session) (print func() error, err error)

// FlagGroups are the groups of flags that a command has in addition to those for the connection.
type FlagGroups int

// The groups of flags.
const (
	WithAnswers  FlagGroups = 1 << iota // to answer questions
	WithTasks                           // about tasks
	WithNewTasks                        // about tasks, also those that the command begins

	ConnectOnly FlagGroups = 0 // none: the client cannot answer questions
)

// Command completes a command that speaks with a server: it registers the flags, and runs the command with the
// conversation that they describe.
func Command(cmd *cobra.Command, groups FlagGroups, run func(c *Conversation, args []string) error) *cobra.Command {
	c := &Conversation{Cmd: cmd, groups: groups}
	c.connect.register(cmd.Flags())
	if groups&WithAnswers != 0 {
		c.answer.register(cmd.Flags())
	}
	if groups&(WithTasks|WithNewTasks) != 0 {
		c.Tasks.register(cmd.Flags(), groups&WithNewTasks != 0)
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return run(c, args) }
	return cmd
}

// ProgressToken marks the progress notifications of this command's requests.
const ProgressToken = "askback"

var errTimeout = errors.New("timeout")

// Hold connects to the server at a target, runs the exchange, and prints its outcome. Called names the tool, prompt,
// resource or task in messages.
func (c *Conversation) Hold(at, called string, do Exchange) error {
	to, err := cli.ParseTarget(at)
	if err != nil {
		return err
	}
	header, err := c.connect.check(to)
	if err != nil {
		return err
	}
	if err := c.Tasks.check(); err != nil {
		return err
	}
	interrupted, stop := cli.UntilSignal(c.Cmd.Context())
	defer stop()
	ctx, fail := context.WithCancelCause(c.Cmd.Context())
	defer fail(nil)
	if c.connect.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.connect.timeout, errTimeout)
		defer cancel()
	}
	c.asker = &asker{
		target: to, called: cli.HarmlessLine(called, 200), fail: fail,
		console: newConsole(c.Cmd.ErrOrStderr()), given: new(answers), ready: make(chan struct{}),
	}
	c.asker.leaving.watch(interrupted, fail)
	cl, err := c.client()
	if err != nil {
		return err
	}

	print, err := c.converse(ctx, cl, header, do)
	c.asker.console.done()
	parked, isPending := errors.AsType[*client.PendingError](err)
	switch {
	case isPending && errors.Is(err, client.ErrPark):
		return c.park(parked)
	case err == nil:
		for _, key := range c.asker.given.neverAsked() {
			asked := c.asker.given.wasAsked()
			about := cli.DidYouMean(key, asked)
			if about == "" && len(asked) > 0 {
				about = "; it asked " + cli.Keys(asked)
			}
			cli.Warn(c.Cmd, fmt.Sprintf("the server asked no question for --answer %s%s", key, about))
		}
		return print()
	case interrupted.Err() != nil, errors.Is(err, terminal.ErrInterrupted):
		return cli.WithCode(cli.ExitInterrupted, errors.New("interrupted"))
	case errors.Is(err, errTimeout):
		return fmt.Errorf("there is no result after the %v of --timeout", c.connect.timeout)
	}
	return explain(err)
}

// client makes the client of the command from its flags.
func (c *Conversation) client() (*client.Client, error) {
	a, opts := c.asker, &client.Options{}
	if c.connect.trace {
		a.trace = newTrace(a.console)
	}
	a.watch = &watch{asker: a, dialect: dialects[c.Tasks.dialect], quiet: c.Tasks.Detach, id: c.TaskID,
		shown: c.TaskID != ""}
	if c.groups != ConnectOnly {
		roots, err := c.answer.prepare(c.Cmd, a)
		if err != nil {
			return nil, err
		}
		opts = a.options(roots)
	}
	opts.Limits.MessageBytes = int64(c.connect.most)
	opts.Implementation = &mcp.Implementation{Name: "askback", Version: cli.Version()}
	opts.SDK.ProgressNotificationHandler = func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		if req.Params.ProgressToken == ProgressToken {
			a.console.progress(req.Params)
		}
	}
	return client.New(opts), nil
}

// converse connects, runs the exchange and closes the connection.
func (c *Conversation) converse(ctx context.Context, cl *client.Client, header http.Header,
	do Exchange) (print func() error, err error) {
	a := c.asker
	transport, out, program := newTransport(a.target, header, c.connect.most, a.trace)
	late := time.AfterFunc(10*time.Second, func() {
		a.console.line("askback: still connecting to %s; --timeout gives up, --protocol-version speaks an earlier revision",
			a.target.Where())
	})
	session, err := cl.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: c.connect.version})
	late.Stop()
	if err == nil {
		a.trace.connected(session.Server(), Revision(session))
		a.connected(Revision(session))
		print, err = do(ctx, session)
		c.answerLeft(ctx, session, err)
		err = c.asker.watch.explain(err)
		if ctx.Err() != nil && (program != nil || a.session != "") {
			out.wait() // a closed connection would carry no cancellation; without a session, the end of the request is one
		}
		if closeErr := session.Close(); closeErr != nil {
			a.trace.line("closing: %v", closeErr)
		}
		if _, answered := errors.AsType[*jsonrpc.Error](err); err != nil && !answered && errors.Is(err, io.EOF) {
			err = cmp.Or(program.failure(), err)
		}
	} else if ctx.Err() == nil {
		err = cmp.Or(program.failure(), cli.Unreachable(a.target, err))
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return print, err
}

// Revision is the revision of the protocol that a session has, or empty.
func Revision(s *client.Session) string {
	if res := s.SDK().InitializeResult(); res != nil {
		return res.ProtocolVersion
	}
	return ""
}
