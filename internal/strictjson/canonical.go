package strictjson

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"sync"
)

// Digest returns the SHA-256 of the canonical form of a checked value.
func Digest(value []byte) [32]byte {
	c := canonicalizers.Get().(*canonicalizer)
	defer c.release()
	c.form = c.canonical(c.form[:0], value)
	return sha256.Sum256(c.form)
}

// AppendCanonical appends the canonical form of a checked value, which the package
// comment defines, to dst and returns the extended buffer.
func AppendCanonical(dst, value []byte) []byte {
	c := canonicalizers.Get().(*canonicalizer)
	defer c.release()
	return c.canonical(dst, value)
}

// canonicalizer works in two passes: index lists the members, and append writes them in
// their canonical order. With the list, append never has to skip over a value, which
// would take time quadratic in the depth.
type canonicalizer struct {
	text
	members []member // of all objects, in the document's order of names
	order   []int32  // the sorted members of all objects that are being written
	scratch []byte   // memory for one unescaped value
	form    []byte   // memory for Digest
}

type member struct {
	name  span
	value int   // offset
	next  int32 // the first of members after all those inside value
	last  bool  // of its object
}

var canonicalizers = sync.Pool{New: func() any { return new(canonicalizer) }}

func (c *canonicalizer) release() {
	if c.text.release() {
		c.members, c.order = c.members[:0], c.order[:0]
		canonicalizers.Put(c)
	}
}

func (c *canonicalizer) canonical(dst, value []byte) []byte {
	c.data = value
	start := skipSpace(value, 0)
	end := c.index(start, 0)
	if end < 0 || skipSpace(value, end) != len(value) {
		return append(dst, value...) // it was never checked: any result will do
	}
	dst, _, _ = c.append(dst, start, 0)
	return dst
}

// index lists the members in the value at p, inside of depth containers, and
// returns the value's end, or -1 if it is malformed.
func (c *canonicalizer) index(p, depth int) int {
	if depth > MaxDepth {
		return -1
	}
	switch at(c.data, p) {
	case '{':
		return c.indexObject(p, depth)
	case '[':
		p = skipSpace(c.data, p+1)
		if at(c.data, p) == ']' {
			return p + 1
		}
		for {
			if p = c.index(p, depth+1); p < 0 {
				return -1
			}
			p = skipSpace(c.data, p)
			switch at(c.data, p) {
			case ',':
				p = skipSpace(c.data, p+1)
			case ']':
				return p + 1
			default:
				return -1
			}
		}
	}
	return skipValue(c.data, p)
}

func (c *canonicalizer) indexObject(p, depth int) int {
	p = skipSpace(c.data, p+1)
	if at(c.data, p) == '}' {
		return p + 1
	}
	for {
		name, value := memberName(c.data, p)
		if value < 0 {
			return -1
		}
		start, escaped := p+1, bytes.IndexByte(name, '\\') >= 0
		i := len(c.members)
		c.members = append(c.members, member{name: c.span(start, start+len(name), escaped), value: value})
		if p = c.index(value, depth+1); p < 0 {
			return -1
		}
		c.members[i].next = int32(len(c.members))
		p = skipSpace(c.data, p)
		switch at(c.data, p) {
		case ',':
			p = skipSpace(c.data, p+1)
		case '}':
			c.members[i].last = true
			return p + 1
		default:
			return -1
		}
	}
}

// append writes the value at p. m is the first of members inside the value, if it
// has any. It returns the value's end and the first of members after it.
func (c *canonicalizer) append(dst []byte, p, m int) (_ []byte, end, next int) {
	switch c.data[p] {
	case '{':
		return c.appendObject(dst, p, m)
	case '[':
		dst = append(dst, '[')
		p = skipSpace(c.data, p+1)
		for c.data[p] != ']' {
			dst, p, m = c.append(dst, p, m)
			p = skipSpace(c.data, p)
			if c.data[p] == ',' {
				dst = append(dst, ',')
				p = skipSpace(c.data, p+1)
			}
		}
		return append(dst, ']'), p + 1, m
	case '"':
		end = skipString(c.data, p)
		raw := c.data[p:end]
		if bytes.IndexByte(raw, '\\') < 0 {
			return append(dst, raw...), end, m // strict JSON leaves nothing else to escape
		}
		c.scratch = unescape(c.scratch[:0], raw[1:len(raw)-1])
		return appendString(dst, c.scratch), end, m
	}
	end = skipScalar(c.data, p)
	return appendScalar(dst, c.data[p:end]), end, m
}

func (c *canonicalizer) appendObject(dst []byte, p, m int) (_ []byte, end, next int) {
	p = skipSpace(c.data, p+1)
	if c.data[p] == '}' {
		return append(dst, '{', '}'), p + 1, m
	}
	base := len(c.order)
	for i := m; ; i = int(c.members[i].next) {
		c.order = append(c.order, int32(i))
		if c.members[i].last {
			break
		}
	}
	n := len(c.order)
	slices.SortFunc(c.order[base:], func(a, b int32) int {
		return compareUTF16(c.name(c.members[a].name), c.name(c.members[b].name))
	})
	separator := byte('{')
	for i := base; i < n; i++ {
		m := int(c.order[i])
		dst = append(dst, separator)
		separator = ','
		dst = append(appendString(dst, c.name(c.members[m].name)), ':')
		var valueEnd, valueNext int
		dst, valueEnd, valueNext = c.append(dst, c.members[m].value, m+1)
		// The object ends after the value that is last in the document.
		end, next = max(end, valueEnd), max(next, valueNext)
	}
	c.order = c.order[:base]
	return append(dst, '}'), skipSpace(c.data, end) + 1, next
}

// compareUTF16 compares two strings in UTF-8 by their UTF-16 code units. That
// differs from comparing bytes only where U+E000 to U+FFFF, which start with 0xEE
// or 0xEF, meet the characters that UTF-16 spells with surrogates, from 0xF0.
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
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
