package askback

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// AddInlineTool adds a tool whose handler was written for the SDK's mcp.AddTool and asks
// in the middle: through Elicit, CreateMessage, CreateMessageWithTools or ListRoots of
// req.Session. The handler stays as it is.
//
// In a session of a revision before 2026-07-28 it runs once, in the client's own session,
// as it always did. For a client of 2026-07-28 it runs in rounds, from the top in each. An
// ask that was answered in an earlier round returns the answer. One that was not ends the
// round:
//
//   - In the handler's own goroutine it does not return. Deferred functions run, and
//     nothing else: recover finds nothing in them, and ctx is cancelled with the cause
//     [ErrInputRequired]. A mutex that is not unlocked by one of them stays locked.
//   - In any other goroutine it returns an error that wraps ErrInputRequired. What the
//     handler returns then is left out.
//
// This is sound if the handler
//
//   - asks the same questions when it gets the same answers,
//   - does what has a side effect before its last question in [Do], with the call of
//     [CallFrom], and asks in no such step,
//   - releases what it holds while it asks in deferred functions.
//
// What stands after the last question runs again if the last response is lost and the
// client repeats the round, as in every handler. Unless t is annotated as read-only, a
// warning is logged that says what to do.
//
// A question is known by its content; the same one, asked again after its answer, is a new
// one. An answer that does not fit its form is asked for again; it is no error. A form has
// to keep to the restricted schema of the specification: the SDK also sends what no client
// need understand, such as patterns, and here Elicit says what is wrong with it. If the
// client has not declared the capability for an ask, Elicit returns the SDK's error for
// that and the others a [*CapabilityError]; returned by the handler both become the
// JSON-RPC error -32021.
//
// In rounds req.Session is a stand-in that nothing is connected to. Its InitializeParams say
// what the client declared, and its ID is the call's; progress goes to the client, other
// notifications go nowhere.
//
// Arguments and results are handled as in [AddTool], which also tells when this panics. An
// error that wraps a *jsonrpc.Error, as those of a client's answers do, is a tool error;
// only one that is itself of that type is sent as such. (basic/patterns/mrtr)
func AddInlineTool[In, Out any](s *Server, t *mcp.Tool, h mcp.ToolHandlerFor[In, Out]) {
	AddTool(s, t, func(ctx context.Context, call *Call, in In) (res *mcp.CallToolResult, out Out, err error) {
		err = s.runInline(ctx, call, func(ctx context.Context, req *mcp.CallToolRequest) (err error) {
			res, out, err = h(ctx, req, in)
			return err
		})
		return res, out, err
	})
	s.warnInline(t)
}

// warnInline says what running in rounds asks of a handler that was not written for it.
func (s *Server) warnInline(t *mcp.Tool) {
	const advice = "put what has a side effect before a question into askback.Do(ctx, askback.CallFrom(ctx), …), " +
		"and let questions depend on arguments and answers alone"
	switch hints := t.Annotations; {
	case hints != nil && hints.ReadOnlyHint:
	case hints != nil && hints.IdempotentHint:
		s.log.Info("askback: an inline tool runs from the top in every round; "+
			"it says that it is idempotent, so that repeating it should do no harm; if it does, "+advice, "tool", t.Name)
	default:
		s.log.Warn("askback: an inline tool runs from the top in every round, "+
			"so that everything before an open question happens again in each; "+advice+
			"; annotate it with ReadOnlyHint if there is nothing to repeat", "tool", t.Name)
	}
}

// CallFrom returns the call that a handler added with [AddInlineTool] serves, found in its
// ctx, for use with [Do], or nil elsewhere. Do keeps its promise in sessions, too, where
// the handler runs once. Such a call cannot [Call.Ask] and has no [Call.Checkpoint]: the
// handler asks through its session, or becomes one for [AddTool].
func CallFrom(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

type callKey struct{}

var errInline = errors.New("a handler added with AddInlineTool asks through its session: to ask through its Call, add it with AddTool")

// runInline runs a handler for one round, or natively for a legacy session.
func (s *Server) runInline(ctx context.Context, call *Call, h func(context.Context, *mcp.CallToolRequest) error) error {
	call.inline = true
	ctx = context.WithValue(ctx, callKey{}, call)
	req := call.Request().(*mcp.CallToolRequest)
	call.request = func() mcp.Request { return req }
	if call.session {
		return likeSDK(h(ctx, req))
	}
	r := &inlineRun{call: call, ctx: ctx, answered: make(map[string]int)}
	ctx, r.suspend = context.WithCancelCause(ctx)
	defer r.suspend(nil)
	session, disconnect, err := s.standIns().connect(r, req.Params.Meta)
	if err != nil {
		return fmt.Errorf("a session for the handler: %w", err)
	}
	defer disconnect()
	req.Session = session

	var panicked error
	returned := false
	done := make(chan struct{})
	go inlineFrame(func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				panicked = s.panicked(ctx, wire.CallTool, call, v)
			}
		}()
		err = h(ctx, req)
		returned = true
	})
	<-done
	switch asked := r.end(); {
	case panicked != nil:
		return panicked
	case call.run.Suspended():
		if asked < call.run.Answers() {
			s.log.WarnContext(ctx, "askback: an inline tool asked something new, but not again what was answered in an earlier round; "+
				"its questions must depend on arguments and answers alone", "tool", req.Params.Name, "call", call.ID())
		}
		return ErrInputRequired
	case !returned:
		return errors.New("the handler ended its goroutine instead of returning")
	}
	return withoutCapability(call, likeSDK(err))
}

// likeSDK hides an error of the protocol that is wrapped in another, which makes it a
// tool's error: mcp.AddTool sends only those as such that are not wrapped, and wraps in
// particular what a client answers to a question.
func likeSDK(err error) error {
	if _, direct := err.(*jsonrpc.Error); direct {
		return err
	}
	if _, wrapped := errors.AsType[*jsonrpc.Error](err); wrapped {
		return errors.New(err.Error())
	}
	return err
}

// withoutCapability makes of the SDK's error for a question that the client cannot be
// asked what the protocol has for it. The SDK has no type for that error.
// (basic, "Per-request protocol fields")
func withoutCapability(call *Call, err error) error {
	if err == nil {
		return nil
	}
	for need, text := range map[Kind]string{
		KindForm: `client does not support "form" elicitation`,
		KindURL:  `client does not support "url" elicitation`,
	} {
		if strings.Contains(err.Error(), text) && !call.Can(need) {
			return &CapabilityError{Need: need}
		}
	}
	if strings.Contains(err.Error(), "client does not support elicitation") && !call.Can(KindForm) && !call.Can(KindURL) {
		return &jsonrpc.Error{ // it does not tell which of the two was to be asked
			Code:    mcp.CodeMissingRequiredClientCapabilities,
			Message: "Missing required client capability: elicitation",
			Data:    []byte(`{"requiredCapabilities":{"elicitation":{}}}`),
		}
	}
	return err
}

// inlineRun is one round of an inline handler.
type inlineRun struct {
	call    *Call
	ctx     context.Context // of the round: open questions are gathered until it is done
	suspend context.CancelCauseFunc

	mu       sync.Mutex
	ended    bool
	answered map[string]int // asks that got an answer, by their question
}

// end lets no ask reach the call any more. It returns how many got an answer.
func (r *inlineRun) end() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	asked := 0
	for _, n := range r.answered {
		asked += n
	}
	return asked
}

// ask is call.Ask for a question without a key. It does not return in the handler's own
// goroutine if the question is open.
func (r *inlineRun) ask(ctx context.Context, kind string, a Ask) error {
	if onStack(stepName) {
		return errInStep
	}
	if err := r.askOrJoin(ctx, kind, a); !errors.Is(err, ErrInputRequired) {
		return err
	}
	if onStack(inlineFrameName) {
		r.suspend(ErrInputRequired)
		runtime.Goexit()
	}
	return fmt.Errorf("the question is open, and the handler runs again when it is answered: %w", ErrInputRequired)
}

func (r *inlineRun) askOrJoin(ctx context.Context, kind string, a Ask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return errEnded
	}
	// In a group of goroutines the first open question cancels the others; theirs join
	// the round all the same.
	if err := ctx.Err(); err != nil && !r.call.run.Suspended() {
		return err
	}
	// Equal questions are numbered as they are answered, so that one that is asked again
	// while it is open stays one.
	question := kind + "-" + hex.EncodeToString(a.digest[:4])
	if a.key = question; r.answered[question] > 0 {
		a.key = fmt.Sprintf("%s-%d", question, r.answered[question]+1)
	}
	err := r.call.ask(r.ctx, a)
	if err == nil {
		r.answered[question]++
	}
	return err
}

// A recorded step does not run again: a question that is the same as one in it would be
// taken for that one, and get its answer.
var errInStep = errors.New("a step cannot ask: ask before it, outside of the function that Do gets")

var errEnded = errors.New("the round has ended: a handler must wait for what it asks before it returns")

// inlineFrame is the bottom frame of a handler's own goroutine, which tells it from those
// that the handler starts.
//
//go:noinline
func inlineFrame(f func()) { f() }

var (
	inlineFrameName = functionName(inlineFrame)
	stepName        = functionName((*journal.Run).Step)
)

func functionName(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// onStack reports whether the function has been called in this goroutine and has not
// returned.
func onStack(function string) bool {
	stack := make([]uintptr, 64)
	n := runtime.Callers(1, stack)
	for n == len(stack) {
		stack = make([]uintptr, 2*n)
		n = runtime.Callers(1, stack)
	}
	frames := runtime.CallersFrames(stack[:n])
	for {
		frame, more := frames.Next()
		if frame.Function == function {
			return true
		}
		if !more {
			return false
		}
	}
}

// standIns make the sessions that handlers ask through when their client has none. The
// sessions belong to a server of their own, so that the author's server neither counts
// nor notifies them; what they send is answered by middleware, in the asking goroutine.
type standIns struct {
	server *mcp.Server
	pong   mcp.MethodHandler // answers a ping with the SDK's own type
	runs   sync.Map          // *mcp.ServerSession to *inlineRun
}

func newStandIns() *standIns {
	n := new(standIns)
	n.server = mcp.NewServer(&mcp.Implementation{Name: "askback", Version: "1.0.0"}, &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	n.server.AddSendingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler { return n.send })
	n.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		n.pong = next
		return next
	})
	return n
}

// connect makes a session for one round. No goroutine outlives disconnect.
func (n *standIns) connect(r *inlineRun, meta mcp.Meta) (session *mcp.ServerSession, disconnect func(), err error) {
	session, err = n.server.Connect(r.ctx, nowhere{r.call.ID()}, &mcp.ServerSessionOptions{State: &mcp.ServerSessionState{
		InitializeParams: &mcp.InitializeParams{
			ProtocolVersion: sessionVersion,
			Capabilities:    declared(meta, r.call.can),
			ClientInfo:      clientInfo(meta),
		},
		InitializedParams:         new(mcp.InitializedParams),
		NegotiatedProtocolVersion: sessionVersion,
	}})
	if err != nil {
		return nil, nil, err
	}
	n.runs.Store(session, r)
	return session, func() {
		n.runs.Delete(session)
		_ = session.Close() // of a connection that is at its end already
	}, nil
}

// sessionVersion is the last revision in which servers send requests.
const sessionVersion = "2025-11-25"

// declared is what the client declared.
func declared(meta mcp.Meta, can Kind) *mcp.ClientCapabilities {
	c := new(mcp.ClientCapabilities)
	fromMeta(meta, mcp.MetaKeyClientCapabilities, c)
	if can&KindRoots != 0 { // which the SDK's type does not decode
		roots := mcp.RootCapabilities(c.Roots)
		c.RootsV2 = &roots
	}
	return c
}

// clientInfo is who the client says it is. Handlers rely on it not being nil.
func clientInfo(meta mcp.Meta) *mcp.Implementation {
	who := new(mcp.Implementation)
	fromMeta(meta, mcp.MetaKeyClientInfo, who)
	return who
}

// fromMeta decodes a member of _meta. What does not decode is left zero.
func fromMeta(meta mcp.Meta, key string, into any) {
	if own, ok := meta[key]; ok {
		if data, err := json.Marshal(own); err == nil {
			_ = json.Unmarshal(data, into)
		}
	}
}

func (n *standIns) send(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	session := req.GetSession().(*mcp.ServerSession)
	found, ok := n.runs.Load(session)
	if !ok {
		return nil, errEnded
	}
	r := found.(*inlineRun)
	switch p := req.GetParams().(type) {
	case *mcp.ElicitParams:
		return r.elicit(ctx, p)
	case *mcp.CreateMessageParams:
		return r.sample(ctx, askSample("", p, len(p.Messages), p.MaxTokens, false))
	case *mcp.CreateMessageWithToolsParams:
		return r.sample(ctx, AskSample("", p, nil))
	case *mcp.ProgressNotificationParams:
		return nil, r.call.Progress(ctx, p.Progress, p.Total, p.Message)
	}
	switch {
	case method == methodListRoots:
		return r.roots(ctx)
	case method == "ping":
		return n.pong(ctx, method, &mcp.ServerRequest[*mcp.PingParams]{Session: session})
	case strings.HasPrefix(method, "notifications/"):
		return nil, nil
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " cannot be sent to a client of " + wire.Version}
}

func (r *inlineRun) elicit(ctx context.Context, p *mcp.ElicitParams) (mcp.Result, error) {
	var a Ask
	if p.Mode == "url" {
		a = AskURL("", p.Message, p.URL)
	} else if schema, err := inlineSchema(p.RequestedSchema); err != nil {
		a.err = err
	} else {
		a = askForm("", p.Message, schema, nil)
	}
	if a.err != nil {
		return nil, fmt.Errorf("elicitation/create: %w", a.err)
	}
	res := new(mcp.ElicitResult)
	a.decode = func(value []byte) error { return json.Unmarshal(value, res) } // declined is no error here
	if err := r.ask(ctx, "elicit", a); err != nil {
		return nil, err
	}
	return res, nil
}

// inlineSchema reads a schema that was written for the SDK, which lets parts of it be
// absent and infers others that a form has no use for.
func inlineSchema(requested any) (*form.Schema, error) {
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

func (r *inlineRun) sample(ctx context.Context, a Ask) (mcp.Result, error) {
	if a.err != nil {
		return nil, fmt.Errorf("sampling/createMessage: %w", a.err)
	}
	res := new(mcp.CreateMessageWithToolsResult)
	a.decode = func(value []byte) error { return json.Unmarshal(value, res) }
	if err := r.ask(ctx, "sample", a); err != nil {
		return nil, err
	}
	return res, nil
}

func (r *inlineRun) roots(ctx context.Context) (mcp.Result, error) {
	res := new(mcp.ListRootsResult)
	a := AskRoots("", &res.Roots)
	if err := r.ask(ctx, "roots", a); err != nil {
		return nil, err
	}
	return res, nil
}

// nowhere is the transport of a stand-in: its connection is at its end from the start, so
// that the SDK stops reading from it at once.
type nowhere struct{ id string }

func (n nowhere) Connect(context.Context) (mcp.Connection, error) { return n, nil }
func (n nowhere) SessionID() string                               { return n.id }
func (n nowhere) Read(context.Context) (jsonrpc.Message, error)   { return nil, io.EOF }
func (n nowhere) Write(context.Context, jsonrpc.Message) error    { return io.ErrClosedPipe }
func (n nowhere) Close() error                                    { return nil }
