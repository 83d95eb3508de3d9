package rawclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/wire"
)

// A Program is a server that this process has started, and that reads messages from its standard input and writes them
// to its standard output. A [Client] sends the messages. Its methods may be called concurrently.
type Program struct {
	requests atomic.Int64
	stdin    io.Writer
	writing  chan struct{} // holds a token while a message is written
	close    func() error  // ends the program
	read     chan struct{} // closed at the end of the output

	mu   sync.Mutex
	open map[*replies]bool
	over error // why nothing comes any more
}

// Start starts a program. Its standard error is the caller's; lines of its output that are no messages go to aside.
func Start(cmd *exec.Cmd, aside io.Writer) (*Program, error) {
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = time.Second // for children of the program that keep its standard error open
	}
	lines, stdin, err := Pipes(cmd, 0, aside)
	if err != nil {
		return nil, err
	}
	p := newProgram(stdin)
	go p.readAll(bufio.NewReader(lines))
	return p, nil
}

func newProgram(stdin io.WriteCloser) *Program {
	return &Program{
		stdin: stdin, close: sync.OnceValue(stdin.Close), writing: make(chan struct{}, 1),
		read: make(chan struct{}), open: make(map[*replies]bool),
	}
}

// Close ends the program, and the responses that are open. The error says how the program ended, if not well.
func (p *Program) Close() error {
	err := p.close()
	<-p.read
	return err
}

var errProgramEnded = errors.New("the program has ended its output")

// send writes a message. A program that does not read it while ctx lasts is ended, since nothing can follow a part of a
// message.
func (p *Program) send(ctx context.Context, message []byte, most int) (*Stream, error) {
	select {
	case p.writing <- struct{}{}:
		defer func() { <-p.writing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r := &replies{program: p, ctx: ctx, most: most, more: make(chan struct{}, 1)}
	if err := r.begin(message); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.close() })
	defer stop()
	line := append(bytes.ReplaceAll(message, []byte("\n"), []byte(" ")), '\n')
	if _, err := p.stdin.Write(line); err != nil {
		_ = r.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return &Stream{Events: true, messages: r}, nil
}

// Listen returns what the program sends from now on, except for responses to requests.
func (p *Program) Listen(ctx context.Context) *Stream {
	r := &replies{program: p, ctx: ctx, most: MostLine, more: make(chan struct{}, 1)}
	r.err = r.begin(nil)
	return &Stream{Events: true, messages: r}
}

// readAll reads the messages of the program until its output ends.
func (p *Program) readAll(lines *bufio.Reader) {
	defer close(p.read)
	for {
		line, err := lines.ReadBytes('\n')
		if p.deliver(line); err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = errProgramEnded
	for r := range p.open {
		r.end(io.EOF)
	}
}

// deliver gives a message to the requests that it may be for: a response to its own, and anything else to all.
func (p *Program) deliver(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	id, code, response := identify(line)
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.open {
		switch {
		case response && id != r.id && id != "null":
		case code == wire.CodeTooLong:
			r.end(&TooLargeError{"a message", MostLine})
		default:
			if r.push(line); response {
				r.end(io.EOF)
			}
		}
	}
}

// identify returns the ID of a message, the code of its error, and whether it is a response. The ID of what cannot be
// read is null.
func identify(message []byte) (id string, code int, response bool) {
	var head struct {
		ID     json.RawMessage
		Method *string
		Error  json.RawMessage
	}
	if json.Unmarshal(message, &head) != nil {
		return "null", 0, false
	}
	if head.ID == nil {
		head.ID = json.RawMessage("null")
	}
	var fault struct{ Code int }
	_ = json.Unmarshal(head.Error, &fault) // the code of anything else is 0
	return string(head.ID), fault.Code, head.Method == nil
}

// replies are the messages that come for one request.
type replies struct {
	program *Program
	ctx     context.Context
	id      string
	most    int           // bytes that wait
	more    chan struct{} // gets a token when something has come

	// Under the program's lock.
	waiting [][]byte
	size    int
	err     error // after what waits
}

// begin waits for the replies to a message. Nothing replies to a notification or a response.
func (r *replies) begin(message []byte) error {
	var isResponse bool
	r.id, _, isResponse = identify(message)
	r.program.mu.Lock()
	defer r.program.mu.Unlock()
	if r.program.over != nil {
		return r.program.over
	}
	if r.id == "null" && json.Valid(message) && message[0] == '{' || isResponse {
		r.err = io.EOF
		return nil
	}
	r.program.open[r] = true
	return nil
}

func (r *replies) push(message []byte) {
	if r.size += len(message); r.size > r.most {
		r.end(fmt.Errorf("messages of more than %d bytes were not read", r.most))
		return
	}
	r.waiting = append(r.waiting, message)
	r.wake()
}

func (r *replies) end(err error) {
	if r.err == nil {
		r.err = err
	}
	delete(r.program.open, r)
	r.wake()
}

func (r *replies) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *replies) next() ([]byte, error) {
	for {
		if message, err := r.take(); message != nil || err != nil {
			return message, err
		}
		select {
		case <-r.more:
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		}
	}
}

// take returns what has come, or nil.
func (r *replies) take() ([]byte, error) {
	r.program.mu.Lock()
	defer r.program.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil, r.err
	}
	message := r.waiting[0]
	r.waiting, r.size = r.waiting[1:], r.size-len(message)
	return message, nil
}

// Read reads nothing: the output of a program belongs to all requests.
func (r *replies) Read([]byte) (int, error) { return 0, io.EOF }

func (r *replies) Close() error {
	r.program.mu.Lock()
	defer r.program.mu.Unlock()
	r.end(io.EOF)
	r.waiting = nil
	return nil
}
