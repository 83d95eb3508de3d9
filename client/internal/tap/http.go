package tap

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/eventstream"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// The media types of responses.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// roundTripper taps the requests of an HTTP transport, and bounds all its responses.
type roundTripper struct {
	config     *Config
	echoes     *echoes
	asked      *unanswered
	base       http.RoundTripper
	authorizes bool // the SDK has an answer to 401 and 403
}

// RoundTrip rewrites the request of an exchange. Two other requests come with its context and keep their bodies: the
// GET that resumes the stream of the response, and the notification that cancels the request.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	x := ExchangeOf(req.Context())
	var question string   // the key of the question that this message answers with a state
	var id, answer []byte // The ID of this request, or of the request that this message answers.
	own := false          // the request is the exchange's
	method := ""
	var hello *Hello
	if x != nil {
		hello = x.Hello
	}
	release := func() {}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		ctx := req.Context()
		if answer = answerID(body); answer != nil {
			defer t.asked.remove(idKey(answer))
			if isNoResponse(body) {
				return accepted(req), nil
			}
			ctx, release = t.config.answering(ctx)
		} else {
			id = strictjson.Get(body, "id")
		}
		req = req.Clone(ctx)
		body, question = t.echoes.attach(body)
		method, _ = strictjson.String(strictjson.Get(body, "method"))
		switch {
		case x == nil:
		case hello != nil && method == methodCancelled: // The probe took too long. It leaves no trace.
			return accepted(req), nil
		case x.sends(method):
			if body, err = x.rewrite(method, body); err != nil {
				return nil, err
			}
			req, own = x.mark(req), hello == nil
		default:
			defer x.markCancelled()
			x = nil
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(body))
	} else if hello != nil { // a stream or the end of the session, which outlives the exchange
		x = nil
	} else if x != nil { // the rest of its stream
		id = x.requestID()
	}
	x.startTimer()
	res, err := t.dispatch(hello, req, method, id, answer != nil)
	if own && err != nil {
		x.Delivery.Broke(err)
	}
	if question != "" && err == nil {
		t.echoes.answered(question, res)
	}
	x.stopTimer(err == nil && t.authorizing(res))
	if own || x != nil && x.Method != "" {
		if shown := t.standIn(x, req, res, err); shown != nil {
			return shown, nil
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	t.tapBody(x, id, res)
	if answer != nil {
		res.Body = &closeBody{res.Body, release}
	}
	return res, nil
}

// accepted is the response that the SDK gets for a message that is not sent.
func accepted(req *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusAccepted, Header: make(http.Header), Body: http.NoBody, Request: req}
}

// dispatch sends a request, and notes what the one that begins a session meets.
func (t *roundTripper) dispatch(
	hello *Hello, req *http.Request, method string, id []byte, answers bool,
) (*http.Response, error) {
	if !changesNothing(method) && !answers {
		return t.base.RoundTrip(req)
	}
	res, err := patient(t.base, hello, req, method)
	if hello != nil && method == MethodDiscover {
		hello.setUnauthorized(res, err, t.authorizes)
	}
	if err == nil && hello != nil && !t.authorizing(res) && refusesHello(method, res) {
		status := ReadStatus(res)
		if method == methodInitialize {
			hello.setRefused(status)
		}
		// The response itself would end the connection.
		stand(res, wire.AppendError(nil, id, wire.Errorf(jsonrpc.CodeInternalError, "%v", status)))
	}
	return res, err
}

// mark returns the exchange's own request with what notes its way to the server.
func (x *Exchange) mark(req *http.Request) *http.Request {
	if x.Hello != nil {
		return req
	}
	x.Delivery.Once = x.Method == ""
	return req.WithContext(x.Delivery.Context(req.Context()))
}

// startTimer starts the time for a response, if the exchange has one.
func (x *Exchange) startTimer() {
	if x != nil && x.Timer != nil {
		x.Timer.Reset(ResponseTime)
	}
}

// stopTimer stops that time while the user authorizes the request.
func (x *Exchange) stopTimer(authorizing bool) {
	if x != nil && x.Timer != nil && authorizing {
		x.Timer.Stop()
	}
}

// authorizing reports whether the SDK answers a response by asking the user to authorize it.
func (t *roundTripper) authorizing(res *http.Response) bool {
	return t.authorizes && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden)
}

// standIn returns the response that the SDK gets in place of the one to an exchange's request, or nil if it gets the
// real one. The SDK ends the connection at a response that it cannot read, and turns some others into errors of its
// own. It needs the real one only if the session is missing.
func (t *roundTripper) standIn(x *Exchange, req *http.Request, res *http.Response, err error) *http.Response {
	lasts, resumes := req.Context().Err() == nil, req.Method == http.MethodGet
	switch {
	case err != nil && lasts && resumes:
		return x.breakOff(req, err.Error())
	case err != nil:
		if lasts && x.Method != "" {
			_ = x.fail(&AwayError{Reason: err.Error()})
		}
		return nil
	case lasts && resumes && (res.StatusCode >= 300 || mediaType(res) != typeEvents):
		res.Body.Close()
		return x.breakOff(req, "the rest of a response was asked for, with HTTP status "+res.Status)
	case res.StatusCode < 300 && (mediaType(res) == typeJSON || mediaType(res) == typeEvents):
		return nil
	case t.authorizing(res):
		return nil
	}
	status := ReadStatus(res)
	missing := res.StatusCode == http.StatusNotFound && req.Header.Get(sessionHeader) != "" && !status.Answers()
	if x.Method == "" && missing {
		res.Body, res.ContentLength = http.NoBody, 0
		return nil
	}
	x.soften(res, status)
	return res
}

// refusesHello reports whether a response to the request that probes a server or begins a session has no message. What
// else comes to a probe, the SDK can tell from an answer of a server.
func refusesHello(method string, res *http.Response) bool {
	switch {
	case method != MethodDiscover && method != methodInitialize:
		return false
	case res.StatusCode >= 300:
		return method == methodInitialize
	}
	return mediaType(res) != typeJSON && mediaType(res) != typeEvents ||
		res.Header.Get("Content-Length") == "0"
}

const sessionHeader = "Mcp-Session-Id"

// tapBody lets the tap read the body of a response first. The id names the request that the response answers; it is nil
// if there is none.
func (t *roundTripper) tapBody(x *Exchange, id []byte, res *http.Response) {
	switch {
	case mediaType(res) == typeEvents:
		x = cmp.Or(x, &Exchange{Hello: new(Hello)})
		res.Body = &eventBody{ReadCloser: res.Body, in: eventstream.NewReader(res.Body, t.config.MessageBytes), x: x,
			config: t.config, echoes: t.echoes, asked: t.asked, id: id}
	case mediaType(res) == typeJSON && x != nil && res.StatusCode < 300:
		res.Body = &jsonBody{ReadCloser: res.Body, x: x, config: t.config, status: res.StatusCode}
		res.ContentLength = -1
	default:
		res.Body = &boundedBody{ReadCloser: res.Body, left: t.config.MessageBytes, config: t.config, x: x}
	}
}

func mediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}

// rewrite puts the exchange's answers, state and _meta into its request, under the request's own method.
func (x *Exchange) rewrite(method string, body []byte) ([]byte, error) {
	params, err := x.Inject(strictjson.Get(body, "params"))
	if err != nil {
		return nil, err
	}
	id := strictjson.Get(body, "id")
	x.setRequestID(id)
	return wire.AppendRequest(nil, wire.Request{ID: id, Method: cmp.Or(x.Method, method), Params: params}), nil
}

// breakOff returns a stream that ends with an error, in place of a stream that cannot be resumed. Without it the SDK
// would wait for the response without end.
func (x *Exchange) breakOff(req *http.Request, reason string) *http.Response {
	event := append([]byte("data: "), x.failure(&AwayError{Reason: reason})...)
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Request: req, Header: http.Header{"Content-Type": {typeEvents}},
		ContentLength: -1, Body: io.NopCloser(bytes.NewReader(append(event, "\n\n"...))),
	}
}

// soften turns a response that is not the JSON-RPC response into one with an error, which ends the request alone.
func (x *Exchange) soften(res *http.Response, status *StatusError) {
	stand(res, x.failure(status))
}

// stand puts a message in place of a response.
func stand(res *http.Response, body []byte) {
	res.StatusCode, res.Status = http.StatusOK, "200 OK"
	res.Header = http.Header{"Content-Type": {typeJSON}}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}
