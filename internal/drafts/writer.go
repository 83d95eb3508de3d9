package drafts

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// writer translates the messages of a response: a JSON body, or the events of a stream.
type writer struct {
	http.ResponseWriter
	translate func(message []byte) []byte

	status int
	body   bytes.Buffer // The body of a JSON response.
}

// Unwrap gives an http.ResponseController the connection's own writer.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) isJSON() bool {
	return strings.HasPrefix(w.Header().Get("Content-Type"), "application/json")
}

// WriteHeader waits for finish where the body is JSON, because translating it changes its length.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if !w.isJSON() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write takes a part of a JSON body, or one whole event of a stream: both this server and the SDK write an event in
// one piece.
func (w *writer) Write(data []byte) (int, error) {
	switch {
	case w.isJSON():
		return w.body.Write(data)
	case !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		return w.ResponseWriter.Write(data)
	}
	head, event, ok := bytes.Cut(data, []byte("data: "))
	payload, end := bytes.CutSuffix(event, []byte("\n\n"))
	if !ok || !end {
		return w.ResponseWriter.Write(data)
	}
	if _, err := fmt.Fprintf(w.ResponseWriter, "%sdata: %s\n\n", head, w.translate(payload)); err != nil {
		return 0, err
	}
	return len(data), nil
}

// finish translates and sends a JSON body. The body is empty if, for example, the client has gone.
func (w *writer) finish() {
	if w.body.Len() == 0 {
		if w.isJSON() && w.status != 0 {
			w.ResponseWriter.WriteHeader(w.status)
		}
		return
	}
	w.Header().Del("Content-Length")
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	_, _ = w.ResponseWriter.Write(w.translate(bytes.TrimSpace(w.body.Bytes()))) // a client that is gone gets nothing
}
