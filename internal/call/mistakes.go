package call

import (
	"hash/maphash"
	"slices"
	"sync"
)

// mistakes are those of a handler that were logged. A kind of mistake has several texts, because a handler asks more
// than one question; a client may be able to make ever new ones, with its arguments.
type mistakes struct {
	mu     sync.Mutex
	logged map[string][]uint64 // hashes of texts, by kind
}

const mostMistakes = 8 // of a kind

var mistakeSeed = maphash.MakeSeed()

// note reports whether a mistake is to be logged, and whether it is the last one of its kind.
func (m *mistakes) note(kind, text string) (tell, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := maphash.String(mistakeSeed, text)
	if of := m.logged[kind]; len(of) == mostMistakes || slices.Contains(of, hash) {
		return false, false
	}
	if m.logged == nil {
		m.logged = make(map[string][]uint64)
	}
	m.logged[kind] = append(m.logged[kind], hash)
	return true, len(m.logged[kind]) == mostMistakes
}
