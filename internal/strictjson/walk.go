package strictjson

import (
	"bytes"
	"errors"
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

// Members calls f with the unescaped name and the raw value of every member of a
// checked object, in the order of the document, until f returns an error, which
// Members then returns. The value has no white space around it. Anything but an
// object gives an [*Error].
//
// It allocates only for names with escapes.
func Members(obj []byte, f func(name, value []byte) error) error {
	p := skipSpace(obj, 0)
	if at(obj, p) != '{' {
		return &Error{Kind: Syntax, Offset: p, reason: "want an object"}
	}
	p = skipSpace(obj, p+1)
	if at(obj, p) == '}' {
		return nil
	}
	for {
		name, start := memberName(obj, p)
		if start < 0 {
			return &Error{Kind: Syntax, Offset: p, reason: "want a member name"}
		}
		end := skipValue(obj, start)
		if end < 0 {
			return &Error{Kind: Syntax, Offset: start, reason: "want a value"}
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unescape(nil, name)
		}
		// Capped, so that appending to one cannot overwrite the document.
		if err := f(name[:len(name):len(name)], obj[start:end:end]); err != nil {
			return err
		}
		p = skipSpace(obj, end)
		switch at(obj, p) {
		case ',':
			p = skipSpace(obj, p+1)
		case '}':
			return nil
		default:
			return &Error{Kind: Syntax, Offset: p, reason: "want a comma or the end of the object"}
		}
	}
}

// Elements calls f with the raw value of every element of a checked array, in the
// order of the document, until f returns an error, which Elements then returns. The
// value has no white space around it. Anything but an array gives an [*Error].
//
// It allocates nothing.
func Elements(array []byte, f func(value []byte) error) error {
	p := skipSpace(array, 0)
	if at(array, p) != '[' {
		return &Error{Kind: Syntax, Offset: p, reason: "want an array"}
	}
	p = skipSpace(array, p+1)
	if at(array, p) == ']' {
		return nil
	}
	for {
		end := skipValue(array, p)
		if end < 0 {
			return &Error{Kind: Syntax, Offset: p, reason: "want a value"}
		}
		if err := f(array[p:end:end]); err != nil {
			return err
		}
		p = skipSpace(array, end)
		switch at(array, p) {
		case ',':
			p = skipSpace(array, p+1)
		case ']':
			return nil
		default:
			return &Error{Kind: Syntax, Offset: p, reason: "want a comma or the end of the array"}
		}
	}
}

// memberName returns the name at p, still escaped, and where its value starts,
// or -1 if there is no member.
func memberName(obj []byte, p int) (name []byte, value int) {
	if at(obj, p) != '"' {
		return nil, -1
	}
	end := skipString(obj, p)
	if end < 0 {
		return nil, -1
	}
	colon := skipSpace(obj, end)
	if at(obj, colon) != ':' {
		return nil, -1
	}
	return obj[p+1 : end-1], skipSpace(obj, colon+1)
}

var errFound = errors.New("found")

// Get returns the raw value of the member name of a checked object, or nil if there
// is no such member or obj is not an object. The value of a null member is the bytes
// null.
func Get(obj []byte, name string) []byte {
	var found []byte
	_ = Members(obj, func(n, value []byte) error {
		if string(n) == name {
			found = value
			return errFound
		}
		return nil
	})
	return found
}

// String returns the characters of a checked JSON string, unescaped. ok is false if
// value is not a string.
func String(value []byte) (s string, ok bool) {
	text, ok := Text(value)
	return string(text), ok
}

// Text is String in bytes. It allocates only for a string with escapes.
func Text(value []byte) (text []byte, ok bool) {
	start := skipSpace(value, 0)
	if at(value, start) != '"' {
		return nil, false
	}
	end := skipString(value, start)
	if end < 0 {
		return nil, false
	}
	text = value[start+1 : end-1 : end-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = unescape(nil, text)
	}
	return text, true
}

// AppendCompact appends a checked value, without the white space between its tokens, to
// dst and returns the extended buffer.
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
