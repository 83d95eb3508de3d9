package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/askback-mcp/askback/input"
)

// The first byte of an encoded journal is its version. An instance that meets a version it does not know refuses the
// state: a newer one wrote it.
const (
	versionUntraced   = 1
	versionTraced     = 2 // as versionUntraced, with the trace behind the version byte; the trace is not empty
	versionAttributed = 3 // as versionTraced, with attributed entries; the trace may be empty
	versionTimed      = 8 // as versionAttributed, with the times of each question behind it

	plainForms = 4  // is added to any of them, if the client shows plain forms only
	moved      = 16 // is added to any of them, if the call has become a task
)

// attributed is the first byte of an entry that says who gave the answer. Behind it are the entry without that, and its
// provenance. The first byte of any other entry is its kind. A release that does not know an entry cannot run its task,
// so a release writes attributed entries only once it is told that the release before it is gone.
const attributed = 2

// Append appends the binary form of j to dst: the version byte, then the fields in order, strings and bytes behind
// their length as an unsigned varint. The wire key of a question is written only where it differs from the author's.
func (j *Journal) Append(dst []byte) []byte {
	version := byte(versionUntraced)
	if slices.ContainsFunc(j.Pending, func(q Question) bool { return !q.Deadline.IsZero() }) ||
		slices.ContainsFunc(j.Entries, func(e Entry) bool { return e.Kind == Unanswered }) {
		version = versionTimed
	} else if slices.ContainsFunc(j.Entries, func(e Entry) bool { return len(e.By) > 0 }) {
		version = versionAttributed
	} else if j.Trace != "" {
		version = versionTraced
	}
	first := version
	if j.PlainForms {
		first += plainForms
	}
	if j.Moved {
		first += moved
	}
	dst = append(dst, first)
	if version != versionUntraced {
		dst = appendBytes(dst, j.Trace)
	}
	dst = appendBytes(dst, j.ID)
	dst = binary.AppendUvarint(dst, uint64(j.Started.UnixMilli()))
	dst = binary.AppendUvarint(dst, uint64(j.Round))
	dst = appendBytes(dst, j.Manual)
	dst = binary.AppendUvarint(dst, uint64(len(j.Pending)))
	for _, q := range j.Pending {
		dst = appendBytes(dst, q.Key)
		if q.Wire == q.Key {
			dst = appendBytes(dst, "")
		} else {
			dst = appendBytes(dst, q.Wire)
		}
		dst = append(dst, q.Digest[:]...)
		if version == versionTimed {
			dst = appendTime(appendTime(dst, q.Asked), q.Deadline)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(j.Entries)))
	for i := range j.Entries {
		dst = j.Entries[i].Append(dst)
	}
	return dst
}

// Append appends the binary form of one entry to dst.
func (e *Entry) Append(dst []byte) []byte {
	if len(e.By) > 0 {
		dst = append(dst, attributed)
	}
	dst = append(dst, byte(e.Kind))
	dst = appendBytes(dst, e.Key)
	switch e.Kind {
	case Answer, Unread, Unanswered:
		dst = append(dst, e.Digest[:]...)
		dst = appendBytes(dst, e.Value)
	case Step:
		dst = appendBytes(dst, e.Value)
	}
	if len(e.By) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.By)))
	}
	for _, by := range e.By {
		dst = appendBytes(dst, by.Who)
		dst = binary.AppendUvarint(dst, uint64(by.When.UnixMilli()))
		dst = appendBytes(dst, by.Channel)
		dst = appendBytes(dst, by.Why)
	}
	return dst
}

// DecodeEntry reads what [Entry.Append] wrote. The value aliases data. The error is [ErrNewer] for an entry of a kind
// or version that this release does not know.
func DecodeEntry(data []byte) (Entry, error) {
	d := decoder{data: data}
	e := d.entry(true)
	if d.newer {
		return Entry{}, ErrNewer
	}
	if d.bad || len(d.data) > 0 {
		return Entry{}, errEncoding
	}
	return e, nil
}

// appendTime appends a time in milliseconds since 1970, and 0 for the zero time.
func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(t.UnixMilli()))
}

func appendBytes[T string | []byte](dst []byte, v T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// ErrNewer says that a release after this one has written an entry.
var ErrNewer = errors.New("a newer release has written the entry")

var errEncoding = errors.New("the journal's encoding is damaged, or newer than this program")

// Decode reads what [Journal.Append] wrote. Entry values alias data.
func Decode(data []byte) (*Journal, error) {
	d := decoder{data: data}
	var trace string
	first := d.byte()
	version := first &^ (plainForms | moved)
	switch version {
	case versionUntraced:
	case versionTraced, versionAttributed, versionTimed:
		if trace = string(d.bytes()); trace == "" && version == versionTraced {
			return nil, errEncoding
		}
	default:
		return nil, errEncoding
	}
	j := &Journal{
		Trace: trace, PlainForms: first&plainForms != 0, Moved: first&moved != 0,
		ID: string(d.bytes()), Started: time.UnixMilli(int64(d.uvarint())),
	}
	j.Round = d.count(1 << 30)
	j.Manual = string(d.bytes())
	// A question takes at least 18 bytes and an entry 2, so the remaining bytes bound
	// both counts, and a forged count allocates nothing.
	if n := d.count(len(d.data) / 18); n > 0 {
		j.Pending = make([]Question, n)
	}
	for i := range j.Pending {
		q := &j.Pending[i]
		q.Key, q.Wire = string(d.bytes()), string(d.bytes())
		if q.Wire == "" {
			q.Wire = q.Key
		}
		d.digest(&q.Digest)
		if version == versionTimed {
			q.Asked, q.Deadline = d.time(), d.time()
		}
	}
	if n := d.count(len(d.data) / 2); n > 0 {
		j.Entries = make([]Entry, n)
	}
	for i := range j.Entries {
		j.Entries[i] = d.entry(version == versionAttributed || version == versionTimed)
	}
	if d.bad || len(d.data) > 0 {
		return nil, errEncoding
	}
	return j, nil
}

// referenceMark is the first byte of a reference, and of no journal.
const referenceMark = "stored:"

// AppendReference appends a reference to a journal that is stored elsewhere: the mark, then
// the SHA-256 of the journal's binary form in hexadecimal. [Decode] refuses references.
func AppendReference(dst []byte, sum [sha256.Size]byte) []byte {
	return hex.AppendEncode(append(dst, referenceMark...), sum[:])
}

// DecodeReference reads what [AppendReference] wrote; ok is false for anything else.
func DecodeReference(data []byte) (sum [sha256.Size]byte, ok bool) {
	const mark = len(referenceMark)
	if len(data) != mark+2*len(sum) || string(data[:mark]) != referenceMark {
		return sum, false
	}
	if _, err := hex.Decode(sum[:], data[mark:]); err != nil {
		return sum, false
	}
	return sum, string(AppendReference(nil, sum)) == string(data) // not in another spelling
}

// decoder reads from data. After the first error all reads return zero values.
type decoder struct {
	data  []byte
	bad   bool
	newer bool // what is bad is an entry of another release
}

// entry reads an entry, which may be attributed.
func (d *decoder) entry(mayBeAttributed bool) (e Entry) {
	first := d.byte()
	isAttributed := first == attributed && mayBeAttributed
	if isAttributed {
		first = d.byte()
	}
	e.Kind = Kind(first)
	switch e.Kind {
	case Answer, Unread, Step, Checkpoint, Delivered, Unanswered:
	default:
		d.newer = !d.bad
		d.bad = true
		return Entry{}
	}
	e.Key = string(d.bytes())
	switch e.Kind {
	case Answer, Unread, Unanswered:
		d.digest(&e.Digest)
		e.Value = d.bytes()
	case Step:
		e.Value = d.bytes()
	}
	if isAttributed {
		e.By = make([]input.Provenance, d.count(len(d.data)/4)) // each takes at least 4 bytes
		d.bad = d.bad || len(e.By) == 0
	}
	for i := range e.By {
		e.By[i] = input.Provenance{
			Who: string(d.bytes()), When: time.UnixMilli(int64(d.uvarint())), Channel: string(d.bytes()), Why: string(d.bytes()),
		}
	}
	return e
}

func (d *decoder) byte() byte {
	if d.bad || len(d.data) == 0 {
		d.bad = true
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.data = d.data[n:]
	return v
}

// time reads what appendTime wrote.
func (d *decoder) time() time.Time {
	if v := d.uvarint(); v > 0 {
		return time.UnixMilli(int64(v))
	}
	return time.Time{}
}

func (d *decoder) count(most int) int {
	v := d.uvarint()
	if v > uint64(most) {
		d.bad = true
		return 0
	}
	return int(v)
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.data)) {
		d.bad = true
		return nil
	}
	b := d.data[:n:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) digest(to *Digest) {
	if d.bad || len(d.data) < len(to) {
		d.bad = true
		return
	}
	copy(to[:], d.data)
	d.data = d.data[len(to):]
}
