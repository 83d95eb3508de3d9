// Package servecmd serves the example tools.
package servecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/rules"
	"github.com/askback-mcp/askback/cmd/askback/examples/accounts"
	"github.com/askback-mcp/askback/cmd/askback/examples/deploy"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
	"github.com/askback-mcp/askback/cmd/askback/examples/primes"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
	"github.com/askback-mcp/askback/cmd/askback/examples/trivia"
	"github.com/askback-mcp/askback/cmd/askback/examples/weather"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/cmd/askback/internal/serving"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
)

const (
	defaultTTL = time.Hour      // askback.Limits.RoundTTL
	callTTL    = 24 * time.Hour // askback.Limits.CallTTL
)

type serveOptions struct {
	receipts string // the key file of receipts, or empty

	addr     string
	stdio    bool
	keys     string
	ttl      time.Duration
	data     string
	store    string
	workers  int
	lease    time.Duration
	pace     time.Duration
	release  int
	loaded   bool
	bare     bool
	untilEOF bool
	drafts   bool
	stopping serving.Flags
	hosts    []string
	user     string
	wait     time.Duration
	rules    string
	webhooks bool
}

// Command returns 'askback serve'.
func Command() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the example tools",
		Long: `Serve the example tools, which 'askback tools' lists, over HTTP at /mcp, or over
standard input and output. It prints its URL when it is ready (port 0 takes a
free one). SIGINT or SIGTERM makes /readyz fail, closes the listener after
--drain-delay, and leaves --grace to what runs. A second one stops at once.

Keys come from --keys, also after it changes, or from ` + keyfile.Variable + `. Without
any, no other server can finish what this one began. Every caller is --as. Tasks
are in tasks.db, in --data or $XDG_STATE_HOME/askback. Work items need --data.`,
		Example: `  askback serve --keys askback.keys --addr 127.0.0.1:0 --data ./data`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.stdio && cmd.Flags().Changed("addr"):
				return cli.Usagef("--stdio and --addr exclude each other")
			case o.stdio && o.drafts:
				return cli.Usagef("--stdio and --drafts exclude each other: drafts are served over HTTP only")
			case o.stdio && o.hosts != nil:
				return cli.Usagef("--stdio and --allowed-host exclude each other: only HTTP has hosts")
			case o.stdio && o.keys == "-":
				return cli.Usagef("with --stdio, standard input is the protocol's: give the keys in a file or in %s",
					keyfile.Variable)
			}
			if !cmd.Flags().Changed("as") { // an empty one is for callers without a name, who can wait for nobody
				o.user = cli.DefaultCaller()
			}
			return o.serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	flags.BoolVar(&o.stdio, "stdio", false, "serve one client on standard input and output")
	flags.StringVar(&o.keys, "keys", "", "key `FILE`, - for standard input")
	flags.DurationVar(&o.ttl, "ttl", defaultTTL, "`TIME` for a client to answer")
	flags.StringVar(&o.data, "data", "", "`DIR` to keep the example data in")
	flags.StringVar(&o.store, "store", "", "`STORE` for tasks: sqlite:PATH, postgres://… or none")
	flags.IntVar(&o.workers, "workers", 0, "run this `NUMBER` of tasks at once (default 32)")
	flags.StringVar(&o.user, "as", "", "`NAME` of every caller (default: the system's user)")
	flags.DurationVar(&o.wait, "wait", 0, "`TIME` that a client without tasks waits (default 45s)")
	flags.StringVar(&o.receipts, "receipts", "", "sign receipts with the keys of this `FILE`")
	flags.StringVar(&o.rules, "rules", "", "have this `FILE` decide about each call of a tool")
	flags.BoolVar(&o.webhooks, "webhooks", false, "also post events to https endpoints; needs keys")
	flags.DurationVar(&o.pace, "pace", 0, "stretch each step of provision_vm by this `TIME`")
	flags.BoolVar(&o.drafts, "drafts", false, "also serve peers built on the drafts of the protocol")
	flags.StringSliceVar(&o.hosts, "allowed-host", nil, "serve only requests to this `HOST`; may repeat")
	flags.IntVar(&o.release, "release", 2, "release `N` of link_accounts: 1, 2 or 3")
	flags.BoolVar(&o.loaded, "loaded", false, "hand calls of count_primes over to other servers")
	flags.BoolVar(&o.bare, "bare", false, "no requestState while there is nothing to remember")
	o.stopping.Register(flags)
	flags.BoolVar(&o.untilEOF, "until-eof", false, "stop when standard input ends")
	flags.DurationVar(&o.lease, "lease", 0, "`TIME` of the leases of tasks (default 10s)")
	for _, name := range []string{"until-eof", "lease"} {
		_ = flags.MarkHidden(name) // the flag exists
	}
	return cmd
}

// people returns how people are asked, or nil if nobody can be.
func (o *serveOptions) people(ctx context.Context, tasks *askback.Tasks) (*askback.DeskOptions, error) {
	if tasks == nil || o.user == "" || o.bare { // a desk needs the state of each round
		if o.rules != "" {
			return nil, cli.Usagef("--rules needs people who can be asked: leave out --bare, and give --store and --as a value")
		}
		return nil, nil
	}
	signer, err := serving.Receipts(ctx, o.receipts)
	if err != nil {
		return nil, err
	}
	people := &askback.DeskOptions{Wait: o.wait, Receipts: signer}
	if o.rules == "" {
		return people, nil
	}
	r, err := rules.Read(o.rules)
	if err == nil && r.Edits() {
		err = errors.New("a rule lets people edit the arguments, which only 'askback bridge' can")
	}
	if err != nil {
		return nil, cli.Usagef("--rules: %w", err)
	}
	people.Rules = r.Decide
	return people, nil
}

// check finds mistakes in the options before the server opens anything.
func (o *serveOptions) check() error {
	switch {
	case o.ttl < time.Second:
		return cli.Usagef("--ttl %v: want at least 1s", o.ttl)
	case o.workers < 0:
		return cli.Usagef("--workers %d: want at least 1, or 0 for the default", o.workers)
	case o.wait < 0:
		return cli.Usagef("--wait %v: want a time above zero, or 0 for the default", o.wait)
	case o.pace < 0:
		return cli.Usagef("--pace %v: want a time that is not negative", o.pace)
	case o.release < 1 || o.release > 3:
		return cli.Usagef("--release %d: want 1, 2 or 3", o.release)
	}
	if err := o.stopping.Check(); err != nil {
		return err
	}
	return storage.Check(o.store)
}

func (o *serveOptions) serve(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	defer serving.CollectLess()()
	log, err := o.stopping.Logger(stderr)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	ring, source, err := keyfile.Configured(ctx, o.keys, stdin)
	if err != nil {
		return err
	}

	if o.webhooks && (ring == nil || o.store == "none") {
		return cli.Usagef("--webhooks needs keys, which seal the secrets of subscribers, and tasks: give --keys, and " +
			"another --store than none")
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	if o.untilEOF {
		go func() { // the pipe ends when the parent process does, however that ends
			_, _ = io.Copy(io.Discard, stdin)
			stop()
		}()
	}

	var listener net.Listener
	if !o.stdio {
		if listener, err = serving.Listen(ctx, o.addr); err != nil {
			return err
		}
		defer listener.Close()
	}
	items, err := openWorkItems(ctx, o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	place, err := openPlace(ctx, o.data, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.close()) }()

	implementation := &mcp.Implementation{Name: "askback-examples", Title: "Askback examples", Version: cli.Version()}
	sdkOptions := &mcp.ServerOptions{}
	if log.Enabled(ctx, slog.LevelDebug) {
		sdkOptions.Logger = log
	}
	tasks := place.options(o.workers)
	if tasks != nil {
		tasks.Settings.Lease = o.lease
	}
	options := &askback.Options{
		Keys:           ring,
		Principal:      func(context.Context, *mcp.RequestExtra) (string, error) { return o.user, nil },
		BareFirstRound: o.bare,
		Limits:         askback.Limits{RoundTTL: o.ttl, CallTTL: max(o.ttl, callTTL)},
		Tasks:          tasks,
		Logger:         log,
	}
	if tasks != nil {
		options.Events = new(askback.EventOptions)
		if o.webhooks {
			options.Events.Webhooks = new(askback.WebhookOptions)
		}
	}
	if options.Desk, err = o.people(ctx, tasks); err != nil {
		return err
	}
	srv, err := askback.New(mcp.NewServer(implementation, sdkOptions), options)
	if err != nil {
		return err
	}
	weather.Register(srv)
	workitem.Register(srv, items)
	echo.Register(srv)
	echo.RegisterLater(srv)
	accounts.Register(srv, o.release)
	primes.Register(srv, func() bool { return o.loaded })
	trivia.Register(srv)
	if options.Desk != nil {
		deploy.Register(srv)
		srv.AddResultTool()
	}
	if ring != nil {
		log.Info("sealing requestState", "keys", source, "key", ring.Keys()[0].ID(), "ttl", o.ttl)
		if o.keys != "" {
			defer keyfile.Follow(ctx, o.keys, ring, !o.stdio, log)()
		}
	}
	if place.machinesErr == nil {
		provision.Register(srv, &provision.Host{Root: place.machines, Delay: o.pace})
		log.Info("making machines", "dir", place.machines)
	} else {
		registerNoMachines(srv, place.machinesErr)
		log.Warn("making no machines: provision_vm fails", "reason", place.machinesErr)
	}
	mcpHandler, err := serving.Endpoint(srv, &askback.HTTPOptions{Drafts: o.drafts, AllowedHosts: o.hosts})
	if err != nil {
		return err
	}
	draining := o.stopping.Draining(srv.Ready, log)
	serve := func(ctx context.Context) error {
		if o.stdio {
			return serving.Stdio(ctx, srv, draining)
		}
		return serving.HTTP(ctx, listener, mcpHandler, stdout, draining)
	}
	if place.tasks == nil {
		return serve(ctx)
	}
	log.Info("keeping tasks", "store", place.tasks.Name)
	return serving.WithTasks(ctx, serving.RunTasks(srv), draining, serve)
}

// registerNoMachines adds a provision_vm that fails with the reason why it cannot make machines.
func registerNoMachines(srv *askback.Server, reason error) {
	tool := &mcp.Tool{Name: "provision_vm", Description: "Make a machine: not on this server, " +
		"which has no place to keep it in"}
	askback.AddTool(srv, tool, func(context.Context, *askback.Call, map[string]any) (*mcp.CallToolResult, error) {
		return nil, reason
	})
}

func openWorkItems(ctx context.Context, dir string) (*workitem.Store, error) {
	if dir == "" {
		return workitem.Open(ctx, "")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	return workitem.Open(ctx, filepath.Join(dir, workitem.File))
}
