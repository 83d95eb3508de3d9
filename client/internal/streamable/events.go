package streamable

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var (
	errTooLarge = errors.New("an event is too large")
	errCut      = errors.New("the stream ended without the response")
)

// events reads the events of a stream (HTML, "Server-sent events").
type events struct {
	in   *bufio.Reader
	most int64  // bytes of one event
	line []byte // one that is longer than the reader's buffer
	data []byte
	cut  bool // the last event was not complete when the stream ended
}

func newEvents(r io.Reader, most int64) *events { return &events{in: bufio.NewReader(r), most: most} }

// next returns the data of the next event that has any and holds a message. It is valid until the call after. The end
// of the stream is errCut, unless it cuts an event: then the data are returned first.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	size, message := int64(0), true
	for {
		if e.cut {
			return nil, errCut
		}
		line, err := e.readLine(&size)
		if e.cut = errors.Is(err, io.EOF); err != nil && !e.cut {
			return nil, err
		}
		if len(line) > 0 {
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "data":
				e.data = append(append(e.data, value...), '\n')
			case "event":
				message = len(value) == 0 || string(value) == "message"
			}
			if !e.cut {
				continue
			}
		}
		if data := bytes.TrimSuffix(e.data, []byte("\n")); len(data) > 0 && message {
			return data, nil
		}
		e.data, size, message = e.data[:0], 0, true
	}
}

// readLine returns the next line without its end, which is valid until the following one. It adds to the size of its
// event.
func (e *events) readLine(size *int64) ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.in.ReadSlice('\n')
		if *size += int64(len(part)); *size > e.most {
			return nil, errTooLarge
		}
		if len(e.line) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			e.line = append(e.line, part...)
			part = e.line
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(part, "\r\n"), err
		}
	}
}
