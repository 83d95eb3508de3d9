package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/examples/workitem"
	"github.com/askback-mcp/askback/seal"
)

const (
	demoServers  = 3
	demoBug      = 4522
	demoOriginal = 4301 // of which the bug is a duplicate
)

// demoAnswers are given where nobody answers, by the questions' keys.
var demoAnswers = map[string]map[string]any{
	"resolution":   {"resolution": "Duplicate"},
	"duplicate_of": {"duplicateOfId": demoOriginal},
}

func demoCommand() *cobra.Command {
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
		Args: takes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo(cmd.Context(), auto, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&auto, "auto", false, "answer the questions automatically")
	return cmd
}

// demo runs the demonstration. It leaves no process and no file behind.
func demo(ctx context.Context, auto bool, stdin io.Reader, stdout io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	// Output that nobody reads is an error like others: it must not end the process before it has cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	defer func() {
		if ctx.Err() != nil {
			err = errors.New("interrupted: the servers are stopped, and nothing is left behind")
		}
	}()

	dir, err := os.MkdirTemp("", "askback-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tracker, err := openWorkItems(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracker.Close()) }()
	keys := filepath.Join(dir, "askback.keys")
	if err := newKeyFile(keys); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program to start the servers with: %w", err)
	}
	f, err := startFleet(ctx, demoServers, self,
		"serve", "--addr", "127.0.0.1:0", "--keys", keys, "--data", dir, "--log-level", "warn", "--until-eof")
	if err != nil {
		return err
	}
	defer f.stop()

	s := newStory(stdout)
	c := &demonstration{story: s, fleet: f, tracker: tracker}
	in, inOK := stdin.(*os.File)
	out, outOK := stdout.(*os.File)
	switch {
	case auto:
		c.automatic = "--auto"
	case !inOK || !outOK || !term.IsTerminal(in.Fd()) || !term.IsTerminal(out.Fd()):
		c.automatic = "no terminal"
	default:
		c.terminal = &terminal.Terminal{In: in, Out: out}
	}
	if err := c.run(ctx); err != nil {
		return err
	}
	s.next(commandName(self), c.automatic != "")
	return s.err
}

func newKeyFile(file string) error {
	ring, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return err
	}
	return createKeyFile(file, ring.EncodeSecrets())
}

// demonstration is one call through the fleet, told as it happens.
type demonstration struct {
	story     *story
	fleet     *fleet
	tracker   *workitem.Store
	terminal  *terminal.Terminal
	automatic string // why answers are given automatically; empty if a person gives them

	rounds, killed int
	served         map[*fleetServer]bool
}

func (d *demonstration) run(ctx context.Context) error {
	bug, err := d.tracker.Item(ctx, demoBug)
	if err != nil {
		return err
	}
	d.story.begin(d.fleet, bug, d.automatic)
	began := time.Now()
	d.served = make(map[*fleetServer]bool)

	c := client.New(&client.Options{Form: d.answer, Observe: d.observe})
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
	d.story.history(bug, history)
	d.story.sum(d.rounds, len(d.served), d.killed, time.Since(began))
	return nil
}

// observe tells of a round and, if its server asked, kills that server before anybody answers.
func (d *demonstration) observe(_ context.Context, r *client.Round) error {
	s := d.fleet.served()
	if r.Err != nil || s == nil {
		return nil // the call's error says it
	}
	d.rounds++
	d.served[s] = true
	d.story.round(r, s)
	if !r.Final {
		killed, err := d.fleet.kill(s)
		if err != nil {
			return err
		}
		if killed {
			d.killed++
		}
		d.story.kill(s, killed)
	}
	return d.story.err
}

func (d *demonstration) answer(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	if d.automatic == "" {
		d.story.hint(q.Key)
		return d.terminal.Form(ctx, q.Server.Name, q.Message, q.Schema)
	}
	content, ok := demoAnswers[q.Key]
	if !ok {
		return nil, fmt.Errorf("the demo has no answer to the question %q", q.Key)
	}
	d.story.answered(q, content, d.automatic)
	return &mcp.ElicitResult{Action: "accept", Content: content}, d.story.err
}

// commandName is how the user can start this program again.
func commandName(executable string) string {
	if !fromGoRun(executable) {
		return filepath.Base(executable)
	}
	if version() == "devel" {
		return "go run ./cmd/askback"
	}
	return "go run github.com/askback-mcp/askback/cmd/askback@" + version()
}

var _ = json.Marshal
