package httpfront

import (
	"bytes"
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
// body. A timeout that is not positive means no timeout.
func (v *visit) limitReading(r *http.Request, timeout time.Duration) {
	if r.ContentLength == 0 || timeout <= 0 {
		return
	}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		timeout = min(timeout, server.ReadTimeout)
	}
	_ = http.NewResponseController(v).SetReadDeadline(time.Now().Add(timeout)) // where there are deadlines
}

// readBody reads a body. It takes memory from the caller's share as the body arrives, and the request waits meanwhile.
// The limit is in bytes, and the timeout is the timeout of limitReading. If readBody fails, it has answered the
// request.
func (v *visit) readBody(r *http.Request, limit int64, timeout time.Duration) (body []byte, ok bool) {
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
		body, err = v.receive(r.Context(), from, r.ContentLength)
		if gaveWay := v.resume(r.Context()); gaveWay != nil {
			err = gaveWay
		}
		v.reads(false)
	}
	if err == nil {
		if r.ContentLength != 0 && timeout > 0 { // the deadline would end the connection while the request is served
			_ = http.NewResponseController(v).SetReadDeadline(time.Time{})
		}
		return body, true
	}
	v.end()
	v.Header().Set("Connection", "close") // the rest of the body is not read
	if fault.Of(err).Busy() {
		v.turnAway(r, err)
		return nil, false
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		failAs(v, http.StatusRequestEntityTooLarge, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the body exceeds the limit of %d bytes", tooLarge.Limit))
		return nil, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		failAs(v, http.StatusRequestTimeout, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the body did not come within the limit of %v", timeout))
		return nil, false
	}
	// The client went away or broke the transfer: nobody reads an answer.
	failAs(v, http.StatusBadRequest, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body could not be read"))
	return nil, false
}

// receive reads a body of that size, or until its end if the size is negative. The memory doubles as the body arrives,
// however large the announced size is.
func (v *visit) receive(ctx context.Context, r io.Reader, size int64) ([]byte, error) {
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
			if err := v.takeBytes(ctx, next); err != nil {
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
func (v *visit) takeBytes(ctx context.Context, n int) (err error) {
	if n <= bound.Small {
		return nil
	}
	if v.size == 0 {
		if v.body, err = v.gate.Shares.Take(ctx, v.gate.Shares.BodyBytes, v.principal, 0); err != nil {
			return err
		}
		v.body.Wait(v)
	}
	if err = v.gate.Shares.Resize(ctx, &v.body, n); err == nil {
		v.size = n
	}
	return err
}

// withBody returns a copy of a request with this body, which was read from it.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.Body, r.ContentLength = io.NopCloser(&bodyReader{*bytes.NewReader(body)}), int64(len(body))
	return r
}

// bodyReader reads a body once, and then lets go of it, although the request may last longer.
type bodyReader struct{ bytes.Reader }

func (r *bodyReader) Read(p []byte) (n int, err error) {
	if n, err = r.Reader.Read(p); err == io.EOF {
		r.Reset(nil)
	}
	return n, err
}

// WriteTo implements [io.WriterTo].
func (r *bodyReader) WriteTo(w io.Writer) (n int64, err error) {
	defer r.Reset(nil)
	return r.Reader.WriteTo(w)
}
