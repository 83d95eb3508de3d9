package strictjson

import (
	"bytes"
	"iter"
)

// Type is the type of a JSON value.
type Type uint8

// The types of JSON values.
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
	c := At(value)
	return c.Type()
}

// Members yields the unescaped name and the raw value of every member of a checked object, in the order of the
// document. The value has no white space around it. Anything but an object has no members.
//
// It allocates only for names with escapes.
func Members(obj []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) { members(obj, yield) }
}

func members(obj []byte, yield func(name, value []byte) bool) {
	c := At(obj)
	c.members(func(name []byte) bool {
		value := c.Value()
		return value != nil && yield(name, value)
	})
}

// Elements yields the raw value of every element of a checked array, in the order of the document. The value has no
// white space around it. Anything but an array has no elements.
//
// It allocates nothing.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) { elements(array, yield) }
}

func elements(array []byte, yield func(value []byte) bool) {
	c := At(array)
	c.elements(func(int) bool {
		value := c.Value()
		return value != nil && yield(value)
	})
}

// Cursor is at a value of a checked document. With it nested values are read in one pass, where Members and Elements
// pass over what is in a value once more for each level.
type Cursor struct {
	data []byte
	p    int
}

// At returns a cursor at a checked value.
func At(value []byte) Cursor { return Cursor{value, skipSpace(value, 0)} }

// Type returns the type of the value at the cursor.
func (c *Cursor) Type() Type {
	switch at(c.data, c.p) {
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

// Value returns the raw value at the cursor and moves behind it. It returns nil if there is no value.
func (c *Cursor) Value() []byte {
	start, end := c.p, skipValue(c.data, c.p)
	if end < 0 {
		c.p = len(c.data)
		return nil
	}
	c.p = end
	return c.data[start:end:end] // capped, so that appending to it cannot overwrite the document
}

// Text returns the characters of the string at the cursor, unescaped, and moves behind it. ok is false, and the cursor
// where it was, if there is no string. It allocates only for a string with escapes.
func (c *Cursor) Text() (text []byte, ok bool) {
	if at(c.data, c.p) != '"' {
		return nil, false
	}
	start := c.p + 1
	if end := skipPlain(c.data, start); at(c.data, end) == '"' {
		c.p = end + 1
		return c.data[start:end:end], true
	}
	end := skipString(c.data, c.p)
	if end < 0 {
		return nil, false
	}
	text, c.p = unquote(c.data[c.p:end]), end
	return text, true
}

// Members yields the unescaped name of every member of the object at the cursor, with the cursor at the member's value.
// The loop's body reads that value with the cursor or leaves it alone. A loop that ends by itself leaves the cursor
// behind the object. Anything but an object has no members.
func (c *Cursor) Members() iter.Seq[[]byte] {
	return func(yield func(name []byte) bool) { c.members(yield) }
}

func (c *Cursor) members(yield func(name []byte) bool) {
	if at(c.data, c.p) != '{' {
		return
	}
	for c.p = skipSpace(c.data, c.p+1); at(c.data, c.p) == '"'; c.p = skipSpace(c.data, c.p+1) {
		name, ok := c.Text()
		if c.p = skipSpace(c.data, c.p); !ok || at(c.data, c.p) != ':' {
			return
		}
		c.p = skipSpace(c.data, c.p+1)
		if start := c.p; !yield(name) || !c.next(start) {
			return
		}
	}
	c.p++ // the bracket of an object without members
}

// Elements yields the index of every element of the array at the cursor, with the cursor at the element, as Members
// does for members.
func (c *Cursor) Elements() iter.Seq[int] {
	return func(yield func(i int) bool) { c.elements(yield) }
}

func (c *Cursor) elements(yield func(i int) bool) {
	if at(c.data, c.p) != '[' {
		return
	}
	c.p = skipSpace(c.data, c.p+1)
	for i := 0; at(c.data, c.p) != ']'; i++ {
		if start := c.p; !yield(i) || !c.next(start) {
			return
		}
		c.p = skipSpace(c.data, c.p+1)
	}
	c.p++
}

// next moves from a value that starts at start, which may have been read, to the comma behind it. It reports false
// behind the last value, whose closing bracket it passes.
func (c *Cursor) next(start int) bool {
	if c.p == start {
		c.Value()
	}
	c.p = skipSpace(c.data, c.p)
	if at(c.data, c.p) == ',' {
		return true
	}
	c.p++
	return false
}

// Numbers yields every number in the value at the cursor, at any depth, in the order of the document, and moves behind
// the value.
func (c *Cursor) Numbers() iter.Seq[[]byte] {
	return func(yield func(number []byte) bool) { c.numbers(yield) }
}

func (c *Cursor) numbers(yield func(number []byte) bool) {
	for depth := 0; c.p < len(c.data); {
		switch turn := turns[c.data[c.p]]; turn {
		case 0: // A scalar, or white space, a comma or a colon within brackets.
			start, first := c.p, c.data[c.p]
			c.p = max(skipScalar(c.data, start), start+1)
			if (first == '-' || first-'0' <= 9) && !yield(c.data[start:c.p:c.p]) {
				return
			}
		case quote:
			if c.p = skipString(c.data, c.p); c.p < 0 {
				c.p = len(c.data)
			}
		default:
			c.p++
			depth += int(turn)
		}
		if depth == 0 {
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
	c := At(value)
	return c.Text()
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
