package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/accounts"
	"github.com/askback-mcp/askback/cmd/askback/examples/deploy"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
	"github.com/askback-mcp/askback/cmd/askback/examples/primes"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
	"github.com/askback-mcp/askback/cmd/askback/examples/trivia"
	"github.com/askback-mcp/askback/cmd/askback/examples/weather"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
	"github.com/askback-mcp/askback/drain"
)

const (
	defaultTTL = time.Hour      // askback.Limits.RoundTTL
	callTTL    = 24 * time.Hour // askback.Limits.CallTTL
)

type serveOptions struct {
	addr      string
	stdio     bool
	keys      string
	ttl       time.Duration
	data      string
	store     string
	workers   int
	lease     time.Duration
	pace      time.Duration
	release   int
	loaded    bool
	bare      bool
	logLevel  string
	logFormat string
	untilEOF  bool
	drafts    bool
	delay     time.Duration
	grace     time.Duration
	hosts     []string
	user      string
	wait      time.Duration
}

func serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the example tools",
		Long: `Serve the example tools, which 'askback tools' lists, over HTTP at /mcp, or over
standard input and output. It prints its URL when it is ready (port 0 takes a
free one). SIGINT or SIGTERM makes /readyz fail, closes the listener after
--drain-delay, and leaves --grace to what runs. A second one stops at once.

Keys come from the file of --keys, also after it changes, or from the variable
` + keysVariable + `. Otherwise the server makes a random key, and no other server can
finish what it began. There is no authentication: every caller is --user. Tasks
continue when a server starts again. Their store is tasks.db (SQLite), beside
the machines, in --data or $XDG_STATE_HOME/askback. Work items need --data.`,
		Example: `  askback serve --keys askback.keys --addr 127.0.0.1:0 --data ./data`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.stdio && cmd.Flags().Changed("addr"):
				return usagef("--stdio and --addr exclude each other")
			case o.stdio && o.drafts:
				return usagef("--stdio and --drafts exclude each other: drafts are served over HTTP only")
			case o.stdio && o.hosts != nil:
				return usagef("--stdio and --allowed-host exclude each other: only HTTP has hosts")
			case o.stdio && o.keys == "-":
				return usagef("with --stdio, standard input is the protocol's: give the keys in a file or in %s", keysVariable)
			}
			if !cmd.Flags().Changed("user") { // an empty one is for callers without a name, who can wait for nobody
				o.user = defaultCaller()
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
	flags.StringVar(&o.user, "user", "", "`NAME` of every caller (default: the system's user)")
	flags.DurationVar(&o.wait, "wait", 0, "`TIME` that a client without tasks waits (default 45s)")
	flags.DurationVar(&o.pace, "pace", 0, "stretch each step of provision_vm by this `TIME`")
	flags.BoolVar(&o.drafts, "drafts", false, "also serve peers built on the drafts of the protocol")
	flags.StringSliceVar(&o.hosts, "allowed-host", nil, "serve only requests to this `HOST`; may repeat")
	flags.IntVar(&o.release, "release", 2, "release `N` of link_accounts: 1, 2 or 3")
	flags.BoolVar(&o.loaded, "loaded", false, "hand calls of count_primes over to other servers")
	flags.BoolVar(&o.bare, "bare", false, "no requestState while there is nothing to remember")
	o.registerStopping(flags)
	flags.BoolVar(&o.untilEOF, "until-eof", false, "stop when standard input ends")
	flags.DurationVar(&o.lease, "lease", 0, "`TIME` of the leases of tasks (default 10s)")
	for _, name := range []string{"until-eof", "lease"} {
		_ = flags.MarkHidden(name) // the flag exists
	}
	return cmd
}

// registerStopping adds the flags that say how a server stops, and how it logs.
func (o *serveOptions) registerStopping(flags *pflag.FlagSet) {
	flags.DurationVar(&o.delay, "drain-delay", 5*time.Second, "serve this `TIME` after /readyz is 503")
	flags.DurationVar(&o.grace, "grace", 30*time.Second, "`TIME` to finish what runs")
	flags.StringVar(&o.logLevel, "log-level", "info", "`LEVEL`: debug, info, warn, error")
	flags.StringVar(&o.logFormat, "log-format", "text", "`FORMAT`: text or json")
}

func (o *serveOptions) checkStopping() error {
	switch {
	case o.delay < 0:
		return usagef("--drain-delay %v: want a time that is not negative", o.delay)
	case o.grace <= 0:
		return usagef("--grace %v: want a time above zero", o.grace)
	}
	return nil
}

// check finds mistakes in the options before the server opens anything.
func (o *serveOptions) check() error {
	switch {
	case o.ttl < time.Second:
		return usagef("--ttl %v: want at least 1s", o.ttl)
	case o.workers < 0:
		return usagef("--workers %d: want at least 1, or 0 for the default", o.workers)
	case o.wait < 0:
		return usagef("--wait %v: want a time above zero, or 0 for the default", o.wait)
	case o.pace < 0:
		return usagef("--pace %v: want a time that is not negative", o.pace)
	case o.release < 1 || o.release > 3:
		return usagef("--release %d: want 1, 2 or 3", o.release)
	}
	if err := o.checkStopping(); err != nil {
		return err
	}
	return checkStore(o.store)
}

func (o *serveOptions) serve(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	defer collectLess()()
	log, err := o.logger(stderr)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	ring, source, err := configuredKeys(ctx, o.keys, stdin)
	if err != nil {
		return err
	}

	ctx, stop := untilSignal(ctx)
	defer stop()
	if o.untilEOF {
		go func() { // the pipe ends when the parent process does, however that ends
			_, _ = io.Copy(io.Discard, stdin)
			stop()
		}()
	}

	var listener net.Listener
	if !o.stdio {
		if listener, err = listen(ctx, o.addr); err != nil {
			return err
		}
		defer listener.Close()
	}
	items, err := openWorkItems(ctx, o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	storage, err := openStorage(ctx, o.data, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, storage.close()) }()

	implementation := &mcp.Implementation{Name: "askback-examples", Title: "Askback examples", Version: version()}
	sdkOptions := &mcp.ServerOptions{}
	if log.Enabled(ctx, slog.LevelDebug) {
		sdkOptions.Logger = log
	}
	tasks := storage.options(o.workers)
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
	if tasks != nil && o.user != "" && !o.bare { // a desk needs the state of each round
		options.Desk = &askback.DeskOptions{Wait: o.wait}
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
			defer followKeys(ctx, o.keys, ring, !o.stdio, log)()
		}
	}
	if storage.machinesErr == nil {
		provision.Register(srv, &provision.Host{Root: storage.machines, Delay: o.pace})
		log.Info("making machines", "dir", storage.machines)
	} else {
		registerNoMachines(srv, storage.machinesErr)
		log.Warn("making no machines: provision_vm fails", "reason", storage.machinesErr)
	}
	mcpHandler, err := endpoint(srv, &askback.HTTPOptions{Drafts: o.drafts, AllowedHosts: o.hosts})
	if err != nil {
		return err
	}
	draining := o.draining(srv.Ready, log)
	serve := func(ctx context.Context) error {
		if o.stdio {
			return serveStdio(ctx, srv, draining)
		}
		return serveHTTP(ctx, listener, mcpHandler, stdout, draining)
	}
	if storage.tasks == nil {
		return serve(ctx)
	}
	log.Info("keeping tasks", "store", storage.name)
	return serveWithTasks(ctx, runTasks(srv), draining, serve)
}

// defaultCaller returns the name of the system's user who runs this process, or else the number.
func defaultCaller() string {
	if self, err := user.Current(); err == nil && self.Username != "" {
		return self.Username
	}
	return fmt.Sprint("uid ", os.Getuid())
}

// draining returns how the server stops.
func (o *serveOptions) draining(ready func(context.Context) error, log *slog.Logger) *drain.Options {
	draining := &drain.Options{Delay: o.delay, Grace: o.grace, Ready: ready, Logger: log}
	if o.delay == 0 {
		draining.Delay = -1 // zero would mean the default
	}
	return draining
}

// serveStdio serves until ctx is done, or until standard input ends and its requests are answered.
func serveStdio(ctx context.Context, srv *askback.Server, o *drain.Options) error {
	served := make(chan error, 1)
	go func() { served <- srv.Run(ctx, &mcp.StdioTransport{}) }()
	select {
	case err := <-served:
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("serving standard input: %w", err)
		}
	case <-ctx.Done():
		o.Logger.Info("stopping")
		select {
		case <-served:
		case <-time.After(o.Grace): // nothing interrupts a read of standard input
		}
	}
	return nil
}

// registerNoMachines adds a provision_vm that fails with the reason why it cannot make machines.
func registerNoMachines(srv *askback.Server, reason error) {
	tool := &mcp.Tool{Name: "provision_vm", Description: "Make a machine: not on this server, " +
		"which has no place to keep it in"}
	askback.AddTool(srv, tool, func(context.Context, *askback.Call, map[string]any) (*mcp.CallToolResult, error) {
		return nil, reason
	})
}

func (o *serveOptions) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, usagef("--log-level %q: want debug, info, warn, error", o.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usagef("--log-format %q: want text or json", o.logFormat)
}

func openWorkItems(ctx context.Context, dir string) (*workitem.Store, error) {
	if dir == "" {
		return workitem.Open(ctx, "")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	return workitem.Open(ctx, filepath.Join(dir, "workitems.db"))
}

// endpoint returns the server's handler. A host that is not valid is the user's mistake here.
func endpoint(srv *askback.Server, opts *askback.HTTPOptions) (h http.Handler, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = usagef("--allowed-host: %s", strings.TrimPrefix(fmt.Sprint(v), "askback: "))
		}
	}()
	return srv.HTTPHandler(opts), nil
}

// collectLess lets the heap of a server grow to some 28 MB before it is collected, until the returned function runs.
// A server holds little, and all that passes through it is garbage a moment later: with 4 MB it would spend a fifth of
// its time on collections. A higher GOGC would do the same, and also multiply what one large message takes.
func collectLess() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ballast := make([]byte, 12<<20) // nothing writes to it, so it takes no memory
	return func() { runtime.KeepAlive(ballast) }
}
