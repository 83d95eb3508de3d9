package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/input"
)

// version is the first byte of an encoded journal, and of an entry that is stored by itself. A change of their layout,
// such as another kind of entry, gets another one: an unknown kind is damage.
const version = 1

// The second byte of an encoded journal has a bit for each of its flags.
const (
	plainForms = 1 << iota
	moved
	flags = plainForms | moved
)

// Append appends the binary form of j to dst: the version, the flags, then the fields in order, strings and bytes
// behind their length as an unsigned varint. The wire key of a question is written only where it differs from the
// author's.
func (j *Journal) Append(dst []byte) []byte {
	var set byte
	if j.PlainForms {
		set |= plainForms
	}
	if j.Moved {
		set |= moved
	}
	dst = appendBytes(append(dst, version, set), j.Trace)
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
		dst = appendTime(appendTime(dst, q.Asked), q.Deadline)
	}
	dst = binary.AppendUvarint(dst, uint64(len(j.Entries)))
	for i := range j.Entries {
		dst = j.Entries[i].append(dst)
	}
	return dst
}

// Append appends the binary form of an entry that is stored by itself to dst: the version, and the entry.
func (e *Entry) Append(dst []byte) []byte { return e.append(append(dst, version)) }

func (e *Entry) append(dst []byte) []byte {
	has, _ := e.Kind.fields()
	kind := byte(e.Kind)
	if e.Receipt != nil {
		kind = withReceipt
	}
	dst = appendBytes(append(dst, kind), e.Key)
	if has.digest {
		dst = append(dst, e.Digest[:]...)
	}
	if has.value {
		dst = appendBytes(dst, e.Value)
	}
	if !has.by {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.By)))
	for _, by := range e.By {
		dst = appendBytes(dst, by.Who)
		dst = binary.AppendUvarint(dst, uint64(by.When.UnixMilli()))
		dst = appendBytes(dst, by.Channel)
		dst = appendBytes(dst, by.Why)
	}
	if e.Receipt != nil {
		dst = appendBytes(dst, e.Receipt)
	}
	return dst
}

// withReceipt is written in place of the kind Answer if a receipt follows.
const withReceipt = 'g'

// DecodeEntry decodes an entry of [Entry.Append]. The value aliases data. The error is [ErrNewer] for an entry of
// another version.
func DecodeEntry(data []byte) (Entry, error) {
	d := decoder{data: data}
	d.version()
	e := d.entry()
	return e, d.end()
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

// ErrNewer reports that a program of another version has written a journal, an entry or a call.
var ErrNewer = errors.New("a newer release has written it: let every instance run that release")

var errEncoding = errors.New("the journal's encoding is damaged")

// Decode decodes a journal of [Journal.Append]. Entry values alias data. The error is [ErrNewer] for a journal of
// another version.
func Decode(data []byte) (*Journal, error) {
	d := decoder{data: data}
	d.version()
	set := d.byte()
	d.bad = d.bad || set&^flags != 0
	j := &Journal{
		Trace: string(d.bytes()), PlainForms: set&plainForms != 0, Moved: set&moved != 0,
		ID: string(d.bytes()), Started: time.UnixMilli(int64(d.uvarint())),
	}
	j.Round = d.count(1 << 30)
	j.Manual = string(d.bytes())
	// A question takes at least 20 bytes and an entry 2, so the remaining bytes bound
	// both counts, and a forged count allocates nothing.
	if n := d.count(len(d.data) / 20); n > 0 {
		j.Pending = make([]Question, n)
	}
	for i := range j.Pending {
		q := &j.Pending[i]
		q.Key, q.Wire = string(d.bytes()), string(d.bytes())
		if q.Wire == "" {
			q.Wire = q.Key
		}
		d.digest(&q.Digest)
		q.Asked, q.Deadline = d.time(), d.time()
	}
	if n := d.count(len(d.data) / 2); n > 0 {
		j.Entries = make([]Entry, n)
	}
	for i := range j.Entries {
		j.Entries[i] = d.entry()
	}
	if err := d.end(); err != nil {
		return nil, err
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

// DecodeReference decodes a reference of [AppendReference]; ok is false for anything else.
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
	other byte // the foreign version, if that is why the data is bad
}

// version reads the version.
func (d *decoder) version() {
	if len(d.data) > 0 && d.data[0] != version {
		d.other, d.bad = d.data[0], true
	}
	d.byte()
}

// end returns the first error of the decoder, or an error for bytes that are left.
func (d *decoder) end() error {
	switch {
	case d.other != 0:
		return fmt.Errorf("a journal of version %d, where this program knows version %d: %w", d.other, version, ErrNewer)
	case d.bad || len(d.data) > 0:
		return errEncoding
	}
	return nil
}

func (d *decoder) entry() (e Entry) {
	kind := d.byte()
	if e.Kind = Kind(kind); kind == withReceipt {
		e.Kind = Answer
	}
	has, known := e.Kind.fields()
	if d.bad = d.bad || !known; d.bad {
		return Entry{}
	}
	e.Key = string(d.bytes())
	if has.digest {
		d.digest(&e.Digest)
	}
	if has.value {
		e.Value = d.bytes()
	}
	if !has.by {
		return e
	}
	if n := d.count(len(d.data) / 4); n > 0 { // each takes at least 4 bytes
		e.By = make([]input.Provenance, n)
	}
	for i := range e.By {
		e.By[i] = input.Provenance{
			Who: string(d.bytes()), When: time.UnixMilli(int64(d.uvarint())), Channel: string(d.bytes()), Why: string(d.bytes()),
		}
	}
	if kind == withReceipt {
		e.Receipt = d.bytes()
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

// time decodes a time of appendTime.
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
