package inbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// problem is why a request was not done, as programs are told it (RFC 9457).
type problem struct {
	kind   string
	retry  int    // seconds until the request may be sent again; 0 says nothing of it
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Decision is the earlier decision, without its content.
	Decision *desk.Decision `json:"decision,omitempty"`
}

// problemOf returns what is told of an error of a desk. Ok is false if the sender of the request can do nothing about
// the error.
func problemOf(err error) (p *problem, ok bool) {
	if closed, is := errors.AsType[*desk.ClosedError](err); is {
		return &problem{kind: "closed", Status: http.StatusConflict, Title: sentence(closed), Decision: closed.Decision}, true
	}
	if invalid, is := errors.AsType[*desk.InvalidError](err); is {
		return &problem{kind: "invalid", Status: http.StatusUnprocessableEntity, Title: sentence(invalid)}, true
	}
	switch {
	case errors.Is(err, desk.ErrOwnCall):
		return &problem{kind: "own-call", Status: http.StatusForbidden, Title: sentence(desk.ErrOwnCall)}, true
	case errors.Is(err, task.ErrNotFound):
		return unknown(), true
	}
	return &problem{kind: "failed", Status: http.StatusServiceUnavailable, retry: 1,
		Title: "The inbox cannot do this now. Send the request again: the same answer again does no harm."}, false
}

// unknown is told of every question that does not concern somebody, and of those that do not exist: in the same words,
// with nothing of the request in them.
func unknown() *problem {
	return &problem{kind: "not-found", Status: http.StatusNotFound,
		Title: "There is no such question, or it does not concern you."}
}

// sentence is an error as a person reads it.
func sentence(err error) string { return capital(err.Error()) + "." }

// capital returns a text with a capital letter at its beginning.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if first == utf8.RuneError {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// forPrograms reports whether a request is not one for a page.
func forPrograms(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/events"
}

// refuse tells a program the problem, and a person its title.
func refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retry))
	}
	if !forPrograms(r) {
		http.Error(w, p.Title, p.Status)
		return
	}
	p.Type = "urn:askback:problem:" + p.kind
	text, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // an error means that the client is gone
}
