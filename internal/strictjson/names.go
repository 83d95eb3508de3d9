package strictjson

import (
	"bytes"
	"hash/maphash"
)

// span is a range of data or, from len(data) on, a range of escaped.
type span struct{ start, end int }

// span returns the unescaped name of data[start:end].
func (r *reader) span(start, end int, escaped bool) span {
	if !escaped {
		return span{start, end}
	}
	from := len(r.escaped)
	r.escaped = unescape(r.escaped, r.data[start:end])
	return span{len(r.data) + from, len(r.data) + len(r.escaped)}
}

func (r *reader) name(s span) []byte {
	if s.start < len(r.data) {
		return r.data[s.start:s.end]
	}
	return r.escaped[s.start-len(r.data) : s.end-len(r.data)]
}

// maxLinear is the number of names up to which comparing one by one beats a table.
const maxLinear = 16

// seed is secret, so that no sender can choose names that collide.
var seed = maphash.MakeSeed()

// nameSet holds the names of one open object, which stand in reader.names[base:] as long as no object inside it is
// open.
type nameSet struct {
	base int
	// slots is a hash table with linear probing, at most half full: 0 is free, i is the object's name number i-1. Nil
	// for small objects. Unlike a map of strings it needs no copies of the names.
	slots []uint32
}

// add reports whether name is new. If it is, the caller appends it to the reader's.
func (s *nameSet) add(r *reader, name span) bool {
	names := r.names[s.base:]
	if len(names) < maxLinear {
		for _, other := range names {
			if other.end-other.start == name.end-name.start && bytes.Equal(r.name(other), r.name(name)) {
				return false
			}
		}
	} else {
		if 2*len(names) >= len(s.slots) {
			s.grow(r, names)
		}
		slot, free := s.find(r, names, name)
		if !free {
			return false
		}
		s.slots[slot] = uint32(len(names) + 1)
	}
	return true
}

// find returns the slot of name, or the free slot where it belongs.
func (s *nameSet) find(r *reader, names []span, name span) (slot int, free bool) {
	b := r.name(name)
	mask := len(s.slots) - 1
	for i := int(maphash.Bytes(seed, b)); ; i++ {
		i &= mask
		n := s.slots[i]
		if n == 0 {
			return i, true
		}
		if bytes.Equal(r.name(names[n-1]), b) {
			return i, false
		}
	}
}

func (s *nameSet) grow(r *reader, names []span) {
	s.slots = make([]uint32, max(4*maxLinear, 2*len(s.slots)))
	for i, name := range names {
		slot, _ := s.find(r, names, name)
		s.slots[slot] = uint32(i + 1)
	}
}
