package httpfront

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/wire"
)

// eventStream answers one request: with a single JSON object, unless a notification made it a stream of events before.
// It implements [sdkfront.Client].
type eventStream struct {
	w         http.ResponseWriter
	accept    []string // the header
	subscribe bool     // the client takes events, and opens the stream again when it ends

	mu       sync.Mutex
	started  bool
	finished bool
}

// TakesEvents implements [sdkfront.Client].
func (e *eventStream) TakesEvents() bool {
	if e.subscribe {
		return true
	}
	for _, value := range e.accept {
		for part := range strings.SplitSeq(value, ",") {
			switch mediaType, _, _ := mime.ParseMediaType(part); mediaType {
			case "text/event-stream", "text/*", "*/*":
				return true
			}
		}
	}
	return false
}

// Notify implements [sdkfront.Client]. A notification makes the response a stream.
func (e *eventStream) Notify(method string, params []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished {
		return fmt.Errorf("%s: the request is already answered", method)
	}
	if !e.started {
		e.started = true
		header := e.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
	}
	return e.event(wire.AppendNotification(nil, method, params))
}

func (e *eventStream) event(data []byte) error {
	if _, err := fmt.Fprintf(e.w, "event: message\ndata: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

func (e *eventStream) finish(status int, response []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished = true
	if e.started {
		_ = e.event(response) // a client that is gone gets nothing
		return
	}
	writeJSON(e.w, status, response)
}

// gone reports whether nobody waits for the end of the response: the client went away, which cancels its request, or
// the server ends a stream of events, which the client opens again.
func (e *eventStream) gone(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started && e.subscribe || !fault.Of(context.Cause(ctx)).Busy()
}
