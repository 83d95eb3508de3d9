package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/askback-mcp/askback/internal/eventstream"
)

// stream is a response of server-sent events.
type stream struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	body   io.Closer
	events *eventstream.Reader
	server string
	time   time.Duration // for each message
}

func newStream(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, server string,
	each time.Duration) *stream {
	return &stream{ctx, cancel, body, eventstream.NewReader(body, maxMessage), server, each}
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
	data, err := s.events.NextMessage()
	switch {
	case errors.Is(err, eventstream.ErrTooLarge):
		return nil, fmt.Errorf("an event is longer than %d bytes", maxMessage)
	case err == io.EOF:
		return nil, io.EOF
	case err != nil:
		return nil, because(s.ctx, s.server, err)
	}
	return bytes.Clone(data), nil
}
