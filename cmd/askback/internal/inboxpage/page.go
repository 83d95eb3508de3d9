// Package inboxpage serves the page on which people answer, for 'askback inbox serve' and for a bridge.
package inboxpage

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/serving"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/inbox/receipt"
)

// Server is the page on which people answer, as flags describe it.
type Server struct {
	Store  string   // the name of the desk's store
	As     string   // the user of --local; empty is the system's user
	groups []string // of the user of --local; of anybody else, those to keep
	Addr   string
	title  string
	Open   bool
	Local  bool

	issuer, clientID, secretFile, url string // --oidc
	nameClaim, namePrefix             string
	groupsClaim                       string
	scopes                            []string
	session                           time.Duration
	keys                              string
	Receipts                          string // the key file of receipts, or empty

	header, groupsHeader string // --trust-header
	trusted              []string

	Stopping serving.Flags
}

// Serve serves the page of a desk until a signal.
func (s *Server) Serve(ctx context.Context, cmd *cobra.Command, d *desk.Desk) error {
	log, err := s.Stopping.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	listener, err := s.Listen(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	return s.Run(ctx, cmd, d, listener, cmd.OutOrStdout(), log)
}

// Run serves the inbox of a desk until ctx is done. It prints the addresses of the page.
func (s *Server) Run(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, listener net.Listener, stdout io.Writer, log *slog.Logger,
) error {
	who, err := s.identity(ctx, cmd, listener, log)
	if err != nil {
		return err
	}
	opts := &inbox.Options{Identity: who, Title: s.title, Logger: log}
	if s.Receipts != "" {
		opts.ReceiptKeys = receipt.File(s.Receipts).Public
		if _, err := opts.ReceiptKeys(); err != nil {
			return err
		}
	}
	page, err := inbox.New(d, opts)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if err := cli.Output(stdout, fmt.Sprintf("listening on %s\n", s.Address(listener))); err != nil {
		return err
	}
	if local, ok := who.(*inbox.Local); ok {
		done, err := s.signIn(ctx, local, stdout, log)
		if err != nil {
			return err
		}
		defer done()
	}
	err = drain.Serve(ctx, listener, serving.NewHTTPServer(page, log), s.Stopping.Draining(readiness(d), log))
	if err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// Address returns the URL at which people on this machine reach the page of a listener.
func (s *Server) Address(listener net.Listener) string {
	if listener.Addr().Network() == "unix" {
		return s.Addr
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

// Listen listens on the address of the flags, which may be a Unix socket.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	path, isSocket := strings.CutPrefix(s.Addr, "unix:")
	if !isSocket {
		return serving.Listen(ctx, s.Addr)
	}
	if s.header == "" {
		return nil, cli.Usagef("--addr unix:PATH is for --trust-header")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", s.Addr, err)
	}
	return l, nil
}

// signIn prints the URL that signs the user in, and lets 'askback inbox open' have others until done is called.
func (s *Server) signIn(
	ctx context.Context, local *inbox.Local, stdout io.Writer, log *slog.Logger,
) (done func(), err error) {
	address := local.URL()
	if err := cli.Output(stdout, fmt.Sprintf("sign in at %s\n", address)); err != nil {
		return nil, err
	}
	remove := func() {}
	if s.Open {
		if remove, err = openOnce(address); err != nil {
			log.Warn("open the page yourself", "error", err)
		}
	}
	stop, err := handOut(ctx, s.Store, local.URL, log)
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
	return remove, cli.StartOpener(file)
}
