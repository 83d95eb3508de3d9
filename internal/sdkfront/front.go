// Package sdkfront brings requests for handlers and tasks to the gate, behind all receiving middleware that they would
// meet at the SDK's server:
//
//   - [Front.Serve] serves a request that came over HTTP outside of sessions. Without middleware it makes nothing of
//     the SDK's.
//   - Connections of whole messages and sessions before 2026-07-28 come through the SDK's server. The middleware of
//     [Front.Install] stands around the SDK's handlers.
package sdkfront

import (
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/tasks"
)

// Front serves requests for one SDK's server. It is safe for concurrent use;
// its exported fields must not be changed while it is used.
type Front struct {
	Server   *mcp.Server
	Gate     *gate.Gate
	Calls    *call.Engine
	Handlers *call.Registry
	Carrier  *home.Carrier
	Tasks    *tasks.Service // nil: there are none
	// ListsTasks says that callers can be told apart and the store lists tasks, so that clients may list theirs.
	ListsTasks bool
	// Echo, if set, makes the home of a call in a session whose questions carry a state.
	Echo atomic.Pointer[EchoFunc]
	Info []byte // the _meta of every result, which says who answers
	Log  *slog.Logger

	receiving reflect.Value // the SDK's handler of received requests; invalid where it cannot be read
	own       uintptr       // the code of our middleware, as receiving has it
	before    bool          // there was middleware when ours was added
	warn      sync.Once

	registered registered
	lists      bool // List answers clients
	tools      pages
	templates  templates

	mu      sync.Mutex
	handler atomic.Pointer[mcp.MethodHandler] // handle in the middleware of AddReceivingMiddleware
	chained atomic.Bool                       // there is such middleware
}

// EchoFunc makes the home of a call in a session, given the id of its request.
type EchoFunc func(r *call.Request, held *home.Held, id []byte) (call.Home, error)

// direct reports whether a request may be served without the SDK: nothing but our own middleware would see it there.
func (f *Front) direct() bool {
	if !f.before && f.receiving.Pointer() == f.own {
		return true
	}
	f.warn.Do(func() {
		f.Log.Info("askback: the mcp.Server has receiving middleware, so that every request takes the SDK's path, " +
			"which costs several times more; " +
			"middleware added with Server.AddReceivingMiddleware does not need that")
	})
	return false
}

// Around adds middleware that sees what is not a call of one of our handlers, which may be served past it.
func (f *Front) Around(middleware mcp.Middleware) {
	f.mu.Lock()
	defer f.mu.Unlock()
	handler := middleware(*f.handler.Load())
	f.handler.Store(&handler)
}

// AddReceivingMiddleware adds middleware that sees every request, through the SDK or past
// it, outside of what was added before. The first one is the outermost.
func (f *Front) AddReceivingMiddleware(middleware ...mcp.Middleware) {
	f.mu.Lock()
	defer f.mu.Unlock()
	handler := *f.handler.Load()
	for _, m := range slices.Backward(middleware) {
		handler = m(handler)
	}
	f.handler.Store(&handler)
	f.chained.Store(len(middleware) > 0 || f.chained.Load())
}
