package httpfront

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/wire"
)

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

// limitReading bounds the time that a request's body takes, also if the request is refused and net/http skips the
// body. A body that was read needs bodyRead.
func (h *handler) limitReading(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || h.readTimeout <= 0 {
		return
	}
	timeout := h.readTimeout
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		timeout = min(timeout, server.ReadTimeout)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // where there are deadlines
}

// bodyRead lifts the deadline, which would end the connection while the request is served.
func (h *handler) bodyRead(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && h.readTimeout > 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
}

// readBody reads a body within the caller's share of memory, which it takes before. If it fails it has answered.
func (h *handler) readBody(v *visit, r *http.Request) (body []byte, ok bool) {
	limit := h.limits.MessageBytes
	var err error
	switch {
	case r.ContentLength > limit:
		err = &http.MaxBytesError{Limit: limit}
	case r.ContentLength >= 0:
		if err = h.takeBytes(r.Context(), v, int(r.ContentLength)); err == nil {
			body = make([]byte, r.ContentLength)
			_, err = io.ReadFull(r.Body, body)
		}
	default:
		body, err = h.readChunks(r.Context(), http.MaxBytesReader(v, r.Body, limit), v)
	}
	if err == nil {
		h.bodyRead(v, r)
		return body, true
	}
	if _, ok := errors.AsType[*call.UnavailableError](err); ok {
		h.turnAway(v, r, err)
		return nil, false
	}
	v.Header().Set("Connection", "close") // what is left of the body is not waited for
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		failAs(v, http.StatusRequestEntityTooLarge, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body exceeds the limit of %d bytes", tooLarge.Limit))
		return nil, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		failAs(v, http.StatusRequestTimeout, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body did not come within the limit of %v", h.readTimeout))
		return nil, false
	}
	// The client went away or broke the transfer: nobody reads an answer.
	failAs(v, http.StatusBadRequest, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body could not be read"))
	return nil, false
}

func (h *handler) takeBytes(ctx context.Context, v *visit, n int) (err error) {
	v.body, err = h.SDK.Gate.Take(ctx, h.SDK.Gate.Shares.BodyBytes, v.principal, n)
	return err
}

// readChunks reads a body that does not tell its size, and takes memory as it comes.
func (h *handler) readChunks(ctx context.Context, r io.Reader, v *visit) ([]byte, error) {
	const first = 4 << 10
	if err := h.takeBytes(ctx, v, first); err != nil {
		return nil, err
	}
	body := make([]byte, 0, first)
	for {
		if len(body) == cap(body) {
			if err := h.SDK.Gate.Resize(ctx, &v.body, 2*cap(body)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, 2*cap(body)), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
