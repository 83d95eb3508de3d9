package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/durable"
	"github.com/askback-mcp/askback/internal/excerpt"
)

const (
	maxLine    = 1 << 20 // bytes: more than any event takes
	maxText    = 4 << 10 // bytes of one text of an event
	maxBatch   = 1 << 20 // bytes from which a write takes no further event
	tornSuffix = ".torn"
	rotated    = ".20060102T150405.000000000Z" // the suffix of a full file
)

// noDigest is what the first line of all has in place of a digest.
var noDigest = strings.Repeat("0", 2*sha256.Size)

// line is one line of the file. Its digest is of its bytes, not of these fields.
type line struct {
	Chain string    `json:"chain"`
	Seq   int64     `json:"seq"` // from 1
	Prev  string    `json:"prev"`
	Time  time.Time `json:"time"`
	Begin bool      `json:"begin,omitempty"` // the first line of its chain
	Torn  int64     `json:"torn,omitempty"`
	Lost  int64     `json:"lost,omitempty"`
	Event *event    `json:"event,omitempty"`
}

// event is an askback.AuditEvent.
type event struct {
	Kind      string `json:"kind"`
	Principal string `json:"principal,omitempty"`
	Method    string `json:"method,omitempty"`
	Target    string `json:"target,omitempty"`
	Call      string `json:"call,omitempty"`
	Task      string `json:"task,omitempty"`
	Round     int    `json:"round,omitempty"`
	Key       string `json:"key,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Action    string `json:"action,omitempty"`
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"`
	Channel   string `json:"channel,omitempty"`
	Why       string `json:"why,omitempty"`
	For       string `json:"for,omitempty"`
}

// shorten bounds the memory and the line that an event takes: some of its texts are a stranger's.
func shorten(e event) event {
	for _, s := range []*string{&e.Kind, &e.Principal, &e.Method, &e.Target, &e.Call, &e.Task, &e.Key, &e.Digest,
		&e.Action, &e.Reason, &e.By, &e.Channel, &e.Why, &e.For} {
		if len(*s) > maxText {
			*s = strings.Clone(excerpt.Of(*s, maxText)) + "…"
		}
	}
	return e
}

// digestOf returns the digest of a line with its newline.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// file is the end of a chain, and where it continues. It is not safe for concurrent use.
type file struct {
	path    string
	maxSize int64
	always  bool                                // syncs each write
	open    func(path string) (*os.File, error) // openFile, except in tests
	unlock  func()

	f      *os.File // nil if it has to be opened
	size   int64    // of the whole lines in it
	broken bool     // it may end with a part of a line, because a write failed
	dirty  bool     // something in it is not synced
	torn   int64    // bytes of a line that an earlier process had begun
	last   head     // the last line, without a time; its Seq is 0 before the first of this chain
}

func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
}

// begin finds the last line, and writes the first one of the chain.
func (c *file) begin() (err error) {
	if c.unlock, err = lock(c.path + ".lock"); err != nil {
		return err
	}
	if c.f, err = c.open(c.path); err != nil {
		return err
	}
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	if c.last.Digest, c.size, err = endOf(c.f, info.Size()); err != nil {
		return err
	}
	if c.torn = info.Size() - c.size; c.torn > 0 {
		if err := c.setAside(); err != nil {
			return fmt.Errorf("keeping the part of a line at the end of %s: %w", c.path, err)
		}
	}
	if c.last.Digest == "" { // a new file, before which there may be others
		if c.last.Digest, err = c.endOfRotated(); err != nil {
			return err
		}
	}
	if _, err = c.write(nil, 0); err != nil {
		return err
	}
	return errors.Join(c.sync(), durable.SyncDir(filepath.Dir(c.path)))
}

// endOf returns the digest of the last whole line, or "", and the size of the whole lines.
func endOf(f *os.File, size int64) (digest string, whole int64, err error) {
	text := make([]byte, min(size, 2*maxLine))
	if _, err := f.ReadAt(text, size-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return "", 0, err
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	start := bytes.LastIndexByte(text[:max(end-1, 0)], '\n') + 1
	if start == 0 && int64(len(text)) < size {
		return "", 0, fmt.Errorf("%s does not end with a line of an audit: move it away to begin anew", f.Name())
	}
	if end > 0 {
		digest = digestOf(text[start:end])
	}
	return digest, size - int64(len(text)) + int64(end), nil
}

// setAside moves the part of a line that a crash has left to another file.
func (c *file) setAside() error {
	aside, err := openFile(c.path + tornSuffix)
	if err != nil {
		return err
	}
	defer aside.Close()
	if _, err := io.Copy(aside, io.NewSectionReader(c.f, c.size, c.torn)); err != nil {
		return err
	}
	if _, err := aside.WriteString("\n"); err != nil {
		return err
	}
	return errors.Join(aside.Sync(), os.Truncate(c.path, c.size))
}

// endOfRotated returns the digest of the last line of the last full file.
func (c *file) endOfRotated() (string, error) {
	entries, err := os.ReadDir(filepath.Dir(c.path)) // sorted
	if err != nil {
		return "", err
	}
	newest := ""
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(c.path))
		if _, err := time.Parse(rotated, suffix); ok && err == nil {
			newest = e.Name()
		}
	}
	if newest == "" {
		return noDigest, nil
	}
	f, err := os.Open(filepath.Join(filepath.Dir(c.path), newest))
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	digest, _, err := endOf(f, info.Size())
	if err == nil && digest == "" {
		err = fmt.Errorf("%s has no whole line: move it away to begin anew", f.Name())
	}
	return digest, err
}

// write writes the first events of a batch, and how many were lost after the last. It returns how many it has
// written: all of those, or none with an error.
func (c *file) write(batch []*entry, lost int64) (n int, err error) {
	var text []byte
	last := c.last
	add := func(l line) {
		last.Seq++
		l.Chain, l.Seq, l.Prev = last.Chain, last.Seq, last.Digest
		one, _ := json.Marshal(l) // strings, numbers and a time of this millennium
		one = append(one, '\n')
		last.Digest = digestOf(one)
		text = append(text, one...)
	}
	if last.Seq == 0 {
		add(line{Time: time.Now().UTC(), Begin: true, Torn: c.torn})
	}
	for ; n < len(batch) && len(text) < maxBatch; n++ {
		add(line{Time: batch[n].time, Event: &batch[n].event})
	}
	if n == len(batch) && lost > 0 {
		add(line{Time: time.Now().UTC(), Lost: lost})
	}
	if err := c.append(text); err != nil {
		return 0, err
	}
	c.last = last
	return n, nil
}

// append writes whole lines, all of them or none.
func (c *file) append(text []byte) error {
	if c.broken && c.f != nil {
		c.f.Close() // another try may need another handle, such as after a file system was mounted again
		c.f = nil
	}
	if err := c.reopen(); err != nil {
		return err
	}
	if c.size > 0 && c.size+int64(len(text)) > c.maxSize {
		if err := c.rotate(); err != nil {
			return err
		}
	}
	c.broken = true
	if _, err := c.f.Write(text); err != nil {
		return err
	}
	c.dirty = true
	if c.always {
		if err := c.f.Sync(); err != nil {
			return err
		}
		c.dirty = false
	}
	c.size += int64(len(text))
	c.broken = false
	return nil
}

// reopen opens the file if it is not open, and removes what a failed write has left at its end.
func (c *file) reopen() (err error) {
	if c.f != nil {
		return nil
	}
	f, err := c.open(c.path)
	if err != nil {
		return err
	}
	if c.broken {
		if err := os.Truncate(c.path, c.size); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	c.f, c.broken = f, false
	return nil
}

// rotate renames the full file and opens a new one. After an error, the next write tries what is left of it.
func (c *file) rotate() error {
	if err := c.f.Sync(); err != nil {
		return err
	}
	c.f.Close() // before its name changes, as Windows wants it
	c.f, c.dirty = nil, false
	full := c.path + time.Now().UTC().Format(rotated)
	if _, err := os.Lstat(full); err == nil {
		return fmt.Errorf("renaming %s: there is a file %s", c.path, full)
	}
	if err := os.Rename(c.path, full); err != nil {
		return err
	}
	c.size = 0
	if err := c.reopen(); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(c.path))
}

// sync has the written lines on the disk.
func (c *file) sync() error {
	if !c.dirty || c.f == nil {
		return nil
	}
	if err := c.f.Sync(); err != nil {
		return err
	}
	c.dirty = false
	return nil
}

func (c *file) close() {
	if c.f != nil {
		c.f.Close()
	}
	if c.unlock != nil {
		c.unlock()
	}
}
