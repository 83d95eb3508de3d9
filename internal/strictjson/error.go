package strictjson

import "strconv"

// Kind says which rule a document broke.
type Kind uint8

const (
	Syntax    Kind = iota + 1 // not one JSON value as in RFC 8259
	Depth                     // nested deeper than allowed
	Duplicate                 // two members of one object share a name
	Encoding                  // invalid UTF-8, or half of a surrogate pair
)

// String returns the kind in lower case, for example as a metric's label.
func (k Kind) String() string {
	switch k {
	case Syntax:
		return "syntax"
	case Depth:
		return "depth"
	case Duplicate:
		return "duplicate"
	case Encoding:
		return "encoding"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Error is the first thing wrong with a document. It contains nothing of the document,
// which may be secret.
type Error struct {
	Kind   Kind
	Offset int // in bytes, where the document is wrong; its length if it ends too early
	reason string
}

func (e *Error) Error() string {
	return "invalid JSON at offset " + strconv.Itoa(e.Offset) + ": " + e.reason
}
