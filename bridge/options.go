package bridge

import (
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/names"
)

// Options configure a [Bridge]. What they point to must not be changed after [New]. The bridge calls their functions
// from several goroutines at once.
type Options struct {
	// Implementation says who the bridge is, to hosts and to the servers behind. It is required.
	Implementation *mcp.Implementation

	// Server are the options of the bridge's own server. New returns an error if Keys, Tasks or Desk is nil. The keys also
	// seal what is kept of the requestState of the servers behind. Calls wait in the store of Tasks, and at the Desk. The
	// Rules of the Desk know a server by its Name, or else by its Identity.
	Server askback.Options

	// Servers are the servers behind. New returns an error for an empty list, and for a name or pattern that is wrong. Of
	// resources with one URI, the first server's is offered.
	Servers []Server

	// Start bounds the wait of [Bridge.Start] for the servers if there are several. Zero means 15 seconds. A server that
	// is not there by then is tried again, and its tools appear later. Start fails if all are missing.
	Start time.Duration

	// Lists bounds the wait of a host's list for servers that start, from New on. Zero means 5 seconds. Then the list
	// lacks the offers of these servers, and a notification tells the host when it has changed.
	Lists time.Duration

	// Sessions bounds, for each server before 2026-07-28, the sessions of all callers together, besides the one for its
	// lists. Zero means 32. Every caller has a share of them. A call beyond its caller's share waits a
	// moment, and then fails.
	Sessions int

	// MessageBytes bounds one message of a server behind, in bytes. Zero means 16 MiB. A call whose response is longer
	// fails with an error that says so.
	MessageBytes int64

	// SDKLogger receives what the SDK's server logs. Nil means nothing.
	SDKLogger *slog.Logger

	// Tools says which tools of all servers are offered, of those that [Server.Tools] offers.
	Tools Choice

	// Approve says which calls a person approves before they are passed on. Nil means none. New returns an error if the
	// Desk has Rules, which decide in its place.
	Approve *Approval
}

// Server is a server behind a bridge.
type Server struct {
	// Name names the server to people, and in logs. Empty means the name that it has given itself.
	Name string

	// Prefix stands before the names of the server's tools and prompts. An underscore follows it, unless it ends with one,
	// a hyphen or a dot. Empty means that they keep their names.
	Prefix string

	// Tools says which tools of this server are offered.
	Tools Choice

	// NameLength bounds the names that hosts see, in bytes: some hosts take 64. Zero means 128, the most that the
	// specification allows ("Tool Names"). A name that is cut ends with a digest.
	NameLength int

	// Identity tells the server from any other, such as its address or its command line. Stored calls belong to it, and
	// a server with another identity does not get them.
	Identity string

	// Connect returns a transport to the server. It is required. It is called again after its connection has ended, after
	// an error, and for each further session with a server before 2026-07-28.
	Connect func() (mcp.Transport, error)

	// Version is the revision of the protocol to speak with the server. Empty means the newest that both know. Some
	// libraries speak 2026-07-28 with handlers that can ask only inside their open calls, as before it.
	Version string

	// Events passes on the server's events, which can be polled then under their names with the Prefix, to all callers of
	// the bridge. So it must be one caller, or the events must be for all: the server does not know them apart. It needs
	// the Events of Options.Server. Events that this library has about calls are not passed on.
	Events bool

	// SessionPerCall gives each call of a tool at a server before 2026-07-28 a session of its own, and a program one
	// process for each, in place of one session for everything that its caller does. Then calls that ask do not wait for
	// each other.
	SessionPerCall bool
}

// Choice says which tools are offered, and under which names. The zero value offers all, under their own.
type Choice struct {
	// Allow has patterns, as Approval.Tools has. Nil means all tools, and an empty slice means none.
	Allow []string
	// Deny has patterns of tools that are not offered even if they are allowed.
	Deny []string
	// Rename has new names for tools. The old one is the name at the server, and then the prefix stays. Or it is the name
	// with its prefix, and then the new one has none.
	Rename map[string]string
}

// Check returns an error for a pattern that is malformed, or a name that the specification does not allow.
func (c *Choice) Check() error { return (*names.Choice)(c).Check() }

// Approval says which calls a person approves before they are passed on to the server.
type Approval struct {
	// Tools are patterns of the names of tools, as path.Match has them, except that * is any text and case makes no
	// difference. They are compared with a tool's name at the server, with that one behind its prefix, and with the name
	// that hosts see.
	Tools []string
	// For says who may approve, each made by askback.User or askback.Group. Empty means the caller.
	For []string
	// Votes is how many of them must approve. Zero is one.
	Votes int
	// Edit lets them edit the arguments, as far as the tool's input schema allows it.
	Edit bool
}

// Check returns an error for a pattern that is malformed, or that no name can match.
func (a *Approval) Check() error { return (*calls.Approval)(a).Check() }
