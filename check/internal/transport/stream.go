package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// maxEvents bounds the messages of a stream that are read.
const maxEvents = 100

// A Stream brings the messages of a subscription until it is closed.
type Stream struct {
	Messages chan *rawclient.Message // closed at the end of the stream
	stop     context.CancelFunc
}

// Subscribe opens a stream and returns its first message.
func (l *Line) Subscribe(ctx context.Context, q Request) (*Stream, *rawclient.Message, int, error) {
	if err := l.begin(ctx, q); err != nil {
		return nil, nil, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(l.Patience, cancel)
	defer late.Stop()
	c := l.client(q.As, q.At)
	c.Capabilities = q.Capabilities
	body, err := q.open(ctx, c, l.Sent)
	if err != nil {
		cancel()
		return nil, nil, 0, fmt.Errorf("%w: %v", ErrLost, plain(err))
	}
	if err := l.backOff(body.Status); err != nil {
		cancel()
		_ = body.Close()
		return nil, nil, 0, err
	}
	s := &Stream{Messages: make(chan *rawclient.Message), stop: cancel}
	go s.read(ctx, body)
	first, ok := <-s.Messages
	if !ok {
		s.Close()
		if body.Status >= 300 {
			return s, &rawclient.Message{Error: &rawclient.Error{Status: body.Status}}, body.Status, nil
		}
		return nil, nil, 0, fmt.Errorf("%w to the subscription", ErrLost)
	}
	return s, first, body.Status, nil
}

// read passes the messages on until the stream is closed.
func (s *Stream) read(ctx context.Context, body *rawclient.Stream) {
	defer close(s.Messages)
	defer body.Close()
	for range maxEvents {
		m, err := body.Next()
		if fault, ok := errors.AsType[*rawclient.Error](err); ok {
			m, err = &rawclient.Message{Error: fault}, nil
		}
		if err != nil {
			return
		}
		select {
		case s.Messages <- m:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the stream and waits for its reader.
func (s *Stream) Close() {
	s.stop()
	for range s.Messages { // until the reader has ended
	}
}
