package httpfront

import (
	"net/http"
	"sync"
	"time"
)

// pace bounds how long the client may take to send the body of a request, and to read each part of the response.
type pace struct {
	w       http.ResponseWriter // of net/http
	timeout time.Duration       // for each part; none if it is not positive

	mu      sync.Mutex
	reading bool // the request's body
	ended   bool // the connection may serve another request
	cut     bool // nothing more is written
}

// limitReading bounds the time that a request's body takes, also if the request is refused and net/http skips the
// body. A timeout that is not positive means no timeout.
func (p *pace) limitReading(r *http.Request, timeout time.Duration) {
	if r.ContentLength == 0 || timeout <= 0 {
		return
	}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		timeout = min(timeout, server.ReadTimeout)
	}
	_ = http.NewResponseController(p.w).SetReadDeadline(time.Now().Add(timeout)) // where there are deadlines
}

// begin begins the time for what is written next. At the end of the request that is what net/http has buffered; it
// then lifts the deadline.
func (p *pace) begin() { p.set(time.Now().Add(p.timeout)) }

func (p *pace) set(deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timeout > 0 && !p.cut {
		_ = http.NewResponseController(p.w).SetWriteDeadline(deadline) // where there are deadlines
	}
}

// setReading notes whether the request's body is being read.
func (p *pace) setReading(reading bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = reading
}

// end makes cutOff do nothing from now on.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// cutOff stops waiting for the client. A body that is being read ends with an error, which is answered; otherwise the
// response has a moment to end. Another goroutine may call cutOff.
func (p *pace) cutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	const moment = time.Second
	control := http.NewResponseController(p.w)
	_ = control.SetReadDeadline(time.Unix(1, 0)) // where there are deadlines
	if !p.reading {
		p.cut = true
		_ = control.SetWriteDeadline(time.Now().Add(moment))
	}
}
