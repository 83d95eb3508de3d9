package askback

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Run serves one connection of a transport of the SDK, such as mcp.StdioTransport,
// until the client ends it or ctx is done. Lines on standard input that are no messages
// are answered with an error, and the connection goes on. (basic/transports/stdio)
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	return s.mcp.Run(ctx, s.transport(t))
}

// Connect serves a connection in the background: see mcp.Server.Connect.
func (s *Server) Connect(ctx context.Context, t mcp.Transport, opts *mcp.ServerSessionOptions) (*mcp.ServerSession, error) {
	return s.mcp.Connect(ctx, s.transport(t), opts)
}

func (s *Server) transport(t mcp.Transport) mcp.Transport {
	return &exactTransport{lines(t, s.opts.Limits.BodyBytes, s.opts.Limits.Depth), s}
}

// exactTransport keeps the exact parameters of requests for Askback's handlers beside
// the SDK's types, which read numbers in answers as float64 and refuse answers of
// unknown form that the protocol says to ignore.
type exactTransport struct {
	mcp.Transport
	server *Server
}

func (t *exactTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &exactConnection{Connection: conn, server: t.server, open: make(map[jsonrpc.ID]*connListening)}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

type exactConnection struct {
	mcp.Connection
	server *Server

	life context.Context // until the connection is closed
	end  context.CancelFunc
	all  sync.WaitGroup // those who send by themselves

	announced atomic.Int32

	mu   sync.Mutex
	open map[jsonrpc.ID]*connListening // the subscriptions that name tasks
}

// exactParams is where the parameters travel through the SDK, which hands the headers of
// RequestExtra to handlers as they are. HTTP can carry no header of this name.
const exactParams = "\x00askback exact params"

// echoedState is where the id of a call in a session travels whose questions are to carry a
// state, as the state proposal has it.
const echoedState = "\x00askback echoed state"

func (c *exactConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil {
			return msg, err
		}
		switch m := msg.(type) {
		case *jsonrpc.Response:
			if fault := c.server.strict(m.Result); fault != nil {
				return &jsonrpc.Response{ID: m.ID, Error: fault}, nil // what was asked fails
			}
		case *jsonrpc.Request:
			if fault := c.server.strict(m.Params); fault != nil {
				if m.IsCall() {
					c.refuse(ctx, m.ID, fault)
				}
				continue
			}
			switch m.Method {
			case methodListen:
				if !c.listen(ctx, m) {
					continue
				}
			case "notifications/cancelled":
				c.cancelled(m.Params)
			}
			return c.keepParams(m), nil
		}
		return msg, nil
	}
}

// strict checks the params or the result of a message as the body of an HTTP request is checked, of which they would be
// a member.
func (s *Server) strict(member []byte) *jsonrpc.Error {
	if len(member) == 0 {
		return nil
	}
	if err := strictjson.Check(member, s.opts.Limits.Depth-1); err != nil {
		return wire.Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
	}
	return nil
}

// keepParams lets the exact parameters of a request for one of Askback's handlers travel beside those for the SDK.
func (c *exactConnection) keepParams(req *jsonrpc.Request) *jsonrpc.Request {
	if !wire.MayAsk(req.Method) || !c.server.serves(req.Method, req.Params) {
		return req
	}
	extra := new(mcp.RequestExtra)
	if own, ok := req.Extra.(*mcp.RequestExtra); ok && own != nil {
		*extra = *own
	}
	header := make(http.Header, len(extra.Header)+1)
	maps.Copy(header, extra.Header)
	header[exactParams] = []string{string(req.Params)}
	extra.Header, req.Extra = header, extra
	var params map[string]json.RawMessage
	if err := json.Unmarshal(req.Params, &params); err != nil {
		return req
	}
	delete(params, "inputResponses")
	delete(params, "requestState")
	if reduced, err := json.Marshal(params); err == nil {
		req.Params = reduced
	}
	return req
}

// serveSDK serves a request that the SDK carried: in one round to a modern client, in
// all rounds to a legacy one, whom the questions reach inside its session.
func (s *Server) serveSDK(ctx context.Context, h *handler, req mcp.Request) (*reply, error) {
	raw, extra, err := exactRequest(req)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Check(raw, s.opts.Limits.Depth); err != nil {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
	}
	params, fault := wire.ParseParams(h.method, raw)
	if fault != nil {
		return nil, fault
	}
	own, _ := ctx.Value(ownCallKey{s}).(*ownCall)
	if own == nil { // another middleware made a context of its own
		own = &ownCall{reply: new(reply)}
		if own.principal, err = s.principal(ctx, extra); err != nil {
			return nil, err
		}
	}
	session := req.GetSession().(*mcp.ServerSession)
	x := &exchange{
		handler:   h,
		params:    params,
		raw:       raw,
		can:       Kind(params.Meta.Capabilities),
		principal: own.principal,
		progress:  sdkProgress(session, req),
		request: func(mine manualState) mcp.Request {
			return sdkRequest(h.method, raw, session, extra, mine)
		},
	}
	inSession := legacy(req)
	if inSession {
		x.session, x.can = true, sessionCapabilities(session)
		x.echo, err = echoedCall(req, h.method, raw)
		if err != nil {
			return nil, err
		}
	}
	if err := s.wish(x, inSession); err != nil {
		return nil, protocolError(err)
	}
	var r *reply
	if inSession {
		r, err = s.serveInline(ctx, session, x)
	} else {
		r, err = s.serve(ctx, x)
	}
	if err != nil {
		return nil, protocolError(err)
	}
	*own.reply = *r
	return r, nil
}

// ownCallKey is where the context of a request for one of Askback's own handlers has its [ownCall].
type ownCallKey struct{ server *Server }

// ownCall is what the middleware tells the handler, and the handler the middleware: whose questions have an order that the
// SDK's map of them loses.
type ownCall struct {
	principal string
	reply     *reply
}

// exactRequest returns the request's parameters as they came, if the connection kept
// them, and what the transport says of the caller.
func exactRequest(req mcp.Request) ([]byte, *mcp.RequestExtra, error) {
	extra := caller(req)
	if extra != req.GetExtra() {
		return []byte(req.GetExtra().Header[exactParams][0]), extra, nil
	}
	raw, err := json.Marshal(req.GetParams())
	return raw, extra, err
}

// caller is what the transport says of a request's caller, without what travels there for Askback.
func caller(req mcp.Request) *mcp.RequestExtra {
	extra := req.GetExtra()
	if extra == nil || len(extra.Header[exactParams]) != 1 {
		return extra
	}
	own := *extra
	own.Header = maps.Clone(extra.Header)
	delete(own.Header, exactParams)
	delete(own.Header, echoedState)
	return &own
}

// echoedCall is the call whose questions are to carry a state, or nil.
func echoedCall(req mcp.Request, method string, raw []byte) (*drafts.Call, error) {
	extra := req.GetExtra()
	if extra == nil || len(extra.Header[echoedState]) != 1 {
		return nil, nil
	}
	session := req.GetSession().(*mcp.ServerSession)
	call := &drafts.Call{Session: session.ID(), ID: []byte(extra.Header[echoedState][0]), Method: method, Params: raw}
	init := session.InitializeParams()
	var err error
	if init != nil {
		call.Capabilities, err = json.Marshal(init.Capabilities)
	}
	return call, err
}

// legacy reports whether a request belongs to a session: modern ones say their version
// themselves (basic/versioning, "Backward Compatibility").
func legacy(req mcp.Request) bool {
	_, modern := req.GetParams().GetMeta()[mcp.MetaKeyProtocolVersion]
	return !modern
}

func sessionCapabilities(session *mcp.ServerSession) Kind {
	var can Kind
	init := session.InitializeParams()
	if init == nil || init.Capabilities == nil {
		return 0
	}
	if e := init.Capabilities.Elicitation; e != nil {
		if e.Form != nil || e.URL == nil {
			can |= KindForm
		}
		if e.URL != nil {
			can |= KindURL
		}
	}
	if sampling := init.Capabilities.Sampling; sampling != nil {
		can |= KindSampling
		if sampling.Tools != nil {
			can |= KindSamplingTools
		}
	}
	if init.Capabilities.RootsV2 != nil {
		can |= KindRoots
	}
	return can
}

func sdkProgress(session *mcp.ServerSession, req mcp.Request) progressFunc {
	params, ok := req.GetParams().(mcp.RequestParams)
	if !ok || params.GetProgressToken() == nil {
		return nil
	}
	token := params.GetProgressToken()
	return func(ctx context.Context, progress, total float64, message string) error {
		return session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: progress, Total: total, Message: message,
		})
	}
}

// sdkRequest makes the SDK's view of a request. What does not decode is left zero.
func sdkRequest(method string, raw []byte, session *mcp.ServerSession, extra *mcp.RequestExtra, mine manualState) mcp.Request {
	// By exact names: encoding/json would let "Arguments" stand in for "arguments".
	var fields struct {
		Meta      mcp.Meta
		Name, URI string
		Arguments json.RawMessage
	}
	_ = json.Unmarshal(strictjson.Get(raw, "_meta"), &fields.Meta)
	fields.Name, _ = strictjson.String(strictjson.Get(raw, "name"))
	fields.URI, _ = strictjson.String(strictjson.Get(raw, "uri"))
	fields.Arguments = strictjson.Get(raw, "arguments")
	responses := mine.typedResponses()
	switch method {
	case wire.CallTool:
		return &mcp.CallToolRequest{Session: session, Extra: extra, Params: &mcp.CallToolParamsRaw{
			Meta: fields.Meta, Name: fields.Name, Arguments: fields.Arguments, InputResponses: responses, RequestState: mine.state,
		}}
	case wire.GetPrompt:
		var arguments map[string]string
		_ = json.Unmarshal(fields.Arguments, &arguments)
		return &mcp.GetPromptRequest{Session: session, Extra: extra, Params: &mcp.GetPromptParams{
			Meta: fields.Meta, Name: fields.Name, Arguments: arguments, InputResponses: responses, RequestState: mine.state,
		}}
	default:
		return &mcp.ReadResourceRequest{Session: session, Extra: extra, Params: &mcp.ReadResourceParams{
			Meta: fields.Meta, URI: fields.URI, InputResponses: responses, RequestState: mine.state,
		}}
	}
}

// serveInline runs all rounds of a call inside one request of a legacy session: the
// journal stays in memory, and the questions of a round go out together.
func (s *Server) serveInline(ctx context.Context, session *mcp.ServerSession, x *exchange) (*reply, error) {
	j := &journal.Journal{ID: rand.Text(), Started: time.Now()}
	if x.wish.dialect != "" { // which must be answered with a task (2025-11-25, "Result Retrieval")
		return s.createTask(ctx, x, j)
	}
	if x.echo != nil {
		defer func() {
			if j.Round > 0 {
				s.dropState(ctx, x, j)
			}
		}()
	}
	for {
		r, err := s.round(ctx, x, j, false)
		if err != nil || !r.inputRequired() {
			return r, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		requests, state := r.typed(), ""
		if x.echo != nil {
			if requests, state, err = s.withState(ctx, x, j, requests); err != nil {
				return nil, err
			}
		}
		params := *x.params
		x.params = &params
		if params.Responses, err = askInline(ctx, session, journal.Derived("call", j.ID), requests); err != nil {
			return s.failed(x, err)
		}
		if state != "" {
			if err := s.spend(ctx, x, j, state); err != nil {
				return nil, err
			}
		}
	}
}

// withState gives each question its state, to be echoed. Without one, where it is too large
// or the store fails, the call goes on all the same.
func (s *Server) withState(ctx context.Context, x *exchange, j *journal.Journal, requests mcp.InputRequestMap) (stateful mcp.InputRequestMap, sealed string, err error) {
	if sealed, _, err = s.sealJournal(ctx, x, j); err != nil {
		return requests, "", nil
	}
	stateful = make(mcp.InputRequestMap, len(requests))
	for key, request := range requests {
		state, err := x.echo.Encode(sealed, key)
		if err != nil {
			return nil, "", err
		}
		stateful[key] = withMeta(request, mcp.Meta{drafts.MetaState: state})
	}
	return stateful, sealed, nil
}

// spend lets no call go on from the state of a round that was answered in its session, where
// a state may be used once.
func (s *Server) spend(ctx context.Context, x *exchange, j *journal.Journal, state string) error {
	if s.opts.ReplayGuard == nil {
		return nil
	}
	opened, err := s.keys.Open(state, s.binding(x), time.Now())
	if err != nil {
		return nil // it has expired, and is of no use to anybody
	}
	fresh, err := s.useState(ctx, x, opened, j)
	if err == nil && !fresh {
		err = s.refuse(ctx, x, "replayed", errors.New("the call went on from it elsewhere, and the replay guard allows one use"))
	}
	return err
}

// askInline sends questions as requests of the server and waits for all results. One
// that does not fit its question is left out, and so asked again.
func askInline(ctx context.Context, session *mcp.ServerSession, callID string, requests mcp.InputRequestMap) (map[string][]byte, error) {
	var mu sync.Mutex
	responses := make(map[string][]byte, len(requests))
	group, ctx := errgroup.WithContext(ctx)
	for key, request := range requests {
		group.Go(func() error {
			result, err := send(ctx, session, callID, key, request)
			if err != nil {
				if unfit(err) {
					return nil
				}
				// Not wrapped: the client's error is not this server's answer to it.
				return fmt.Errorf("asking the client %q: %v", key, err)
			}
			data, err := json.Marshal(result)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			responses[key] = data
			return nil
		})
	}
	return responses, group.Wait()
}

func send(ctx context.Context, session *mcp.ServerSession, callID, key string, request mcp.InputRequest) (any, error) {
	switch q := withMeta(request, mcp.Meta{wire.MetaKey: key}).(type) {
	case *mcp.ElicitParams:
		if q.Mode == "url" && q.ElicitationID == "" {
			q.ElicitationID = callID + "/" + key // required before 2026-07-28
		}
		return session.Elicit(ctx, q)
	case *mcp.CreateMessageWithToolsParams:
		return session.CreateMessageWithTools(ctx, q)
	case *mcp.CreateMessageParams:
		return session.CreateMessage(ctx, q)
	case *mcp.ListRootsParams:
		return session.ListRoots(ctx, q)
	}
	return nil, fmt.Errorf("unknown input request %T", request)
}

// withMeta is a copy of a request with more in its _meta; what it has itself stays.
func withMeta(request mcp.InputRequest, more mcp.Meta) mcp.InputRequest {
	meta := maps.Clone(more)
	switch p := request.(type) {
	case *mcp.ElicitParams:
		q := *p
		maps.Copy(meta, p.Meta)
		q.Meta = meta
		return &q
	case *mcp.CreateMessageWithToolsParams:
		q := *p
		maps.Copy(meta, p.Meta)
		q.Meta = meta
		return &q
	case *mcp.CreateMessageParams:
		q := *p
		maps.Copy(meta, p.Meta)
		q.Meta = meta
		return &q
	case *mcp.ListRootsParams:
		q := *p
		maps.Copy(meta, p.Meta)
		q.Meta = meta
		return &q
	}
	return request
}

// unfit reports whether the SDK refused a form's answer because it does not fit the
// schema. It has no type for that error.
func unfit(err error) bool {
	_, fromClient := errors.AsType[*jsonrpc.Error](err)
	return !fromClient && strings.Contains(err.Error(), "does not match requested schema")
}
