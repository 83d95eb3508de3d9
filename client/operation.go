package client

import (
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Operation is a request that a [Session] sends, for [Options.Observe]: each round of a call, and each request about
// tasks. Lists, discovery and notifications are not operations. It never holds an answer, an argument, a result, a
// requestState or a task's ID. It is the client's side of askback.Operation. It must not be used after the function
// that Observe returned has been called.
type Operation struct {
	// Known when Observe is called:

	Began  time.Time
	Method string // such as "tools/call"
	Target string // the tool's or prompt's name, or the resource's URI; "" for a request about tasks
	Round  int    // from 1, as in [Round]; 0 for a request about a task
	// the ID of a session before 2026-07-28 over an OAuthHandler; else "", because the ID protects a session by itself
	Session   string
	Protocol  string // the protocol version
	Transport string // how the request goes: TransportHTTP or TransportPipe
	Server    string // over HTTP, the host and port of the endpoint, such as "localhost:8080"

	// SetMeta sets a member of the request's _meta, such as "traceparent" (SEP-414). It replaces a member of this name
	// that the caller gave. It is for the function Observe alone.
	SetMeta func(name, value string)

	// Trace travels with the call: what Observe sets where it is empty is in every later operation of the call, and of the
	// task that the call becomes. A [Pending] holds it, so that it also survives [Session.Resume].
	Trace string

	// Known at the end:

	Request string // the ID of the JSON-RPC request, cut to 64 bytes; "" if none was sent

	// Outcome says how the request ended: completed, input_required, task (the call became one), failed (with Code, or, if
	// that is 0, with a tool's own error), cancelled, timeout, or unanswered (the server is out of reach, or its response
	// cannot be read).
	Outcome string
	Code    int64 // The code of the JSON-RPC error.
}

// How a request goes: see [Operation].
const (
	TransportHTTP = "http"
	TransportPipe = "pipe" // standard input and output, or any other connection of whole messages
)

// observedSession holds the members of an [Operation] that describe its session.
type observedSession struct{ session, transport, server string }

// observedOf returns what operations over a transport tell. The ID of the session is not known yet.
func observedOf(t mcp.Transport) (told observedSession, authorized bool) {
	endpoint := ""
	switch t := t.(type) {
	case *mcp.LoggingTransport:
		return observedOf(t.Transport)
	case *mcp.StreamableClientTransport:
		endpoint, authorized = t.Endpoint, t.OAuthHandler != nil
	case *mcp.SSEClientTransport:
		endpoint = t.Endpoint
	default:
		return observedSession{transport: TransportPipe}, false
	}
	u, err := url.Parse(endpoint)
	if err != nil { // there is no session then
		return told, false
	}
	_, server, _ := strings.Cut(origin(u), "://")
	return observedSession{transport: TransportHTTP, server: server}, authorized
}
