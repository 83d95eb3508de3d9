package tap

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/eventstream"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// jsonBody is the body of a response that holds one message.
type jsonBody struct {
	io.ReadCloser
	x      *Exchange
	config *Config
	status int
	shown  *bytes.Reader
}

func (b *jsonBody) Read(p []byte) (int, error) {
	if b.shown == nil {
		bounded := &boundedBody{ReadCloser: b.ReadCloser, left: b.config.MessageBytes, config: b.config, x: b.x}
		data, err := io.ReadAll(bounded)
		if err != nil && b.x.Method == "" {
			return 0, err
		}
		var shown []byte
		switch {
		case err == nil && len(bytes.TrimSpace(data)) == 0 && b.x.Hello == nil:
			shown = b.x.failure(&StatusError{Code: b.status})
		case err == nil:
			shown = b.x.message(data, b.config)
			if b.x.Hello == nil && !answers(shown, b.x.requestID()) { // else the SDK would wait, or end the connection
				shown = b.x.failure(b.x.stray(data, b.config))
			}
		case bounded.left < 0:
			shown = b.x.failure(err)
		default:
			shown = b.x.failure(&AwayError{Reason: err.Error()})
		}
		b.shown = bytes.NewReader(shown)
	}
	return b.shown.Read(p)
}

// eventBody is the body of a response that is a stream of events. One of them holds the
// message that answers the request.
type eventBody struct {
	io.ReadCloser
	in     *eventstream.Reader
	x      *Exchange
	config *Config
	echoes *echoes
	asked  *unanswered
	id     []byte // The ID of the request that the stream answers, or nil.
	out    bytes.Buffer
	err    error
}

func (b *eventBody) Read(p []byte) (int, error) {
	for b.out.Len() == 0 && b.err == nil {
		b.err = b.next()
	}
	if b.out.Len() > 0 {
		return b.out.Read(p)
	}
	return 0, b.err
}

// next copies one event, and ends the stream after the response to its request: a server may go on for ever.
func (b *eventBody) next() error {
	data, err := b.event()
	switch {
	case err != nil:
		return err
	case b.id != nil && answers(data, b.id):
		return io.EOF
	}
	return nil
}

// fail ends the stream with an error, in a response where the stream has a request. The SDK would try to resume it.
func (b *eventBody) fail(err error) error {
	_ = b.x.fail(err)
	if b.id == nil {
		return err
	}
	b.out.Reset()
	b.writeData(wire.AppendError(nil, b.id, wire.Errorf(jsonrpc.CodeInternalError, "%v", err)))
	b.out.WriteByte('\n')
	return io.EOF
}

// event copies one event and returns its data, nil if it holds no message.
func (b *eventBody) event() ([]byte, error) {
	event, err := b.in.Next()
	switch {
	case errors.Is(err, eventstream.ErrTooLarge):
		return nil, b.fail(b.config.bound())
	case err != nil:
		return nil, err
	}
	if event.ID != "" {
		b.out.WriteString("id: " + event.ID + "\n")
	}
	if event.Retry != "" {
		b.out.WriteString("retry: " + notSooner(event.Retry) + "\n")
	}
	if !event.Message() {
		b.out.WriteByte('\n')
		return nil, nil
	}
	if err := b.asked.addMessage(event.Data, b.config.Depth+envelope); err != nil {
		return nil, b.fail(err)
	}
	b.echoes.collect(event.Data)
	shown := b.x.message(event.Data, b.config)
	if strictjson.Check(shown, b.config.Depth+envelope) == nil {
		shown = shieldedMessage(shown, b.config.Depth)
	}
	b.writeData(shown)
	b.out.WriteByte('\n')
	return event.Data, nil
}

// writeData writes the data of an event.
func (b *eventBody) writeData(data []byte) {
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b.out.WriteString("data: ")
		b.out.Write(line)
		b.out.WriteByte('\n')
	}
}

// notSooner returns the milliseconds after which a stream is resumed, as a server asks for them, but not less than 100.
// The SDK would wait for a millisecond, any number of times.
func notSooner(retry string) string {
	if ms, err := strconv.Atoi(retry); err == nil && ms < 100 {
		return "100"
	}
	return retry
}

// boundedBody is a body of as many bytes as a message may have.
type boundedBody struct {
	io.ReadCloser
	left   int64
	config *Config
	x      *Exchange // learns of the error, unless it is nil
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		tooLarge := b.config.bound()
		if b.x != nil {
			_ = b.x.fail(tooLarge)
		}
		return 0, tooLarge
	}
	return n, err
}
