// Package inline runs handlers that ask through the session of the SDK, in rounds: a stand-in takes the place of the
// session, and an ask whose answer is not there yet ends the handler's goroutine.
package inline

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Server makes the sessions that handlers ask through when their client has none. The sessions belong to an SDK's
// server of their own, so that the author's server does not count or notify them; what they send is answered by
// middleware, in the asking goroutine. It is safe for concurrent use.
type Server struct {
	engine    *call.Engine
	translate func(error) error
	mcp       *mcp.Server
	pong      mcp.MethodHandler // answers a ping with the SDK's own type
	runs      sync.Map          // *mcp.ServerSession to *run
}

// New returns a Server. The errors of asks are translated for the handlers.
func New(engine *call.Engine, translate func(error) error) *Server {
	s := &Server{engine: engine, translate: translate}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "askback", Version: "1.0.0"},
		&mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	s.mcp.AddSendingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler { return s.send })
	s.mcp.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		s.pong = next
		return next
	})
	return s
}

// Open returns how many sessions there are.
func (s *Server) Open() int {
	n := 0
	s.runs.Range(func(any, any) bool { n++; return true })
	for range s.mcp.Sessions() {
		n++
	}
	return n
}

// Run runs a handler for one round, or natively in a session.
func (s *Server) Run(ctx context.Context, c *call.Call, h func(context.Context, *mcp.CallToolRequest) error) error {
	c.Inline = true
	req := c.View().(*mcp.CallToolRequest)
	c.SetView(req)
	if c.InSession {
		return likeSDK(h(ctx, req))
	}
	r := &run{server: s, call: c, ctx: ctx, answered: make(map[string]int)}
	ctx, r.suspend = context.WithCancelCause(ctx)
	defer r.suspend(nil)
	session, disconnect, err := s.connect(r, req.Params.Meta)
	if err != nil {
		return fmt.Errorf("a session for the handler: %w", err)
	}
	defer disconnect()
	req.Session = session
	if c.Probe != nil {
		ctx = c.Probe.Handle(ctx) // again, because the handler is to get it, and not a context derived from it
	}

	var panicked error
	returned := false
	done := make(chan struct{})
	go frame(func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				panicked = s.engine.Panicked(ctx, c, v)
			}
		}()
		err = h(ctx, req)
		returned = true
	})
	<-done
	r.end()
	switch {
	case panicked != nil:
		return panicked
	case c.Suspended():
		return journal.ErrInputRequired
	case !returned:
		return errors.New("the handler ended its goroutine instead of returning")
	}
	return withoutCapability(c, likeSDK(err))
}

// likeSDK hides an error of the protocol that is wrapped in another, which makes it a tool's error: mcp.AddTool sends
// only those as such that are not wrapped, and wraps in particular what a client answers to a question.
func likeSDK(err error) error {
	if _, direct := err.(*jsonrpc.Error); direct {
		return err
	}
	if _, wrapped := errors.AsType[*jsonrpc.Error](err); wrapped {
		return errors.New(err.Error())
	}
	return err
}

// withoutCapability makes of the SDK's error for a question that the client cannot be asked what the protocol has for
// it. The SDK has no type for that error. (basic, "Per-request protocol fields")
func withoutCapability(c *call.Call, err error) error {
	if err == nil {
		return nil
	}
	for need, text := range map[wire.Capability]string{
		wire.Form: `client does not support "form" elicitation`,
		wire.URL:  `client does not support "url" elicitation`,
	} {
		if strings.Contains(err.Error(), text) && c.Can&need == 0 {
			return wire.MissingCapability(need)
		}
	}
	if strings.Contains(err.Error(), "client does not support elicitation") && c.Can&(wire.Form|wire.URL) == 0 {
		return &jsonrpc.Error{ // it does not tell which of the two was to be asked
			Code:    mcp.CodeMissingRequiredClientCapabilities,
			Message: "Missing required client capability: elicitation",
			Data:    []byte(`{"requiredCapabilities":{"elicitation":{}}}`),
		}
	}
	return err
}

// run is one round of an inline handler.
type run struct {
	server  *Server
	call    *call.Call
	ctx     context.Context // The round's context: open questions are gathered until it is done.
	suspend context.CancelCauseFunc

	mu       sync.Mutex
	ended    bool
	answered map[string]int // asks that got an answer, by their question
	open     []string       // the keys of open questions
}

// end lets no ask reach the call any more.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// ask returns the answer to a question that has no key of its own. It does not return in
// the handler's own goroutine if the question is open.
func (r *run) ask(ctx context.Context, kind string, q *question.Question) ([]byte, error) {
	value, err := r.askOrJoin(ctx, kind, q)
	if !errors.Is(err, journal.ErrInputRequired) {
		return value, err
	}
	if handlerFrame.OnStack() {
		r.suspend(journal.ErrInputRequired)
		runtime.Goexit()
	}
	return nil, fmt.Errorf("the question is open, and the handler runs again when it is answered: %w",
		journal.ErrInputRequired)
}

func (r *run) askOrJoin(ctx context.Context, kind string, q *question.Question) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, errEnded
	}
	// In a group of goroutines the first open question cancels the others; theirs join the round all the same.
	if err := ctx.Err(); err != nil && !r.call.Suspended() {
		return nil, err
	}
	// Equal questions are numbered as they are answered, so that one that is asked again while it is open stays one.
	content := kind + "-" + hex.EncodeToString(q.Digest[:4])
	key := content
	if r.answered[content] > 0 {
		key = fmt.Sprintf("%s-%d", content, r.answered[content]+1)
	}
	if slices.Contains(r.open, key) {
		return nil, journal.ErrInputRequired
	}
	value, err := r.call.AskInline(r.ctx, key, q)
	if err != nil {
		if errors.Is(err, journal.ErrInputRequired) {
			r.open = append(r.open, key)
		}
		return nil, r.server.translate(err)
	}
	r.answered[content]++
	return value, nil
}

var errEnded = errors.New("the round has ended: a handler must wait for what it asks before it returns")

// frame is the bottom frame of a handler's own goroutine, which tells it from those that the handler starts.
//
//go:noinline
func frame(f func()) { f() }

var handlerFrame = journal.FrameOf(frame)

// connect makes a session for one round. No goroutine outlives disconnect.
func (s *Server) connect(r *run, meta mcp.Meta) (session *mcp.ServerSession, disconnect func(), err error) {
	capabilities := new(mcp.ClientCapabilities)
	decodeMember(meta, mcp.MetaKeyClientCapabilities, capabilities)
	if r.call.Can&wire.Roots != 0 { // The SDK's type does not decode roots.
		capabilities.RootsV2 = new(mcp.RootCapabilities(capabilities.Roots))
	}
	client := new(mcp.Implementation) // handlers rely on it not being nil
	decodeMember(meta, mcp.MetaKeyClientInfo, client)
	session, err = s.mcp.Connect(r.ctx, nowhere{r.call.PublicID()},
		&mcp.ServerSessionOptions{State: &mcp.ServerSessionState{
			InitializeParams: &mcp.InitializeParams{
				ProtocolVersion: sessionVersion,
				Capabilities:    capabilities,
				ClientInfo:      client,
			},
			InitializedParams:         new(mcp.InitializedParams),
			NegotiatedProtocolVersion: sessionVersion,
		}})
	if err != nil {
		return nil, nil, err
	}
	s.runs.Store(session, r)
	return session, func() {
		s.runs.Delete(session)
		_ = session.Close() // The connection is at its end already.
	}, nil
}

// sessionVersion is the last revision in which servers send requests.
const sessionVersion = "2025-11-25"

// decodeMember decodes a member of _meta. What does not decode is left zero.
func decodeMember(meta mcp.Meta, key string, into any) {
	if data, err := json.Marshal(meta[key]); err == nil {
		_ = json.Unmarshal(data, into) // null, if there is no such member, changes nothing
	}
}

func (s *Server) send(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	session := req.GetSession().(*mcp.ServerSession)
	found, ok := s.runs.Load(session)
	if !ok {
		return nil, errEnded
	}
	r := found.(*run)
	switch p := req.GetParams().(type) {
	case *mcp.ElicitParams:
		q, err := elicitation(p)
		return r.answer(ctx, method, "elicit", q, err, new(mcp.ElicitResult))
	case *mcp.CreateMessageParams:
		q, err := question.Sample(p)
		return r.answer(ctx, method, "sample", q, err, new(mcp.CreateMessageWithToolsResult))
	case *mcp.CreateMessageWithToolsParams:
		q, err := question.Sample(p)
		return r.answer(ctx, method, "sample", q, err, new(mcp.CreateMessageWithToolsResult))
	case *mcp.ProgressNotificationParams:
		return nil, r.call.Progress(ctx, p.Progress, p.Total, p.Message)
	}
	switch {
	case method == input.MethodListRoots:
		return r.answer(ctx, method, "roots", question.Roots(), nil, new(mcp.ListRootsResult))
	case method == "ping":
		return s.pong(ctx, method, &mcp.ServerRequest[*mcp.PingParams]{Session: session})
	case strings.HasPrefix(method, "notifications/"):
		return nil, nil
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " cannot be sent to a client of " +
		wire.Version}
}

// answer decodes the answer to a question into res. The error says why the question could not be made.
func (r *run) answer(
	ctx context.Context, method, kind string, q *question.Question, err error, res mcp.Result,
) (mcp.Result, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	value, err := r.ask(ctx, kind, q)
	if err != nil {
		return nil, err
	}
	return res, json.Unmarshal(value, res)
}

func elicitation(p *mcp.ElicitParams) (*question.Question, error) {
	if p.Mode == "url" {
		return question.URL(p.Message, p.URL)
	}
	schema, err := parseSchema(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	return question.Form(p.Message, schema), nil
}

// parseSchema reads a schema that was written for the SDK, which lets parts of it be
// absent and infers others that a form has no use for.
func parseSchema(requested any) (*form.Schema, error) {
	data, err := json.Marshal(requested)
	if err != nil {
		return nil, err
	}
	if schema, err := form.Parse(data); err == nil {
		return schema, nil
	}
	root := make(map[string]json.RawMessage)
	if strictjson.TypeOf(data) != strictjson.TypeNull {
		if err := json.Unmarshal(data, &root); err != nil {
			return nil, errors.New("the requested schema must be an object")
		}
	}
	for _, name := range []string{"additionalProperties", "title", "description", "$id"} {
		delete(root, name)
	}
	for name, value := range map[string]string{"type": `"object"`, "properties": "{}"} {
		if root[name] == nil {
			root[name] = json.RawMessage(value)
		}
	}
	if data, err = json.Marshal(root); err != nil {
		return nil, err
	}
	return form.Parse(data)
}

// nowhere is the transport of a stand-in: its connection is at its end from the start, so
// that the SDK stops reading from it at once.
type nowhere struct{ id string }

func (n nowhere) Connect(context.Context) (mcp.Connection, error) { return n, nil }
func (n nowhere) SessionID() string                               { return n.id }
func (n nowhere) Read(context.Context) (jsonrpc.Message, error)   { return nil, io.EOF }
func (n nowhere) Write(context.Context, jsonrpc.Message) error    { return io.ErrClosedPipe }
func (n nowhere) Close() error                                    { return nil }
