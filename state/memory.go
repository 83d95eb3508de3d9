package state

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// MemoryStore is a [Store] for a service of one process, and for tests. The zero
// value is ready to use. It holds states until they expire.
type MemoryStore struct {
	mu    sync.Mutex
	rows  map[string]storedState
	calls map[string]map[string]bool // ids
	purge int                        // the size at which the expired are looked for
}

type storedState struct {
	call    string
	data    []byte
	expires time.Time
}

// PutState implements [Store].
func (m *MemoryStore) PutState(_ context.Context, id, call string, data []byte, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(id, call, data, expires)
	return nil
}

// SwapState implements [Store].
func (m *MemoryStore) SwapState(_ context.Context, id, call string, old, data []byte, expires time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rows[id]
	if there := row.expires.After(time.Now()); there != (old != nil) || there && !bytes.Equal(row.data, old) {
		return false, nil
	}
	m.put(id, call, data, expires)
	return true, nil
}

// put is PutState with the lock held.
func (m *MemoryStore) put(id, call string, data []byte, expires time.Time) {
	if m.rows == nil {
		m.rows, m.calls = make(map[string]storedState), make(map[string]map[string]bool)
	}
	if len(m.rows) >= m.purge {
		now := time.Now()
		for id, row := range m.rows {
			if !row.expires.After(now) {
				m.delete(id)
			}
		}
		m.purge = max(1024, 2*len(m.rows)) // Then looking costs a constant time per state.
	}
	m.delete(id)
	m.rows[id] = storedState{call, bytes.Clone(data), expires}
	if call == "" {
		return
	}
	if m.calls[call] == nil {
		m.calls[call] = make(map[string]bool)
	}
	m.calls[call][id] = true
}

func (m *MemoryStore) delete(id string) {
	ids := m.calls[m.rows[id].call]
	if delete(ids, id); len(ids) == 0 {
		delete(m.calls, m.rows[id].call)
	}
	delete(m.rows, id)
}

// GetState implements [Store].
func (m *MemoryStore) GetState(_ context.Context, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.rows[id]; row.expires.After(time.Now()) {
		return append([]byte{}, row.data...), nil
	}
	return nil, nil
}

// FindStates implements [Store].
func (m *MemoryStore) FindStates(_ context.Context, call string, limit int) (data [][]byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id := range m.calls[call] {
		if len(data) >= limit {
			break
		}
		if row := m.rows[id]; row.expires.After(now) {
			data = append(data, append([]byte{}, row.data...))
		}
	}
	return data, nil
}

// DeleteState implements [Store].
func (m *MemoryStore) DeleteState(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delete(id)
	return nil
}

// Len returns how many states the store holds, including those that have expired and are not deleted yet.
func (m *MemoryStore) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}
