package tap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// jsonBody is the body of a response that holds one message.
type jsonBody struct {
	io.ReadCloser
	x      *Exchange
	config *Config
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
		case err == nil:
			shown = b.x.message(data, b.config)
			if !b.x.Quiet && !answers(shown, b.x.requestID()) { // else the SDK would wait, or end the connection
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
	in     *bufio.Reader
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

// event copies one event and returns its data, nil if it has none. The data may stand in several lines.
func (b *eventBody) event() ([]byte, error) {
	var data []byte // each line with its end; nil if there is none
	size, cut := 0, false
	for !cut {
		line, err := b.line(&size)
		if err != nil && (!errors.Is(err, io.EOF) || line == "" && data == nil) {
			return nil, err
		}
		cut = err != nil
		if line == "" {
			break // the event is whole, or the stream ended in it
		}
		field, value, _ := strings.Cut(line, ":")
		if field == "data" {
			data = append(append(data, strings.TrimPrefix(value, " ")...), '\n')
		} else {
			if field == "retry" {
				line = "retry:" + notSooner(value)
			}
			b.out.WriteString(line + "\n")
		}
	}
	if data != nil {
		data = data[:len(data)-1]
		if cut && b.x.Method != "" && !json.Valid(data) { // The event counts as not begun.
			b.out.Reset()
			return nil, io.EOF
		}
		if err := b.asked.addMessage(data, b.config.Depth+envelope); err != nil {
			return nil, b.fail(err)
		}
		b.echoes.collect(data)
		shown := b.x.message(data, b.config)
		if strictjson.Check(shown, b.config.Depth+envelope) == nil {
			shown = shieldedMessage(shown, b.config.Depth)
		}
		b.writeData(shown)
	}
	b.out.WriteByte('\n')
	return data, nil
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
	if ms, err := strconv.ParseInt(strings.TrimSpace(retry), 10, 64); err == nil && ms < 100 {
		return "100"
	}
	return retry
}

func (b *eventBody) line(size *int) (string, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		if *size += len(part); int64(*size) > b.config.MessageBytes {
			return "", b.fail(b.config.bound())
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(line), "\r\n"), err
		}
	}
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
