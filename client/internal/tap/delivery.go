package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Delivery notes how far one request has come on its way to the server: whether a connection was made for it, or a byte
// of it written to a program, and the HTTP status that it got. It travels in the request's context, and the transport
// that really sends the request writes it. Only this record can show that a request did not run, so that it may be sent
// again.
type Delivery struct {
	// Once forbids sending the request twice: no redirect is followed with it, and HTTP/2 does not send it
	// again on another connection.
	Once bool

	mu     sync.Mutex
	begun  bool         // the server may have got something of the request
	asked  bool         // net/http looked for a connection, so it reports also that it has one
	second bool         // HTTP/2 has sent the request's headers
	status *StatusError // of the request's own response, or nil
	code   int          // the status of the response, or 0
	err    error        // in place of a response
}

type deliveryKey struct{}

// Context returns a context that carries the delivery.
func (d *Delivery) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// DeliveryOf returns the delivery that a context carries, or nil.
func DeliveryOf(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}

// Begun reports whether the server may have got something of the request.
func (d *Delivery) Begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun
}

func (d *Delivery) set(begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = begun
}

// Reason returns the HTTP status that the request got, if it is an error, or else err.
func (d *Delivery) Reason(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.status != nil {
		return d.status
	}
	return err
}

// failure returns why there is no response to the request, as far as its transport knows.
func (d *Delivery) failure(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.status != nil:
		return d.status
	case d.err != nil:
		return &AwayError{Reason: d.err.Error(), Cause: d.err}
	case d.code != 0:
		return &AwayError{Reason: "its response broke off", Cause: err}
	}
	return &AwayError{Reason: "the connection ended", Cause: err}
}

// Broke notes that no response came to the request, or none that could be followed.
func (d *Delivery) Broke(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.status == nil || d.status.Reason == nil {
		d.status, d.err = nil, err
	}
}

// RoundTrip sends the request, a POST, and notes what becomes of it. A request is sent a second time only if its first
// response said that it was refused.
func (d *Delivery) RoundTrip(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	d.mu.Lock()
	d.begun, d.asked, d.second, d.status, d.code, d.err = false, false, false, nil, 0, nil
	d.mu.Unlock()
	sent := req.WithContext(httptrace.WithClientTrace(req.Context(), d.trace()))
	if body := req.GetBody; d.Once && body != nil {
		sent.GetBody = func() (io.ReadCloser, error) { // HTTP/1 asks for it only where nothing was written
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.second {
				return nil, errors.New("the server may have the request, which is not sent twice")
			}
			return body()
		}
	}
	res, err := base.RoundTrip(sent)
	status, isStatus := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err)
	var answered *StatusError
	code := 0
	switch {
	case isStatus:
		answered = &StatusError{Code: status.HTTPStatus(), Reason: status}
	case err == nil:
		if code = res.StatusCode; code >= 300 {
			answered = ReadStatus(res) // not under the lock: it may read the request again, which takes it
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = d.begun || !d.asked || err == nil
	d.status, d.code = answered, code
	return res, err
}

func (d *Delivery) trace() *httptrace.ClientTrace {
	multiplexed := false
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.asked = true
		},
		GotConn: func(info httptrace.GotConnInfo) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.begun = true
			conn, secure := info.Conn.(*tls.Conn)
			multiplexed = secure && conn.ConnectionState().NegotiatedProtocol == "h2"
		},
		WroteHeaders: func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.second = d.second || multiplexed
		},
	}
}

// StatusError reports that a response was not the response of JSON-RPC to its request: it has an HTTP status that is an
// error, or no message.
type StatusError struct {
	Code   int
	Fault  *jsonrpc.Error // in the response's body, or nil
	Detail string         // further reasons from the response, or empty
	Reason error          // in place of all that, from a transport that has read the response

	named bool // the fault names the request
}

func (e *StatusError) Error() string {
	if e.Reason != nil {
		return e.Reason.Error()
	}
	if e.Unwrap() != nil {
		return e.Fault.Error() + e.Detail
	}
	text := strings.TrimSpace(fmt.Sprintf("the server answered with HTTP status %d %s", e.Code, http.StatusText(e.Code)))
	switch {
	case e.Fault != nil:
		text += fmt.Sprintf(" and the error %.300q (%d)", e.Fault.Message, e.Fault.Code)
	case e.Code < 300:
		text += ", but without a JSON-RPC message"
	}
	return text + e.Detail
}

// Unwrap returns the server's error, if it is an answer to the request. The error that comes with a status of 500 and
// more may be a gateway's, which knows as little as the client.
func (e *StatusError) Unwrap() error {
	if e.Fault != nil && (e.Refuses() || e.Code < 500 && e.named) {
		return e.Fault
	}
	return e.Reason
}

// HTTPStatus returns the code, for callers who know nothing of this package.
func (e *StatusError) HTTPStatus() int { return e.Code }

// Refuses reports whether the status is one of those that servers send before anything runs. The list is closed: a
// proxy sends 408, 409 or 5xx also for a request that its server has.
func (e *StatusError) Refuses() bool {
	switch e.Code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusTooManyRequests:
		return true
	}
	return false
}

// Answers reports whether the response is the server's own answer, with status 400 or 404. Some servers, such as the Go
// SDK's, also give these statuses to the errors of handlers, so the handler may have run.
func (e *StatusError) Answers() bool {
	return e.Fault != nil && e.named && (e.Code == http.StatusBadRequest || e.Code == http.StatusNotFound)
}

// ReadStatus returns the error of a response whose status is an error, or that has no message. The response's body can
// still be read: it has the first 64 KiB.
func ReadStatus(res *http.Response) *StatusError {
	const most = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(res.Body, most))
	res.Body.Close()
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	e := &StatusError{Code: res.StatusCode}
	if strictjson.Check(body, strictjson.MaxDepth) == nil && strictjson.TypeOf(body) == strictjson.TypeObject {
		failed, fault := strictjson.Get(body, "error"), new(jsonrpc.Error)
		if strictjson.TypeOf(failed) == strictjson.TypeObject && json.Unmarshal(failed, fault) == nil && e.Code >= 300 {
			e.Fault, e.named = fault, names(strictjson.Get(body, "id"), res.Request)
		}
	}
	e.Detail = detail(res.Header)
	return e
}

// names reports whether a response has the ID of its request. If the request cannot be read, any ID counts.
func names(id []byte, req *http.Request) bool {
	if id == nil || strictjson.TypeOf(id) == strictjson.TypeNull {
		return false
	}
	if req == nil || req.GetBody == nil {
		return true
	}
	body, err := req.GetBody()
	if err != nil {
		return true
	}
	defer body.Close()
	sent, err := io.ReadAll(body)
	return err != nil || bytes.Equal(strictjson.Get(sent, "id"), id)
}

// detail returns the reason in the headers of a response.
func detail(h http.Header) (text string) {
	if location := h.Get("Location"); location != "" {
		text += fmt.Sprintf(", to %.200q", location)
	}
	text += challenges(strings.Join(h.Values("WWW-Authenticate"), ", "))
	if after := h.Get("Retry-After"); after != "" {
		text += fmt.Sprintf(", to be tried again after %.40q", strings.TrimFunc(after, unicode.IsSpace))
	}
	return text
}

// challenges returns the parameters of challenges that name what is missing (RFC 6750, section 3), each once.
func challenges(header string) string {
	const mostBytes, most = 16 << 10, 4
	var all []string
	for _, m := range challengeParam.FindAllStringSubmatch(excerpt.Of(header, mostBytes), -1) {
		name, value := strings.ToLower(m[1]), quotedPair.ReplaceAllString(m[2], "$1")+m[3]
		if name != "scope" && name != "error_description" || len(all) == most {
			continue
		}
		if said := fmt.Sprintf(", %s %.200q", strings.ReplaceAll(name, "_", " "), value); !slices.Contains(all, said) {
			all = append(all, said)
		}
	}
	return strings.Join(all, "")
}

// A parameter of a challenge has a quoted string or a token (RFC 9110, section 11.2).
var (
	challengeParam = regexp.MustCompile(`([!#$%&'*+.^_|~0-9A-Za-z-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))`)
	quotedPair     = regexp.MustCompile(`\\(.)`)
)
