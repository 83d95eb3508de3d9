package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
)

// Network carries requests to the handlers that listen, in memory.
type Network struct{ at sync.Map } // *Listener by host

// Listener is a part that serves HTTP. Life is the context of what it serves.
type Listener struct {
	Part    *Part
	Handler http.Handler
	Life    context.Context
}

// Listen has a host served by a listener, in place of the one before.
func (n *Network) Listen(host string, l *Listener) { n.at.Store(host, l) }

// HangUp ends a listener. Another one may listen there already.
func (n *Network) HangUp(host string, l *Listener) { n.at.CompareAndDelete(host, l) }

// Listens reports whether a host is served.
func (n *Network) Listens(host string) bool { return n.find(host) != nil }

func (n *Network) find(host string) *Listener {
	l, _ := n.at.Load(host)
	listener, _ := l.(*Listener)
	return listener
}

// Link is the way of one part into the network. What goes to a calm host meets no fate, and neither does the end of a
// session. User is the header X-User of all requests, if there is one.
type Link struct {
	*Network
	From *Part
	Calm string
	User string
}

// RoundTrip sends a request through one seam, and its response back through another one. A response that is lost there
// breaks off somewhere.
func (l *Link) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	if l.User != "" {
		req = req.Clone(req.Context())
		req.Header.Set("X-User", l.User)
	}
	switch {
	case l.From.IsDead():
		return nil, ErrDead
	case req.URL.Host == l.Calm:
		return l.send(req, body)
	case req.Method == http.MethodDelete: // the SDK holds a lock while it ends a session
		go func() {
			if res, err := l.send(req.WithContext(context.WithoutCancel(req.Context())), nil); err == nil {
				res.Body.Close()
			}
		}()
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: req}, nil
	}
	var message struct{ Method string }
	_ = json.Unmarshal(body, &message)
	what := fmt.Sprintf("%s to %s", cmp.Or(message.Method, req.Method), req.URL.Host)
	var res *http.Response
	err := l.From.Do(req.Context(), what, func(context.Context) (err error) {
		res, err = l.send(req, body)
		return err
	})
	if message.Method == "tools/call" && l.From.Happens("it dies with an answer", 20*l.From.Chances[KilledAfter]) {
		l.From.Kill()
	}
	if err == nil {
		err = l.From.Do(req.Context(), "response of "+what, func(context.Context) error { return nil })
		if err == ErrLost {
			res.Body, err = &brokenBody{res.Body, l.From.IntN(400)}, nil
		}
	}
	if err != nil && res != nil {
		res.Body.Close()
		res = nil
	}
	return res, err
}

// send has a request served by the listener of its address. It reports to the request's trace whether there is a
// connection, as net/http does.
func (n *Network) send(req *http.Request, body []byte) (*http.Response, error) {
	trace := cmp.Or(httptrace.ContextClientTrace(req.Context()), new(httptrace.ClientTrace))
	if trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	l := n.find(req.URL.Host)
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	ctx, cancel := context.WithCancel(l.Life)
	in, err := http.NewRequestWithContext(ctx, req.Method, req.URL.String(), bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	in.Header, in.RemoteAddr = req.Header.Clone(), "192.0.2.1:1"
	r := &response{header: make(http.Header), by: l.Part, to: req.Context(), cancel: cancel}
	go func() {
		defer cancel()
		defer func() { r.end(recover()) }()
		l.Handler.ServeHTTP(r, in)
	}()
	if r.await(func() bool { return r.sent }, l.Part.Dead(), req.Context().Done()) {
		return r.head(req)
	}
	cancel()
	return nil, cmp.Or(context.Cause(req.Context()), io.ErrUnexpectedEOF)
}

// response is what a handler answers, and its body as the client reads it. Nobody waits for the reader.
type response struct {
	state
	header http.Header
	by     *Part // the server
	to     context.Context
	cancel func() // the request, at the server

	status int
	sent   bool // the head
	data   bytes.Buffer
	over   error // how the body ends, once it has
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = cmp.Or(r.status, status)
}

func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Write(p)
}

// Flush implements [http.Flusher].
func (r *response) Flush() {
	r.WriteHeader(http.StatusOK)
	r.update(func() { r.sent = true })
}

// end ends the response of a handler, which may have panicked.
func (r *response) end(panicked any) {
	over := io.EOF
	if panicked == http.ErrAbortHandler {
		over = io.ErrUnexpectedEOF
	} else if panicked != nil {
		panic(panicked)
	}
	r.update(func() { r.over = over })
	r.Flush()
}

func (r *response) head(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == io.ErrUnexpectedEOF && r.data.Len() == 0 {
		return nil, r.over
	}
	return &http.Response{Status: fmt.Sprint(r.status, " ", http.StatusText(r.status)), StatusCode: r.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.header.Clone(), Body: r, ContentLength: -1,
		Request: req}, nil
}

// Read reads the body.
func (r *response) Read(p []byte) (n int, err error) {
	r.await(func() bool {
		if n, _ = r.data.Read(p); n == 0 {
			err = r.over
		}
		return n > 0 || err != nil
	}, r.by.Dead(), r.to.Done())
	if r.by.IsDead() {
		return 0, io.ErrUnexpectedEOF
	}
	if err := context.Cause(r.to); err != nil {
		r.cancel()
		return 0, err
	}
	return n, err
}

// Close lets the server know that nobody reads on.
func (r *response) Close() error {
	r.cancel()
	r.update(func() { r.over = cmp.Or(r.over, io.ErrClosedPipe) })
	return nil
}

// brokenBody is a body that breaks off.
type brokenBody struct {
	io.ReadCloser
	left int
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
