package raw

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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
	Status int // of HTTP
	Header http.Header

	body   *bufio.Reader
	closer io.Closer
	most   int // bytes of a message
	events bool
}

func newStream(res *http.Response, most int) *Stream {
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return &Stream{
		Status: res.StatusCode, Header: res.Header,
		body: bufio.NewReader(res.Body), closer: res.Body, most: most, events: mediaType == "text/event-stream",
	}
}

// Read reads what follows the messages that were read.
func (s *Stream) Read(p []byte) (int, error) { return s.body.Read(p) }

// Close ends the response.
func (s *Stream) Close() error { return s.closer.Close() }

// Next reads the next message. At the end the error is [io.EOF]. For what is no message, such as a plain text, it is an
// [*Error].
func (s *Stream) Next() (*Message, error) {
	data, err := s.next()
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

// next reads the data of the next message.
func (s *Stream) next() ([]byte, error) {
	if !s.events {
		data, err := io.ReadAll(io.LimitReader(s.body, int64(s.most)+1))
		switch {
		case err != nil:
			return nil, err
		case len(data) > s.most:
			return nil, fmt.Errorf("a response is larger than %d bytes", s.most)
		case len(data) == 0:
			return nil, io.EOF
		}
		return data, nil
	}
	for {
		line, err := s.line()
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// line reads a line of events.
func (s *Stream) line() (line []byte, err error) {
	for {
		part, err := s.body.ReadSlice('\n')
		if line = append(line, part...); len(line) > s.most {
			return nil, fmt.Errorf("an event is larger than %d bytes", s.most)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Result has the members of results that a judge looks at.
type Result struct {
	Type       string                     `json:"resultType"`
	State      string                     `json:"requestState"`
	Requests   map[string]json.RawMessage `json:"inputRequests"`
	Content    []struct{ Text string }    `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"`

	// Of a task, whose own result is that of the call.
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
