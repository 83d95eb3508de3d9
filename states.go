package askback

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
)

// States put a store beside requestState, for two ends of their own. A server that keeps
// its state in a store today migrates in phases (Mode), and can tell in each whether the
// next is safe. And a state that is too large to travel may stay in the store (Overflow).
// docs/migrating-state.md is the operator's guide.
//
// What is in the store is not sealed: who reads it reads what the clients answered, and
// in the first two phases who writes to it decides how calls go on. A store that fails
// stops no call, except where Overflow needs it.
type States struct {
	// Store is required. All instances share it, but for a [MemoryStateStore].
	Store StateStore

	// Mode is the phase of the migration. Empty means StatelessOnly.
	Mode StateMode

	// Overflow is the size in bytes beyond which a requestState stays in the Store, and a
	// reference travels, sealed and bound as any state. It is at most [Limits].StateBytes,
	// which bounds what travels; StoredBytes bounds what stays. Zero means never. Every
	// instance needs the Store before the first one has an Overflow.
	Overflow int

	// Observe, if set, is told what became of each state: a place for a metric. It must
	// not block, and is called concurrently. An outcome is not for the client.
	Observe func(ctx context.Context, method string, outcome StateOutcome)
}

// StateStore keeps states. It is called concurrently, and the request waits for it: where a
// database may hang, give up after a time. The context is that of the request, but for
// PutState in a phase: it has 10 seconds, even if the client has gone away. What a method
// wrote is there for every instance when it returns. [MemoryStateStore] is one, and the
// Stores of task/sqlite and task/postgres are; task/storetest has a suite for others.
type StateStore interface {
	// PutState keeps data until expires, in place of what was there under this id. Under
	// call, which is not unique, FindStates finds it, unless call is empty. An id has up
	// to 64 bytes, a call too. It does not keep the slice.
	PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error
	// GetState reads what is there under this id and has not expired, and nil if there is
	// nothing. The caller may modify it.
	GetState(ctx context.Context, id string) (data []byte, err error)
	// FindStates reads up to limit states under this call that have not expired.
	FindStates(ctx context.Context, call string, limit int) (data [][]byte, err error)
	// DeleteState deletes what is there under this id, if anything is.
	DeleteState(ctx context.Context, id string) error
}

// StateMode is a phase of the migration from a store to requestState.
type StateMode string

const (
	// DualMode is the first phase: every state travels sealed and is stored as well. When
	// one comes back it is compared with the stored one, which is the truth: the call goes
	// on from it if they differ, and also if none came back that opens.
	DualMode StateMode = "dual"
	// StatelessFirst is the second phase: the sealed state is the truth. States are
	// stored all the same, and looked up where none came back that opens.
	StatelessFirst StateMode = "stateless-first"
	// StatelessOnly is the third phase: no state is stored or looked up, but for Overflow.
	StatelessOnly StateMode = "stateless-only"
)

// StateOutcome is what [States].Observe is told. Outcomes are few, fixed and short, so they
// serve as a metric's label.
type StateOutcome string

// In DualMode, the outcome of comparing a state that opened with the stored one.
const (
	// StateSame: they are the same.
	StateSame StateOutcome = "same"
	// StateOlder: the client repeated an earlier round. That is no fault: responses get
	// lost. The call goes on from the stored state, so that no step runs twice, unless its
	// handler is in the SDK's manual style.
	StateOlder StateOutcome = "older"
	// StateBehind: the stored state is of an earlier round, because it could not be
	// written when it was due. The call goes on from the sealed one.
	StateBehind StateOutcome = "behind"
	// StateDifferent: they are of one round and not the same. The call goes on from the
	// stored one, unless its handler is in the SDK's manual style. Requests of one call that
	// ran at the same time can lead to it; anything else is a fault.
	StateDifferent StateOutcome = "different"
	// StateAbsent: none is stored. The call has ended and the client repeats its last
	// round, or it began before the store was there, or the store lost it. The call goes
	// on from the sealed one.
	StateAbsent StateOutcome = "absent"
)

// In DualMode and StatelessFirst, the outcome for a request that has answers but no
// state, or a state that does not open. [Options].StateRefused is told the reason of the
// latter as well.
const (
	// StateMissing: there was no state, and the call went on from the stored one.
	StateMissing StateOutcome = "missing"
	// StateInvalid: the state did not open, and the call went on from the stored one.
	StateInvalid StateOutcome = "invalid"
	// StateUnknown: no call like the request's is stored, or its caller is anonymous, so
	// that nobody can tell whose call it is, or the [ReplayGuard] says that its round was
	// used. A request without a state began a new call, one with a state was refused.
	StateUnknown StateOutcome = "unknown"
	// StateAmbiguous: several such calls are stored. The request fared as with StateUnknown.
	StateAmbiguous StateOutcome = "ambiguous"
)

// In every mode.
const (
	// StateOverflowed: the state stays in the store because of its size.
	StateOverflowed StateOutcome = "overflowed"
	// StateFailed: the store failed, or holds what cannot be read. The log says how.
	StateFailed StateOutcome = "failed"
)

// newStates checks the configuration.
func (s *Server) newStates(o States) (*States, error) {
	setDefault(&o.Mode, StatelessOnly)
	travels := min(s.opts.Limits.StateBytes, seal.MaxTokenSize)
	switch {
	case o.Store == nil:
		return nil, errors.New("askback: Options.States needs a Store")
	case !slices.Contains([]StateMode{DualMode, StatelessFirst, StatelessOnly}, o.Mode):
		return nil, fmt.Errorf("askback: States.Mode %q is none: choose %q, %q or %q", o.Mode, DualMode, StatelessFirst, StatelessOnly)
	case o.Overflow < 0:
		return nil, errors.New("askback: States.Overflow is negative; zero means never")
	case o.Overflow > travels:
		return nil, fmt.Errorf("askback: States.Overflow is %d, but no more than %d bytes travel: choose less, or raise Limits.StateBytes", o.Overflow, travels)
	}
	if o.Mode != StatelessOnly && s.opts.Principal == nil {
		s.log.Warn("askback: no Options.Principal: calls of callers without a bearer token cannot go on from the store; " +
			"nothing would keep one anonymous caller from another's state")
	}
	o.Store = safeStateStore{o.Store}
	return &o, nil
}

// safeStateStore is a store whose panics are errors.
type safeStateStore struct{ store StateStore }

func (s safeStateStore) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	return safely(func() error { return s.store.PutState(ctx, id, call, data, expires) })
}

func (s safeStateStore) GetState(ctx context.Context, id string) (data []byte, err error) {
	err = safely(func() error { data, err = s.store.GetState(ctx, id); return err })
	return data, err
}

func (s safeStateStore) FindStates(ctx context.Context, call string, limit int) (data [][]byte, err error) {
	err = safely(func() error { data, err = s.store.FindStates(ctx, call, limit); return err })
	return data, err
}

func (s safeStateStore) DeleteState(ctx context.Context, id string) error {
	return safely(func() error { return s.store.DeleteState(ctx, id) })
}

// keepsStates reports whether every state is stored.
func (s *Server) keepsStates() bool { return s.states != nil && s.states.Mode != StatelessOnly }

func (s *Server) observe(ctx context.Context, x *exchange, outcome StateOutcome) {
	if s.states.Observe != nil {
		s.tell(ctx, "States.Observe", func() { s.states.Observe(ctx, x.handler.method, outcome) })
	}
}

func (s *Server) stateFailed(ctx context.Context, x *exchange, doing string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the client went away, and the store was told so
	}
	s.log.ErrorContext(ctx, "askback: "+doing+" failed", "method", x.handler.method, "error", err)
	s.observe(ctx, x, StateFailed)
}

// stateID is under which the state of a call is stored.
func stateID(j *journal.Journal) string { return journal.Derived("state", j.ID) }

// stateCall is under which the states of equal calls are found. It is empty for anonymous
// callers, who must not get each other's.
func stateCall(b *seal.Binding) string {
	if b.Principal == "" {
		return ""
	}
	key := []byte("askback stored call")
	for _, field := range []string{b.Audience, b.Method, b.Target, string(b.Arguments[:]), b.Principal} {
		key = binary.AppendUvarint(key, uint64(len(field)))
		key = append(key, field...)
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// sealBesideStore makes the requestState of j, and stores what the phase wants stored.
func (s *Server) sealBesideStore(ctx context.Context, x *exchange, j *journal.Journal, now, expires time.Time) (string, error) {
	b, payload := s.binding(x), j.Append(make([]byte, 0, 512))
	state, err := s.sealOrRefer(ctx, x, &b, payload, now, expires)
	if err != nil || len(state) > s.opts.Limits.StateBytes || !s.keepsStates() {
		return state, err
	}
	s.keep(ctx, x, j, &b, payload, expires)
	return state, nil
}

// dropState deletes the state of a call that has ended.
func (s *Server) dropState(ctx context.Context, x *exchange, j *journal.Journal) {
	if !s.keepsStates() || ctx.Err() != nil { // nobody gets to know that it has ended
		return
	}
	if err := s.states.Store.DeleteState(ctx, stateID(j)); err != nil {
		s.stateFailed(ctx, x, "deleting a stored state", err)
	}
}

// keepUndelivered stores what a round came to whose client has gone away. No response tells
// of it, so the client may repeat the round.
func (s *Server) keepUndelivered(ctx context.Context, x *exchange, j *journal.Journal) {
	if !s.keepsStates() {
		return
	}
	j.Round++ // whoever repeats the round is a round behind
	now, b, payload := time.Now(), s.binding(x), j.Append(nil)
	if expires := s.expiry(j, now); expires.After(now) && len(payload) <= s.opts.Limits.StoredBytes {
		s.keep(ctx, x, j, &b, payload, expires)
	}
}

// keep stores the encoding of j. What was done is as true when the client has gone away:
// no step is to run twice.
func (s *Server) keep(ctx context.Context, x *exchange, j *journal.Journal, b *seal.Binding, payload []byte, expires time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if err := s.states.Store.PutState(ctx, stateID(j), stateCall(b), payload, expires); err != nil {
		s.stateFailed(ctx, x, "storing a state", err)
	}
}

// keepTimeout is how long that may take.
const keepTimeout = 10 * time.Second

// compared returns the journal that a call goes on from in [DualMode]: j, whose encoding is
// payload, came with the request.
func (s *Server) compared(ctx context.Context, x *exchange, j *journal.Journal, payload []byte) *journal.Journal {
	data, err := s.states.Store.GetState(ctx, stateID(j))
	var stored *journal.Journal
	if err == nil && data != nil {
		stored, err = journal.Decode(data)
	}
	switch {
	case err != nil:
		s.stateFailed(ctx, x, "reading a stored state", err)
		return j
	case stored == nil:
		s.observe(ctx, x, StateAbsent)
		return j
	case bytes.Equal(data, payload):
		s.observe(ctx, x, StateSame)
		return j
	case stored.Round < j.Round:
		s.observe(ctx, x, StateBehind)
		return j
	case stored.Round > j.Round:
		s.observe(ctx, x, StateOlder)
	default:
		s.observe(ctx, x, StateDifferent)
		s.log.WarnContext(ctx, "askback: a requestState is not what is stored; the call goes on from what is stored",
			"method", x.handler.method, "call", journal.Derived("call", j.ID), "round", j.Round)
	}
	if manualStyle(j) {
		return j // nothing would tell for which round's question an answer is
	}
	// The answers are to the questions that came with the state.
	for key := range x.params.Responses {
		both := func(q journal.Question) bool { return q.Wire == key && slices.Contains(j.Pending, q) }
		if !slices.ContainsFunc(stored.Pending, both) {
			delete(x.params.Responses, key)
		}
	}
	return stored
}

// recalled returns the stored journal of a call whose request brought no state that opens,
// or nil. An error is the replay guard's.
func (s *Server) recalled(ctx context.Context, x *exchange, outcome StateOutcome) (*journal.Journal, error) {
	if !s.keepsStates() {
		return nil, nil
	}
	b := s.binding(x)
	call := stateCall(&b)
	var found [][]byte
	var err error
	if call != "" {
		found, err = s.states.Store.FindStates(ctx, call, 2)
	}
	var j *journal.Journal
	if err == nil && len(found) == 1 {
		j, err = journal.Decode(found[0])
	}
	// The answers may be to questions of any round. Their keys tell of which (see
	// [journal.Run.Distinct]), but for those that a handler chooses itself.
	fits := err == nil && j != nil && (j.Round == 1 || !manualStyle(j))
	if fits {
		var fault error
		if fits, fault = s.use(ctx, x, time.Now().Add(s.opts.Limits.RoundTTL), roundID(j)); fault != nil {
			return nil, fault
		}
	}
	switch {
	case err != nil:
		s.stateFailed(ctx, x, "looking up a stored state", err)
		return nil, nil
	case len(found) > 1:
		s.observe(ctx, x, StateAmbiguous)
		return nil, nil
	case !fits:
		s.observe(ctx, x, StateUnknown)
		return nil, nil
	}
	s.observe(ctx, x, outcome)
	return j, nil
}

// manualStyle reports whether j is of a handler that keeps its own state, whose questions
// have no digests.
func manualStyle(j *journal.Journal) bool {
	return j.Manual != "" || slices.ContainsFunc(j.Pending, func(q journal.Question) bool { return q.Digest == journal.Digest{} })
}

// roundID is what a [ReplayGuard] knows a round by, whichever way its journal came.
func roundID(j *journal.Journal) string {
	return journal.Derived("round "+strconv.Itoa(j.Round), j.ID)
}

// sealOrRefer makes the requestState of a journal's encoding, or of a reference to it.
func (s *Server) sealOrRefer(ctx context.Context, x *exchange, b *seal.Binding, payload []byte, now, expires time.Time) (string, error) {
	overflow := s.states.Overflow
	if overflow == 0 || len(payload) <= overflow { // else there is no need to try
		state, err := s.keys.Seal(*b, payload, now, expires)
		if err != nil || overflow == 0 || len(state) <= overflow {
			return state, err
		}
	}
	if most := s.opts.Limits.StoredBytes; len(payload) > most {
		return "", &LimitError{Limit: "bytes of a stored state", Max: most}
	}
	sum := sha256.Sum256(payload)
	// The clocks of instances and stores differ.
	err := s.states.Store.PutState(ctx, hex.EncodeToString(sum[:]), "", payload, expires.Add(seal.MaxClockSkew))
	if err != nil {
		s.stateFailed(ctx, x, "storing a state that is too large to travel", err)
		return "", wire.Errorf(jsonrpc.CodeInternalError, "internal error")
	}
	s.observe(ctx, x, StateOverflowed)
	return s.keys.Seal(*b, journal.AppendReference(nil, sum), now, expires)
}

// referred returns the encoding that a reference is to. A reason says why there is none; an
// error alone is the store's.
func (s *Server) referred(ctx context.Context, sum [sha256.Size]byte) (payload []byte, reason seal.Reason, err error) {
	if s.states == nil {
		return nil, "no_store", errors.New("the state is in a store, and this instance has none: set Options.States on every instance")
	}
	payload, err = s.states.Store.GetState(ctx, hex.EncodeToString(sum[:]))
	switch {
	case err != nil:
		return nil, "", err
	case payload == nil:
		return nil, "stored_missing", errors.New("the store does not have what the state refers to: it was deleted, or instances do not share the store")
	case sha256.Sum256(payload) != sum:
		return nil, "stored_altered", errors.New("the store does not have what was stored: it was altered")
	}
	return payload, "", nil
}

// MemoryStateStore is a [StateStore] for a service of one process, and for tests. The zero
// value is ready to use. It holds what was stored until it expires.
type MemoryStateStore struct {
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

// PutState implements [StateStore].
func (m *MemoryStateStore) PutState(_ context.Context, id, call string, data []byte, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
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
		m.purge = max(1024, 2*len(m.rows)) // so that looking costs a constant time per state
	}
	m.delete(id)
	m.rows[id] = storedState{call, bytes.Clone(data), expires}
	if call == "" {
		return nil
	}
	if m.calls[call] == nil {
		m.calls[call] = make(map[string]bool)
	}
	m.calls[call][id] = true
	return nil
}

func (m *MemoryStateStore) delete(id string) {
	ids := m.calls[m.rows[id].call]
	if delete(ids, id); len(ids) == 0 {
		delete(m.calls, m.rows[id].call)
	}
	delete(m.rows, id)
}

// GetState implements [StateStore].
func (m *MemoryStateStore) GetState(_ context.Context, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.rows[id]; row.expires.After(time.Now()) {
		return append([]byte{}, row.data...), nil
	}
	return nil, nil
}

// FindStates implements [StateStore].
func (m *MemoryStateStore) FindStates(_ context.Context, call string, limit int) (data [][]byte, err error) {
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

// DeleteState implements [StateStore].
func (m *MemoryStateStore) DeleteState(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delete(id)
	return nil
}
