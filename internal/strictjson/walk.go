package strictjson

import (
	"bytes"
	"iter"
)

// Type is the type of a JSON value.
type Type uint8

const (
	TypeInvalid Type = iota // the type of no bytes at all, such as an absent member
	TypeObject
	TypeArray
	TypeString
	TypeNumber
	TypeBool
	TypeNull
)

// TypeOf returns the type of a checked value, which its first byte determines.
func TypeOf(value []byte) Type {
	switch at(value, skipSpace(value, 0)) {
	case '{':
		return TypeObject
	case '[':
		return TypeArray
	case '"':
		return TypeString
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return TypeNumber
	case 't', 'f':
		return TypeBool
	case 'n':
		return TypeNull
	}
	return TypeInvalid
}

// Members yields the unescaped name and the raw value of every member of a checked object, in the order of the
// document. The value has no white space around it. Anything but an object has no members.
//
// It allocates only for names with escapes.
func Members(obj []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) { walk(obj, '{', yield) }
}

// Elements yields the raw value of every element of a checked array, in the order of the document. The value has no
// white space around it. Anything but an array has no elements.
//
// It allocates nothing.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		walk(array, '[', func(_, value []byte) bool { return yield(value) })
	}
}

// Numbers yields every number in a checked value, at any depth, in the order of the document.
//
// It allocates nothing.
func Numbers(value []byte) iter.Seq[[]byte] {
	return func(yield func(number []byte) bool) {
		for p := 0; p < len(value); {
			switch b := value[p]; {
			case b == '"':
				if p = skipString(value, p); p < 0 {
					return
				}
			case b == '-' || b-'0' <= 9:
				start := p
				if p = skipScalar(value, p); !yield(value[start:p:p]) {
					return
				}
			default:
				p++
			}
		}
	}
}

// walk yields the members of an object or, with nil names, the elements of an array, whichever begins with open.
func walk(data []byte, open byte, yield func(name, value []byte) bool) {
	p := skipSpace(data, 0)
	if at(data, p) != open {
		return
	}
	for {
		p = skipSpace(data, p+1) // after the bracket or a comma
		var name []byte
		if open == '{' {
			end := skipString(data, p)
			if at(data, p) != '"' || end < 0 {
				return
			}
			name = unquote(data[p:end])
			if p = skipSpace(data, end); at(data, p) != ':' {
				return
			}
			p = skipSpace(data, p+1)
		}
		end := skipValue(data, p)
		// Capped, so that appending to one cannot overwrite the document.
		if end < 0 || !yield(name, data[p:end:end]) {
			return
		}
		if p = skipSpace(data, end); at(data, p) != ',' {
			return
		}
	}
}

// Get returns the raw value of the member name of a checked object, or nil if there is no such member or obj is not
// an object. The value of a null member is the bytes null.
func Get(obj []byte, name string) []byte {
	for n, value := range Members(obj) {
		if string(n) == name {
			return value
		}
	}
	return nil
}

// String returns the characters of a checked JSON string, unescaped. ok is false if value is not a string.
func String(value []byte) (s string, ok bool) {
	text, ok := Text(value)
	return string(text), ok
}

// Text is String in bytes. It allocates only for a string with escapes.
func Text(value []byte) (text []byte, ok bool) {
	start := skipSpace(value, 0)
	end := skipString(value, start)
	if at(value, start) != '"' || end < 0 {
		return nil, false
	}
	return unquote(value[start:end]), true
}

// unquote returns the text of a string in quotes.
func unquote(raw []byte) []byte {
	end := len(raw) - 1
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unescape(nil, raw[1:end])
	}
	return raw[1:end:end]
}

// AppendCompact appends a checked value, without the white space between its tokens, to dst and returns the extended
// buffer.
func AppendCompact(dst, value []byte) []byte {
	for p := skipSpace(value, 0); p < len(value); p = skipSpace(value, p) {
		start := p
		switch value[p] {
		case '"':
			if p = skipString(value, p); p < 0 {
				return append(dst, value[start:]...) // never checked, so any result will do
			}
		case '{', '}', '[', ']', ':', ',':
			p++
		default:
			p = skipScalar(value, p)
		}
		dst = append(dst, value[start:p]...)
	}
	return dst
}
