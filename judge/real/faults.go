package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/process"
)

// fault is what was done to a process, or to the database.
type fault struct {
	kind     string
	pid      int // 0 is every process: it had no database
	from, to time.Time
}

// The kinds of faults.
const (
	restarted  = "restarts by SIGTERM"
	killed     = "kills"
	frozen     = "processes frozen"
	crashed    = "crashes of PostgreSQL"
	failedOver = "failovers of PostgreSQL"
)

// unit is a place in which one process runs after another.
type unit struct {
	now    atomic.Pointer[child.Process]
	doomed atomic.Bool // it was killed, or told to end
}

// add starts a process, and another one whenever it has ended.
func (w *world) add(name string, environment []string, command ...string) {
	u, log := new(unit), filepath.Join(w.dir, name+".log")
	w.units = append(w.units, u)
	w.running.Go(func() {
		for w.ctx.Err() == nil {
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), environment...)
			p, err := process.Start(cmd, log)
			if err != nil {
				w.record.violate("%s: %v", name, err)
				return
			}
			u.doomed.Store(false)
			u.now.Store(p)
			select {
			case <-p.Dead:
			case <-w.ctx.Done():
				p.Kill()
				return
			}
			// A process that finds no database when it starts ends, and so does a bridge that finds no server.
			tail, excused := process.Tail(log), u.doomed.Load()
			w.record.change(func() { excused = excused || !p.Listened() && w.record.excuses(0, p.Started, time.Now()) })
			if !excused && !strings.Contains(tail, "askback: cannot speak to") {
				w.record.violate("%s ended by itself: %s", name, tail)
			}
			pause(w.ctx, 100*time.Millisecond)
		}
	})
}

// harm notes a fault and does it to the process of a unit, if there is one.
func (w *world) harm(u *unit, kind string, do func(p *child.Process)) {
	p := u.now.Load()
	if p == nil || !p.Alive() {
		return
	}
	if kind != frozen {
		u.doomed.Store(true)
	}
	defer w.record.begin(kind, p.PID())()
	do(p)
}

// fail does all that is to be done in the time that a run lasts.
func (w *world) fail(ctx context.Context, lasts time.Duration) (err error) {
	began := time.Now()
	after := func(share float64) bool { return time.Since(began) > time.Duration(share*float64(lasts)) }
	for n := 0; n < instances && !after(0.2); n++ {
		u, was := w.units[n], w.units[n].now.Load()
		w.harm(u, restarted, func(p *child.Process) { err = process.Stop(p) })
		if u.await(ctx, was); err != nil {
			return err
		}
	}
	for !after(0.25) && pause(ctx, time.Second) {
	}
	w.record.change(func() { w.record.quiet = time.Now() })
	outages := []string{crashed, failedOver, crashed}
	for pause(ctx, 500*time.Millisecond+w.upTo(time.Second)) {
		if n := len(outages); n > 0 && after(0.85-0.2*float64(n-1)) {
			end := w.record.begin(outages[0], 0)
			if err := w.database.fail(w.ctx, outages[0], w.upTo(time.Second)); err != nil {
				return err
			}
			end()
			outages = outages[1:]
		}
		u := w.units[w.random.IntN(len(w.units))]
		switch w.random.IntN(8) {
		case 0:
			lasts := time.Second + w.upTo(3*time.Second)
			w.running.Go(func() {
				w.harm(u, frozen, func(p *child.Process) {
					_ = p.Signal(syscall.SIGSTOP) // it may be gone
					pause(w.ctx, lasts)
					_ = p.Signal(syscall.SIGCONT)
				})
			})
		case 1:
			for _, u := range w.units {
				w.harm(u, killed, (*child.Process).Kill)
			}
		default:
			w.harm(u, killed, (*child.Process).Kill)
		}
	}
	return nil
}

func (w *world) upTo(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most)))
}

// await waits until a process listens, other than one that was there.
func (u *unit) await(ctx context.Context, was *child.Process) {
	for {
		is := u.now.Load()
		if is != nil && is != was && is.Listened() || !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}
