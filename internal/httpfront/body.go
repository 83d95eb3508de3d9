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

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
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

// readBody reads a body. It takes memory from the caller's share as the body arrives, and the request waits meanwhile.
// If readBody fails, it has answered the request.
func (h *handler) readBody(v *visit, r *http.Request) (body []byte, ok bool) {
	limit := h.limits.MessageBytes
	var err error
	if r.ContentLength > limit {
		err = &http.MaxBytesError{Limit: limit}
	} else {
		v.reads(true)
		v.wait()
		from := r.Body
		if r.ContentLength < 0 {
			from = http.MaxBytesReader(v, from, limit)
		}
		body, err = h.receive(r.Context(), from, v, r.ContentLength)
		if gaveWay := v.resume(r.Context()); gaveWay != nil {
			err = gaveWay
		}
		v.reads(false)
	}
	if err == nil {
		h.bodyRead(v, r)
		return body, true
	}
	v.end()
	v.Header().Set("Connection", "close") // the rest of the body is not read
	switch fault.Of(err) {
	case fault.Unavailable, fault.Crowded:
		h.turnAway(v, r, err)
		return nil, false
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		failAs(v, http.StatusRequestEntityTooLarge, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the body exceeds the limit of %d bytes", tooLarge.Limit))
		return nil, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		failAs(v, http.StatusRequestTimeout, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the body did not come within the limit of %v", h.readTimeout))
		return nil, false
	}
	// The client went away or broke the transfer: nobody reads an answer.
	failAs(v, http.StatusBadRequest, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body could not be read"))
	return nil, false
}

// receive reads a body of that size, or until its end if the size is negative. The memory doubles as the body arrives,
// however large the announced size is.
func (h *handler) receive(ctx context.Context, r io.Reader, v *visit, size int64) ([]byte, error) {
	first := int64(4 << 10)
	if size >= 0 {
		first = min(size, bound.Small)
	}
	body := make([]byte, 0, first)
	for int64(len(body)) != size {
		if len(body) == cap(body) {
			next := 2 * cap(body)
			if size >= 0 {
				next = int(min(int64(next), size))
			}
			if err := h.takeBytes(ctx, v, next); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, next), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF && int64(len(body)) < size:
			return nil, io.ErrUnexpectedEOF
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		}
	}
	return body, nil
}

// takeBytes changes the body's share of memory to n bytes, unless n is small.
func (h *handler) takeBytes(ctx context.Context, v *visit, n int) (err error) {
	if n <= bound.Small {
		return nil
	}
	if v.size == 0 {
		if v.body, err = h.SDK.Gate.Shares.Take(ctx, h.SDK.Gate.Shares.BodyBytes, v.principal, 0); err != nil {
			return err
		}
		v.body.Wait(v)
	}
	if err = h.SDK.Gate.Shares.Resize(ctx, &v.body, n); err == nil {
		v.size = n
	}
	return err
}
