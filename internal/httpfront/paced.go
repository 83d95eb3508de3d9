package httpfront

import (
	"net/http"
	"time"
)

// pacedWriter bounds how long a client may take to read each part of a response. Whoever writes to it, of ours or of
// the SDK's, gets an error in place of waiting for a client that does not read.
type pacedWriter struct {
	http.ResponseWriter
	timeout time.Duration
	written int // since the time began
}

// buffered is what net/http holds back of a response at least. It is on its way only when there is more, or at the end
// of the request.
const buffered = 2 << 10

// part is what has to be read in time: it bounds the pace, and not the size, of a response.
const part = 64 << 10

func (w *pacedWriter) Write(p []byte) (n int, err error) {
	for err == nil && (n == 0 || n < len(p)) {
		if w.written += min(len(p)-n, part); w.written > buffered {
			w.begin()
		}
		var m int
		m, err = w.ResponseWriter.Write(p[n:min(n+part, len(p))])
		n += m
		if m == 0 {
			break
		}
	}
	return n, err
}

// FlushError implements what [http.ResponseController] looks for.
func (w *pacedWriter) FlushError() error {
	w.begin()
	defer w.set(time.Time{}) // HTTP/2 ends a stream at its deadline, even one that waits for nothing
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap implements what [http.ResponseController] looks for.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin begins the time for what is written next. At the end of the request that is what net/http has buffered; it
// then lifts the deadline.
func (w *pacedWriter) begin() {
	w.written = 0
	w.set(time.Now().Add(w.timeout))
}

func (w *pacedWriter) set(deadline time.Time) {
	if w.timeout > 0 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(deadline) // where there are deadlines
	}
}
