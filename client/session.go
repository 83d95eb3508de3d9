package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// Session is a connection to one server. It is safe for concurrent use; answers of one call never reach another.
type Session struct {
	opts     *Options
	sdk      *mcp.ClientSession
	endpoint string
	direct   *direct // nil if the SDK's client sends everything
	inline   *inlineState
	forget   func()          // removes the session from its client
	life     context.Context // ends when the session is closed
	end      context.CancelCauseFunc
	cut      context.CancelFunc // ends what is still sent
	takes    bool               // calls can be tasks, before 2026-07-28
	probed   bool               // the server has answered the probe
	silent   atomic.Bool        // the server sends no notifications about tasks
	observer observer
}

// legacy reports whether the session is of a revision before 2026-07-28.
func (s *Session) legacy() bool {
	res := s.sdk.InitializeResult()
	return res != nil && res.ProtocolVersion < wire.Version
}

// SDK returns the SDK's session below, for lists, completion and subscriptions. Its calls are not driven to the end,
// and questions that servers ask during them inside a session before 2026-07-28 are refused.
func (s *Session) SDK() *mcp.ClientSession { return s.sdk }

// Close ends the connection, the calls, and the questions that handlers still have. A call
// that waits for a task ends with a [*PendingError]. A session that is closed makes no calls.
// A server that does not take the answers to its requests delays Close by a second at most.
func (s *Session) Close() error {
	s.end(fmt.Errorf("the session was closed: %w", mcp.ErrConnectionClosed))
	defer s.forget()
	defer time.AfterFunc(closeTime, s.cut).Stop()
	return s.sdk.Close()
}

// closeTime is the time in which a closed session still sends answers. A server that does not read them must not keep
// the host from closing.
const closeTime = time.Second

// Server returns how the server introduced itself, or nil if it did not.
func (s *Session) Server() *mcp.Implementation {
	if res := s.sdk.InitializeResult(); res != nil {
		return res.ServerInfo
	}
	return nil
}

// begin begins a call: its time is bounded, and the server may ask inside the session.
func (s *Session) begin(ctx context.Context) (_ context.Context, leave func()) {
	ctx, done := join(ctx, s.life)
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Limits.CallTTL, s.opts.Limits.timeReached())
	ended := s.inline.enter(s.life)
	return ctx, func() { ended(); cancel(); done() }
}
