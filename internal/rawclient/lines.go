package rawclient

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/wire"
)

// Pipes starts a program. It returns the lines of the program's output that are messages, of at most so many bytes, and
// its input; a bound of 0 is [MostLine]. Other lines, such as a greeting, go to aside. Closing the input ends the
// program in the steps of basic/transports/stdio, "Shutdown": after two seconds each the program is asked to terminate,
// and killed.
func Pipes(cmd *exec.Cmd, most int, aside io.Writer) (io.Reader, io.WriteCloser, error) {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return Messages(stdout, most, aside), &programInput{stdin, cmd}, nil
}

// Messages returns the lines of a program's output that are messages, as [Pipes] does.
func Messages(out io.Reader, most int, aside io.Writer) io.Reader {
	return &messageLines{in: bufio.NewReader(out), most: cmp.Or(most, MostLine), aside: aside}
}

// programInput is the standard input of a program, which ends the program when it is closed.
type programInput struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close closes the input, and waits until the program has ended.
func (p *programInput) Close() error {
	if err := p.WriteCloser.Close(); err != nil {
		return fmt.Errorf("closing the standard input of %s: %w", p.cmd.Path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	for _, next := range []func() error{
		func() error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		p.cmd.Process.Kill,
	} {
		select {
		case err := <-ended:
			return err
		case <-time.After(2 * time.Second):
		}
		_ = next() // a program that has ended since cannot be signalled
	}
	return <-ended
}

// messageLines reads the lines that are messages. Other lines go to aside, whatever they begin with. A message of more
// than most bytes is not kept: where it is a response, one with the code [wire.CodeTooLong] stands for it.
type messageLines struct {
	in    *bufio.Reader
	most  int
	aside io.Writer
	shown int    // bytes that aside has got
	rest  []byte // of the line, not read yet
}

// MostLine is how many bytes a message of a program has at most, unless a limit is given.
const MostLine = 16 << 20

// mostAside is how many bytes of a program's other lines are shown. A pipe holds as many, so a host that does not read
// the standard error of this command does not keep it from reading messages.
const mostAside = 16 << 10

func (l *messageLines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, tail, err := l.line()
		switch {
		case tail != nil:
			l.rest = l.tooLong(line, tail)
		case isMessage(line):
			l.rest = line
		case len(bytes.TrimSpace(line)) > 0:
			l.show(line)
		}
		if err != nil && len(l.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// show puts a line aside.
func (l *messageLines) show(line []byte) {
	if room := min(len(line), mostAside-l.shown); room > 0 {
		_, _ = l.aside.Write(line[:room]) // if nobody can read it, the session goes on without
		l.shown += room
	}
}

// ends is how many bytes of the end of a line are kept that is too long.
const ends = 512

// line reads a line. What begins like no message is bounded by what is put aside. Of what is too long it returns the
// beginning and, in tail, the end.
func (l *messageLines) line() (line, tail []byte, err error) {
	most := l.most
	for {
		part, err := l.in.ReadSlice('\n')
		if line == nil && err == nil && len(part) <= most {
			return part, nil, nil
		}
		if text := bytes.TrimLeft(line, " \t\r"); len(text) > 0 && text[0] != '{' && text[0] != '[' {
			most = mostAside
		}
		room := min(len(part), max(most-len(line), 0))
		line = append(line, part[:room]...)
		if room < len(part) && most == l.most || tail != nil {
			tail = append(tail, part[room:]...)
			tail = tail[max(len(tail)-ends, 0):]
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tail, err
		}
	}
}

// isMessage reports whether a line is a message of JSON-RPC: an object with the member jsonrpc, or an array of such.
// What begins with that member is a message, too, that can perhaps not be read.
func isMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	switch {
	case beginsMessage.Match(line):
		return true
	case !bytes.Contains(line, []byte(`"jsonrpc"`)):
		return false
	}
	type message struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
	}
	var batch []message
	if line[0] != '[' {
		batch = make([]message, 1)
		return json.Unmarshal(line, &batch[0]) == nil && batch[0].JSONRPC != nil
	}
	err := json.Unmarshal(line, &batch)
	return err == nil && len(batch) > 0 && !slices.ContainsFunc(batch, func(m message) bool { return m.JSONRPC == nil })
}

var beginsMessage = regexp.MustCompile(`^\{\s*"jsonrpc"\s*:`)

// tooLong returns the response that stands for a message that is too long, given its beginning and its end. It is empty
// for what is no response, or is none to a known request.
func (l *messageLines) tooLong(line, tail []byte) []byte {
	if !bytes.Contains(line[:min(len(line), ends)], []byte(`"jsonrpc"`)) && !endsMessage.Match(tail) {
		l.show(line)
		return nil
	}
	id, method := head(line)
	if m := endsMessage.FindSubmatch(tail); id == nil && m != nil {
		id = m[1]
	}
	if id == nil || method {
		l.show(fmt.Appendf(nil, "(a message of more than %d bytes was left out)\n", l.most))
		return nil
	}
	return append(wire.AppendError(nil, id, wire.TooLong(l.most)), '\n')
}

// endsMessage is the end of a response that ends with its ID.
var endsMessage = regexp.MustCompile(`,\s*"id"\s*:\s*("(?:[^"\\]|\\.){1,256}"|-?[0-9]{1,20})\s*` +
	`(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// head reads the ID of a message from its beginning, and whether it has a method.
func head(line []byte) (id json.RawMessage, method bool) {
	in := json.NewDecoder(bytes.NewReader(line[:min(len(line), mostAside)]))
	if t, _ := in.Token(); t != json.Delim('{') {
		return nil, false
	}
	for {
		name, err := in.Token()
		var value json.RawMessage
		if err != nil || name == json.Delim('}') {
			return id, method
		}
		if name == "method" {
			method = true
		}
		if in.Decode(&value) != nil {
			return id, method
		}
		if name == "id" {
			id = value
		}
	}
}
