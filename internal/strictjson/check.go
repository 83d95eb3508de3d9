package strictjson

import (
	"bytes"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting that Check ever allows, so that recursion stays
// bounded. It is encoding/json's limit too.
const MaxDepth = 10_000

// Check returns an [*Error] with the first reason why data is not exactly one
// strict JSON value, or nil if it is one. Strict means the syntax of RFC 8259, at
// most maxDepth levels of objects and arrays (a scalar has none, [] has one; more
// than [MaxDepth] counts as MaxDepth), no duplicate names in any object, valid
// UTF-8 and no lone surrogate escapes. White space around the value is allowed, a
// byte order mark is not.
//
// It allocates nothing for valid documents of usual size as long as no object has
// more than 16 members.
func Check(data []byte, maxDepth int) error {
	c := checkers.Get().(*checker)
	defer c.release()
	c.text.data, c.maxDepth = data, min(maxDepth, MaxDepth)
	p := c.value(skipSpace(data, 0), 0)
	if p >= 0 {
		if p = skipSpace(data, p); p == len(data) {
			return nil
		}
		c.fail(p, Syntax, "bytes after the value")
	}
	err := c.err
	return &err
}

type checker struct {
	text
	maxDepth int
	names    []span // the names so far of all objects that are open
	err      Error
}

var checkers = sync.Pool{New: func() any { return new(checker) }}

func (c *checker) release() {
	if c.text.release() {
		c.names = c.names[:0]
		checkers.Put(c)
	}
}

// fail records the error and returns -1. Every method below returns -1 for an error,
// and otherwise the end of the value or token that it has read.
func (c *checker) fail(p int, kind Kind, reason string) int {
	c.err = Error{Kind: kind, Offset: p, reason: reason}
	return -1
}

// unexpected fails because the byte at p is not what the syntax wants there.
func (c *checker) unexpected(p int, wanted string) int {
	if p >= len(c.data) {
		return c.fail(len(c.data), Syntax, "unexpected end, want "+wanted)
	}
	return c.fail(p, Syntax, "want "+wanted)
}

// value reads the value at p; depth counts the containers around it.
func (c *checker) value(p, depth int) int {
	switch at(c.data, p) {
	case '{':
		return c.object(p, depth+1)
	case '[':
		return c.array(p, depth+1)
	case '"':
		end, _ := c.string(p)
		return end
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return c.number(p)
	case 't':
		return c.literal(p, "true")
	case 'f':
		return c.literal(p, "false")
	case 'n':
		return c.literal(p, "null")
	}
	return c.unexpected(p, "a value")
}

func (c *checker) tooDeep(p int) int {
	return c.fail(p, Depth, "nested deeper than the limit of "+strconv.Itoa(c.maxDepth))
}

func (c *checker) object(p, depth int) int {
	if depth > c.maxDepth {
		return c.tooDeep(p)
	}
	p = skipSpace(c.data, p+1)
	if at(c.data, p) == '}' {
		return p + 1
	}
	seen := nameSet{base: len(c.names)}
	for {
		if at(c.data, p) != '"' {
			return c.unexpected(p, "a member name")
		}
		start := p
		end, escaped := c.string(p)
		if end < 0 {
			return -1
		}
		if !seen.add(c, c.span(start+1, end-1, escaped)) {
			return c.fail(start, Duplicate, "duplicate member name")
		}
		p = skipSpace(c.data, end)
		if at(c.data, p) != ':' {
			return c.unexpected(p, "a colon")
		}
		if p = c.value(skipSpace(c.data, p+1), depth); p < 0 {
			return -1
		}
		p = skipSpace(c.data, p)
		switch at(c.data, p) {
		case ',':
			p = skipSpace(c.data, p+1)
		case '}':
			c.names = c.names[:seen.base]
			return p + 1
		default:
			return c.unexpected(p, "a comma or the end of the object")
		}
	}
}

func (c *checker) array(p, depth int) int {
	if depth > c.maxDepth {
		return c.tooDeep(p)
	}
	p = skipSpace(c.data, p+1)
	if at(c.data, p) == ']' {
		return p + 1
	}
	for {
		if p = c.value(p, depth); p < 0 {
			return -1
		}
		p = skipSpace(c.data, p)
		switch at(c.data, p) {
		case ',':
			p = skipSpace(c.data, p+1)
		case ']':
			return p + 1
		default:
			return c.unexpected(p, "a comma or the end of the array")
		}
	}
}

// string reads the string whose opening quote is at p.
func (c *checker) string(p int) (end int, escaped bool) {
	for p++; ; {
		p = skipPlain(c.data, p)
		if p >= len(c.data) {
			return c.unexpected(p, "the end of the string"), false
		}
		switch b := c.data[p]; {
		case b == '"':
			return p + 1, escaped
		case b == '\\':
			escaped = true
			if p = c.escape(p); p < 0 {
				return -1, false
			}
		case b < ' ':
			return c.fail(p, Syntax, "control character in a string"), false
		default:
			for p < len(c.data) && c.data[p] >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(c.data[p:])
				if r == utf8.RuneError && size == 1 {
					return c.fail(p, Encoding, "invalid UTF-8"), false
				}
				p += size
			}
		}
	}
}

// escape reads the escape whose backslash is at p.
func (c *checker) escape(p int) int {
	switch at(c.data, p+1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return p + 2
	}
	r := hexEscape(c.data[p:])
	if r < 0 {
		return c.fail(p, Syntax, "invalid escape")
	}
	if !utf16.IsSurrogate(r) {
		return p + 6
	}
	if utf16.DecodeRune(r, hexEscape(c.data[p+6:])) == utf8.RuneError {
		return c.fail(p, Encoding, "lone surrogate")
	}
	return p + 12
}

func (c *checker) number(p int) int {
	if at(c.data, p) == '-' {
		p++
	}
	digits := p
	if p = skipDigits(c.data, p); p == digits {
		return c.unexpected(p, "a digit")
	}
	if c.data[digits] == '0' && p > digits+1 {
		return c.fail(digits, Syntax, "number with a leading zero")
	}
	if at(c.data, p) == '.' {
		digits = p + 1
		if p = skipDigits(c.data, digits); p == digits {
			return c.unexpected(p, "a digit")
		}
	}
	if b := at(c.data, p); b == 'e' || b == 'E' {
		p++
		if b := at(c.data, p); b == '+' || b == '-' {
			p++
		}
		digits = p
		if p = skipDigits(c.data, digits); p == digits {
			return c.unexpected(p, "a digit")
		}
	}
	return p
}

func (c *checker) literal(p int, word string) int {
	if !bytes.HasPrefix(c.data[p:], []byte(word)) {
		return c.fail(p, Syntax, "unknown literal")
	}
	return p + len(word)
}
