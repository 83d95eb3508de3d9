package strictjson

import (
	"crypto/sha256"
	"hash"
	"slices"
	"strings"
	"sync"
)

// Digest returns the SHA-256 of the canonical form of a checked value.
func Digest(value []byte) [32]byte {
	w := writers.Get().(*writer)
	defer w.release()
	if !w.whole(value) {
		return sha256.Sum256(value) // it was never checked: any result will do
	}
	return w.digest()
}

// AppendCanonical appends the canonical form of a checked value, which the package comment defines, to dst and
// returns the extended buffer.
func AppendCanonical(dst, value []byte) []byte { return appendForm(dst, value, false) }

// AppendJCS appends a checked value in the form of RFC 8785, the JSON Canonicalization Scheme. It differs from that in
// numbers that no float64 has exactly: they keep all their digits.
func AppendJCS(dst, value []byte) []byte { return appendForm(dst, value, true) }

func appendForm(dst, value []byte, jcs bool) []byte {
	w := writers.Get().(*writer)
	defer w.release()
	w.jcs = jcs
	if !w.whole(value) {
		return append(dst, value...) // it was never checked: any result will do
	}
	return w.gather(dst, 0, len(w.text), 0)
}

// writer makes the canonical form of one value. First write puts every token of the value into text, in canonical form
// and in the document's order, where only small objects are put in order at once. Then gather copies text with the
// members of the other objects in order. So no byte is moved more than a bounded number of times, at any depth.
type writer struct {
	reader
	text    []byte
	from    int // offset in data: the bytes from here on are canonical as they stand, and not yet in text
	scratch []byte
	jcs     bool     // Numbers are written as RFC 8785 does.
	open    []member // those so far of all objects that are open
	order   []int32  // The order of the members of the last object that was out of order.
	// objects holds the objects to gather, ordered by their start: objects with members out of order, and the objects
	// that contain them.
	objects []unsorted
	members []member // The members of objects.

	hashing bool // What is gathered goes into hash, part after part.
	hash    hash.Hash
	part    []byte
}

type unsorted struct {
	start, end int // in text
	first, n   int // its members, in their order; none if text has them in that order
	next       int // the first of objects after all those inside
}

// member is a member of an object, with its name.
type member struct {
	name       span
	start, end int // in text
	next       int // the first of objects that may be inside
}

var writers = sync.Pool{New: func() any { return &writer{hash: sha256.New()} }}

// release drops the value, and keeps the memory for the next one if the value was small.
func (w *writer) release() {
	small := len(w.data) <= maxPooled
	w.data, w.hashing, w.jcs = nil, false, false
	if small {
		writers.Put(w)
	}
}

// whole reports whether value is one strict JSON value, and makes its text.
func (w *writer) whole(value []byte) bool {
	p := w.write(value, skipSpace(value, 0), 0, MaxDepth)
	return p >= 0 && skipSpace(value, p) == len(value)
}

// write makes the text of the value at p of data, around which there are depth containers. It returns the end of the
// value, or -1 if that is not strict JSON.
func (w *writer) write(data []byte, p, depth, maxDepth int) int {
	if size := len(data) - p; cap(w.text) < size {
		w.text = make([]byte, 0, size+size/8)
	}
	w.data, w.maxDepth, w.wide, w.from = data, maxDepth, false, p
	w.escaped, w.text, w.open, w.objects, w.members = w.escaped[:0], w.text[:0], w.open[:0], w.objects[:0], w.members[:0]
	if p = w.value(p, depth); p >= 0 {
		w.flush(p)
	}
	return p
}

// digest returns the SHA-256 of the canonical form.
func (w *writer) digest() [32]byte {
	if len(w.objects) == 0 {
		return sha256.Sum256(w.text)
	}
	w.hash.Reset()
	w.hashing = true
	w.part = w.gather(w.part[:0], 0, len(w.text), 0)
	w.hash.Write(w.part)
	w.part = w.hash.Sum(w.part[:0])
	return [32]byte(w.part)
}

// flush copies the bytes up to p into text.
func (w *writer) flush(p int) {
	w.text = append(w.text, w.data[w.from:p]...)
	w.from = p
}

// position returns the offset in text that the byte at p will have.
func (w *writer) position(p int) int { return len(w.text) + p - w.from }

// space reads white space, which the canonical form has not.
func (w *writer) space(p int) int {
	if p < len(w.data) && w.data[p] > ' ' {
		return p
	}
	return w.spaces(p)
}

func (w *writer) spaces(p int) int {
	end := skipSpace(w.data, p)
	if end > p {
		w.flush(p)
		w.from = end
	}
	return end
}

// value reads the value at p. It and the methods below return an offset or -1, like the methods of reader.
func (w *writer) value(p, depth int) (end int) {
	switch at(w.data, p) {
	case '{':
		return w.object(p, depth+1)
	case '[':
		return w.array(p, depth+1)
	case '"':
		if end = skipPlain(w.data, p+1); at(w.data, end) == '"' {
			return end + 1
		}
		return w.string(p)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return w.number(p)
	}
	return w.reader.value(p, depth)
}

func (w *writer) string(p int) (end int) {
	end, escaped := w.reader.string(p)
	if escaped && end >= 0 {
		w.scratch = unescape(w.scratch[:0], w.data[p+1:end-1])
		w.flush(p)
		w.text = appendString(w.text, w.scratch)
		w.from = end
	}
	return end
}

func (w *writer) number(p int) (end int) {
	if end = w.reader.number(p); end >= 0 {
		w.flush(p)
		if w.jcs {
			w.text = appendJCSNumber(w.text, w.data[p:end])
		} else {
			w.text = appendNumber(w.text, w.data[p:end])
		}
		w.from = end
	}
	return end
}

func (w *writer) array(p, depth int) int {
	if depth > w.maxDepth {
		return -1
	}
	if p = w.space(p + 1); at(w.data, p) == ']' {
		return p + 1
	}
	for {
		if p = w.value(p, depth); p < 0 {
			return -1
		}
		p = w.space(p)
		switch at(w.data, p) {
		case ',':
			p = w.space(p + 1)
		case ']':
			return p + 1
		default:
			return -1
		}
	}
}

func (w *writer) object(p, depth int) int {
	if depth > w.maxDepth {
		return -1
	}
	start := w.position(p)
	if p = w.space(p + 1); at(w.data, p) == '}' {
		return p + 1
	}
	this, base, sorted := len(w.objects), len(w.open), true
	w.objects = append(w.objects, unsorted{start: start})
	for {
		m := member{start: w.position(p), next: len(w.objects)}
		if m.name, p = w.memberName(p); p < 0 {
			return -1
		}
		if i := len(w.open) - 1; i >= base && sorted {
			sorted = compareUTF16(w.name(w.open[i].name), w.name(m.name)) < 0
		}
		if p = w.value(p, depth); p < 0 {
			return -1
		}
		m.end = w.position(p)
		w.open = append(w.open, m)
		p = w.space(p)
		switch at(w.data, p) {
		case ',':
			p = w.space(p + 1)
		case '}':
			if !w.endObject(p+1, this, base, sorted) {
				return -1
			}
			return p + 1
		default:
			return -1
		}
	}
}

// memberName reads the name at p and its colon. It returns where the value starts.
func (w *writer) memberName(p int) (name span, value int) {
	if end := skipPlain(w.data, p+1); at(w.data, p) == '"' && at(w.data, end) == '"' && at(w.data, end+1) == ':' {
		return span{p + 1, end}, w.space(end + 2)
	}
	name, end := w.reader.memberName(p)
	if end < 0 {
		return name, -1
	}
	if name.start >= len(w.data) { // it has escapes
		w.flush(p)
		w.text = appendString(w.text, w.name(name))
		w.from = end
	}
	if p = w.space(end); at(w.data, p) != ':' {
		return name, -1
	}
	return name, w.space(p + 1)
}

// endObject ends the object w.objects[this], whose members are w.open[base:], before p. It reports false if two of them
// have the same name.
func (w *writer) endObject(p, this, base int, sorted bool) bool {
	// Where objects are nested, each of them moves its bytes: small must be small.
	const small = 512
	o, members := &w.objects[this], w.open[base:]
	w.open = w.open[:base]
	leaf := len(w.objects) == this+1
	if !sorted && !w.sort(members) {
		return false
	}
	switch {
	case sorted && leaf:
		w.objects = w.objects[:this]
	case sorted:
	case leaf && w.position(p)-o.start <= small:
		// Every member moves with the byte behind it, a comma or the bracket, which is then set right.
		w.flush(p)
		w.scratch = append(w.scratch[:0], w.text[o.start:]...)
		to := o.start + 1
		for _, i := range w.order {
			to += copy(w.text[to:], w.scratch[members[i].start-o.start:members[i].end-o.start+1])
			w.text[to-1] = ','
		}
		w.text[to-1] = '}'
		w.objects = w.objects[:this]
	default:
		o.end, o.first, o.n, o.next = w.position(p), len(w.members), len(members), len(w.objects)
		for _, i := range w.order {
			w.members = append(w.members, members[i])
		}
	}
	return true
}

// sort puts the members into order, which is often the order of the object before. It reports false if two of them have
// the same name.
func (w *writer) sort(members []member) bool {
	if len(w.order) != len(members) {
		w.order = w.order[:0]
		for i := range members {
			w.order = append(w.order, int32(i))
		}
	}
	compare := func(i, j int32) int { return compareUTF16(w.name(members[i].name), w.name(members[j].name)) }
	ascending := func() bool {
		for i := 1; i < len(w.order); i++ {
			if compare(w.order[i-1], w.order[i]) >= 0 {
				return false
			}
		}
		return true
	}
	if ascending() {
		return true
	}
	slices.SortFunc(w.order, compare)
	return ascending()
}

// gather appends text[start:end] with all members in order. The first of objects that may be there is next.
func (w *writer) gather(dst []byte, start, end, next int) []byte {
	for next < len(w.objects) && w.objects[next].start < end {
		o := w.objects[next]
		if o.n == 0 {
			next++
			continue
		}
		dst = w.emit(dst, w.text[start:o.start])
		separator := byte('{')
		for _, m := range w.members[o.first : o.first+o.n] {
			dst = append(dst, separator)
			dst = w.gather(dst, m.start, m.end, m.next)
			separator = ','
		}
		dst = append(dst, '}')
		start, next = o.end, o.next
	}
	return w.emit(dst, w.text[start:end])
}

// emit appends text to dst, or writes dst and text to the hash.
func (w *writer) emit(dst, text []byte) []byte {
	const part = 4 << 10
	if !w.hashing || len(dst)+len(text) <= part {
		return append(dst, text...)
	}
	w.hash.Write(dst)
	w.hash.Write(text)
	return dst[:0]
}

// compareUTF16 compares two strings in UTF-8 by their UTF-16 code units. That differs from comparing bytes only where
// U+E000 to U+FFFF, which start with 0xEE or 0xEF, meet the characters that UTF-16 spells with surrogates, from 0xF0.
func compareUTF16(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE {
			x, y = afterSurrogates(x), afterSurrogates(y)
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}

func afterSurrogates(lead byte) byte {
	if lead < 0xF0 {
		return lead + 0x10
	}
	return lead
}

// AppendString appends a string, which must be valid UTF-8, in canonical form.
func AppendString(dst []byte, s string) []byte { return appendString(dst, []byte(s)) }

// appendString appends s in quotes with the escapes of RFC 8785.
func appendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for p := skipPlain(s, 0); p < len(s); p = skipPlain(s, p) {
		b := s[p]
		p++
		if b >= 0x80 {
			continue
		}
		dst = append(dst, s[from:p-1]...)
		from = p
		if i := strings.IndexByte(meanings, b); i >= 0 {
			dst = append(dst, '\\', letters[i])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
