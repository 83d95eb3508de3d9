// Package object writes JSON objects whose values are the bytes of others.
package object

import (
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Writer is a JSON object that is being written. [New] begins one.
type Writer []byte

// New begins an object of about so many bytes.
func New(size int) Writer { return append(make(Writer, 0, size), '{') }

// Copy begins an object with the members of another one. Change returns what becomes of a value: nil leaves the member
// out.
func Copy(from []byte, change func(name string, value []byte) []byte) Writer {
	w := New(len(from))
	for name, value := range strictjson.Members(from) {
		w.Add(string(name), change(string(name), value))
	}
	return w
}

// Add adds a member, unless its value is nil.
func (w *Writer) Add(name string, value []byte) {
	if value == nil {
		return
	}
	if len(*w) > 1 {
		*w = append(*w, ',')
	}
	*w = append(append(wire.AppendString(*w, name), ':'), value...)
}

// End returns the whole object.
func (w *Writer) End() []byte { return append(*w, '}') }
