package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/process"
)

// The bars: what one caller may do to the server, and to another caller.
const (
	mostMemory = 200 << 20
	slowerBy   = 3
)

// flood is what one hostile caller does. Attack returns when ctx is done.
type flood struct {
	name   string
	user   string // empty is the anonymous caller
	attack func(ctx context.Context, a *attack)
}

// attack is what a flood sends.
type attack struct {
	*client
	sent, refused atomic.Int64
	full          chan struct{} // closed when the flood has reached its full extent
}

// count counts what was sent, unless the end of the flood has ended it.
func (a *attack) count(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.sent.Add(1)
	if err != nil {
		a.refused.Add(1)
	}
}

// together runs a function n times at once. The flood has its full extent when each has called up, or has returned.
func (a *attack) together(n int, f func(up func())) {
	var all, ready sync.WaitGroup
	ready.Add(n)
	go func() { ready.Wait(); close(a.full) }()
	for range n {
		all.Go(func() {
			up := sync.OnceFunc(ready.Done)
			defer up()
			f(up)
		})
	}
	all.Wait()
}

// repeat sends a request again and again, and pauses only after an error.
func (a *attack) repeat(ctx context.Context, send func() error, up func()) {
	for ctx.Err() == nil {
		err := send()
		a.count(ctx, err)
		up()
		if err != nil {
			_ = process.Sleep(ctx, 50*time.Millisecond)
		}
	}
}

var floods = []flood{
	{"150 half-sent bodies of 4 MB", "mallory", func(ctx context.Context, a *attack) {
		a.together(150, func(up func()) { a.count(ctx, a.halfSent(ctx, 4<<20, 4<<20-1024, up)) })
		<-ctx.Done()
	}},
	{"a batch of 5,000 calls", "mallory", func(ctx context.Context, a *attack) { a.batch(ctx, 5_000) }},
	{"a batch of 30,000 calls", "mallory", func(ctx context.Context, a *attack) { a.batch(ctx, 30_000) }},
	{"2,000 sessions", "mallory", func(ctx context.Context, a *attack) {
		a.together(16, func(func()) {
			for range 2_000 / 16 {
				_, err := a.Initialize(ctx, "2025-11-25")
				a.count(ctx, err)
			}
		})
		<-ctx.Done()
	}},
	{"100 slow readers", "mallory", func(ctx context.Context, a *attack) {
		a.together(100, func(up func()) {
			stream, err := a.talk(ctx)
			a.count(ctx, err)
			up()
			if err == nil {
				<-ctx.Done()
				stream.Close()
			}
		})
		<-ctx.Done()
	}},
	{"500 calls with 1 MB at once", "mallory", func(ctx context.Context, a *attack) {
		call := map[string]any{"name": "hold", "arguments": megabyte(1)}
		a.together(500, func(up func()) {
			a.repeat(ctx, func() error { return a.Call(ctx, "tools/call", call, nil) }, up)
		})
	}},
	{"100 idle subscriptions to 64 tasks", "mallory", func(ctx context.Context, a *attack) {
		var ids []string
		for range 64 {
			id, err := a.begin(ctx, map[string]any{})
			a.count(ctx, err)
			if err == nil {
				ids = append(ids, id)
			}
		}
		a.together(100, func(up func()) {
			stream, err := a.listen(ctx, ids)
			a.count(ctx, err)
			up()
			if err == nil {
				_, _ = io.Copy(io.Discard, stream) // until the end
				stream.Close()
			}
		})
		<-ctx.Done()
	}},
	{"tasks of anonymous callers", "", func(ctx context.Context, a *attack) {
		arguments := megabyte(0.25)
		a.together(16, func(up func()) {
			a.repeat(ctx, func() error { _, err := a.begin(ctx, arguments); return err }, up)
		})
	}},
}

// megabyte returns arguments of a size in MB.
func megabyte(size float64) map[string]any {
	return map[string]any{"a": strings.Repeat("x", int(size*(1<<20)))}
}

// batch sends one batch of calls that ask, which only a revision before 2025-06-18 has.
func (a *attack) batch(ctx context.Context, calls int) {
	var body strings.Builder
	for i := range calls {
		fmt.Fprintf(&body, `,{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask"}}`, i+2)
	}
	a.together(1, func(up func()) {
		session, err := a.Initialize(ctx, "2025-03-26")
		var s *rawclient.Stream
		if err == nil {
			s, err = session.Post(ctx, "["+body.String()[1:]+"]")
		}
		if err == nil && s.Status != http.StatusOK {
			err = fmt.Errorf("a batch: status %d", s.Status)
		}
		a.count(ctx, err)
		up()
		if s != nil {
			_, _ = io.Copy(io.Discard, s) // until the end
			s.Close()
		}
	})
	<-ctx.Done()
}

// flooded is the outcome of one flood.
type flooded struct {
	peak          int64
	quiet, during time.Duration // 99 of 100 interactions of another caller take less
	failed        int           // interactions of another caller
}

// missed says which bars the outcome does not reach. A caller whose interactions take less than a hundredth of a second
// in the quiet may need up to three of them: below, a ratio tells of the scheduler.
func (f *flooded) missed() (bars []string) {
	if f.peak > mostMemory {
		bars = append(bars, fmt.Sprintf("%.0f MB, at most %d", megabytes(f.peak), mostMemory>>20))
	}
	if bar := slowerBy * max(f.quiet, 10*time.Millisecond); f.during > bar {
		bars = append(bars, fmt.Sprintf("another caller waits %v, at most %v", f.during, bar))
	}
	if f.failed > 0 {
		bars = append(bars, fmt.Sprintf("%d interactions of another caller failed", f.failed))
	}
	return bars
}

// flooding starts a server of its own for each flood, and prints what the flood did to it and to another caller.
func flooding(ctx context.Context, only string, lasts time.Duration, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "flood\tpeak RSS MB\tp99 quiet\tp99 during\tbars")
	var failed error
	for _, f := range floods {
		if !strings.Contains(f.name, only) {
			continue
		}
		got, err := f.run(ctx, lasts)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		missed := strings.Join(got.missed(), "; ")
		if missed != "" {
			failed = errors.Join(failed, fmt.Errorf("%s: %s", f.name, missed))
		}
		fmt.Fprintf(table, "%s\t%.0f\t%v\t%v\t%s\n", f.name, megabytes(got.peak), got.quiet, got.during,
			cmp.Or(missed, "reached"))
	}
	return errors.Join(table.Flush(), failed)
}

func (f *flood) run(ctx context.Context, lasts time.Duration) (*flooded, error) {
	s, err := startSubject()
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	got := new(flooded)
	bob := newClient(s, "bob")
	defer bob.close()
	var warm, quiet latencies
	if err := errors.Join(warm.measure(ctx, bob, time.Second), quiet.measure(ctx, bob, lasts)); err != nil {
		return nil, err
	}
	got.quiet = quiet.p99()
	a, err := startAttacker(f, s)
	if err != nil {
		return nil, err
	}
	var during latencies
	for begun, full := time.Now(), false; err == nil && !full && time.Since(begun) < 6*lasts; {
		select {
		case <-a.Ready: // once more, under all of it
			full = true
		default:
		}
		err = during.measure(ctx, bob, lasts)
	}
	if err == nil {
		_, got.peak, err = process.Memory(s.PID())
	}
	got.during, got.failed = during.p99(), quiet.failed+during.failed
	return got, errors.Join(err, process.Stop(a))
}

// latencies are the latencies of another caller's interactions.
type latencies struct {
	took   []time.Duration
	failed int
}

// measure lets a caller interact again and again. The error is the error of ctx.
func (l *latencies) measure(ctx context.Context, c *client, lasts time.Duration) error {
	for end := time.Now().Add(lasts); time.Now().Before(end) && ctx.Err() == nil; {
		begun := time.Now()
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		if err := c.interaction(limited); err != nil {
			l.failed++
		}
		cancel()
		l.took = append(l.took, time.Since(begun))
		time.Sleep(2 * time.Millisecond)
	}
	return ctx.Err()
}

func (l *latencies) p99() time.Duration {
	if len(l.took) == 0 {
		return 0
	}
	slices.Sort(l.took)
	return l.took[(len(l.took)-1)*99/100].Round(100 * time.Microsecond)
}

// startAttacker starts a flood from a process that the machine serves last. An attacker has processors of his own: here
// his work must not count as the server's, and must not keep the other caller from measuring. The process is ready when
// the flood has reached its full extent.
func startAttacker(f *flood, s *process.Server) (*child.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.Start(exec.Command("nice", "-n", "19", self, "-attack", f.name, "-url", s.URL), "")
}

// runAttacker is that process: it floods until ctx is done, and tells what it has counted.
func runAttacker(ctx context.Context, name, url string) error {
	for _, f := range floods {
		if f.name != name {
			continue
		}
		a := &attack{client: newClient(&process.Server{URL: url}, f.user), full: make(chan struct{})}
		defer a.close()
		go func() { <-a.full; fmt.Println("full") }()
		f.attack(ctx, a)
		fmt.Fprintf(os.Stderr, "%s: %d sent, %d refused\n", name, a.sent.Load(), a.refused.Load())
		return nil
	}
	return fmt.Errorf("no flood is named %q", name)
}
