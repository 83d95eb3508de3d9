// Package eventstream reads streams of server-sent events (HTML, "Server-sent events").
package eventstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// ErrTooLarge says that an event has more bytes than it may have.
var ErrTooLarge = errors.New("an event is too large")

// Event is what stands before an empty line, without comments and unknown fields.
type Event struct {
	Name  string // empty means "message"
	ID    string // empty also where the stream takes an earlier ID back
	Retry string // digits: milliseconds
	Data  []byte // lines with "\n" between them, valid until the next event; nil means none
}

// Message reports whether the event holds a message: it has data, and no other name.
func (e Event) Message() bool { return len(e.Data) > 0 && (e.Name == "" || e.Name == "message") }

// Reader reads the events of one stream. It is for one goroutine.
type Reader struct {
	in      *bufio.Reader
	most    int64
	begun   bool // the first line was read
	afterCR bool // a line feed that comes next belongs to the line before
	long    []byte
	data    []byte
}

// NewReader returns a reader of events of at most that many bytes, with their comments and line ends.
func NewReader(r io.Reader, most int64) *Reader { return &Reader{in: bufio.NewReader(r), most: most} }

// Next returns the next event that has a field. It drops an event that the end of the stream cuts, and returns
// [io.EOF].
func (r *Reader) Next() (Event, error) {
	event, size := Event{}, int64(0)
	r.data = r.data[:0]
	hasData := false
	for {
		line, err := r.line(&size)
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if hasData {
				event.Data = r.data[:len(r.data)-1]
			}
			if hasData || event.ID != "" || event.Retry != "" {
				return event, nil
			}
			event, size = Event{}, 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			r.data, hasData = append(append(r.data, value...), '\n'), true
		case "event":
			event.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				event.ID = string(value)
			}
		case "retry":
			if text := string(value); text != "" && strings.Trim(text, "0123456789") == "" {
				event.Retry = text
			}
		}
	}
}

// NextMessage returns the data of the next event that holds a message.
func (r *Reader) NextMessage() ([]byte, error) {
	for {
		if event, err := r.Next(); err != nil || event.Message() {
			return event.Data, err
		}
	}
}

// line returns the next line without its end, valid until the following one, and adds to the size of its event. It does
// not wait for what follows a carriage return.
func (r *Reader) line(size *int64) ([]byte, error) {
	r.long = r.long[:0]
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		part, _ := r.in.Peek(r.in.Buffered())
		if r.afterCR && part[0] == '\n' {
			part = part[1:]
			_, _ = r.in.Discard(1)
		}
		if r.afterCR = false; len(part) == 0 {
			continue
		}
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			end = len(part)
		}
		if cr := bytes.IndexByte(part[:end], '\r'); cr >= 0 {
			end = cr
		}
		used := min(end+1, len(part))
		if *size += int64(used); *size > r.most {
			return nil, ErrTooLarge
		}
		ended := used > end
		r.afterCR = ended && part[end] == '\r'
		line := part[:end]
		if !ended || len(r.long) > 0 {
			r.long = append(r.long, line...)
			line = r.long
		}
		_, _ = r.in.Discard(used) // which keeps the bytes until the next read
		if !ended {
			continue
		}
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		return line, nil
	}
}
