package transcript

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// stream is a response of server-sent events.
type stream struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	body   io.Closer
	limit  *io.LimitedReader
	lines  *bufio.Reader
	server string
	time   time.Duration // for each message
}

func newStream(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, server string,
	each time.Duration) *stream {
	limit := &io.LimitedReader{R: body}
	return &stream{ctx, cancel, body, limit, bufio.NewReader(limit), server, each}
}

func (s *stream) close() {
	s.cancel(errors.New("the stream was dropped"))
	s.body.Close()
}

// next returns the next message, or io.EOF. It skips events without data, which carry an ID or keep the connection
// alive.
func (s *stream) next() ([]byte, error) {
	late := time.AfterFunc(s.time, func() { s.cancel(errLate(s.time)) })
	defer late.Stop()
	s.limit.N = maxMessage
	var data []byte
	for {
		line, err := s.lines.ReadBytes('\n')
		switch {
		case s.limit.N <= 0:
			return nil, fmt.Errorf("an event is longer than %d bytes", maxMessage)
		case err == io.EOF:
			return nil, io.EOF // an event without its end is dropped
		case err != nil:
			return nil, because(s.ctx, s.server, err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if len(data) > 0 {
				return data, nil
			}
			continue
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
	}
}
