package sdkfront

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// lineTransport is a transport of one message a line (basic/transports/stdio) that outlives bad input: the SDK's ends
// the connection at the first line that is no message. It also ends only when the requests before the end of its
// input are answered, where the SDK drops the answers.
type lineTransport struct {
	in      io.ReadCloser
	out     io.WriteCloser
	limits  bound.Limits
	stopped <-chan struct{} // the server is
	end     func()          // ends the waits of requests; nil if nothing can
}

// lines returns a lineTransport in place of the SDK's transports for lines, and any other transport as it is.
func lines(t mcp.Transport, limits bound.Limits, stopped <-chan struct{}, end func()) mcp.Transport {
	switch t := t.(type) {
	case *mcp.StdioTransport:
		return &lineTransport{os.Stdin, keepOpen{os.Stdout}, limits, stopped, end}
	case *mcp.IOTransport:
		return &lineTransport{t.Reader, t.Writer, limits, stopped, end}
	}
	return t
}

// keepOpen is standard output, which is the process's to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func (t *lineTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	out := &lockedWriter{WriteCloser: t.out}
	passed, pass := io.Pipe()
	go func() { pass.CloseWithError(filter(t.in, pass, out, t.limits)) }()
	conn, err := (&mcp.IOTransport{Reader: readCloser{passed, t.in}, Writer: out, MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &lineConnection{
		Connection: conn, stopped: t.stopped, end: t.end, changed: make(chan struct{}, 1),
		open: make(map[jsonrpc.ID]bool), asked: make(map[jsonrpc.ID]bool), cancelled: make(map[jsonrpc.ID]bool),
	}, nil
}

type readCloser struct {
	*io.PipeReader
	in io.Closer
}

func (r readCloser) Close() error { return errors.Join(r.PipeReader.Close(), r.in.Close()) }

// lockedWriter keeps apart what the SDK and the filter write, each a line at a time.
type lockedWriter struct {
	mu sync.Mutex
	io.WriteCloser
}

func (w *lockedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(line)
}

// filter passes on the lines that are messages and answers all others with an error, until the input ends.
func filter(in io.Reader, pass, answer io.Writer, limits bound.Limits) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, tooLong, err := readLine(r, limits.MessageBytes)
		var fault *jsonrpc.Error
		if tooLong {
			fault = wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: the line exceeds the limit of %d bytes",
				limits.MessageBytes)
		} else if len(bytes.TrimSpace(line)) > 0 {
			fault = checkLine(line, limits)
		} else {
			line = nil
		}
		if fault != nil {
			id, response := wire.Addressee(line)
			to := answer
			if response { // to a question of the server, which fails with this error
				to = pass
			}
			if _, err := to.Write(append(wire.AppendError(nil, id, fault), '\n')); err != nil {
				return err
			}
		} else if line != nil {
			// The newline goes along, which the SDK waits for.
			if _, err := pass.Write(append(bytes.TrimRight(line, "\r\n"), '\n')); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line of at most limit bytes before its newline, and skips the rest of a longer one.
func readLine(r *bufio.Reader, limit int64) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(line)+len(bytes.TrimSuffix(part, []byte("\n")))) > limit {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// checkLine reports why a line is no message, or batch of messages, that the SDK reads.
func checkLine(line []byte, limits bound.Limits) *jsonrpc.Error {
	depth := limits.Depth
	batch := strictjson.TypeOf(line) == strictjson.TypeArray
	if batch {
		depth++ // around the messages
	}
	if err := strictjson.Check(line, depth); err != nil {
		return wire.Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
	}
	messages := []json.RawMessage{line}
	if batch {
		if fault := CheckBatch(line, limits.Batch); fault != nil {
			return fault
		}
		messages = nil                      // whose memory is the memory of the line
		_ = json.Unmarshal(line, &messages) // checked JSON
	}
	if len(messages) == 0 {
		return wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: an empty batch")
	}
	for _, message := range messages {
		if fault := checkMessage(message); fault != nil {
			return fault
		}
	}
	return nil
}

// CheckBatch reports whether a checked array has more messages than one batch may have.
func CheckBatch(batch []byte, limit int) *jsonrpc.Error {
	n := 0
	for range strictjson.Elements(batch) {
		if n++; n > limit {
			return wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: the batch exceeds the limit of %d messages", limit)
		}
	}
	return nil
}

func checkMessage(message []byte) *jsonrpc.Error {
	if strictjson.TypeOf(message) != strictjson.TypeObject {
		return wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: a message must be a JSON object")
	}
	decoded, err := jsonrpc.DecodeMessage(message)
	if res, ok := decoded.(*jsonrpc.Response); err != nil || ok && res.Result == nil && res.Error == nil {
		return wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: not a JSON-RPC 2.0 message")
	}
	if id := strictjson.Get(message, "id"); id != nil && !wire.ValidID(id) {
		return wire.Errorf(jsonrpc.CodeInvalidRequest, `invalid request: "id" must be a string or an integer`)
	}
	return nil
}

// drain is how long the end of the input waits for open requests. Those that wait for others end after waitsEnd.
const (
	drain    = 10 * time.Second
	waitsEnd = 8 * time.Second
)

type lineConnection struct {
	mcp.Connection
	stopped <-chan struct{}
	end     func()
	changed chan struct{} // tells of a change in open or asked
	ended   error         // why the input has ended, once it has
	limit   <-chan time.Time

	mu    sync.Mutex
	open  map[jsonrpc.ID]bool // requests of the client
	asked map[jsonrpc.ID]bool // requests of the server

	// cancelled are the open requests that the client no longer waits for. They get no response
	// (basic/patterns/cancellation).
	cancelled map[jsonrpc.ID]bool
}

func (c *lineConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	if c.ended == nil {
		msg, err := c.Connection.Read(ctx)
		if err == nil {
			c.count(msg)
			return msg, nil
		}
		c.ended, c.limit = err, time.After(drain)
		if c.end != nil {
			time.AfterFunc(waitsEnd, c.end)
		}
	}
	if failure := c.finish(ctx); failure != nil {
		return failure, nil
	}
	return nil, c.ended
}

// count counts what waits for a response.
func (c *lineConnection) count(msg jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := msg.(type) {
	case *jsonrpc.Request:
		// A subscription is answered only when it is cancelled.
		if m.IsCall() && m.Method != "subscriptions/listen" && m.Method != wire.StreamEvents {
			c.open[m.ID] = true
		}
		if m.Method == "notifications/cancelled" {
			var params struct {
				RequestID any `json:"requestId"`
			}
			_ = json.Unmarshal(m.Params, &params)
			if id, err := jsonrpc.MakeID(params.RequestID); err == nil && c.open[id] {
				c.cancelled[id] = true
			}
		}
	case *jsonrpc.Response:
		delete(c.asked, m.ID)
	}
}

func (c *lineConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		c.mu.Lock()
		c.asked[req.ID] = true
		c.mu.Unlock()
	}
	res, isResponse := msg.(*jsonrpc.Response)
	unwanted := false
	if isResponse {
		c.mu.Lock()
		unwanted = c.cancelled[res.ID]
		delete(c.cancelled, res.ID)
		c.mu.Unlock()
	}
	var err error
	if !unwanted {
		err = c.Connection.Write(ctx, msg)
	}
	if isResponse {
		c.mu.Lock()
		delete(c.open, res.ID)
		c.mu.Unlock()
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return err
}

// finish waits until no request is open. A question that the client can no longer answer fails: finish returns its
// response in the client's place.
func (c *lineConnection) finish(ctx context.Context) *jsonrpc.Response {
	for {
		id, isAsked, isOpen := c.waiting()
		switch {
		case !isOpen:
			return nil
		case isAsked:
			return &jsonrpc.Response{ID: id, Error: errEnded}
		}
		select {
		case <-c.changed:
		case <-c.stopped: // the SDK writes nothing more
			return nil
		case <-c.limit:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

var errEnded = wire.Errorf(jsonrpc.CodeInternalError, "the client has ended its input and can answer no question")

// waiting reports whether a request is open, and takes a question that is asked, if there is one.
func (c *lineConnection) waiting() (question jsonrpc.ID, isAsked, isOpen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for question = range c.asked {
		isAsked = true
		delete(c.asked, question)
		break
	}
	return question, isAsked, len(c.open) > 0
}
