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
	"github.com/askback-mcp/askback/internal/wire"
)

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

// readBody reads a body. It takes memory from the caller's share as the body arrives, and the request waits meanwhile.
// The limit is in bytes. Whatever the error, the rest of the body is not read.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, p *pace, s *shares) (body []byte, err error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	p.setReading(true)
	defer p.setReading(false)
	s.waitForClient()
	from := r.Body
	if r.ContentLength < 0 {
		from = http.MaxBytesReader(w, from, limit)
	}
	body, err = receive(r.Context(), from, r.ContentLength, s)
	if gaveWay := s.endWait(r.Context()); gaveWay != nil {
		err = gaveWay
	}
	return body, err
}

// receive reads a body of that size, or until its end if the size is negative. The memory doubles as the body arrives,
// however large the announced size is.
func receive(ctx context.Context, r io.Reader, size int64, s *shares) ([]byte, error) {
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
			if err := s.takeBytes(ctx, next); err != nil {
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

// failBody answers a request whose body could not be read with that error. The timeout is how long the client had.
func failBody(w http.ResponseWriter, err error, timeout time.Duration) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		failAs(w, http.StatusRequestEntityTooLarge, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the body exceeds the limit of %d bytes", tooLarge.Limit))
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		failAs(w, http.StatusRequestTimeout, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the body did not come within the limit of %v", timeout))
		return
	}
	// The client went away or broke the transfer: nobody reads an answer.
	failAs(w, http.StatusBadRequest, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body could not be read"))
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
