package httpfront

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/wire"
)

// eventStream answers one request: with a single JSON object, unless a notification
// made it a stream of events before.
type eventStream struct {
	w       http.ResponseWriter
	token   []byte
	events  bool // the client takes notifications of the SDK's
	endless bool // the client opens it again when it ends

	mu       sync.Mutex
	started  bool
	finished bool
}

func (e *eventStream) progress(ctx context.Context, progress, total float64, message string) error {
	params := struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{e.token, progress, total, message}
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.notify("notifications/progress", data)
}

// notify sends a notification, which makes the response a stream.
func (e *eventStream) notify(method string, params []byte) error {
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
	return e.started && e.endless || !fault.Of(context.Cause(ctx)).Busy()
}

func acceptsEvents(r *http.Request) bool {
	for _, value := range r.Header["Accept"] {
		for part := range strings.SplitSeq(value, ",") {
			switch mediaType, _, _ := mime.ParseMediaType(part); mediaType {
			case "text/event-stream", "text/*", "*/*":
				return true
			}
		}
	}
	return false
}

// setRetryAfter tells the client when to send a request again, if it should.
func setRetryAfter(header http.Header, err error) {
	if after := fault.RetryAfter(err); after > 0 {
		header.Set("Retry-After", strconv.FormatInt(after, 10))
	}
}

// fail answers a request with an error.
func fail(w http.ResponseWriter, id []byte, err error) { failAs(w, fault.Status(err), id, err) }

func failAs(w http.ResponseWriter, status int, id []byte, err error) {
	setRetryAfter(w.Header(), err)
	writeJSON(w, status, wire.AppendError(nil, id, fault.Wire(err)))
}

var contentJSON = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone gets nothing
}
