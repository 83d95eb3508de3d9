// Package bridgecmd runs a bridge between a host and the servers of a command line or a file.
package bridgecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/bridge/rules"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/inboxpage"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/cmd/askback/internal/serving"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
)

type bridgeOptions struct {
	addr       string
	store      string
	keys       string
	user       string
	wait       time.Duration
	startWait  time.Duration
	headers    []string
	version    string // of the protocol
	perCall    bool
	most       int // bytes of a message of a server
	hosts      []string
	tools      bridge.Choice
	rename     []string
	prefix     string
	nameLength int

	approve   []string
	approveBy []string
	votes     int
	edit      bool
	rules     string // file
	stopping  serving.Flags
	lease     time.Duration
	page      inboxpage.Server // of --local
}

// bridgeTTL is the lifetime of a call that waits for people.
const bridgeTTL = 7 * 24 * time.Hour

// Command returns 'askback bridge'.
func Command() *cobra.Command {
	var o bridgeOptions
	cmd := &cobra.Command{
		Use:   "bridge SERVER [ARGUMENT…]",
		Short: "Show people the questions of any server",
		Long: `Serve the tools of SERVER to a host: a URL, a program or a FILE.json of servers.
A question that the host cannot ask waits in --store: see 'askback inbox'.`,
		Example: `  askback bridge --approve 'delete_*' -- npx -y some-server`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("as") {
				o.user = cli.DefaultCaller()
			}
			return o.run(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", "", "`HOST:PORT` to listen on, not standard input")
	flags.StringVar(&o.store, "store", "", "`STORE` for calls: sqlite:PATH or postgres://…")
	flags.StringVar(&o.keys, "keys", "", "key `FILE` (default: beside the SQLite file)")
	flags.StringVar(&o.user, "as", "", "`NAME` of the caller (default: the system's user)")
	flags.DurationVar(&o.wait, "wait", 0, "`TIME` a host without tasks waits (default 45s)")
	flags.DurationVar(&o.startWait, "start-wait", 5*time.Second, "`TIME` lists wait for servers")
	flags.StringVar(&o.page.Receipts, "receipts", "", "sign receipts with the keys of this `FILE`")
	flags.StringVar(&o.version, "protocol-version", "", "`DATE` of the protocol's revision to speak")
	flags.BoolVar(&o.perCall, "session-per-call", false, "a session for each call at an older server")
	cli.MessageBytesFlag(flags, &o.most)
	flags.StringArrayVar(&o.headers, "header", nil, "`LINE` for the server: 'Name: value' or @FILE")
	flags.BoolVar(&o.page.Local, "local", false, "serve the page for --as too, on this machine")
	flags.StringVar(&o.page.Addr, "inbox", "", "`HOST:PORT` of that page (default 127.0.0.1:0)")
	flags.BoolVar(&o.page.Open, "open", false, "open that page in a browser")
	flags.StringSliceVar(&o.hosts, "allowed-host", nil, "serve only requests to this `HOST`; may repeat")
	flags.StringArrayVar(&o.tools.Allow, "allow", nil, "offer only tools like `PATTERN`; may repeat")
	flags.StringArrayVar(&o.tools.Deny, "deny", nil, "offer no tools like `PATTERN`; may repeat")
	flags.StringArrayVar(&o.rename, "rename", nil, "name a tool anew, as `OLD=NEW`; may repeat")
	flags.StringVar(&o.prefix, "prefix", "", "`TEXT` before the names of tools and prompts")
	flags.IntVar(&o.nameLength, "name-length", 0, "cut these names to `N` letters, such as 64")
	flags.StringArrayVar(&o.approve, "approve", nil, "ask a person before tools like `PATTERN`")
	flags.StringArrayVar(&o.approveBy, "approve-by", nil, "`WHO` approves: user:NAME or group:NAME")
	flags.IntVar(&o.votes, "approve-votes", 1, "`N` of them must approve")
	flags.BoolVar(&o.edit, "approve-edit", false, "let the people who approve edit the arguments")
	flags.StringVar(&o.rules, "rules", "", "`FILE` of rules that decide about calls")
	o.stopping.RegisterWithoutDelay(flags)
	flags.DurationVar(&o.lease, "lease", 0, "`TIME` of the leases of calls that wait (default 10s)")
	_ = flags.MarkHidden("lease") // the flag exists
	return cmd
}

func (o *bridgeOptions) run(cmd *cobra.Command, args []string) (err error) {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	log, err := o.stopping.Logger(stderr)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	approval, decides, err := o.policy()
	if err != nil {
		return err
	}
	behind, err := o.behind(args, stderr)
	if err != nil {
		return err
	}
	for _, warning := range behind.warnings {
		log.Warn("the file of the servers: " + warning)
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	defer serving.CollectLess()()
	var listener net.Listener
	if o.addr != "" {
		if listener, err = serving.Listen(ctx, o.addr); err != nil {
			return err
		}
		defer listener.Close()
	}
	people := &askback.DeskOptions{Fallback: true, Wait: o.wait}
	var page net.Listener
	if o.page.Local {
		if page, err = o.page.Listen(ctx); err != nil {
			return err
		}
		defer page.Close()
		people.Page = o.page.Address(page)
	}
	if people.Receipts, err = serving.Receipts(ctx, o.page.Receipts); err != nil {
		return err
	}
	if decides != nil {
		people.Rules = decides.Decide
	}
	store, ring, err := o.open(ctx, behind, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	o.page.Store = store.Name
	tasks := store.Options(0)
	tasks.Settings.TTL, tasks.Settings.Lease = bridgeTTL, o.lease
	b, err := bridge.New(&bridge.Options{
		Implementation: &mcp.Implementation{Name: "askback-bridge", Title: "Askback bridge", Version: cli.Version()},
		Servers:        behind.servers,
		Approve:        approval,
		Tools:          o.tools,
		Lists:          o.startWait,
		MessageBytes:   int64(o.most),
		Server: askback.Options{
			Keys: ring, Tasks: tasks, Logger: log,
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return o.user, nil },
			Desk:      people,
			Events:    new(askback.EventOptions),
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	began := make(chan struct{})
	run := func(ctx context.Context) error {
		err := b.Start(ctx)
		close(began)
		if failed, ok := errors.AsType[*bridge.ConnectError](err); ok && behind.target != nil {
			return behind.unreachable(failed.Err)
		}
		if err != nil {
			return err
		}
		return serving.RunTasks(b.Server())(ctx)
	}
	log.Info("calls that wait are kept in the store; 'askback inbox list STORE' shows them", "store", store.Name,
		"as", o.user)
	draining := o.stopping.Draining(b.Ready, log)
	serve := func(ctx context.Context) error {
		if listener == nil {
			err := serving.Stdio(ctx, b.Server(), draining)
			select { // the host may have left without the reason why nothing works
			case <-began:
			case <-ctx.Done():
			case <-time.After(o.stopping.Grace):
			}
			return err
		}
		handler, err := serving.Endpoint(b.Server(), &askback.HTTPOptions{AllowedHosts: o.hosts})
		if err != nil {
			return err
		}
		return serving.HTTP(ctx, listener, handler, cmd.OutOrStdout(), draining)
	}
	if page != nil {
		questions, err := desk.Open(store.Store, nil)
		if err != nil {
			return err
		}
		serve = o.withPage(cmd, questions, page, log, serve)
	}
	return serving.WithTasks(ctx, run, draining, serve)
}

// withPage serves the page for the caller beside the bridge, whose standard output may be the host's. If one of the two
// ends, the other one does.
func (o *bridgeOptions) withPage(
	cmd *cobra.Command, people *desk.Desk, page net.Listener, log *slog.Logger, serve func(context.Context) error,
) func(context.Context) error {
	o.page.As = o.user
	o.page.Stopping.Grace = o.stopping.Grace
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() {
			defer stop()
			ended <- o.page.Run(ctx, cmd, people, page, cmd.ErrOrStderr(), log)
		}()
		err := serve(ctx)
		stop()
		return errors.Join(err, <-ended)
	}
}

// check finds mistakes in the options before anything is opened.
func (o *bridgeOptions) check() error {
	switch {
	case o.wait < 0:
		return cli.Usagef("--wait %v: want a time above zero, or 0 for the default", o.wait)
	case o.startWait <= 0:
		return cli.Usagef("--start-wait %v: want a time above zero", o.startWait)
	case o.stopping.Grace <= 0:
		return o.stopping.Check()
	case o.user == "":
		return cli.Usagef("--as is empty: the questions of a caller without a name reach nobody")
	case o.hosts != nil && o.addr == "":
		return cli.Usagef("--allowed-host needs --addr: only HTTP has hosts")
	case o.keys == "-" && o.addr == "":
		return cli.Usagef("standard input is the host's: give the keys in a file or in %s", keyfile.Variable)
	case !o.page.Local && (o.page.Open || o.page.Addr != ""):
		return cli.Usagef("--inbox and --open are for --local, the page for you alone; " +
			"'askback inbox serve' serves one for others")
	case o.rules != "" && len(o.approve) > 0:
		return cli.Usagef("--rules and --approve: the rules say what is approved")
	case o.store == "none":
		return cli.Usagef("--store none: the bridge keeps the calls that wait; leave --store out for a file of its own")
	}
	if o.page.Local && o.page.Addr == "" {
		o.page.Addr = "127.0.0.1:0"
	}
	if strings.Contains(o.store, ":") {
		if err := storage.Check(o.store); err != nil {
			return err
		}
	}
	return cmp.Or(cli.CheckRevision("--protocol-version", o.version), cli.CheckMessageBytes(o.most))
}

// approval returns the approvals that the flags ask for, or nil.
func (o *bridgeOptions) approval() (*bridge.Approval, error) {
	if len(o.approve) == 0 {
		if o.edit || len(o.approveBy) > 0 || o.votes != 1 {
			return nil, cli.Usagef("--approve-by, --approve-votes and --approve-edit need --approve PATTERN: " +
				"which tools are to be approved")
		}
		return nil, nil
	}
	for _, who := range o.approveBy {
		kind, name, _ := strings.Cut(who, ":")
		if kind != "user" && kind != "group" || name == "" {
			return nil, cli.Usagef("--approve-by %q: want user:NAME or group:NAME", who)
		}
	}
	if group := strings.Contains(strings.Join(o.approveBy, " "), "group:"); o.votes < 1 ||
		!group && o.votes > max(len(o.approveBy), 1) {
		return nil, cli.Usagef("--approve-votes %d: want 1 to the number of people in --approve-by", o.votes)
	}
	a := &bridge.Approval{Tools: o.approve, For: o.approveBy, Votes: o.votes, Edit: o.edit}
	if err := a.Check(); err != nil {
		return nil, cli.Usagef("--approve: %w", err)
	}
	return a, nil
}

// policy reads the flags about the tools that are offered, and about the calls that people approve.
func (o *bridgeOptions) policy() (approval *bridge.Approval, decides *rules.Rules, err error) {
	if approval, err = o.approval(); err == nil {
		err = o.choose()
	}
	if err != nil || o.rules == "" {
		return approval, nil, err
	}
	if decides, err = rules.Read(o.rules); err != nil {
		return nil, nil, cli.Usagef("--rules: %w", err)
	}
	return approval, decides, nil
}

// choose reads the flags about the tools that are offered.
func (o *bridgeOptions) choose() error {
	o.tools.Rename = make(map[string]string)
	for _, pair := range o.rename {
		from, to, ok := strings.Cut(pair, "=")
		if _, twice := o.tools.Rename[from]; !ok || twice {
			return cli.Usagef("--rename %q: want OLD=NEW, once for each tool", pair)
		}
		o.tools.Rename[from] = to
	}
	if err := o.tools.Check(); err != nil {
		return cli.Usagef("--allow, --deny or --rename: %w", err)
	}
	return nil
}

// open opens the store and the keys of a bridge.
func (o *bridgeOptions) open(ctx context.Context, behind *behind, stdin io.Reader) (*storage.Store, *seal.Ring, error) {
	name := o.store
	switch {
	case name == "":
		dir, err := cli.StateDir()
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("there is no place for the calls: %w; name one with --store", err)
		}
		name = "sqlite:" + filepath.Join(dir, storage.BridgeFile(behind.label, behind.where))
	case !strings.Contains(name, ":"):
		name = "sqlite:" + name
	}
	ring, _, err := keyfile.Configured(ctx, o.keys, stdin)
	if path, isFile := strings.CutPrefix(name, "sqlite:"); err == nil && ring == nil && isFile {
		ring, err = keysBeside(ctx, path)
	}
	if err == nil && ring == nil {
		err = cli.Usagef("bridges that share a database need the same keys: make a file with 'askback keys new', and name "+
			"it with --keys, or put its text into %s", keyfile.Variable)
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := storage.Open(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("--store: %w", err)
	}
	return store, ring, nil
}

// keysBeside returns the keys in the file beside a store, and makes the file if it does not exist. Two bridges that
// start at once get the same keys: the ones that the first has made.
func keysBeside(ctx context.Context, store string) (*seal.Ring, error) {
	file := seal.File(store + ".keys")
	ring, err := file.Load(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	if ring, err = seal.NewRing(seal.NewKey(time.Now())); err != nil {
		return nil, err
	}
	whole := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := keyfile.Create(whole, ring.EncodeSecrets()); err != nil {
		return nil, err
	}
	defer os.Remove(whole)
	if err := os.Link(whole, string(file)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the keys beside the store: %w; make them with 'askback keys new', and name them with --keys",
			err)
	}
	return file.Load(ctx)
}
