package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// conversation is what the commands that speak with a server share: their flags, the client made from them, and the
// handling of signals, timeouts and errors.
type conversation struct {
	cmd     *cobra.Command
	groups  flagGroups
	connect connectFlags
	answer  answerFlags
	tasks   taskFlags

	taskID string // the task that the command is about, if there is one
	asker  *asker
}

// exchange makes the requests of a command. It returns a function that prints the outcome once the connection is
// closed.
type exchange func(ctx context.Context, s *client.Session) (print func() error, err error)

// flagGroups are the groups of flags that a command has in addition to connectFlags.
type flagGroups int

const (
	withAnswers  flagGroups = 1 << iota // answerFlags
	withTasks                           // taskFlags
	withNewTasks                        // taskFlags, with those for new tasks

	connectOnly flagGroups = 0 // the client cannot answer questions
)

// conversationCommand completes a command that speaks with a server: it registers the flags, and runs the command with
// the conversation that they describe.
func conversationCommand(cmd *cobra.Command, groups flagGroups,
	run func(c *conversation, args []string) error) *cobra.Command {
	c := &conversation{cmd: cmd, groups: groups}
	c.connect.register(cmd.Flags())
	if groups&withAnswers != 0 {
		c.answer.register(cmd.Flags())
	}
	if groups&(withTasks|withNewTasks) != 0 {
		c.tasks.register(cmd.Flags(), groups&withNewTasks != 0)
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return run(c, args) }
	return cmd
}

// progressToken marks the progress notifications of this command's requests.
const progressToken = "askback"

var errTimeout = errors.New("timeout")

// hold connects to the server at a target, runs the exchange, and prints its outcome. Called names the tool, prompt,
// resource or task in messages.
func (c *conversation) hold(at, called string, do exchange) error {
	to, err := parseTarget(at)
	if err != nil {
		return err
	}
	header, err := c.connect.check(to)
	if err != nil {
		return err
	}
	if err := c.tasks.check(); err != nil {
		return err
	}
	interrupted, stop := untilSignal(c.cmd.Context())
	defer stop()
	ctx, fail := context.WithCancelCause(c.cmd.Context())
	defer fail(nil)
	if c.connect.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.connect.timeout, errTimeout)
		defer cancel()
	}
	c.asker = &asker{
		target: to, called: harmlessLine(called, 200), fail: fail,
		console: newConsole(c.cmd.ErrOrStderr()), given: new(answers), ready: make(chan struct{}),
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
			about := didYouMean(key, asked)
			if about == "" && len(asked) > 0 {
				about = "; it asked " + keys(asked)
			}
			warn(c.cmd, fmt.Sprintf("the server asked no question for --answer %s%s", key, about))
		}
		return print()
	case interrupted.Err() != nil, errors.Is(err, terminal.ErrInterrupted):
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case errors.Is(err, errTimeout):
		return fmt.Errorf("there is no result after the %v of --timeout", c.connect.timeout)
	}
	return explain(err)
}

// client makes the client of the command from its flags.
func (c *conversation) client() (*client.Client, error) {
	a, opts := c.asker, &client.Options{}
	if c.connect.trace {
		a.trace = newTrace(a.console)
	}
	a.watch = &watch{asker: a, dialect: dialects[c.tasks.dialect], quiet: c.tasks.detach, id: c.taskID,
		shown: c.taskID != ""}
	if c.groups != connectOnly {
		roots, err := c.answer.prepare(c.cmd, a)
		if err != nil {
			return nil, err
		}
		opts = a.options(roots)
	}
	opts.Limits.MessageBytes = int64(c.connect.most)
	opts.Implementation = &mcp.Implementation{Name: "askback", Version: version()}
	opts.SDK.ProgressNotificationHandler = func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		if req.Params.ProgressToken == progressToken {
			a.console.progress(req.Params)
		}
	}
	return client.New(opts), nil
}

// converse connects, runs the exchange and closes the connection.
func (c *conversation) converse(ctx context.Context, cl *client.Client, header http.Header,
	do exchange) (print func() error, err error) {
	a := c.asker
	transport, out, program := newTransport(a.target, header, c.connect.most, a.trace)
	late := time.AfterFunc(10*time.Second, func() {
		a.console.line("askback: still connecting to %s; --timeout gives up, --protocol-version speaks an earlier revision",
			a.target.where())
	})
	session, err := cl.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: c.connect.version})
	late.Stop()
	if err == nil {
		a.trace.connected(session.Server(), revision(session))
		a.connected(revision(session))
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
		err = unreachable(a.target, err, program)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return print, err
}

func revision(s *client.Session) string {
	if res := s.SDK().InitializeResult(); res != nil {
		return res.ProtocolVersion
	}
	return ""
}

// maxPages is how many pages of a list are read: a server can make a list as long as it likes, and a page as large as a
// message may be.
const maxPages = 16

// readPages reads a list. Page reads the page at a cursor and returns the cursor of the next one, which is empty after
// the last. With an error the list holds what came before it.
func readPages[T any](page func(cursor string) (items []*T, next string, err error)) ([]*T, error) {
	list, cursor := []*T{}, ""
	for range maxPages {
		items, next, err := page(cursor)
		list = append(list, slices.DeleteFunc(items, func(item *T) bool { return item == nil })...)
		if err != nil || next == "" {
			return list, err
		}
		cursor = next
	}
	return list, fmt.Errorf("the server's list has more than %d pages", maxPages)
}
