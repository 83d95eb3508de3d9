package httpfront

import (
	"net/http"
	"sync"
	"time"
)

// pacedWriter bounds how long a client may take to read each part of a response. A writer, ours or the SDK's, gets an
// error instead of waiting for a client that does not read.
type pacedWriter struct {
	http.ResponseWriter
	timeout time.Duration
	written int // since the time began

	mu      sync.Mutex
	reading bool // the request's body
	ended   bool // the connection may serve another request
	cut     bool // nothing more is written
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timeout > 0 && !w.cut {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(deadline) // where there are deadlines
	}
}

// reads notes whether the request's body is being read.
func (w *pacedWriter) reads(reading bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading = reading
}

// end makes cutOff do nothing from now on.
func (w *pacedWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// cutOff stops waiting for the client. A body that is being read ends with an error, which is answered; otherwise the
// response has a moment to end. Another goroutine may call cutOff.
func (w *pacedWriter) cutOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	const moment = time.Second
	control := http.NewResponseController(w.ResponseWriter)
	_ = control.SetReadDeadline(time.Unix(1, 0)) // where there are deadlines
	if !w.reading {
		w.cut = true
		_ = control.SetWriteDeadline(time.Now().Add(moment))
	}
}
