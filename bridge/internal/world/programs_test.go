package world

import (
	"context"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/stdio"
	"github.com/askback-mcp/askback/internal/test/sim"
)

// program is the standard input and output of a program, as the process that has started it has them.
type program struct {
	in       io.WriteCloser
	out      io.Reader
	by, part *sim.Part
	life     context.Context // ends with it
}

// mostAlone is how long a program may go on, in units, after the process that has started it.
const mostAlone = 60

// run runs a program for another part, over pipes. It ends when its input does, also when that part is dead.
func (w *world) run(by, part *sim.Part, main func(life context.Context, stdio *mcp.IOTransport)) *program {
	life, end := context.WithCancel(w.life)
	stdin, in := sim.NewPipe(by, part)
	out, stdout := sim.NewPipe(part, by)
	w.others.Go(func() {
		defer end()
		main(life, &mcp.IOTransport{Reader: stdin, Writer: stdout})
		stdin.Close()
		stdout.Close()
	})
	w.others.Go(func() {
		defer end()
		var alone <-chan time.Time
		for gone := by.Dead(); ; {
			select {
			case <-gone:
				gone, alone = nil, time.After(mostAlone*w.Unit)
			case <-alone:
				w.violate("%s goes on for %v after the end of %s", part.Name, mostAlone*w.Unit, by.Name)
				return
			case <-part.Dead():
				return
			case <-life.Done():
				return
			}
		}
	})
	return &program{in, out, by, part, life}
}

// Connect speaks with the program as production does, but the program does not wait for its end.
func (p *program) Connect(ctx context.Context) (mcp.Connection, error) {
	return stdio.Connect(ctx, rawclient.Messages(p.out, 0, io.Discard), p)
}

func (p *program) Write(line []byte) (int, error) { return p.in.Write(line) }

// Close ends the input of the program, and kills it if it goes on for long.
func (p *program) Close() error {
	time.AfterFunc(4*time.Second, func() {
		if !p.by.IsDead() { // who kills nobody
			p.part.Kill()
		}
	})
	return p.in.Close()
}
