package strictjson

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting that Check ever allows, so that recursion stays bounded. It is encoding/json's
// limit too.
const MaxDepth = 10_000

// Check returns an [*Error] with the first reason why data is not exactly one strict JSON value, or nil if it is one.
// Strict means the syntax of RFC 8259, at most maxDepth levels of objects and arrays (a scalar has none, [] has one;
// more than [MaxDepth] counts as MaxDepth), no duplicate names in any object, valid UTF-8 and no lone surrogate
// escapes. White space around the value is allowed, a byte order mark is not.
//
// It allocates nothing for valid documents of usual size as long as no object has more than 16 members.
func Check(data []byte, maxDepth int) error { return check(data, maxDepth, nil) }

func check(data []byte, maxDepth int, outline *Outline) error {
	r := readers.Get().(*reader)
	defer r.release()
	r.data, r.maxDepth, r.outline, r.wide = data, min(maxDepth, MaxDepth), outline, false
	if r.document() {
		if outline != nil {
			outline.wide = r.wide
		}
		return nil
	}
	err := r.err
	return &err
}

// reader reads one document. It refers to names by offset, so that pooled memory never points into a document.
type reader struct {
	data     []byte
	escaped  []byte // the names with escapes, unescaped
	maxDepth int
	err      Error
	names    []span   // those so far of all objects that are open
	outline  *Outline // nil: nobody wants one
	wide     bool     // a number might be too large for a float64
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// maxPooled is the size of a document up to which its reader's memory is kept for the next one.
const maxPooled = 64 << 10

// release drops the document.
func (r *reader) release() {
	small := len(r.data) <= maxPooled
	r.data, r.outline, r.escaped, r.names = nil, nil, r.escaped[:0], r.names[:0]
	if small {
		readers.Put(r)
	}
}

// document reports whether the data is one strict JSON value; otherwise err is the first reason why it is not.
func (r *reader) document() bool {
	p := r.value(skipSpace(r.data, 0), 0)
	if p >= 0 {
		if p = skipSpace(r.data, p); p != len(r.data) {
			p = r.fail(p, Syntax, "bytes after the value")
		}
	}
	return p >= 0
}

// fail records the error and returns -1. Every method below returns -1 for an error, and otherwise the end of the
// value or token that it has read.
func (r *reader) fail(p int, kind Kind, reason string) int {
	r.err = Error{Kind: kind, Offset: p, reason: reason}
	return -1
}

// unexpected fails because the syntax does not allow the byte at p.
func (r *reader) unexpected(p int, wanted string) int {
	if p >= len(r.data) {
		return r.fail(len(r.data), Syntax, "unexpected end, want "+wanted)
	}
	return r.fail(p, Syntax, "want "+wanted)
}

// value reads the value at p; depth counts the containers around it.
func (r *reader) value(p, depth int) int {
	switch at(r.data, p) {
	case '{', '[':
		return r.container(p, depth+1)
	case '"':
		end, _ := r.string(p)
		return end
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return r.number(p)
	case 't':
		return r.literal(p, "true")
	case 'f':
		return r.literal(p, "false")
	case 'n':
		return r.literal(p, "null")
	}
	return r.unexpected(p, "a value")
}

// container reads the object or array at p; depth counts it as well.
func (r *reader) container(p, depth int) int {
	if depth > r.maxDepth {
		return r.fail(p, Depth, "nested deeper than the limit of "+strconv.Itoa(r.maxDepth))
	}
	isObject, closing, what := r.data[p] == '{', byte(']'), "array"
	if isObject {
		closing, what = '}', "object"
	}
	p = skipSpace(r.data, p+1)
	if at(r.data, p) == closing {
		return p + 1
	}
	var level *level
	if isObject {
		level = r.outline.level(depth)
	}
	seen := nameSet{base: len(r.names)}
	for {
		var name span
		if isObject {
			var end int
			name, end = r.memberName(p)
			if end < 0 {
				return -1
			}
			if !seen.add(r, name) {
				return r.fail(p, Duplicate, "duplicate member name")
			}
			r.names = append(r.names, name)
			if p = r.colon(end); p < 0 {
				return -1
			}
		}
		start := p
		if level != nil && r.outline.enter(depth, r.name(name)) {
			p = r.digested(p, depth)
		} else {
			p = r.value(p, depth)
		}
		if p < 0 {
			return -1
		}
		if level != nil {
			level.add(name, span{start, p}, len(r.data))
		}
		p = skipSpace(r.data, p)
		switch at(r.data, p) {
		case ',':
			p = skipSpace(r.data, p+1)
		case closing:
			r.names = r.names[:seen.base]
			return p + 1
		default:
			return r.unexpected(p, "a comma or the end of the "+what)
		}
	}
}

// digested reads the value at p like value, and records its digest.
func (r *reader) digested(p, depth int) int {
	w := writers.Get().(*writer)
	defer w.release()
	end := w.write(r.data, p, depth, r.maxDepth)
	if end < 0 {
		return r.value(p, depth) // The reader says what is wrong.
	}
	r.outline.digest, r.outline.digested = w.digest(), true
	r.wide = r.wide || w.wide
	return end
}

// memberName reads the name at p.
func (r *reader) memberName(p int) (name span, end int) {
	if at(r.data, p) != '"' {
		return span{}, r.unexpected(p, "a member name")
	}
	end, escaped := r.string(p)
	if end < 0 {
		return span{}, -1
	}
	return r.span(p+1, end-1, escaped), end
}

// colon reads the colon behind the name that ends at p. It returns the start of the value.
func (r *reader) colon(p int) int {
	if p = skipSpace(r.data, p); at(r.data, p) != ':' {
		return r.unexpected(p, "a colon")
	}
	return skipSpace(r.data, p+1)
}

// string reads the string whose opening quote is at p.
func (r *reader) string(p int) (end int, escaped bool) {
	for p++; ; {
		p = skipPlain(r.data, p)
		if p >= len(r.data) {
			return r.unexpected(p, "the end of the string"), false
		}
		switch b := r.data[p]; {
		case b == '"':
			return p + 1, escaped
		case b == '\\':
			escaped = true
			if p = r.escape(p); p < 0 {
				return -1, false
			}
		case b < ' ':
			return r.fail(p, Syntax, "control character in a string"), false
		default:
			for p < len(r.data) && r.data[p] >= utf8.RuneSelf {
				char, size := utf8.DecodeRune(r.data[p:])
				if char == utf8.RuneError && size == 1 {
					return r.fail(p, Encoding, "invalid UTF-8"), false
				}
				p += size
			}
		}
	}
}

// escape reads the escape whose backslash is at p.
func (r *reader) escape(p int) int {
	if strings.IndexByte(letters, at(r.data, p+1)) >= 0 {
		return p + 2
	}
	unit := hexEscape(r.data[p:])
	if unit < 0 {
		return r.fail(p, Syntax, "invalid escape")
	}
	if !utf16.IsSurrogate(unit) {
		return p + 6
	}
	if utf16.DecodeRune(unit, hexEscape(r.data[p+6:])) == utf8.RuneError {
		return r.fail(p, Encoding, "lone surrogate")
	}
	return p + 12
}

// CertainlyFloat is the number of characters up to which a number without an exponent is certainly a float64.
const CertainlyFloat = 300

func (r *reader) number(p int) int {
	if r.data[p] == '-' {
		p++
	}
	start := p
	if p = r.digits(p); p > start+1 && r.data[start] == '0' {
		return r.fail(start, Syntax, "number with a leading zero")
	}
	if p >= 0 && at(r.data, p) == '.' {
		p = r.digits(p + 1)
	}
	if p >= 0 && (at(r.data, p) == 'e' || at(r.data, p) == 'E') {
		r.wide = true
		if p++; at(r.data, p) == '+' || at(r.data, p) == '-' {
			p++
		}
		p = r.digits(p)
	}
	r.wide = r.wide || p-start > CertainlyFloat
	return p
}

// digits reads at least one digit.
func (r *reader) digits(p int) int {
	end := skipDigits(r.data, p)
	if end == p {
		return r.unexpected(p, "a digit")
	}
	return end
}

func (r *reader) literal(p int, word string) int {
	if !bytes.HasPrefix(r.data[p:], []byte(word)) {
		return r.fail(p, Syntax, "unknown literal")
	}
	return p + len(word)
}

// Kind is the rule that a document broke. It serves as a metric's label.
type Kind string

// The rules.
const (
	Syntax    Kind = "syntax"    // not one JSON value as in RFC 8259
	Depth     Kind = "depth"     // nested deeper than allowed
	Duplicate Kind = "duplicate" // two members of one object share a name
	Encoding  Kind = "encoding"  // invalid UTF-8, or half of a surrogate pair
)

// Error is the first thing wrong with a document. It contains nothing of the document, which may be secret.
type Error struct {
	Kind   Kind
	Offset int // in bytes, where the document is wrong; its length if it ends too early
	reason string
}

func (e *Error) Error() string {
	return "invalid JSON at offset " + strconv.Itoa(e.Offset) + ": " + e.reason
}
