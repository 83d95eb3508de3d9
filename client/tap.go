package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// The SDK's client types lose what this package needs: the order of a form's fields, the
// digits of large numbers, results with a state and no questions, and kinds of questions
// that they do not know. A tap therefore stands between the SDK and its transports. It
// puts answers and state into the requests of a call, keeps the result of each as it
// came, and shows the SDK only complete ones. And it bounds what is read. Requests that
// the SDK does not know, those about tasks, it carries under the name of otherMethod.

// exchange is one round of a call, or one request about a task, as a tap sees it. It
// travels in the context.
type exchange struct {
	answers map[string]json.RawMessage
	state   *string
	task    json.RawMessage // the member task of a call

	method string // what the request is, where the SDK has it as otherMethod
	name   string // for its Mcp-Name, where the SDK sets none
	news   *news  // where the notifications of subscriptions/listen go
	quiet  bool   // nothing is changed: the result of initialize is only kept

	timer *time.Timer // ends the request that is not answered within responseTime, unless it is nil

	cancelled chan struct{} // closed when the server was told that the request is, unless it is nil
	once      sync.Once

	mu     sync.Mutex // the tap may still be reading when a cancelled call returns
	id     []byte     // of the request, raw
	result []byte
	err    error
}

// otherMethod is what the SDK calls a request that it does not know.
const otherMethod = "tasks"

// sends reports whether a request of this method is the exchange's own. Others come with
// its context too: the notification that cancels it.
func (x *exchange) sends(method string) bool {
	if x.method != "" {
		return method == otherMethod
	}
	return wire.MayAsk(method)
}

// came is the result that the tap kept, or why there is none.
func (x *exchange) came() ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result, x.err
}

func (x *exchange) fail(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
	return err
}

// told notes that the server was told that the request is cancelled.
func (x *exchange) told() {
	if x.cancelled != nil {
		x.once.Do(func() { close(x.cancelled) })
	}
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// inject adds answers, state and the wish for a task to the parameters of a request.
func (x *exchange) inject(params []byte) ([]byte, error) {
	if x.answers == nil && x.state == nil && x.task == nil {
		return params, nil
	}
	params = bytes.TrimSpace(params)
	if len(params) < 3 || params[len(params)-1] != '}' {
		return nil, errors.New("the request has no parameters to add answers to")
	}
	added := append([]byte{}, params[:len(params)-1]...)
	for _, member := range []struct {
		name  string
		value any
		set   bool
	}{
		{"inputResponses", x.answers, x.answers != nil},
		{"requestState", x.state, x.state != nil},
		{"task", x.task, x.task != nil},
	} {
		if !member.set {
			continue
		}
		value, err := json.Marshal(member.value)
		if err != nil {
			return nil, err
		}
		added = append(added, `,"`+member.name+`":`...)
		added = append(added, value...)
	}
	return append(added, '}'), nil
}

func (x *exchange) keep(result []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result = bytes.Clone(result)
}

// complete is what the SDK sees of a round that is not the last.
const complete = `{"resultType":"complete","content":[],"messages":[],"contents":[]}`

// take keeps a result and returns what the SDK is to see of it.
func (x *exchange) take(result []byte, limits Limits) ([]byte, error) {
	if x.quiet {
		if strictjson.Check(result, limits.Depth) == nil {
			x.keep(result)
		}
		return result, nil
	}
	if len(result) > limits.MessageBytes {
		return nil, limit("bytes of a message", limits.MessageBytes, nil)
	}
	if err := strictjson.Check(result, limits.Depth); err != nil {
		return nil, &ProtocolError{fmt.Sprintf("its result is not sound: %v", err)}
	}
	if strictjson.TypeOf(result) != strictjson.TypeObject {
		return nil, &ProtocolError{"its result is not an object"}
	}
	x.keep(result)
	kind := strictjson.Get(result, "resultType")
	switch {
	case x.method != "":
		return []byte(`{}`), nil
	case kind != nil && string(kind) != `"complete"`:
		return []byte(complete), nil
	case x.task != nil && strictjson.Get(result, "content") == nil && (strictjson.Get(result, "task") != nil || strictjson.Get(result, "inputRequests") != nil):
		return []byte(complete), nil
	}
	return result, nil
}

// tapTransport taps a transport of whole messages.
type tapTransport struct {
	mcp.Transport
	limits Limits
	hello  *exchange // keeps the result of initialize
}

func (t *tapTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapConnection{Connection: conn, limits: t.limits, hello: t.hello, open: make(map[jsonrpc.ID]request)}, nil
}

type tapConnection struct {
	mcp.Connection
	limits Limits
	hello  *exchange

	mu   sync.Mutex
	open map[jsonrpc.ID]request
}

// request is one that waits for its response.
type request struct {
	*exchange
	forget func() bool // lets go of its context
}

// closes takes a request that does not wait any more, or nil.
func (c *tapConnection) closes(id jsonrpc.ID) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.open[id]
	if !ok {
		return nil
	}
	delete(c.open, id)
	r.forget()
	return r.exchange
}

func (c *tapConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	x := exchangeOf(ctx)
	if x != nil && ok && req.Method == methodCancelled {
		defer x.told()
	}
	if ok && req.Method == methodInitialize {
		x = c.hello
	}
	if !ok || !req.IsCall() || x == nil || !x.sends(req.Method) && x != c.hello {
		return c.Connection.Write(ctx, msg)
	}
	params, err := x.inject(req.Params)
	if err != nil {
		return err
	}
	tapped := *req
	tapped.Params = params
	if x.method != "" {
		tapped.Method = x.method
	}
	c.mu.Lock()
	c.open[req.ID] = request{x, context.AfterFunc(ctx, func() { c.closes(req.ID) })}
	c.mu.Unlock()
	err = c.Connection.Write(ctx, &tapped)
	if err != nil {
		c.closes(req.ID)
	}
	return err
}

func (c *tapConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	for err == nil && c.tells(msg) {
		msg, err = c.Connection.Read(ctx)
	}
	if err != nil {
		c.broken(err)
		return nil, err
	}
	res, ok := msg.(*jsonrpc.Response)
	if !ok {
		return msg, nil
	}
	x := c.closes(res.ID)
	if x == nil || res.Error != nil {
		return msg, nil
	}
	shown := *res
	if shown.Result, err = x.take(res.Result, c.limits); err != nil {
		shown.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: x.fail(err).Error()}
	}
	return &shown, nil
}

// tells takes notifications about tasks to those who listen for them, and reports whether
// the message was one. Where all share a channel they carry the id of their subscription.
func (c *tapConnection) tells(msg jsonrpc.Message) bool {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || req.IsCall() || req.Method != methodTaskNews && req.Method != methodListening {
		return false
	}
	if len(req.Params) > c.limits.MessageBytes || strictjson.Check(req.Params, c.limits.Depth) != nil {
		return req.Method == methodTaskNews
	}
	var subscription any
	_ = json.Unmarshal(strictjson.Get(strictjson.Get(req.Params, "_meta"), mcp.MetaKeySubscriptionID), &subscription)
	id, err := jsonrpc.MakeID(subscription)
	c.mu.Lock()
	x := c.open[id].exchange
	c.mu.Unlock()
	if err == nil && x != nil && x.news != nil {
		x.news.hear(req.Method, req.Params)
		return true
	}
	return req.Method == methodTaskNews
}

// broken lets go of the open calls, and tells them why nothing more can be read, unless the
// server just ended.
func (c *tapConnection) broken(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer clear(c.open)
	for _, r := range c.open {
		r.forget()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled) {
		return
	}
	var why error = &ProtocolError{fmt.Sprintf("its message cannot be read: %v", err)}
	if strings.Contains(err.Error(), "maximum line length") { // the SDK has no type for it
		why = limit("bytes of a message", mcp.DefaultMaxLineLength, nil)
	}
	for _, r := range c.open {
		_ = r.fail(why)
	}
}

// tapRoundTripper taps the requests of an HTTP transport, and bounds all its responses.
type tapRoundTripper struct {
	base       http.RoundTripper
	limits     Limits
	hello      *exchange // keeps the result of initialize
	authorizes bool      // the SDK has an answer to 401 and 403
	echoes     *echoes
}

func (t *tapRoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	req, answered, err := t.echoes.tell(req)
	if err != nil {
		return nil, err
	}
	x := exchangeOf(req.Context())
	if x == nil && initializes(req) {
		x = t.hello
	}
	if x != nil {
		var own bool
		var err error
		if req, own, err = x.rewrite(req); err != nil {
			return nil, err
		}
		if !own && x.news != nil { // over HTTP a subscription ends with its stream
			return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: req}, nil
		}
		if !own && x != t.hello {
			defer x.told()
			x = nil
		}
	}
	if x != nil && x.timer != nil {
		x.timer.Reset(responseTime)
	}
	res, err := base.RoundTrip(req)
	if answered != nil && err == nil {
		answered(res)
	}
	refused := err == nil && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden)
	if x != nil && x.timer != nil && refused && t.authorizes {
		x.timer.Stop() // until the user has authorized it
	}
	var mediaType string
	if err == nil {
		mediaType, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	}
	// A request about a task that did not come through is sent again: that must not end the
	// waiting, nor the connection.
	if x != nil && x.method != "" && req.Context().Err() == nil {
		resumes := req.Method == http.MethodGet
		switch {
		case err != nil && !resumes:
			_ = x.fail(&awayError{err.Error()})
		case err != nil:
			return x.breaks(req, err.Error()), nil
		case resumes && (res.StatusCode >= 300 || mediaType != "text/event-stream"):
			res.Body.Close()
			return x.breaks(req, "the rest of a response was asked for, with HTTP status "+res.Status), nil
		}
	}
	if err != nil {
		return nil, err
	}
	if x != nil && x.method != "" && !(res.StatusCode < 300 && (mediaType == "application/json" || mediaType == "text/event-stream")) &&
		!(t.authorizes && x.news == nil && refused) {
		x.soften(res)
		return res, nil
	}
	if mediaType == "text/event-stream" && x == nil && t.echoes != nil {
		x = &exchange{quiet: true} // the questions of a session may come here as well
	}
	switch {
	case mediaType == "text/event-stream" && x != nil:
		res.Body = &tapEvents{body: res.Body, in: bufio.NewReader(res.Body), x: x, limits: t.limits, echoes: t.echoes,
			once: x.method != "" && req.Header.Get(wire.HeaderVersion) >= wire.Version}
	case mediaType == "text/event-stream": // the SDK bounds its events
	case mediaType == "application/json" && x != nil && res.StatusCode < 300:
		res.Body = &tapJSON{body: res.Body, x: x, limits: t.limits}
		res.ContentLength = -1
	default:
		res.Body = &boundedBody{body: res.Body, left: t.limits.MessageBytes, limits: t.limits, x: x}
	}
	return res, nil
}

// initializes reports whether a request begins a session of before 2026-07-28.
func initializes(req *http.Request) bool {
	if req.Method != http.MethodPost || req.GetBody == nil || req.Header.Get("Mcp-Session-Id") != "" {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	method, _ := strictjson.String(strictjson.Get(data, "method"))
	return err == nil && method == methodInitialize
}

// rewrite puts what the exchange has to say into its request, under the request's own
// method, and its name into a form that a header can carry, which the SDK (1.8.0) does not
// do. Other requests come with the exchange's context too, and stay as they are: the GET
// that resumes the stream of its response, and the notification that cancels it, which is
// not its own.
func (x *exchange) rewrite(req *http.Request) (_ *http.Request, own bool, _ error) {
	if req.Body == nil {
		return req, true, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, false, err
	}
	req.Body.Close()
	method, _ := strictjson.String(strictjson.Get(body, "method"))
	req = req.Clone(req.Context())
	if own = x.sends(method); own {
		params, err := x.inject(strictjson.Get(body, "params"))
		if err != nil {
			return nil, false, err
		}
		id := bytes.Clone(strictjson.Get(body, "id"))
		x.mu.Lock()
		x.id = id
		x.mu.Unlock()
		if x.method != "" {
			method = x.method
		}
		body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
		if x.method != "" && req.Header.Get(wire.HeaderMethod) != "" {
			req.Header.Set(wire.HeaderMethod, x.method)
			if x.name != "" {
				req.Header.Set(wire.HeaderName, x.name)
			}
		}
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if name := req.Header.Get(wire.HeaderName); name != "" {
		req.Header.Set(wire.HeaderName, wire.EncodeHeader(name))
	}
	return req, own, nil
}

// statusError is a response that is no JSON-RPC.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "the server answered with HTTP status " + e.status }

// awayError is a request that the server did not answer, which may be sent again. What it
// came from does not show: the end of a connection over HTTP is none of the session.
type awayError struct{ reason string }

func (e *awayError) Error() string { return "the server did not answer: " + e.reason }

// breaks is the end of a stream whose rest cannot be had.
func (x *exchange) breaks(req *http.Request, reason string) *http.Response {
	err := x.fail(&awayError{reason})
	body := wire.AppendError([]byte("data: "), x.requestID(), wire.Errorf(jsonrpc.CodeInternalError, "%v", err))
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
		Body: io.NopCloser(bytes.NewReader(append(body, "\n\n"...))),
	}
}

// soften makes an error response of one that is no JSON-RPC. The SDK ends the connection
// at one: right for a call, but not where there is another way or time to ask.
func (x *exchange) soften(res *http.Response) {
	const most = 64 << 10
	data, _ := io.ReadAll(io.LimitReader(res.Body, most))
	res.Body.Close()
	body := data
	if res.StatusCode < 300 || strictjson.Check(data, 64) != nil || strictjson.TypeOf(strictjson.Get(data, "error")) != strictjson.TypeObject {
		err := x.fail(&statusError{res.StatusCode, res.Status})
		body = wire.AppendError(nil, x.requestID(), wire.Errorf(jsonrpc.CodeInternalError, "%v", err))
		res.StatusCode, res.Status = http.StatusOK, "200 OK"
	}
	res.Header = http.Header{"Content-Type": {"application/json"}}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func (x *exchange) requestID() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.id
}

// message keeps the result in a JSON-RPC response and returns what the SDK is to see.
func (x *exchange) message(data []byte, limits Limits) []byte {
	err := strictjson.Check(data, limits.Depth+2)
	if err != nil {
		if x.quiet || !json.Valid(data) {
			return data // which the SDK reports
		}
		err = &ProtocolError{fmt.Sprintf("its response is not sound: %v", err)}
	} else if strictjson.TypeOf(data) != strictjson.TypeObject || strictjson.Get(data, "result") == nil {
		return data // an error, a notification or a request
	}
	id := strictjson.Get(data, "id")
	if err == nil {
		var shown []byte
		if shown, err = x.take(strictjson.Get(data, "result"), limits); err == nil {
			return wire.AppendResult(nil, id, func(dst []byte) []byte { return append(dst, shown...) })
		}
	}
	return wire.AppendError(nil, id, wire.Errorf(jsonrpc.CodeInternalError, "%v", x.fail(err)))
}

// tapJSON is a body that holds one response.
type tapJSON struct {
	body   io.ReadCloser
	x      *exchange
	limits Limits
	shown  *bytes.Reader
}

func (t *tapJSON) Read(p []byte) (int, error) {
	if t.shown == nil {
		data, err := io.ReadAll(&boundedBody{body: t.body, left: t.limits.MessageBytes, limits: t.limits, x: t.x})
		if err != nil && t.x.method == "" {
			return 0, err
		}
		if _, bound := errors.AsType[*LimitError](err); err != nil && !bound {
			err = t.x.fail(&awayError{err.Error()})
		}
		var shown []byte
		if err == nil {
			shown = t.x.message(data, t.limits)
		}
		if t.x.method != "" && !answers(shown, t.x.requestID()) { // else the connection would end
			if err == nil {
				err = t.x.fail(&ProtocolError{"its response is none to the request"})
			}
			shown = wire.AppendError(nil, t.x.requestID(), wire.Errorf(jsonrpc.CodeInternalError, "%v", err))
		}
		t.shown = bytes.NewReader(shown)
	}
	return t.shown.Read(p)
}

// answers reports whether a message is the response to the request with this id.
func answers(message, id []byte) bool {
	if strictjson.Check(message, strictjson.MaxDepth) != nil || !bytes.Equal(strictjson.Get(message, "id"), id) {
		return false
	}
	return strictjson.Get(message, "result") != nil || strictjson.TypeOf(strictjson.Get(message, "error")) == strictjson.TypeObject
}

func (t *tapJSON) Close() error { return t.body.Close() }

// tapEvents is a body that is a stream of events, one of which holds the response.
type tapEvents struct {
	body   io.ReadCloser
	in     *bufio.Reader
	x      *exchange
	limits Limits
	echoes *echoes
	once   bool // it cannot be resumed: the request is sent again
	out    bytes.Buffer
	err    error
}

func (t *tapEvents) Read(p []byte) (int, error) {
	for t.out.Len() == 0 && t.err == nil {
		t.err = t.next()
	}
	if t.out.Len() > 0 {
		return t.out.Read(p)
	}
	return 0, t.err
}

// next copies one event. Its data may stand in several lines.
func (t *tapEvents) next() error {
	var data []byte
	size, hasData, cut := 0, false, false
	for {
		line, err := t.line(&size)
		if err != nil && (!errors.Is(err, io.EOF) || line == "" && !hasData) {
			return err
		}
		cut = err != nil
		if line == "" {
			break // the event is whole, or the stream ended in it
		}
		field, value, _ := strings.Cut(line, ":")
		if field != "data" && t.x.news == nil && !(t.once && field == "id") {
			t.out.WriteString(line + "\n")
		} else if field == "data" {
			if hasData {
				data = append(data, '\n')
			}
			data = append(data, strings.TrimPrefix(value, " ")...)
			hasData = true
		}
		if cut {
			break
		}
	}
	if cut && t.x.method != "" && hasData && !json.Valid(data) { // as if it had not begun
		t.out.Reset()
		return io.EOF
	}
	if hasData && t.x.news != nil && !t.x.news.ends(data, t.x.requestID()) {
		return nil
	}
	if hasData {
		t.echoes.hear(data)
		for line := range bytes.SplitSeq(t.x.message(data, t.limits), []byte("\n")) {
			t.out.WriteString("data: ")
			t.out.Write(line)
			t.out.WriteByte('\n')
		}
	}
	t.out.WriteByte('\n')
	return nil
}

func (t *tapEvents) line(size *int) (string, error) {
	var line []byte
	for {
		part, err := t.in.ReadSlice('\n')
		if *size += len(part); *size > t.limits.MessageBytes {
			return "", t.x.fail(limit("bytes of a message", t.limits.MessageBytes, nil))
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(line), "\r\n"), err
		}
	}
}

func (t *tapEvents) Close() error { return t.body.Close() }

// boundedBody is a body of at most left bytes.
type boundedBody struct {
	body   io.ReadCloser
	left   int
	limits Limits
	x      *exchange // told of the bound, unless it is nil
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.left -= n; b.left < 0 {
		tooLarge := limit("bytes of a message", b.limits.MessageBytes, nil)
		if b.x != nil {
			return 0, b.x.fail(tooLarge)
		}
		return 0, tooLarge
	}
	return n, err
}

func (b *boundedBody) Close() error { return b.body.Close() }
