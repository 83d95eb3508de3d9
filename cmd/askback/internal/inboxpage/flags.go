package inboxpage

import (
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

const noIdentity = "choose how the inbox knows people: --local (you alone, on this machine), --oidc ISSUER (they " +
	"sign in there), or --trust-header NAME (a proxy in front says who they are)"

// identityFlags are the flags of each identity, and the one that chooses it.
var identityFlags = map[string][]string{
	"local": {"as"},
	"oidc": {"client-id", "client-secret-file", "url", "name-claim", "name-prefix", "groups-claim", "scope", "session",
		"keys", "trusted"},
	"trust-header": {"groups-header", "trusted"},
}

// Register adds the flags of 'askback inbox serve'.
func (s *Server) Register(flags *pflag.FlagSet) {
	flags.StringVar(&s.Addr, "addr", "127.0.0.1:8081", "`ADDR` or unix:PATH")
	flags.StringVar(&s.title, "title", "", "`TEXT` at the top of each page")
	flags.BoolVar(&s.Open, "open", false, "open the page in a browser")
	flags.BoolVar(&s.Local, "local", false, "serve you alone, on this machine")
	flags.StringVar(&s.As, "as", "", "`NAME` of the user of --local (default: you)")
	flags.StringSliceVar(&s.groups, "groups", nil, "`NAMES` of your groups, or of all groups to keep")
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
	flags.StringVar(&s.Receipts, "receipts", "", "publish the public keys of this `FILE`")
	flags.StringVar(&s.header, "trust-header", "", "`NAME` of the header with the person's name")
	flags.StringVar(&s.groupsHeader, "groups-header", "", "`NAME` of the header with the groups")
	flags.StringSliceVar(&s.trusted, "trusted", nil, "`PREFIX` or address of a proxy; may repeat")
	s.Stopping.Register(flags)
	for _, name := range []string{"drain-delay", "grace", "log-format", "log-level"} {
		_ = flags.MarkHidden(name) // the flag exists
	}
}

// Check finds mistakes in the flags before anything is opened.
func (s *Server) Check(flags *pflag.FlagSet) error {
	chosen, count := "", 0
	for name, is := range map[string]bool{"local": s.Local, "oidc": s.issuer != "", "trust-header": s.header != ""} {
		if is {
			chosen = name
			count++
		}
	}
	switch {
	case count == 0:
		return cli.Usagef("%s", noIdentity)
	case count > 1:
		return cli.Usagef("--local, --oidc and --trust-header exclude each other: one of them says who people are")
	case s.Open && !s.Local:
		return cli.Usagef("--open is for --local")
	}
	allowed := make(map[string]bool)
	for _, name := range identityFlags[chosen] {
		allowed[name] = true
	}
	for identity, names := range identityFlags {
		for _, name := range names {
			if flags.Changed(name) && !allowed[name] {
				return cli.Usagef("--%s is for --%s, and not for --%s", name, identity, chosen)
			}
		}
	}
	switch {
	case s.issuer != "" && s.clientID == "":
		return cli.Usagef("--client-id is missing: give the ID that the provider has for the inbox")
	case s.issuer != "" && s.nameClaim == "":
		return cli.Usagef("--name-claim is missing: give the claim that has the name of the person as a caller, such as sub")
	}
	if s.Local && !flags.Changed("drain-delay") {
		s.Stopping.Delay = 0 // no load balancer leads to it
	}
	return s.Stopping.Check()
}
