package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
)

var step = askback.AuditEvent{Kind: askback.AuditStep, Principal: "ada", Key: "book"}

// whole fails the test unless the files of a path are a whole chain.
func whole(t *testing.T, path string) *Report {
	t.Helper()
	r, err := Verify((&written{where: path}).files(t), nil)
	if err != nil || len(r.Faults) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

func parsed(t *testing.T, text []byte) (l line) {
	t.Helper()
	expect.Check(t, json.Unmarshal(text, &l))
	return l
}

func TestRecordingAtOnce(t *testing.T) {
	for _, o := range []Options{{MaxSize: 20_000}, {MaxSize: 20_000, Sync: 1, Queue: 16}} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		log := open(t, path, &o)
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				for j := range 50 {
					log.Record(t.Context(), askback.AuditEvent{Kind: askback.AuditStep, Call: fmt.Sprint(i), Round: j})
				}
			})
		}
		work.Wait()
		expect.Check(t, log.Close())
		if r := whole(t, path); r.Lines != 401 {
			t.Errorf("there are %d lines", r.Lines)
		}
		next := make(map[string]int)
		for _, file := range (&written{where: path}).files(t) {
			for _, text := range linesOf(t, file) {
				if e := parsed(t, text).Event; e != nil {
					if e.Round != next[e.Call] {
						t.Errorf("goroutine %s: event %d stands where %d should", e.Call, e.Round, next[e.Call])
					}
					next[e.Call]++
				}
			}
		}
	}
}

// With Sync zero, the line is in the file when Record returns.
func TestRecordWaitsForItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := open(t, path, &Options{Wait: 1 << 40})
	defer log.Close()
	for i := range 20 {
		log.Record(t.Context(), step)
		if got := len(linesOf(t, path)); got != i+2 {
			t.Fatalf("%d lines after %d events", got, i+1)
		}
	}
}

func TestAFullFileIsRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := open(t, path, &Options{MaxSize: 1000})
	for range 20 {
		log.Record(t.Context(), step)
	}
	expect.Check(t, log.Close())
	files := (&written{where: path}).files(t)
	if len(files) < 4 {
		t.Errorf("there are only the files %q", files)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %v, %v", file, info.Size(), err)
		}
	}
	if r := whole(t, path); r.Lines != 21 || r.Chains != 1 {
		t.Errorf("%+v", r)
	}
	// A crash between the renaming and the first line of the new file.
	expect.Check(t, os.Rename(path, path+".29991231T235959.000000000Z"))
	expect.Check(t, open(t, path, nil).Close())
	if r := whole(t, path); r.Lines != 22 || r.Chains != 2 {
		t.Errorf("%+v", r)
	}
}

func TestATornLineIsKeptAside(t *testing.T) {
	for _, torn := range []string{"{", `{"chain":"x","seq":3`, strings.Repeat("\x00", 5000)} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		log := open(t, path, nil)
		log.Record(t.Context(), step)
		expect.Check(t, log.Close())
		f := expect.Must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
		expect.Must(f.WriteString(torn))(t)
		f.Close()
		if r, err := Verify([]string{path}, nil); err != nil || len(r.Faults) != 1 || !strings.Contains(r.Faults[0], ":3: ") {
			t.Fatalf("before the restart: %+v, %v", r, err)
		}
		var said bytes.Buffer
		expect.Check(t, open(t, path, &Options{Logger: slog.New(slog.NewTextHandler(&said, nil))}).Close())
		if r := whole(t, path); r.Lines != 3 || r.Chains != 2 {
			t.Errorf("%+v", r)
		}
		if l := parsed(t, linesOf(t, path)[2]); !l.Begin || l.Torn != int64(len(torn)) {
			t.Errorf("the new chain begins with %+v", l)
		}
		if kept, err := os.ReadFile(path + tornSuffix); err != nil || string(kept) != torn+"\n" {
			t.Errorf("kept %q, %v", kept, err)
		}
		expect.Contains(t, "the log", said.String(), "a crash has cut off the last line")
	}
}

func TestOneProcessWritesToAPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing is locked there")
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := open(t, path, nil)
	expect.Fails(t, "the second one", expect.Err(Open(path, nil)), "another process writes")
	expect.Check(t, log.Close())
	expect.Check(t, open(t, path, nil).Close())
}

func TestNoAuditIsOpened(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	dir := t.TempDir()
	long := filepath.Join(dir, "long")
	expect.Check(t, os.WriteFile(long, make([]byte, 3*maxLine), 0o600))
	for _, c := range []struct {
		path string
		o    Options
		want string
	}{
		{"a", Options{Key: key}, "set both"}, {"a", Options{Heads: new(bytes.Buffer)}, "set both"},
		{"a", Options{Key: key[:9], Heads: new(bytes.Buffer)}, "Ed25519"}, {"a", Options{Wait: -1}, "negative"},
		{"long", Options{}, "move it away"}, {"none/a", Options{}, "no such file"},
	} {
		if _, err := Open(filepath.Join(dir, c.path), &c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %+v: %v, want %q", c.path, c.o, err, c.want)
		}
	}
}

// full opens a path, as long as the disk is not full. Then it opens a device that has no room.
type full struct{ is atomic.Bool }

func (d *full) open(path string) (*os.File, error) {
	if d.is.Load() {
		path = "/dev/full"
	}
	return openFile(path)
}

// opened opens an audit on a disk that may be full. It begins a file with each write.
func (d *full) opened(t *testing.T, path string, o *Options) *Log {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	l := expect.Must(newLog(path, o))(t)
	l.file.open = d.open
	expect.Check(t, l.start())
	return l
}

// On a full disk no call waits for ever, Err says why, and events wait. Those that do not fit into the queue are
// counted, in the file, once it can be written.
func TestAFullDisk(t *testing.T) {
	path, disk := filepath.Join(t.TempDir(), "audit.jsonl"), new(full)
	var said bytes.Buffer
	log := disk.opened(t, path, &Options{MaxSize: 1, Queue: 5, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	log.Record(t.Context(), step)
	expect.Check(t, log.Err())
	disk.is.Store(true)
	for log.Err() == nil {
		log.Record(t.Context(), step)
	}
	for range 20 {
		log.Record(t.Context(), step)
	}
	disk.is.Store(false)
	for log.Err() != nil {
		runtime.Gosched()
	}
	log.Record(t.Context(), step)
	expect.Check(t, log.Close())
	whole(t, path)
	var events, lost int64
	for _, file := range (&written{where: path}).files(t) {
		for _, text := range linesOf(t, file) {
			l := parsed(t, text)
			lost += l.Lost
			if l.Event != nil {
				events++
			}
		}
	}
	if lost != 16 || events != 7 {
		t.Errorf("%d events are there, and %d are counted as lost", events, lost)
	}
	for _, want := range []string{"events cannot be written", "no space left on device", "an event is lost"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log does not say %q: %s", want, said.String())
		}
	}
}

// Close says how many events have not reached the file.
func TestADiskThatStaysFull(t *testing.T) {
	path, disk := filepath.Join(t.TempDir(), "audit.jsonl"), new(full)
	log := disk.opened(t, path, &Options{MaxSize: 1, Queue: 5, Logger: slog.New(slog.DiscardHandler)})
	disk.is.Store(true)
	for range 8 {
		log.Record(t.Context(), step)
	}
	expect.Fails(t, "Close", log.Close(), "8 events are not in")
	disk.is.Store(false)
	expect.Check(t, open(t, path, nil).Close())
	if r := whole(t, path); r.Lines != 2 || r.Chains != 2 {
		t.Errorf("%+v", r)
	}
}

// A part of a line that a failed write has left is removed before the next one.
func TestAPartOfALineIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := expect.Must(newLog(path, nil))(t)
	c := &log.file
	expect.Check(t, c.begin())
	expect.Must(c.f.WriteString(`{"chain":"`))(t)
	c.f.Close() // so that the write fails
	batch := []*entry{{event: event(step)}}
	if _, err := c.write(batch, 0); err == nil {
		t.Fatal("a closed file took a line")
	}
	expect.Must(c.write(batch, 0))(t)
	c.close()
	if r := whole(t, path); r.Lines != 2 {
		t.Errorf("%+v", r)
	}
}

// A disk that takes nothing delays a call by Wait, and no later one. Events wait, and the others are counted as lost.
func TestADiskThatHangs(t *testing.T) {
	r, w, err := os.Pipe()
	expect.Check(t, err)
	for err == nil { // until the pipe is full
		if err = w.SetWriteDeadline(time.Now().Add(time.Millisecond)); err == nil {
			_, err = w.Write(make([]byte, 1<<16))
		}
	}
	expect.Check(t, w.SetWriteDeadline(time.Time{}))
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := newLog(path, &Options{Wait: 1, Queue: 500, MaxSize: 1, Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	opens := 0
	log.file.open = func(path string) (*os.File, error) {
		if opens++; opens == 2 { // the first event begins a file
			return w, nil
		}
		return openFile(path)
	}
	expect.Check(t, log.start())
	for range 2000 {
		log.Record(t.Context(), step)
	}
	expect.Fails(t, "Err", log.Err(), "has not taken an event")
	expect.Fails(t, "Close", log.Close(), "may be missing")
	r.Close() // the write fails, and the writer ends
	<-log.done
}

func TestARequestThatEndsWaitsNoLonger(t *testing.T) {
	log := open(t, filepath.Join(t.TempDir(), "audit.jsonl"), &Options{Wait: 1 << 50})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Record(ctx, step)
	expect.Check(t, log.Close())
	expect.Equal(t, "the number", len(linesOf(t, log.file.path)), 2)
}

func TestEventsAfterClose(t *testing.T) {
	var said bytes.Buffer
	log := open(t, filepath.Join(t.TempDir(), "audit.jsonl"), &Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	expect.Check(t, errors.Join(log.Close(), log.Close()))
	log.Record(t.Context(), step)
	if !strings.Contains(said.String(), "an event is lost") || strings.Contains(said.String(), "book") {
		t.Errorf("the log says %q", said.String())
	}
}

// Texts that strangers chose do not make a line that the verifier refuses.
func TestLongTextsAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := open(t, path, nil)
	long := strings.Repeat("\x01ø", maxText)
	log.Record(t.Context(), askback.AuditEvent{Kind: long, Principal: long, Method: long, Target: long, Call: long,
		Task: long, Key: long, Digest: long, Action: long, Reason: long, By: long, Channel: long, Why: long, For: long})
	expect.Check(t, log.Close())
	whole(t, path)
	if e := parsed(t, linesOf(t, path)[1]).Event; len(e.Why) > maxText+3 || !strings.HasSuffix(e.Why, "…") {
		t.Errorf("%d bytes", len(e.Why))
	}
}

// failing is a place for heads that is away now and then, and takes a part of a head then.
type failing struct {
	bytes.Buffer
	away bool
}

func (f *failing) Write(text []byte) (int, error) {
	if f.away = !f.away; f.away {
		n, _ := f.Buffer.Write(text[:len(text)/2])
		return n, errors.New("away")
	}
	return f.Buffer.Write(text)
}

func TestAHeadAfterAFailureIsWhole(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(nil)
	to := new(failing)
	s := signer{to: to, key: private}
	if err := s.sign(head{Chain: "a", Seq: 1, Digest: "d"}); err == nil {
		t.Fatal("it was not away")
	}
	expect.Check(t, s.sign(head{Chain: "a", Seq: 1, Digest: "d"}))
	lines := bytes.Split(bytes.TrimSpace(to.Bytes()), []byte("\n"))
	if _, err := parseHead(lines[len(lines)-1], public); err != nil || len(lines) != 2 {
		t.Errorf("%q: %v", lines, err)
	}
}
