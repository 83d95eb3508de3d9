package transcript

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// stream is a response, which may have several messages.
type stream struct {
	*rawclient.Stream
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	server string
	time   time.Duration // for each message
}

func (s *stream) drop() {
	s.cancel(errors.New("the stream was dropped"))
	_ = s.Close() // nobody reads on
}

// next returns the next message, or io.EOF.
func (s *stream) next() ([]byte, error) {
	late := time.AfterFunc(s.time, func() { s.cancel(errLate(s.time)) })
	defer late.Stop()
	data, err := s.NextBytes()
	if _, tooLarge := errors.AsType[*rawclient.TooLargeError](err); err == nil || err == io.EOF || tooLarge {
		return data, err
	}
	return nil, because(s.ctx, s.server, err)
}
