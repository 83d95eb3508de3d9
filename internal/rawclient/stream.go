package rawclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/askback-mcp/askback/internal/eventstream"
)

// Message is a JSON-RPC message of the server.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// A Stream is a response that has begun: one message, or a stream of events with one in each. It is for one goroutine.
type Stream struct {
	Status int // of HTTP; 0 is a program
	Header http.Header
	Events bool // it may have several messages

	messages messages
}

// messages are the bytes of the messages that come for one request.
type messages interface {
	next() ([]byte, error)
	io.ReadCloser
}

// NewStream returns the messages of a response, of at most that many bytes each.
func NewStream(res *http.Response, most int) *Stream {
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	b := &body{ReadCloser: res.Body, most: most}
	if mediaType == "text/event-stream" {
		b.events = eventstream.NewReader(res.Body, int64(most))
	}
	return &Stream{Status: res.StatusCode, Header: res.Header, Events: b.events != nil, messages: b}
}

// Read reads what comes over HTTP, in place of [Stream.Next].
func (s *Stream) Read(p []byte) (int, error) { return s.messages.Read(p) }

// Close ends the response.
func (s *Stream) Close() error { return s.messages.Close() }

// NextBytes reads the next message as it came. At the end the error is [io.EOF].
func (s *Stream) NextBytes() ([]byte, error) { return s.messages.next() }

// Next reads the next message. At the end the error is [io.EOF]. For what is no message, such as a plain text, it is an
// [*Error].
func (s *Stream) Next() (*Message, error) {
	data, err := s.messages.next()
	if err != nil {
		return nil, err
	}
	m := new(Message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, &Error{Status: s.Status, Message: fmt.Sprintf("no message: %.200q", data)}
	}
	if m.Error != nil {
		m.Error.Status = s.Status
	}
	return m, nil
}

// Result reads the messages up to the response of the request, and decodes its result into result unless that is nil.
// The error is an [*Error] if the response is one.
func (s *Stream) Result(result any) error {
	for {
		m, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case m.Error != nil:
			return m.Error
		case m.Method != "":
			continue
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// TooLargeError says that a message has more than [Client.MaxBytes], and was not read to its end.
type TooLargeError struct {
	what string
	Most int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is larger than %d bytes", e.what, e.Most)
}

// body is the body of a response over HTTP.
type body struct {
	io.ReadCloser
	events *eventstream.Reader // nil if the body is one message
	most   int                 // bytes of a message, with the lines around it that are none
}

func (b *body) next() (data []byte, err error) {
	if b.events != nil {
		data, err = b.events.NextMessage()
		if errors.Is(err, eventstream.ErrTooLarge) {
			err = &TooLargeError{"an event", b.most}
		}
		return bytes.Clone(data), err
	}
	data, err = io.ReadAll(io.LimitReader(b, int64(b.most)+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > b.most:
		return nil, &TooLargeError{"a response", b.most}
	case len(data) == 0:
		return nil, io.EOF
	}
	return data, nil
}

// Result has the members of results that a judge looks at.
type Result struct {
	Type       string                     `json:"resultType"`
	State      string                     `json:"requestState"`
	Requests   map[string]json.RawMessage `json:"inputRequests"`
	Content    []struct{ Text string }    `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"`

	// Of a task; its own result is the result of the call.
	TaskID string  `json:"taskId"`
	Status string  `json:"status"`
	Result *Result `json:"result"`
}

// Text returns the texts of the content, or nothing.
func (r *Result) Text() (text string) {
	if r == nil {
		return ""
	}
	for _, c := range r.Content {
		text += c.Text
	}
	return text
}

// Retry returns the params of the request that answers the questions of r.
func (r *Result) Retry(params, answers map[string]any) map[string]any {
	retry := map[string]any{"inputResponses": answers}
	for member, value := range params {
		if member != "requestState" && member != "inputResponses" {
			retry[member] = value
		}
	}
	if r.State != "" {
		retry["requestState"] = r.State
	}
	return retry
}

// Accept is the answer of a person who fills in a form.
func Accept(content map[string]any) map[string]any {
	return map[string]any{"action": "accept", "content": content}
}
