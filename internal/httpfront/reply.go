package httpfront

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/wire"
)

// reply is the [http.ResponseWriter] of a request, for us and for the SDK. A writer gets an error instead of waiting
// for a client that does not read; while it waits, the request's shares give way.
type reply struct {
	pace    *pace // and the writer of net/http
	shares  *shares
	ran     *atomic.Bool // the author's function has run
	written int          // since the time for it began
}

// buffered is what net/http holds back of a response at least. It is on its way only when there is more, or at the end
// of the request.
const buffered = 2 << 10

// part is what has to be read in time: it bounds the pace, and not the size, of a response.
const part = 64 << 10

// Header implements [http.ResponseWriter].
func (w *reply) Header() http.Header { return w.pace.w.Header() }

// WriteHeader implements [http.ResponseWriter], for the SDK's statuses as for ours. With a status of 4xx a server
// refuses a request before anything runs, and clients tell people so. Once the author's function has run, an error
// therefore has the status 200, which is also that of a tool's error, or 503 where the request may be sent again.
func (w *reply) WriteHeader(status int) {
	if w.ran.Load() {
		switch {
		case status == http.StatusTooManyRequests:
			status = http.StatusServiceUnavailable
		case status >= 400 && status < 500:
			status = http.StatusOK
		}
	}
	w.pace.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter]. Output beyond the buffer of net/http waits for the client to read.
func (w *reply) Write(p []byte) (n int, err error) {
	if w.shares.open.Load() || w.written+len(p) <= buffered {
		return w.writeParts(p)
	}
	w.shares.waitForClient()
	n, err = w.writeParts(p)
	return n, cmp.Or(w.shares.endWait(context.Background()), err)
}

func (w *reply) writeParts(p []byte) (n int, err error) {
	for err == nil && (n == 0 || n < len(p)) {
		if w.written += min(len(p)-n, part); w.written > buffered {
			w.begin()
		}
		var m int
		m, err = w.pace.w.Write(p[n:min(n+part, len(p))])
		n += m
		if m == 0 {
			break
		}
	}
	return n, err
}

// FlushError implements what [http.ResponseController] looks for.
func (w *reply) FlushError() error {
	if w.shares.open.Load() {
		return w.flush()
	}
	w.shares.waitForClient()
	err := w.flush()
	return cmp.Or(w.shares.endWait(context.Background()), err)
}

func (w *reply) flush() error {
	w.begin()
	defer w.pace.set(time.Time{}) // HTTP/2 ends a stream at its deadline, even one that waits for nothing
	return http.NewResponseController(w.pace.w).Flush()
}

// Unwrap implements what [http.ResponseController] looks for.
func (w *reply) Unwrap() http.ResponseWriter { return w.pace.w }

func (w *reply) begin() {
	w.written = 0
	w.pace.begin()
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, id []byte, err error) { failAs(w, fault.Status(err), id, err) }

func failAs(w http.ResponseWriter, status int, id []byte, err error) {
	setRetryAfter(w.Header(), err)
	writeJSON(w, status, wire.AppendError(nil, id, fault.Wire(err)))
}

// setRetryAfter tells the client when to send a request again, if it should.
func setRetryAfter(header http.Header, err error) {
	if after := fault.RetryAfter(err); after > 0 {
		header.Set("Retry-After", strconv.FormatInt(after, 10))
	}
}

var contentJSON = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone gets nothing
}
