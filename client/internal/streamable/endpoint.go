// Package streamable sends requests to a server of 2026-07-28 over Streamable HTTP: each is one POST, and its response
// is a JSON object or a stream of events that ends with it (basic/transports/streamable-http).
//
// It stands beside the client of the official Go SDK, which sends all else through package tap, and costs a fraction of
// it: there is no connection to keep in step, because every request is complete in itself.
package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/wire"
)

// Endpoint is a server's endpoint. It is safe for concurrent use.
type Endpoint struct {
	URL    string
	Client *http.Client
	OAuth  auth.OAuthHandler // authorizes requests; may be nil
	Life   context.Context   // The session's life: the handler's token sources last as long.
	Config tap.Config        // bounds what is read

	last atomic.Int64 // the number in the last request's ID
}

// Request is one request.
type Request struct {
	Method string
	Name   string      // for Mcp-Name; empty for none
	Header http.Header // further headers, such as the headers of x-mcp-header
	Params []byte      // a JSON object with the _meta that every request needs

	// Notify takes each notification on the request's stream, in order. Its params are valid until it returns. An error
	// ends the request.
	Notify func(method string, params []byte) error

	// Listens marks a subscription. It outlasts messages that cannot be read, and never asks the user
	// for authorization.
	Listens bool

	// Timer ends the request. It starts again whenever the request is sent, and stops while the user authorizes it. It may
	// be nil.
	Timer *time.Timer

	// Delivery notes how far the request comes, unless it is nil.
	Delivery *tap.Delivery

	number int64 // in its ID
}

// ID returns the ID of a request that was sent. It is a string, because the SDK numbers its requests.
func (r *Request) ID() string { return "a" + strconv.FormatInt(r.number, 10) }

// Send sends a request and returns the result, a sound JSON object. Its error is
//
//   - the *jsonrpc.Error of the server;
//   - one of the Config's, for a response that is too large or breaks the protocol;
//   - a [*tap.StatusError] for a response with a status that is an error, or without a message;
//   - the context's error when that is done;
//   - a [*tap.AwayError] when there is no response, or one that broke off;
//   - or one of Notify or of the authorization.
//
// The end of the context cancels the request, by closing its connection. (basic/patterns/cancellation)
func (e *Endpoint) Send(ctx context.Context, r *Request) (json.RawMessage, error) {
	r.number = e.last.Add(1)
	id := r.ID()
	body := make([]byte, 0, len(r.Params)+128)
	body = wire.AppendRequest(body, wire.Request{ID: []byte(`"` + id + `"`), Method: r.Method, Params: r.Params})
	result, err := e.exchange(ctx, r, id, body)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return result, err
}

func (e *Endpoint) exchange(ctx context.Context, r *Request, id string, body []byte) (json.RawMessage, error) {
	req, res, err := e.post(ctx, r, body)
	if err == nil && e.OAuth != nil && !r.Listens &&
		(res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) {
		if r.Timer != nil {
			r.Timer.Stop()
		}
		if err := e.OAuth.Authorize(ctx, req, res); err != nil { // it closes the body
			return nil, err
		}
		_, res, err = e.post(ctx, r, body)
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return e.read(res, r, id)
}

// The values of headers that all requests have.
var (
	contentTypes = []string{typeJSON}
	accepted     = []string{typeJSON + ", " + typeEvents}
	versions     = []string{wire.Version}
)

func (e *Endpoint) post(ctx context.Context, r *Request, body []byte) (*http.Request, *http.Response, error) {
	if r.Delivery != nil {
		ctx = r.Delivery.Context(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	req.Header["Content-Type"], req.Header["Accept"], req.Header[wire.HeaderVersion] = contentTypes, accepted, versions
	req.Header[wire.HeaderMethod] = []string{r.Method}
	if r.Name != "" {
		req.Header[wire.HeaderName] = []string{wire.EncodeHeader(r.Name)}
	}
	if e.OAuth != nil {
		if err := e.authorize(req.Header); err != nil {
			return nil, nil, err
		}
	}
	if r.Timer != nil {
		r.Timer.Reset(tap.ResponseTime)
	}
	res, err := e.Client.Do(req)
	if err != nil {
		return nil, nil, &tap.AwayError{Reason: err.Error(), Cause: err}
	}
	return req, res, nil
}

// authorize adds the access token, if there is one. Where the token can no longer be refreshed the request goes without
// one, and the server's refusal leads to a new authorization (RFC 6749, section 5.2).
func (e *Endpoint) authorize(h http.Header) error {
	source, err := e.OAuth.TokenSource(e.Life)
	if err != nil || source == nil {
		return err
	}
	token, err := source.Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
		return nil
	}
	if err == nil && token != nil {
		h.Set("Authorization", "Bearer "+token.AccessToken)
	}
	return err
}
