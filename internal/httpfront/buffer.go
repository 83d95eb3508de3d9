package httpfront

import "sync"

// buffer holds a response until it is written. A writer must not keep it, as [io.Writer] demands.
type buffer struct{ data []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// Poison overwrites every buffer that is given back. Tests set it before they serve anything.
var Poison bool

func takeBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.data = b.data[:0]
	return b
}

func (b *buffer) giveBack() {
	if Poison {
		for i := range b.data {
			b.data[i] = '!'
		}
	}
	const most = 64 << 10 // larger ones are rare, and would stay
	if cap(b.data) <= most {
		buffers.Put(b)
	}
}
