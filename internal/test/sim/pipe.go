package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Pipe carries lines from one process to another, each through a seam of the process that writes. Nothing is lost on
// the way, and nobody waits for the reader. The pipe ends with one of the processes: one that dies amid a line leaves
// the beginning of it.
type Pipe struct {
	state
	from, to *Part
	written  [][]byte     // lines on their way
	data     bytes.Buffer // for the reader
	shut     bool         // nothing more is written
	ended    bool         // nothing more comes, or is read
}

// NewPipe returns the ends of a new pipe. Each Write takes one line.
func NewPipe(from, to *Part) (io.ReadCloser, io.WriteCloser) {
	p := &Pipe{from: from, to: to}
	go p.carry()
	return pipeReader{p}, pipeWriter{p}
}

func (p *Pipe) carry() {
	defer p.update(func() { p.ended = true })
	for {
		var line []byte
		p.await(func() bool {
			if len(p.written) > 0 {
				line, p.written = p.written[0], p.written[1:]
			}
			return line != nil || p.shut || p.ended
		}, p.to.Dead(), p.from.Dead())
		if line == nil {
			return
		}
		var message struct{ Method string }
		_ = json.Unmarshal(line, &message)
		what := fmt.Sprintf("%s to %s", cmp.Or(message.Method, "response"), p.to.Name)
		dies := p.from.Happens("it dies amid "+what, p.from.Chances[KilledAmid])
		if dies && p.from.Chance(0.25) {
			line = line[:len(line)-1] // all but the newline
		} else if dies {
			line = line[:p.from.IntN(len(line))]
		}
		rest := Chances{Delayed: p.from.Chances[Delayed], Frozen: p.from.Chances[Frozen]}
		err := p.from.do(context.Background(), what, rest, func(context.Context) error {
			p.update(func() { p.data.Write(line) })
			return nil
		})
		if dies {
			p.from.Kill()
		}
		if dies || err != nil {
			return
		}
	}
}

// state is what two sides share.
type state struct {
	mu      sync.Mutex
	changed chan struct{} // nil if nobody waits
}

// await waits until something is so, and reports whether it is, or until somebody is gone.
func (s *state) await(ready func() bool, gone, goneToo <-chan struct{}) bool {
	for {
		s.mu.Lock()
		if ready() {
			s.mu.Unlock()
			return true
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-gone:
			return false
		case <-goneToo:
			return false
		}
	}
}

func (s *state) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

type pipeWriter struct{ *Pipe }

func (w pipeWriter) Write(line []byte) (n int, err error) {
	w.update(func() {
		if err = io.ErrClosedPipe; !w.shut && !w.ended {
			w.written, n, err = append(w.written, bytes.Clone(line)), len(line), nil
		}
	})
	return n, err
}

func (w pipeWriter) Close() error {
	w.update(func() { w.shut = true })
	return nil
}

type pipeReader struct{ *Pipe }

func (r pipeReader) Read(b []byte) (n int, err error) {
	ready := r.await(func() bool {
		if n, _ = r.data.Read(b); n == 0 && r.ended {
			err = io.EOF
		}
		return n > 0 || err != nil
	}, r.to.Dead(), nil)
	if !ready {
		err = ErrDead
	}
	return n, err
}

func (r pipeReader) Close() error {
	r.update(func() { r.ended = true })
	return nil
}
