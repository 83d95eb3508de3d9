package streamable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/eventstream"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// The media types of responses.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// read returns the result in the response to the request with this ID.
func (e *Endpoint) read(res *http.Response, r *Request, id string) (json.RawMessage, error) {
	kind := res.Header.Get("Content-Type")
	if kind != typeJSON {
		kind, _, _ = mime.ParseMediaType(kind)
	}
	switch {
	case res.StatusCode < 300 && kind == typeEvents:
		return e.readEvents(res, r, id)
	case res.StatusCode >= 300 || kind != typeJSON:
		return nil, tap.ReadStatus(res)
	}
	body, err := e.readBody(res)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, &tap.StatusError{Code: res.StatusCode}
	}
	m, err := e.parse(body)
	if err != nil {
		return nil, err
	}
	return e.outcome(m, id)
}

// readBody reads a body of as many bytes as a message may have.
func (e *Endpoint) readBody(res *http.Response) ([]byte, error) {
	most := e.Config.MessageBytes
	var body bytes.Buffer
	if n := res.ContentLength; n > 0 && n <= most {
		body.Grow(int(n) + bytes.MinRead) // Then ReadFrom needs no more.
	}
	if _, err := body.ReadFrom(io.LimitReader(res.Body, most+1)); err != nil {
		return nil, &tap.AwayError{Reason: err.Error(), Cause: err}
	}
	if int64(body.Len()) > most {
		return nil, e.tooLarge()
	}
	return body.Bytes(), nil
}

func (e *Endpoint) tooLarge() error {
	return e.Config.Limit(tap.BytesOfMessage, e.Config.MessageBytes)
}

func (e *Endpoint) broken(format string, args ...any) error {
	return e.Config.Broken(fmt.Sprintf(format, args...))
}

// readEvents reads a stream up to the response to the request with this ID.
func (e *Endpoint) readEvents(res *http.Response, r *Request, id string) (json.RawMessage, error) {
	in := eventstream.NewReader(res.Body, e.Config.MessageBytes)
	for {
		data, err := in.NextMessage()
		switch {
		case errors.Is(err, eventstream.ErrTooLarge):
			return nil, e.tooLarge()
		case errors.Is(err, io.EOF):
			return nil, &tap.AwayError{Reason: "the stream ended without the response", Cause: err}
		case err != nil:
			return nil, &tap.AwayError{Reason: err.Error(), Cause: err}
		}
		m, err := e.parse(data)
		switch {
		case err != nil:
		case m.method == nil && (m.answers(id) || !r.Listens):
			return e.outcome(m, id)
		case m.method != nil && m.id == nil:
			method, _ := strictjson.String(m.method)
			if err := r.Notify(method, m.params); err != nil {
				return nil, err
			}
		case m.method != nil: // a client of this revision sends no responses
			err = e.broken("it sent a request, %.60s, where only notifications and the response may come", m.method)
		}
		if err != nil && !r.Listens {
			return nil, err
		}
	}
}

// message is a JSON-RPC message. Members that are absent are nil.
type message struct {
	id, method, params, result, failed []byte
}

// parse reads a message within the bounds.
func (e *Endpoint) parse(data []byte) (m message, err error) {
	const envelope = 1 // level of JSON around a result
	if err := strictjson.Check(data, e.Config.Depth+envelope); err != nil {
		return m, e.broken("its response is not valid: %v", err)
	}
	var version []byte
	for name, value := range strictjson.Members(data) {
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			m.id = value
		case "method":
			m.method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.failed = value
		}
	}
	if v, ok := strictjson.Text(version); !ok || string(v) != "2.0" {
		return message{}, e.broken("its message is not a message of JSON-RPC 2.0")
	}
	return m, nil
}

// answers reports whether a response is the one to the request with this ID.
func (m message) answers(id string) bool {
	got, ok := strictjson.Text(m.id)
	return ok && string(got) == id
}

// outcome returns the result or the error in the response to the request with this ID.
func (e *Endpoint) outcome(m message, id string) (json.RawMessage, error) {
	// A server that could not read the ID leaves it out of its error.
	unnamed := m.result == nil && (m.id == nil || strictjson.TypeOf(m.id) == strictjson.TypeNull)
	switch {
	case !m.answers(id) && !unnamed:
		return nil, e.broken("its response does not answer the request")
	case m.result == nil:
		return nil, e.fault(m)
	case m.failed != nil:
		return nil, e.broken("its response has both a result and an error")
	case strictjson.TypeOf(m.result) != strictjson.TypeObject:
		return nil, e.broken("its result is not an object")
	}
	return m.result, nil
}

// fault returns the error in a response without a result.
func (e *Endpoint) fault(m message) error {
	fault := new(jsonrpc.Error)
	switch {
	case m.failed == nil:
		return e.broken("its response has no result and no error")
	case strictjson.TypeOf(m.failed) != strictjson.TypeObject || json.Unmarshal(m.failed, fault) != nil:
		return e.broken("its error is not an error of JSON-RPC")
	}
	return fault
}
