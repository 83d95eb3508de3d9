package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/seal"
)

// inboxServer are the flags of 'askback inbox serve'.
type inboxServer struct {
	// person has the store, and with --local the user. The groups of anybody else are left out unless they are there.
	person inboxFlags
	store  string // where the questions are kept
	addr   string
	title  string
	open   bool
	local  bool

	issuer, clientID, secretFile, url string // --oidc
	nameClaim, namePrefix             string
	groupsClaim                       string
	scopes                            []string
	session                           time.Duration
	keys                              string

	header, groupsHeader string // --trust-header
	trusted              []string

	serving serveOptions // how it logs and stops
}

const noIdentity = "choose how the inbox knows people: --local (you alone, on this machine), --oidc ISSUER (they " +
	"sign in there), or --trust-header NAME (a proxy in front says who they are)"

func inboxServeCommand() *cobra.Command {
	s := inboxServer{person: inboxFlags{reach: singleStore}}
	cmd := &cobra.Command{
		Use:   "serve [STORE]",
		Short: "Serve the page on which people answer",
		Long: `Serve a page and a JSON API on which people see the questions for them, and
answer. It prints its URL when it is ready (port 0 takes a free one). Choose how
it knows people: --local serves you alone, on this machine, and prints a URL
that signs you in once ('askback inbox open' prints others). With --oidc people
sign in at a provider. With --trust-header a proxy has signed them in. The
server must know its callers by the same names, which /whoami shows. STORE is
the server's store; see 'askback inbox --help'. It logs and stops as 'askback
serve' does.`,
		Example: `  askback inbox serve --local --groups release --open
  askback inbox serve sqlite:tasks.db --trust-header X-User --trusted 10.0.0.7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(cmd); err != nil {
				return err
			}
			return s.person.at(cmd, args, s.serve)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.addr, "addr", "127.0.0.1:8081", "`ADDR` or unix:PATH")
	flags.StringVar(&s.title, "title", "", "`TEXT` at the top of each page")
	flags.BoolVar(&s.open, "open", false, "open the page in a browser")
	flags.BoolVar(&s.local, "local", false, "serve you alone, on this machine")
	flags.StringVar(&s.person.as, "as", "", "`NAME` of the user of --local (default: you)")
	flags.StringSliceVar(&s.person.groups, "groups", nil, "`NAMES` of your groups, or of all groups to keep")
	flags.StringVar(&s.issuer, "oidc", "", "`ISSUER`, the URL of an OpenID provider")
	flags.StringVar(&s.clientID, "client-id", "", "`ID` that the provider gave the inbox")
	flags.StringVar(&s.secretFile, "client-secret-file", "", "`FILE` with the client secret")
	flags.StringVar(&s.url, "url", "", "`URL` where people reach the inbox")
	flags.StringVar(&s.nameClaim, "name-claim", "", "`CLAIM` with the person's name, such as sub")
	flags.StringVar(&s.namePrefix, "name-prefix", "", "`TEXT` in front of the claim in the name")
	flags.StringVar(&s.groupsClaim, "groups-claim", "", "`CLAIM` with the person's groups")
	flags.StringSliceVar(&s.scopes, "scope", nil, "`SCOPES` besides openid (default profile,email)")
	flags.DurationVar(&s.session, "session", 0, "`TIME` that people stay signed in (default 8h)")
	flags.StringVar(&s.keys, "keys", "", "key `FILE` for sessions, - for standard input")
	flags.StringVar(&s.header, "trust-header", "", "`NAME` of the header with the person's name")
	flags.StringVar(&s.groupsHeader, "groups-header", "", "`NAME` of the header with the groups")
	flags.StringSliceVar(&s.trusted, "trusted", nil, "`PREFIX` or address of a proxy; may repeat")
	s.serving.registerStopping(flags)
	for _, name := range []string{"drain-delay", "grace", "log-format", "log-level"} {
		_ = flags.MarkHidden(name) // the flag exists
	}
	return cmd
}

// identityFlags are the flags of each identity, and the one that chooses it.
var identityFlags = map[string][]string{
	"local": {"as"},
	"oidc": {"client-id", "client-secret-file", "url", "name-claim", "name-prefix", "groups-claim", "scope", "session",
		"keys", "trusted"},
	"trust-header": {"groups-header", "trusted"},
}

// check finds mistakes in the flags before anything is opened.
func (s *inboxServer) check(cmd *cobra.Command) error {
	chosen, count := "", 0
	for name, is := range map[string]bool{"local": s.local, "oidc": s.issuer != "", "trust-header": s.header != ""} {
		if is {
			chosen = name
			count++
		}
	}
	switch {
	case count == 0:
		return usagef("%s", noIdentity)
	case count > 1:
		return usagef("--local, --oidc and --trust-header exclude each other: one of them says who people are")
	case s.open && !s.local:
		return usagef("--open is for --local")
	}
	allowed := make(map[string]bool)
	for _, name := range identityFlags[chosen] {
		allowed[name] = true
	}
	for identity, names := range identityFlags {
		for _, name := range names {
			if cmd.Flags().Changed(name) && !allowed[name] {
				return usagef("--%s is for --%s, and not for --%s", name, identity, chosen)
			}
		}
	}
	switch {
	case s.issuer != "" && s.clientID == "":
		return usagef("--client-id is missing: give the ID that the provider has for the inbox")
	case s.issuer != "" && s.nameClaim == "":
		return usagef("--name-claim is missing: give the claim that has the name of the person as a caller, such as sub")
	}
	if s.local && !cmd.Flags().Changed("drain-delay") {
		s.serving.delay = 0 // no load balancer leads to it
	}
	return s.serving.checkStopping()
}

// serve serves the inbox of a desk until a signal.
func (s *inboxServer) serve(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, _ string, args []string,
) (err error) {
	if len(args) > 0 {
		return usagef("%q is not a store: want sqlite:PATH or postgres://…", args[0])
	}
	log, err := s.serving.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	s.store = s.person.stores[0]
	return s.run(ctx, cmd, d, listener, cmd.OutOrStdout(), log)
}

// run serves the inbox of a desk until ctx is done. It prints the addresses of the page.
func (s *inboxServer) run(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, listener net.Listener, stdout io.Writer, log *slog.Logger,
) error {
	who, err := s.identity(ctx, cmd, listener, log)
	if err != nil {
		return err
	}
	page, err := inbox.New(d, &inbox.Options{Identity: who, Title: s.title, Logger: log})
	if err != nil {
		return usagef("%w", err)
	}
	if err := output(stdout, fmt.Sprintf("listening on %s\n", s.address(listener))); err != nil {
		return err
	}
	if local, ok := who.(*inbox.Local); ok {
		done, err := s.signIn(ctx, local, stdout, log)
		if err != nil {
			return err
		}
		defer done()
	}
	if err := drain.Serve(ctx, listener, newHTTPServer(page, log), s.serving.draining(readiness(d), log)); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// address is where people reach the page of a listener on this machine.
func (s *inboxServer) address(listener net.Listener) string {
	if listener.Addr().Network() == "unix" {
		return s.addr
	}
	return "http://" + listener.Addr().String() + "/"
}

// readiness returns whether the store of a desk answers.
func readiness(d *desk.Desk) func(context.Context) error {
	return func(ctx context.Context) error {
		for q, err := range d.Waiting(ctx, desk.Waiting{}) {
			if q == nil {
				return err
			}
			break
		}
		return nil
	}
}

func (s *inboxServer) listen(ctx context.Context) (net.Listener, error) {
	path, isSocket := strings.CutPrefix(s.addr, "unix:")
	if !isSocket {
		return listen(ctx, s.addr)
	}
	if s.header == "" {
		return nil, usagef("--addr unix:PATH is for --trust-header")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", s.addr, err)
	}
	return l, nil
}

// identity returns what says who sends a request.
func (s *inboxServer) identity(
	ctx context.Context, cmd *cobra.Command, listener net.Listener, log *slog.Logger,
) (inbox.Identity, error) {
	switch {
	case s.local:
		p, _ := s.person.person()
		who, err := inbox.NewLocal(p, listener.Addr())
		if err != nil {
			return nil, usagef("--local: %w", err)
		}
		return who, nil
	case s.issuer != "":
		return s.provider(ctx, cmd.InOrStdin(), listener, log)
	}
	trusted, err := s.proxies()
	if err != nil {
		return nil, err
	}
	return inbox.TrustedHeader{Name: s.header, Groups: s.groupsHeader, Keep: s.person.groups, Trusted: trusted,
		UnixSocket: listener.Addr().Network() == "unix"}, nil
}

// proxies are the addresses of --trusted.
func (s *inboxServer) proxies() (all []netip.Prefix, err error) {
	for _, text := range s.trusted {
		p, err := netip.ParsePrefix(text)
		if a, noPrefix := netip.ParseAddr(text); noPrefix == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, usagef("--trusted %q: want an address or a prefix, such as 10.0.0.7 or 10.0.0.0/24", text)
		}
		all = append(all, p)
	}
	return all, nil
}

// provider returns the identity of --oidc. The provider need not answer yet.
func (s *inboxServer) provider(
	ctx context.Context, stdin io.Reader, listener net.Listener, log *slog.Logger,
) (inbox.Identity, error) {
	ring, source, err := configuredKeys(ctx, s.keys, stdin)
	if err != nil {
		return nil, err
	}
	if ring == nil {
		if ring, err = seal.NewRing(seal.NewKey(time.Now())); err != nil {
			return nil, err
		}
		source = "none"
		log.Warn("no keys: people must sign in again after a restart, and at each instance; give --keys FILE")
	}
	if s.url == "" && !isLoopback(listener.Addr()) {
		return nil, usagef("--url is missing: give the URL at which people reach the inbox")
	}
	if s.url == "" {
		s.url = "http://" + listener.Addr().String()
	}
	secret, err := readSecret(s.secretFile)
	if err != nil {
		return nil, err
	}
	proxies, err := s.proxies()
	if err != nil {
		return nil, err
	}
	who, err := inbox.NewOIDC(&inbox.OIDCOptions{
		Issuer: s.issuer, ClientID: s.clientID, ClientSecret: secret, URL: s.url, NameClaim: s.nameClaim,
		NamePrefix: s.namePrefix, GroupsClaim: s.groupsClaim, Keep: s.person.groups, Scopes: s.scopes, Keys: ring,
		Session: s.session, Proxies: proxies, Logger: log,
	})
	if err != nil {
		return nil, usagef("--oidc: %w", err)
	}
	if s.keys != "" {
		context.AfterFunc(ctx, followKeys(ctx, s.keys, ring, true, log))
	}
	if err := who.Discover(ctx); err != nil {
		log.Warn("the provider cannot be reached now: it is asked again when somebody signs in", "error", err)
	}
	log.Info("people sign in", "issuer", s.issuer, "redirect_uri", strings.TrimSuffix(s.url, "/")+"/auth/callback",
		"keys", source)
	return who, nil
}

func isLoopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// readSecret reads the file of a secret, which others must not be able to read. The error has nothing of it.
func readSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := readInput(file, nil)
	if err != nil {
		return "", usagef("--client-secret-file: %w", err)
	}
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o007 != 0 &&
		runtime.GOOS != "windows" {
		return "", usagef("--client-secret-file: %s is open to every user of this machine (mode %04o): run chmod 600 on it",
			file, info.Mode().Perm())
	}
	return strings.TrimSpace(string(text)), nil
}

// signIn prints the URL that signs the user in, and lets 'askback inbox open' have others until done is called.
func (s *inboxServer) signIn(
	ctx context.Context, local *inbox.Local, stdout io.Writer, log *slog.Logger,
) (done func(), err error) {
	address := local.URL()
	if err := output(stdout, fmt.Sprintf("sign in at %s\n", address)); err != nil {
		return nil, err
	}
	remove := func() {}
	if s.open {
		if remove, err = openOnce(address); err != nil {
			log.Warn("open the page yourself", "error", err)
		}
	}
	stop, err := handOut(ctx, s.store, local.URL, log)
	if err != nil {
		log.Warn("'askback inbox open' does not find this page", "error", err)
	}
	return func() { stop(); remove() }, nil
}

// openOnce opens an address with a token in a browser, through a file that leads there: other users of the machine see
// the command lines of programs. Remove removes the file.
func openOnce(address string) (remove func(), err error) {
	remove = func() {}
	dir, err := os.MkdirTemp("", "askback-inbox-") // for this user alone
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // a token that is used up harms nobody
	file := filepath.Join(dir, "open.html")
	page := fmt.Sprintf("<!doctype html>\n<title>Inbox</title>\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n",
		html.EscapeString(address))
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return remove, err
	}
	return remove, startOpener(file)
}
