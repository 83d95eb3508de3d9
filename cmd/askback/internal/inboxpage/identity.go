package inboxpage

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/seal"
)

// identity returns what says who sends a request.
func (s *Server) identity(
	ctx context.Context, cmd *cobra.Command, listener net.Listener, log *slog.Logger,
) (inbox.Identity, error) {
	switch {
	case s.Local:
		p := desk.Person{Name: cmp.Or(s.As, cli.DefaultCaller()), Groups: s.groups}
		who, err := inbox.NewLocal(p, listener.Addr())
		if err != nil {
			return nil, cli.Usagef("--local: %w", err)
		}
		return who, nil
	case s.issuer != "":
		return s.provider(ctx, cmd.InOrStdin(), listener, log)
	}
	trusted, err := s.proxies()
	if err != nil {
		return nil, err
	}
	return inbox.TrustedHeader{Name: s.header, Groups: s.groupsHeader, Keep: s.groups, Trusted: trusted,
		UnixSocket: listener.Addr().Network() == "unix"}, nil
}

// proxies are the addresses of --trusted.
func (s *Server) proxies() (all []netip.Prefix, err error) {
	for _, text := range s.trusted {
		p, err := netip.ParsePrefix(text)
		if a, noPrefix := netip.ParseAddr(text); noPrefix == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, cli.Usagef("--trusted %q: want an address or a prefix, such as 10.0.0.7 or 10.0.0.0/24", text)
		}
		all = append(all, p)
	}
	return all, nil
}

// provider returns the identity of --oidc. The provider need not answer yet.
func (s *Server) provider(
	ctx context.Context, stdin io.Reader, listener net.Listener, log *slog.Logger,
) (inbox.Identity, error) {
	ring, source, err := keyfile.Configured(ctx, s.keys, stdin)
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
		return nil, cli.Usagef("--url is missing: give the URL at which people reach the inbox")
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
		NamePrefix: s.namePrefix, GroupsClaim: s.groupsClaim, Keep: s.groups, Scopes: s.scopes, Keys: ring,
		Session: s.session, Proxies: proxies, Logger: log,
	})
	if err != nil {
		return nil, cli.Usagef("--oidc: %w", err)
	}
	if s.keys != "" {
		context.AfterFunc(ctx, keyfile.Follow(ctx, s.keys, ring, true, log))
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
	text, err := cli.ReadInput(file, nil)
	if err != nil {
		return "", cli.Usagef("--client-secret-file: %w", err)
	}
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o007 != 0 &&
		runtime.GOOS != "windows" {
		return "", cli.Usagef("--client-secret-file: %s is open to every user of this machine (mode %04o): "+
			"run chmod 600 on it",
			file, info.Mode().Perm())
	}
	return strings.TrimSpace(string(text)), nil
}
