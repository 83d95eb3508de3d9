package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/rawclient"
)

const (
	maxResponse = 2 << 20 // bytes
	maxSilent   = 4       // requests in a row without a response, after which the server counts as gone
)

// line is the connection to the servers. It keeps the bounds of a run: one request at a time, so many a second, so many
// in all, and none after the server has asked for quiet.
type line struct {
	http     *http.Client
	program  *rawclient.Program // in place of HTTP
	cmd      *exec.Cmd          // of the program
	patience time.Duration      // for a response
	left     int
	pause    time.Duration // between two requests
	last     time.Time
	silent   int
	answered bool // a response has come
	sent     int
	stopped  string // why nothing is sent any more
	gone     bool   // nothing accepts connections where the server was
}

var (
	errStopped = errors.New("the run has stopped")
	errLost    = errors.New("no response came")
	errSlow    = errors.New("no response came in time") // sending it again would not help
)

func newLine(r *run) (*line, error) {
	l := &line{left: r.MaxRequests, patience: r.patience}
	l.http = rawclient.Direct(l.patience)
	if r.PerSecond > 0 {
		l.pause = time.Duration(float64(time.Second) / r.PerSecond)
	}
	if len(r.Server.Program) > 0 {
		var err error
		l.cmd = exec.Command(r.Server.Program[0], r.Server.Program[1:]...)
		child.Group(l.cmd)
		if l.program, err = rawclient.Start(l.cmd, io.Discard); err != nil {
			return nil, fmt.Errorf("starting %s: %w", r.Server.Program[0], err)
		}
	}
	return l, nil
}

func (l *line) close() {
	l.http.CloseIdleConnections()
	if l.program != nil {
		_ = l.program.Close()  // how a program ends is no finding
		child.KillGroup(l.cmd) // with the children that it has left
	}
}

// a request is what is sent, before it is bytes.
type request struct {
	as      string // "second" is the other identity
	at      string // "replica", "elsewhere"; empty is the server itself
	method  string
	params  map[string]any
	able    string            // the JSON of the client's capabilities
	headers map[string]string // in place of the protocol's; an empty one is left out
	body    pieces            // in place of method and params
	load    bool              // it may be refused with 429 or 503
	large   bool              // it may take long
}

// response is what came.
type response struct {
	status int
	header http.Header
	result json.RawMessage
	fault  *rawclient.Error // the response is an error; also for a response that is no message
}

// client returns the client of an identity at a server. A token goes only to the origin that it was given for: another
// server gets it if it is on this machine, as the first one is.
func (r *run) client(as, at string) *rawclient.Client {
	c := &rawclient.Client{URL: r.Server.URL, HTTP: r.line.http, Program: r.line.program, Header: r.Server.Header,
		MaxBytes: maxResponse}
	if as == "second" {
		c.Header = r.Second
	}
	switch at {
	case "replica":
		c.URL = r.Plan.Replica
	case "elsewhere":
		c.URL = r.Plan.Elsewhere
	}
	if at != "" && !r.mayHaveTokens(c.URL) {
		c.Header = nil
	}
	return c
}

func (r *run) mayHaveTokens(address string) bool {
	own, err := url.Parse(r.Server.URL)
	other, wrong := url.Parse(address)
	if err != nil || wrong != nil {
		return false
	}
	return own.Scheme == other.Scheme && own.Host == other.Host || r.local && isLocal(other.Hostname())
}

// begin waits until a request may be sent, and counts it. The error is errStopped at the end of the run.
func (r *run) begin(ctx context.Context, q request) error {
	l := r.line
	switch {
	case l.stopped != "":
		return errStopped
	case l.left <= r.reserve(q) && !q.load:
		return l.stop(fmt.Sprintf("the %d requests of the run are used up", r.MaxRequests))
	case !l.turn(ctx, q):
		return l.stop(context.Cause(ctx).Error())
	}
	return nil
}

// turn waits for the pause between two requests, and counts the next one. It is false when ctx is done.
func (l *line) turn(ctx context.Context, q request) bool {
	if wait := time.Until(l.last.Add(l.pause)); wait > 0 && l.pause > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return false
	}
	if !q.load { // the probe bounds how often it sends such requests
		l.left--
	}
	l.sent++
	l.last = time.Now()
	return true
}

// send sends one request and returns its response. The error is errLost if none came, and errStopped at the end of the
// run.
func (r *run) send(ctx context.Context, q request) (*response, error) {
	if err := r.begin(ctx, q); err != nil {
		return nil, err
	}
	l := r.line
	res, err := r.exchange(ctx, q)
	if q.load && ctx.Err() == nil {
		return r.borne(ctx, q, res, err)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, l.stop(context.Cause(ctx).Error())
		}
		slow := errors.Is(err, context.DeadlineExceeded) || isTimeout(err)
		if l.silent++; l.silent >= maxSilent && !r.answers(ctx) {
			l.gone = l.answered && errors.Is(err, syscall.ECONNREFUSED)
			return nil, l.stop(fmt.Sprintf("%d requests in a row got no response: %v", maxSilent, plain(err)))
		}
		if slow {
			return nil, fmt.Errorf("%w (%v)", errSlow, l.patience)
		}
		return nil, fmt.Errorf("%w: %v", errLost, plain(err))
	}
	l.silent, l.answered = 0, true
	var kind struct{ ResultType string } // which only this revision has
	if json.Unmarshal(res.result, &kind) == nil && kind.ResultType != "" {
		r.report.Revision = rawclient.Modern
	}
	return res, l.heed(res.status)
}

// heed stops the run if the server asks for no more requests.
func (l *line) heed(status int) error {
	if !isQuiet(status) {
		return nil
	}
	return l.stop(fmt.Sprintf("the server asked for quiet with the status %d", status))
}

func isQuiet(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// answers reports whether the server is there, although calls that wait for something get no response in time, and
// others are lost.
func (r *run) answers(ctx context.Context) bool {
	q := request{method: "server/discover", able: allCapabilities}
	if r.line.left == 0 || !r.line.turn(ctx, q) {
		return false
	}
	res, err := r.exchange(ctx, q)
	if err != nil || isQuiet(res.status) {
		return false
	}
	r.line.silent = 0
	return true
}

func (l *line) stop(why string) error {
	if l.stopped == "" {
		l.stopped = why
	}
	return errStopped
}

// plain removes the URL from an error of HTTP.
func plain(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

func (r *run) exchange(ctx context.Context, q request) (*response, error) {
	if r.mayMake(q) {
		ctx = context.WithoutCancel(ctx) // a task whose ID is lost cannot be cancelled
	}
	ctx, cancel := context.WithTimeout(ctx, r.patienceFor(q))
	defer cancel()
	c := r.client(q.as, q.at)
	c.Capabilities = q.able
	s, err := open(ctx, c, q, r.line.sent)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	res := &response{status: s.Status, header: s.Header}
	if isQuiet(res.status) { // the body may never end
		res.fault = &rawclient.Error{Status: s.Status, Message: http.StatusText(s.Status)}
		return res, nil
	}
	for range 1000 { // notifications before the response
		m, err := s.Next()
		if fault, ok := errors.AsType[*rawclient.Error](err); ok {
			res.fault = fault
			return res, nil
		}
		if large, ok := errors.AsType[*rawclient.TooLargeError](err); ok {
			res.fault = &rawclient.Error{Status: s.Status, Message: large.Error()}
			return res, nil
		}
		switch {
		case err != nil && s.Status >= 300:
			res.fault = &rawclient.Error{Status: s.Status, Message: http.StatusText(s.Status)}
			return res, nil
		case err != nil:
			return nil, err
		case m.Error != nil:
			res.fault = m.Error
			return res, nil
		case m.Result != nil:
			res.result = m.Result
			return res, nil
		}
	}
	return nil, errors.New("1000 messages came before the response")
}
