// Package transport carries requests to the servers of a run, within its bounds.
package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/rawclient"
)

const (
	// MaxLosses is the number of attempts at one thing whose responses are lost.
	MaxLosses = 6

	// CancelTries is the number of requests that are kept back to cancel each task.
	CancelTries = 3

	// LoadPatience is how many times as long as others a large request may take.
	LoadPatience = 4

	maxResponse = 2 << 20 // bytes
	maxSilent   = 4       // requests in a row without a response, after which the server counts as gone
	maxRest     = 10 * time.Second

	// AllCapabilities declares everything that a client can be asked, and no extension.
	AllCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
)

// The errors of a request.
var (
	ErrStopped = errors.New("the run has stopped")
	ErrLost    = errors.New("no response came")
	ErrSlow    = errors.New("no response came in time") // sending it again would not help
)

// Options say where the requests of a run go, as whom, and within which bounds.
type Options struct {
	URL                string
	Program            []string    // the command line of a server over standard input and output, in place of a URL
	Header, Second     http.Header // of the two identities
	Replica, Elsewhere string      // URLs of other servers
	Local              bool        // the server is on this machine

	MaxRequests int
	PerSecond   float64       // requests; zero is without a limit
	Patience    time.Duration // for a response
	Quiet       time.Duration // that a server has to get over a load
}

// A Line is the connection to the servers. It keeps the bounds of a run: one request at a time, so many a second, so
// many in all, and none after the server has asked for quiet.
type Line struct {
	Options
	http       *http.Client
	program    *rawclient.Program // in place of HTTP
	cmd        *exec.Cmd          // of the program
	left       int
	Reserved   int           // requests that only TrySend may use
	MakesTasks bool          // the server has the extension for tasks
	pause      time.Duration // between two requests
	last       time.Time
	Silent     int    // requests in a row without a response
	answered   bool   // a response has come
	Sent       int    // requests
	Revision   string // of the protocol, as the server has spoken it
	Stopped    string // why nothing is sent any more
	Gone       bool   // nothing accepts connections where the server was
}

// New starts the program of the options, if they have one.
func New(o Options) (*Line, error) {
	l := &Line{Options: o, left: o.MaxRequests}
	l.http = rawclient.Direct(o.Patience)
	if o.PerSecond > 0 {
		l.pause = time.Duration(float64(time.Second) / o.PerSecond)
	}
	if len(o.Program) > 0 {
		var err error
		l.cmd = exec.Command(o.Program[0], o.Program[1:]...)
		child.Group(l.cmd)
		if l.program, err = rawclient.Start(l.cmd, io.Discard); err != nil {
			return nil, fmt.Errorf("starting %s: %w", o.Program[0], err)
		}
	}
	return l, nil
}

// Close ends the connections, and the program with its children.
func (l *Line) Close() {
	l.http.CloseIdleConnections()
	if l.program != nil {
		_ = l.program.Close()  // how a program ends is no finding
		child.KillGroup(l.cmd) // with the children that it has left
	}
}

// client returns the client of an identity at a server. A token goes only to the origin that it was given for: another
// server gets it if it is on this machine, as the first one is.
func (l *Line) client(as, at string) *rawclient.Client {
	c := &rawclient.Client{URL: l.URL, HTTP: l.http, Program: l.program, Header: l.Header,
		MaxBytes: maxResponse}
	if as == "second" {
		c.Header = l.Second
	}
	switch at {
	case "replica":
		c.URL = l.Replica
	case "elsewhere":
		c.URL = l.Elsewhere
	}
	if at != "" && !l.mayHaveTokens(c.URL) {
		c.Header = nil
	}
	return c
}

func (l *Line) mayHaveTokens(address string) bool {
	own, err := url.Parse(l.URL)
	other, wrong := url.Parse(address)
	if err != nil || wrong != nil {
		return false
	}
	return own.Scheme == other.Scheme && own.Host == other.Host || l.Local && IsLocal(other.Hostname())
}

// IsLocal reports whether a host is this machine.
func IsLocal(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// begin waits until a request may be sent, and counts it. The error is ErrStopped at the end of the run.
func (l *Line) begin(ctx context.Context, q Request) error {
	reserved := l.Reserved
	if l.mayMake(q) {
		reserved += CancelTries
	}
	switch {
	case l.Stopped != "":
		return ErrStopped
	case l.left <= reserved && !q.Load:
		return l.Stop(fmt.Sprintf("the %d requests of the run are used up", l.MaxRequests))
	case !l.turn(ctx, q):
		return l.Stop(context.Cause(ctx).Error())
	}
	return nil
}

// mayMake reports whether a request may make a task.
func (l *Line) mayMake(q Request) bool { return l.MakesTasks && q.Method == "tools/call" }

// turn waits for the pause between two requests, and counts the next one. It is false when ctx is done.
func (l *Line) turn(ctx context.Context, q Request) bool {
	if wait := time.Until(l.last.Add(l.pause)); wait > 0 && l.pause > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return false
	}
	if !q.Load { // the probe bounds how often it sends such requests
		l.left--
	}
	l.Sent++
	l.last = time.Now()
	return true
}

// Send sends one request and returns its response. The error is ErrLost or ErrSlow if none came, and ErrStopped at the
// end of the run.
func (l *Line) Send(ctx context.Context, q Request) (*Response, error) {
	if err := l.begin(ctx, q); err != nil {
		return nil, err
	}
	res, err := l.exchange(ctx, q)
	if q.Load && ctx.Err() == nil {
		return l.loadReply(ctx, q, res, err)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, l.Stop(context.Cause(ctx).Error())
		}
		slow := errors.Is(err, context.DeadlineExceeded) || isTimeout(err)
		if l.Silent++; l.Silent >= maxSilent && !l.answers(ctx) {
			l.Gone = l.answered && errors.Is(err, syscall.ECONNREFUSED)
			return nil, l.Stop(fmt.Sprintf("%d requests in a row got no response: %v", maxSilent, plain(err)))
		}
		if slow {
			return nil, fmt.Errorf("%w (%v)", ErrSlow, l.Patience)
		}
		return nil, fmt.Errorf("%w: %v", ErrLost, plain(err))
	}
	l.Silent, l.answered = 0, true
	var kind struct{ ResultType string } // the member resultType came with 2026-07-28
	if json.Unmarshal(res.Result, &kind) == nil && kind.ResultType != "" {
		l.Revision = rawclient.Modern
	}
	return res, l.backOff(res.Status)
}

func (l *Line) exchange(ctx context.Context, q Request) (*Response, error) {
	if l.mayMake(q) {
		ctx = context.WithoutCancel(ctx) // a task whose ID is lost cannot be cancelled
	}
	ctx, cancel := context.WithTimeout(ctx, l.patienceFor(q))
	defer cancel()
	c := l.client(q.As, q.At)
	c.Capabilities = q.Capabilities
	s, err := q.open(ctx, c, l.Sent)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	res := &Response{Status: s.Status, header: s.Header}
	if res.IsQuiet() { // the body may never end
		res.Fault = &rawclient.Error{Status: s.Status, Message: http.StatusText(s.Status)}
		return res, nil
	}
	for range 1000 { // notifications before the response
		m, err := s.Next()
		if fault, ok := errors.AsType[*rawclient.Error](err); ok {
			res.Fault = fault
			return res, nil
		}
		if large, ok := errors.AsType[*rawclient.TooLargeError](err); ok {
			res.Fault = &rawclient.Error{Status: s.Status, Message: large.Error()}
			return res, nil
		}
		switch {
		case err != nil && s.Status >= 300:
			res.Fault = &rawclient.Error{Status: s.Status, Message: http.StatusText(s.Status)}
			return res, nil
		case err != nil:
			return nil, err
		case m.Error != nil:
			res.Fault = m.Error
			return res, nil
		case m.Result != nil:
			res.Result = m.Result
			return res, nil
		}
	}
	return nil, errors.New("1000 messages came before the response")
}

// answers reports whether the server is there, although calls that wait for something get no response in time, and
// others are lost.
func (l *Line) answers(ctx context.Context) bool {
	res, err := l.TrySend(ctx, Request{Method: "server/discover", Capabilities: AllCapabilities})
	if err != nil || res.IsQuiet() {
		return false
	}
	l.Silent = 0
	return true
}

// TrySend sends a request also when the run has stopped, or when only reserved requests are left. The error is
// ErrStopped if there are none, or no time.
func (l *Line) TrySend(ctx context.Context, q Request) (*Response, error) {
	if l.left == 0 || !l.turn(ctx, q) {
		return nil, ErrStopped
	}
	return l.exchange(ctx, q)
}

// Stop ends the run, and returns ErrStopped. The first reason counts.
func (l *Line) Stop(why string) error {
	if l.Stopped == "" {
		l.Stopped = why
	}
	return ErrStopped
}

// backOff stops the run if the server asks for no more requests.
func (l *Line) backOff(status int) error {
	if !isQuiet(status) {
		return nil
	}
	return l.Stop(fmt.Sprintf("the server asked for quiet with the status %d", status))
}

// patienceFor is how long a response may take.
func (l *Line) patienceFor(q Request) time.Duration {
	if q.Large {
		return l.Patience * LoadPatience
	}
	return l.Patience
}

// loadReply returns the response to a request of a load. A server may refuse it with 429 or 503, or end the connection:
// it gets a pause, and the run goes on.
func (l *Line) loadReply(ctx context.Context, q Request, res *Response, err error) (*Response, error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded) || err != nil && isTimeout(err):
		return nil, fmt.Errorf("%w (%v)", ErrSlow, l.patienceFor(q))
	case err != nil:
		return nil, fmt.Errorf("%w: %v", ErrLost, plain(err))
	}
	if res.IsQuiet() {
		seconds, _ := strconv.Atoi(res.header.Get("Retry-After"))
		rest := min(max(time.Duration(seconds)*time.Second, l.Quiet/30), maxRest, l.Quiet/6)
		if res.Fault == nil {
			res.Fault = &rawclient.Error{Status: res.Status, Message: http.StatusText(res.Status)}
		}
		return res, l.Rest(ctx, rest)
	}
	return res, nil
}

// Rest waits, unless the run ends meanwhile.
func (l *Line) Rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return l.Stop(context.Cause(ctx).Error())
	}
}

// Cause says why a request could not be sent, or got no response.
func (l *Line) Cause(err error) string {
	if errors.Is(err, ErrStopped) {
		return l.Stopped
	}
	return err.Error()
}

// RetryLost does something again while responses are lost, up to MaxLosses times.
func RetryLost[T any](do func() (T, error)) (value T, err error) {
	for range MaxLosses {
		if value, err = do(); !errors.Is(err, ErrLost) {
			return value, err
		}
	}
	return value, err
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// plain removes the URL from an error of HTTP.
func plain(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}
