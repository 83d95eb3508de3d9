// Package democmd shows a call that outlives the servers that ask.
package democmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/seal"
)

const (
	demoServers  = 3
	demoBug      = 4522
	demoOriginal = 4301 // the bug is a duplicate of this one
)

// demoAnswers are the automatic answers by the key of their question.
var demoAnswers = map[string]map[string]any{
	"resolution":   {"resolution": "Duplicate"},
	"duplicate_of": {"duplicateOfId": demoOriginal},
}

// demoHints are hints for a person who answers, by the key of the question.
var demoHints = map[string]string{
	"resolution":   "Choose Duplicate, and the tool has a second question.",
	"duplicate_of": fmt.Sprintf("%d is such a bug in the tracker.", demoOriginal),
}

// Command returns 'askback demo'.
func Command() *cobra.Command {
	var auto bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See a call outlive the servers that ask",
		Long: `See a call outlive the servers that ask. Three servers, each a process of its
own, stand behind a round-robin proxy and share nothing but a key. A tool asks
two questions; the server that asked is killed before you answer, and another
one goes on.

Everything stays on this machine and is gone at the end. Without a terminal, or
with --auto, the questions are answered automatically.`,
		Example: `  askback demo
  askback demo --auto`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo(cmd.Context(), auto, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&auto, "auto", false, "answer the questions automatically")
	return cmd
}

// demo runs the demonstration. It leaves no process and no file behind.
func demo(ctx context.Context, auto bool, stdin io.Reader, stdout io.Writer) error {
	ctx, stop := cli.UntilSignal(ctx, syscall.SIGHUP)
	defer stop()
	// Writing to a closed pipe must return an error: the signal would end the process before it has cleaned up.
	signal.Ignore(syscall.SIGPIPE)

	dir, err := os.MkdirTemp("", "askback-demo-")
	if err != nil {
		return fmt.Errorf("making a directory for the demo: %w", err)
	}
	err = demonstrate(ctx, dir, auto, stdin, stdout)
	if ctx.Err() != nil || errors.Is(err, terminal.ErrInterrupted) {
		err = cli.WithCode(cli.ExitInterrupted, errors.New("interrupted"))
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// demonstrate runs the demonstration with its key and its tracker in dir.
func demonstrate(ctx context.Context, dir string, auto bool, stdin io.Reader, stdout io.Writer) (err error) {
	tracker, err := workitem.Open(ctx, filepath.Join(dir, workitem.File))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracker.Close()) }()
	keys := filepath.Join(dir, "askback.keys")
	ring, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return err
	}
	if err := keyfile.Create(keys, ring.EncodeSecrets()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program to start the servers with: %w", err)
	}
	f, err := startFleet(ctx, demoServers, self,
		"serve", "--drain-delay", "0s", "--addr", "127.0.0.1:0", "--keys", keys,
		"--data", dir, "--store", "none", "--log-level", "warn", "--until-eof")
	if err != nil {
		return err
	}
	defer f.stop()

	d := &demonstration{story: newStory(stdout), fleet: f, tracker: tracker}
	switch {
	case auto:
		d.automatic = "--auto"
	case !cli.IsTerminal(stdin) || !cli.IsTerminal(stdout):
		d.automatic = "no terminal"
	default:
		d.terminal = &terminal.Terminal{In: stdin.(*os.File), Out: stdout.(*os.File)}
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	d.story.next(invocation(self), d.automatic != "")
	return d.story.err
}

// demonstration is one call through the fleet. The story tells each step as it happens.
type demonstration struct {
	story     *story
	fleet     *fleet
	tracker   *workitem.Store
	terminal  *terminal.Terminal
	automatic string // why the answers are automatic; empty if a person answers
}

func (d *demonstration) run(ctx context.Context) error {
	bug, err := d.tracker.Item(ctx, demoBug)
	if err != nil {
		return err
	}
	d.story.begin(d.fleet, bug, d.automatic)

	c := client.New(&client.Options{Form: d.answer, OnRound: d.observe})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + d.fleet.addr + "/mcp"}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name:      "update_work_item",
		Arguments: map[string]any{"workItemId": demoBug, "fields": map[string]string{"System.State": "Resolved"}},
	})
	if err != nil {
		return err
	}
	d.story.result(result)

	history, err := d.tracker.History(ctx, demoBug)
	if err != nil {
		return err
	}
	for i, e := range history {
		if slices.ContainsFunc(history[:i], func(before workitem.Entry) bool { return before.Field == e.Field }) {
			return fmt.Errorf("the tracker has %s of %s changed twice", e.Field, bug)
		}
	}
	d.story.history(bug, history)
	d.story.sum(d.fleet)
	return nil
}

// observe tells of a round. A server that asked is killed before anybody answers.
func (d *demonstration) observe(_ context.Context, r *client.Round) error {
	s := d.fleet.served()
	if r.Err != nil || s == nil {
		return nil // the call returns the error
	}
	d.story.round(r, s)
	if !r.Final {
		d.story.kill(s, d.fleet.kill(s))
	}
	return d.story.err
}

func (d *demonstration) answer(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	if d.automatic == "" {
		d.story.hint(demoHints[q.Key])
		return d.terminal.Form(ctx, q.Server.Name, q.Message, q.Schema) // which shows the answer, too
	}
	content := demoAnswers[q.Key]
	if content == nil {
		return nil, fmt.Errorf("the demo has no answer to the question %q", q.Key)
	}
	d.story.answer(q, content)
	return &mcp.ElicitResult{Action: "accept", Content: content}, d.story.err
}
