// Package calls passes a call of a host on to the server behind that it is for. A call reads downwards:
//
//	Target.CallTool (handler.go)    the handler of a tool: arguments in, result out
//	  approve       (gates.go)      people approve the call first, if the operator wants that
//	  Way.Pass                      the server is asked until it has answered, in one of two ways:
//	                                package rounds, or package legacy for servers before 2026-07-28
//	  passedOn      (handler.go)    the result, as the host gets it
package calls

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/asks"
	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Server is a server behind the bridge, as its calls see it.
type Server struct {
	Identity string // tells it from any other one
	Title    string // for people
	Conn     *upstream.Conn
	Rounds   Way
	Legacy   Way // for tools, as long as Conn.Legacy
	Guard    Guard
	Log      *slog.Logger
	Rules    func(context.Context, *consent.ToolCall) *consent.Verdict // that decide about its calls, or nil
	Named    string                                                    // what rules call it
	// MostKept bounds the result of a stored call, in bytes.
	MostKept int
	// InWords says that the server tells clients without tasks in words to call its own askback_result, which is the
	// bridge's for hosts. So its calls become tasks, which the bridge follows.
	InWords atomic.Bool

	left Handoffs // for a bridge with another policy
	// compiling is held while a schema of the server's is compiled. It has room for one.
	compiling chan struct{}
}

// NewServer returns a server with a digest of its identity, which may hold a secret.
func NewServer(identity string) *Server {
	digest := sha256.Sum256([]byte(identity))
	return &Server{Identity: hex.EncodeToString(digest[:16]), compiling: make(chan struct{}, 1)}
}

// Way passes calls on to a server.
type Way interface {
	// Pass passes a call on until it has ended, and returns how. The handler returns its error: most often that
	// the call waits. ErrModern says that nothing was sent, and that the server wants rounds, and upstream.ErrLegacy
	// that it wants sessions.
	Pass(ctx context.Context, c *Call) (*outcome.Record, error)
}

// ErrModern says that a server that was older has become one of 2026-07-28.
var ErrModern = errors.New("the server has changed to 2026-07-28")

// Guard knows which tools all servers offer, and what people have to approve.
type Guard interface {
	// Reviewed waits, while the bridge starts, until that is known.
	Reviewed(ctx context.Context) error
	// Refuses returns the reason why calls of a server are not passed on, or nil.
	Refuses(s *Server) error
	// MadeFor returns the tool of a server, by its identity and the tool's name there, whatever hosts call it now. It
	// returns nil if that server is not here.
	MadeFor(identity, tool string) *Target
}

// Target is the tool, the prompt or the resource of a server that a call is for.
type Target struct {
	*Server
	Method string
	Name   string // or URI
	As     string // the name of a tool that hosts see
	// Repeatable says that a round can be sent again: the tool is marked as read-only or idempotent, or it is no tool.
	Repeatable bool
	Gone       atomic.Bool // the server no longer offers it
	Hidden     atomic.Bool // hosts no longer see it under the name that it was made for
	Turned     atomic.Bool // the server no longer says that a round can be sent again
	Approval   *Approval   // that its calls need, or nil
	Schema     any         // of a tool's arguments, as it was listed
	Template   *foreign.Template
	Definition string // as the server has written it, or empty
	// Annotations are what the server says of a tool, or nil.
	Annotations *mcp.ToolAnnotations
}

// Strict returns whether the tool is, or has become, one whose rounds must not be sent again. A call keeps the stricter
// of what its server says in the course of it.
func (t *Target) Strict() bool { return !t.Repeatable || t.Turned.Load() }

// Thing names what the call is for.
func (t *Target) Thing() string {
	switch t.Method {
	case wire.GetPrompt:
		return fmt.Sprintf("prompt %q", t.Name)
	case wire.ReadResource:
		return fmt.Sprintf("resource %q", t.Name)
	}
	return fmt.Sprintf("tool %q", t.Name)
}

// Call is one call on its way to the server and back, in one run of its handler.
type Call struct {
	*Target
	Host     *askback.Call   // the call that the host has made
	Params   json.RawMessage // of the call, for every round
	Asks     asks.Asker
	Progress bool // the host wants to be told

	meta   []byte // the _meta of the host's request, or nil
	gates  []*consent.Gate
	raises bool  // the call has to pass one more gate before anything more is sent
	denial error // why nothing more is sent, or nil

	arguments []byte // of the host
	decided   *consent.Policy
	digest    string // of the rules that have decided
}

func (t *Target) newCall(call *askback.Call) *Call {
	return &Call{Target: t, Host: call, Asks: asks.New(call)}
}

// pass passes the call on to the server, and returns its result.
func (c *Call) pass(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	c.Params = params
	way := c.Rounds
	if c.Method == wire.CallTool && c.Conn.Legacy() {
		way = c.Legacy
	}
	r, err := way.Pass(ctx, c)
	switch {
	case errors.Is(err, ErrModern):
		r, err = c.Rounds.Pass(ctx, c)
	case errors.Is(err, upstream.ErrLegacy):
		r, err = c.Legacy.Pass(ctx, c)
	}
	if errors.Is(err, ErrModern) || errors.Is(err, upstream.ErrLegacy) {
		r, err = outcome.Endf("The %s was not called: its server keeps changing its revision. Call it again.", c.Thing()), nil
	}
	if err != nil {
		return nil, err
	}
	return r.End()
}

// Kept is a record in a call that is stored: a result that is too large to keep becomes words.
func (c *Call) Kept(r *outcome.Record) *outcome.Record {
	if len(r.Result) <= c.MostKept {
		return r
	}
	return outcome.Endf("The tool %q ran, but its result of %d bytes is too large to keep: the bridge "+
		"keeps at most %d bytes of a call that waited.", c.Name, len(r.Result), c.MostKept)
}

// RequestMeta is the _meta of a round: what this host can be asked, and what the host sent that is not about its own
// connection to the bridge. The server is told that its calls may become tasks if the host says so, or with tasks.
func (c *Call) RequestMeta(tasks bool) mcp.Meta {
	meta := mcp.Meta{mcp.MetaKeyClientCapabilities: c.Can().Declaration(tasks || c.Host.Can(askback.CapabilityTasks))}
	for name, value := range strictjson.Members(c.meta) {
		switch key := string(name); {
		case key == mcp.MetaKeyProtocolVersion, key == mcp.MetaKeyClientInfo, key == mcp.MetaKeyClientCapabilities,
			key == "progressToken", key == wire.MetaRelatedTask, strings.HasPrefix(key, ownMeta):
		default:
			meta[key] = json.RawMessage(value)
		}
	}
	// Hosts in sessions have said once what they want to see of the log, and what they do not want is left out there.
	if c.Conn.Logs() && strictjson.Get(c.meta, mcp.MetaKeyProtocolVersion) == nil {
		meta[mcp.MetaKeyLogLevel] = "debug"
	}
	return meta
}

// Can is what the server can ask in this call: what the host declared, and elicitation, because the desk can ask for
// a tool. A caller without a name has no desk.
func (c *Call) Can() upstream.Abilities {
	desk := c.Method == wire.CallTool && c.Host.Principal() != ""
	return upstream.Abilities{
		Form:     desk || c.Host.Can(askback.CapabilityForm),
		URL:      desk || c.Host.Can(askback.CapabilityURL),
		Sampling: c.Host.Can(askback.CapabilitySampling),
		Tools:    c.Host.Can(askback.CapabilitySamplingTools),
		Roots:    c.Host.Can(askback.CapabilityRoots),
	}
}
