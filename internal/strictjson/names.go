package strictjson

import (
	"bytes"
	"hash/maphash"
)

// text is a document and its unescaped names. It refers to names by offset, so that
// pooled memory never points into a document.
type text struct {
	data    []byte
	escaped []byte // the names with escapes, unescaped
}

// span is a range of data or, from len(data) on, a range of escaped.
type span struct{ start, end int }

// span returns the unescaped name of data[start:end].
func (t *text) span(start, end int, escaped bool) span {
	if !escaped {
		return span{start, end}
	}
	from := len(t.escaped)
	t.escaped = unescape(t.escaped, t.data[start:end])
	return span{len(t.data) + from, len(t.data) + len(t.escaped)}
}

func (t *text) name(s span) []byte {
	if s.start < len(t.data) {
		return t.data[s.start:s.end]
	}
	return t.escaped[s.start-len(t.data) : s.end-len(t.data)]
}

// release drops the document. It reports whether the document was so small that the
// memory it needed is worth keeping.
func (t *text) release() bool {
	const maxPooled = 64 << 10
	small := len(t.data) <= maxPooled
	t.data, t.escaped = nil, t.escaped[:0]
	return small
}

// maxLinear is the number of names up to which comparing one by one beats a table.
const maxLinear = 16

// seed is secret, so that no sender can choose names that collide.
var seed = maphash.MakeSeed()

// nameSet holds the names of one open object, which are checker.names[base:] as
// long as no object inside it is open.
type nameSet struct {
	base int
	// slots is a hash table with linear probing, at most half full: 0 is free, i
	// is the object's name number i-1. Nil for small objects. Unlike a map of
	// strings it needs no copies of the names.
	slots []uint32
}

// add reports whether name is new.
func (s *nameSet) add(c *checker, name span) bool {
	names := c.names[s.base:]
	if len(names) < maxLinear {
		for _, n := range names {
			if n.end-n.start == name.end-name.start && bytes.Equal(c.name(n), c.name(name)) {
				return false
			}
		}
	} else {
		if 2*len(names) >= len(s.slots) {
			s.grow(c, names)
		}
		slot, free := s.find(c, names, name)
		if !free {
			return false
		}
		s.slots[slot] = uint32(len(names) + 1)
	}
	c.names = append(c.names, name)
	return true
}

// find returns the slot of name, or the free slot where it belongs.
func (s *nameSet) find(c *checker, names []span, name span) (slot int, free bool) {
	b := c.name(name)
	mask := len(s.slots) - 1
	for i := int(maphash.Bytes(seed, b)); ; i++ {
		i &= mask
		n := s.slots[i]
		if n == 0 {
			return i, true
		}
		if bytes.Equal(c.name(names[n-1]), b) {
			return i, false
		}
	}
}

func (s *nameSet) grow(c *checker, names []span) {
	s.slots = make([]uint32, max(4*maxLinear, 2*len(s.slots)))
	for i, name := range names {
		slot, _ := s.find(c, names, name)
		s.slots[slot] = uint32(i + 1)
	}
}
