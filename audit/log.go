// Package audit keeps the events of [askback.Options.Audit] in a file in which a change is found.
//
//	key, err := audit.ReadKey("audit.pem") // made by: openssl genpkey -algorithm ed25519 -out audit.pem
//	heads, err := os.OpenFile("/mnt/elsewhere/heads", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
//	log, err := audit.Open("audit.jsonl", &audit.Options{Key: key, Heads: heads})
//	defer log.Close()
//	srv, err := askback.New(m, &askback.Options{Audit: log.Record})
//
// Each line of the file is a JSON object with the digest of the line before it, so that no line can be changed,
// removed or moved unseen. The digest is the SHA-256 of the line with its newline, as sha256sum prints it. The first
// line of all has 64 zeros:
//
//	{"chain":"R5…","seq":2,"prev":"9f86d0…","time":"2026-11-20T11:24:48.1Z","event":{"kind":"asked",…}}
//
// Each process begins a chain with a random ID and a line that says "begin", and links it to the last whole line in
// the file. A line that a crash has cut off goes to a file with the suffix ".torn", and the new chain's first line
// has its size in bytes as "torn". A line with "lost" says how many events were not recorded before it.
//
// A full file is renamed to audit.jsonl.TIME, and the chain continues in a new one. Sorted by name, the files are in
// the order of the chain, unless the clock was set back. One process at a time writes to a path; on Linux, macOS and
// the BSDs, [Open] refuses a second one. Nothing else may rename, shorten or rotate the file.
//
// An attacker who can write to the file can also cut off its end, or write all of it anew. A signed head shows that:
// see [Options.Heads]. [Verify] and 'askback audit verify' check both, and so do other programs:
//
//	sed -n 5p audit.jsonl | sha256sum # stands in line 6
//	sed -n 2p heads | cut -f 1 >head && sed -n 2p heads | cut -f 2 | base64 -d >signature
//	openssl pkeyutl -verify -pubin -inkey audit.pub.pem -rawin -in head -sigfile signature
//
// # When the file cannot be written
//
// An event waits in memory until it can be written, and is counted as lost if too many wait. The server continues,
// the log has an error every five seconds, and [Log.Err] returns it. A server that must not work without its audit
// refuses calls for as long as Err does, and is unready:
//
//	Authorize: func(context.Context, askback.Access) error {
//		if err := log.Err(); err != nil {
//			return fmt.Errorf("%w: %w", askback.ErrUndecided, err) // "try again", with 503 over HTTP
//		}
//		return nil
//	},
//
// Requests that run already are not stopped, and their events wait or are lost like others.
package audit

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/throttle"
)

// Options are the settings of a [Log]. The zero value works, without heads.
type Options struct {
	// MaxSize is the size in bytes from which a file is renamed, and a new one begun. Zero means 64 MiB.
	MaxSize int64

	// Sync is how often the file is synced. Zero syncs after each write, and Record waits for it: a crash loses no
	// event for which Record returned in time, except after an error that [Log.Err] returned. A longer time lets
	// Record return at once, unless half of the Queue is full. A crash of the process then loses what waits in
	// memory, and a crash of the machine also the events of the last Sync and a second.
	Sync time.Duration

	// Wait is how long Record waits at most. Zero means a second. After it has passed once, no call waits until the
	// file can be written again.
	Wait time.Duration

	// Queue is how many events wait in memory for the file at most. More are counted as lost. Zero means 4096.
	Queue int

	// Heads gets a head every HeadEvery, if there are new lines, and at Close. A head is a line that signs the last
	// line of the file with Key, and so all lines before it. Keep heads where those who can write to the file cannot,
	// and apart from the heads of other paths. A line has two columns, separated by a tab: JSON with the fields
	// chain, seq, digest and time, and the signature in base64. The signature is of the first column with a newline.
	// There are empty lines, too.
	//
	// An error of Heads is logged, and the next head is as good as the missing one. While a Write takes long, events
	// wait.
	Heads io.Writer

	Key       ed25519.PrivateKey // signs heads; see [ReadKey]
	HeadEvery time.Duration      // zero means a minute

	// Logger gets what fails, without the events. Nil means slog.Default.
	Logger *slog.Logger
}

// A Log writes events to a file. It is safe for concurrent use. A nil Log records nothing, and has no errors.
type Log struct {
	opts  Options
	log   *slog.Logger
	file  file // the writer's alone, as signer is
	heads signer

	mu     sync.Mutex
	queue  []*entry
	lost   int64
	err    error // why the events in queue are not written, or nil
	closed bool

	wake chan struct{}
	stop context.CancelFunc
	done chan struct{} // closed when the writer has ended
}

// entry is an event that waits for the file.
type entry struct {
	event  event
	time   time.Time
	waiter chan struct{} // closed when Record need not wait any longer, and then nil
}

// Open opens the audit in a file, or makes it, and begins a chain. An error means that the path is in use, that its
// last line cannot be read, or that nothing can be written. A nil opts is the zero Options.
func Open(path string, opts *Options) (*Log, error) {
	l, err := newLog(path, opts)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if err := l.start(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return l, nil
}

func newLog(path string, opts *Options) (*Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if (o.Heads == nil) != (len(o.Key) == 0) || o.Key != nil && len(o.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("heads need a Key of Ed25519, and the Key needs Heads: set both, or neither")
	}
	if o.MaxSize < 0 || o.Sync < 0 || o.Wait < 0 || o.Queue < 0 || o.HeadEvery < 0 {
		return nil, errors.New("a size, number or time in Options is negative: leave it zero for the default")
	}
	o.MaxSize, o.Wait = cmp.Or(o.MaxSize, 64<<20), cmp.Or(o.Wait, time.Second)
	o.Queue, o.HeadEvery = cmp.Or(o.Queue, 4096), cmp.Or(o.HeadEvery, time.Minute)
	return &Log{
		opts: o, log: throttle.New(cmp.Or(o.Logger, slog.Default())),
		file: file{
			path: path, maxSize: o.MaxSize, always: o.Sync == 0, open: openFile, last: head{Chain: rand.Text()},
		},
		heads: signer{to: o.Heads, key: o.Key},
		wake:  make(chan struct{}, 1), done: make(chan struct{}),
	}, nil
}

// start begins a chain, and the writer.
func (l *Log) start() error {
	if err := l.file.begin(); err != nil {
		l.file.close()
		return err
	}
	if l.file.torn > 0 {
		l.log.Error("audit: a crash has cut off the last line, which is kept beside the file", "file", l.file.path+tornSuffix,
			"bytes", l.file.torn)
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.run(ctx)
	return nil
}

// Record writes an event, and is meant for [askback.Options.Audit]. It returns when the line is on the disk. It waits
// no longer than Options.Wait, or until ctx is done or writing fails. The event is written later then. Events of one
// goroutine stay in order. A text of more than 4 KiB is cut, and ends with "…".
func (l *Log) Record(ctx context.Context, e askback.AuditEvent) {
	if l == nil {
		return
	}
	waiter := make(chan struct{})
	n := &entry{event: shorten(event(e)), time: time.Now().UTC(), waiter: waiter}
	l.mu.Lock()
	if l.closed || len(l.queue) >= l.opts.Queue {
		l.lost++
		l.mu.Unlock()
		l.log.Error("audit: an event is lost, because too many wait for the file, or it is closed",
			"file", l.file.path)
		return
	}
	l.queue = append(l.queue, n)
	busy := l.opts.Sync == 0 || len(l.queue) > l.opts.Queue/2
	waits := busy && l.err == nil
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // the writer will look
	}
	if !waits {
		return
	}
	timeout := time.NewTimer(l.opts.Wait)
	defer timeout.Stop()
	select {
	case <-waiter:
	case <-ctx.Done():
	case <-timeout.C:
		l.slow(n)
	}
}

// slow notes that the file has not taken an event in time, unless it has meanwhile.
func (l *Log) slow(n *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.waiter != nil {
		l.err = cmp.Or(l.err, fmt.Errorf("audit: %s has not taken an event for %v", l.file.path, l.opts.Wait))
	}
}

// Err returns why events are not being written now, or nil. It is nil again within a second after writing works
// again.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close writes what waits, signs a last head, and closes the file. Events that come later are lost. Its error says
// how many events could not be written, or that the last head could not. It takes at most ten times Options.Wait. A
// second Close does nothing.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.stop()
	timeout := time.NewTimer(10 * l.opts.Wait)
	defer timeout.Stop()
	select {
	case <-l.done:
	case <-timeout.C:
		return fmt.Errorf("audit: closing %s takes longer than %v: the end of the chain may be missing", l.file.path,
			10*l.opts.Wait)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if missing := int64(len(l.queue)) + l.lost; missing > 0 {
		return fmt.Errorf("audit: %d events are not in %s: %w", missing, l.file.path, cmp.Or(l.err, errClosed))
	}
	return cmp.Or(l.err, l.heads.err)
}

var errClosed = errors.New("they came after Close")

// run is the writer: it alone uses the file and the heads.
func (l *Log) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(min(cmp.Or(l.opts.Sync, time.Second), time.Second))
	defer tick.Stop()
	synced, signed := time.Now(), time.Now()
	for {
		select {
		case <-l.wake:
			if l.Err() == nil { // else the next tick tries again
				l.flush()
			}
			continue
		case <-tick.C:
		case <-ctx.Done():
			l.flush()
			l.sign()
			l.file.close()
			return
		}
		l.flush()
		if l.opts.Sync > 0 && time.Since(synced) >= l.opts.Sync {
			synced = time.Now()
			l.failed(l.file.sync())
		}
		if time.Since(signed) >= l.opts.HeadEvery {
			signed = time.Now()
			l.sign()
		}
	}
}

// flush writes what waits until nothing does, or something fails.
func (l *Log) flush() {
	for {
		l.mu.Lock()
		batch, lost, failing := l.queue, l.lost, l.err != nil
		l.mu.Unlock()
		if len(batch) == 0 && lost == 0 && !failing {
			return
		}
		n, err := l.file.write(batch, lost)
		if l.failed(err) {
			return
		}
		l.mu.Lock()
		l.err = nil
		release(l.queue[:n])
		if n == len(batch) {
			l.lost -= lost
		}
		l.queue = slices.Delete(l.queue, 0, n)
		l.mu.Unlock()
	}
}

// sign signs the last line, once it is on the disk: a head must not name a line that a crash can lose.
func (l *Log) sign() {
	if l.failed(l.file.sync()) || l.heads.to == nil {
		return
	}
	if err := l.heads.sign(l.file.last); err != nil {
		l.log.Error("audit: a head could not be written; the end of the file is not protected until the next one",
			"error", err)
	}
}

// failed keeps and logs an error, if there is one.
func (l *Log) failed(err error) bool {
	if err == nil {
		return false
	}
	err = fmt.Errorf("audit: %w", err)
	l.mu.Lock()
	l.err = err
	release(l.queue)
	l.mu.Unlock()
	l.log.Error("audit: events cannot be written, and wait or are lost", "error", err)
	return true
}

// release lets the calls of Record return. The caller holds mu.
func release(queue []*entry) {
	for _, e := range queue {
		if e.waiter != nil {
			close(e.waiter)
			e.waiter = nil
		}
	}
}
