package strictjson

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
)

// Digest returns the SHA-256 of the canonical form of a checked value.
func Digest(value []byte) [32]byte {
	r := readers.Get().(*reader)
	defer r.release()
	r.form = r.canonical(r.form[:0], value)
	return sha256.Sum256(r.form)
}

// AppendCanonical appends the canonical form of a checked value, which the package comment defines, to dst and
// returns the extended buffer.
func AppendCanonical(dst, value []byte) []byte {
	r := readers.Get().(*reader)
	defer r.release()
	return r.canonical(dst, value)
}

// canonical works in two passes: document lists the members, and append writes them in their canonical order. With
// the list, append never has to skip over a value, which would take time quadratic in the depth.
func (r *reader) canonical(dst, value []byte) []byte {
	r.data, r.maxDepth, r.indexing = value, MaxDepth, true
	if !r.document() {
		return append(dst, value...) // it was never checked: any result will do
	}
	dst, _, _ = r.append(dst, skipSpace(value, 0), 0)
	return dst
}

// append writes the value at p. m is the first of members inside the value, if it has any. It returns the value's end
// and the first of members after it.
func (r *reader) append(dst []byte, p, m int) (_ []byte, end, next int) {
	switch r.data[p] {
	case '{':
		return r.appendObject(dst, p, m)
	case '[':
		dst = append(dst, '[')
		p = skipSpace(r.data, p+1)
		for r.data[p] != ']' {
			dst, p, m = r.append(dst, p, m)
			p = skipSpace(r.data, p)
			if r.data[p] == ',' {
				dst = append(dst, ',')
				p = skipSpace(r.data, p+1)
			}
		}
		return append(dst, ']'), p + 1, m
	case '"':
		end = skipString(r.data, p)
		raw := r.data[p:end]
		if bytes.IndexByte(raw, '\\') < 0 {
			return append(dst, raw...), end, m // strict JSON leaves nothing else to escape
		}
		r.scratch = unescape(r.scratch[:0], raw[1:len(raw)-1])
		return appendString(dst, r.scratch), end, m
	}
	end = skipScalar(r.data, p)
	return appendScalar(dst, r.data[p:end]), end, m
}

func (r *reader) appendObject(dst []byte, p, m int) (_ []byte, end, next int) {
	p = skipSpace(r.data, p+1)
	if r.data[p] == '}' {
		return append(dst, '{', '}'), p + 1, m
	}
	base := len(r.order)
	for i := m; ; i = int(r.members[i].next) {
		r.order = append(r.order, int32(i))
		if r.members[i].last {
			break
		}
	}
	n := len(r.order)
	slices.SortFunc(r.order[base:], func(a, b int32) int {
		return compareUTF16(r.name(r.members[a].name), r.name(r.members[b].name))
	})
	separator := byte('{')
	for i := base; i < n; i++ {
		m := int(r.order[i])
		dst = append(dst, separator)
		separator = ','
		dst = append(appendString(dst, r.name(r.members[m].name)), ':')
		var valueEnd, valueNext int
		dst, valueEnd, valueNext = r.append(dst, r.members[m].value, m+1)
		// The object ends after the value that is last in the document.
		end, next = max(end, valueEnd), max(next, valueNext)
	}
	r.order = r.order[:base]
	return append(dst, '}'), skipSpace(r.data, end) + 1, next
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
