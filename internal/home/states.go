package home

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// UseStates checks the configuration of a store beside requestState, and uses it. Named says
// that the operator names callers who have no token.
func (c *Carrier) UseStates(o state.Options, named bool) error {
	if o.Mode == "" {
		o.Mode = state.StatelessOnly
	}
	travels := min(c.Limits.StateBytes, seal.MaxTokenSize)
	switch {
	case o.Store == nil:
		return errors.New("askback: Options.States needs a Store")
	case !slices.Contains([]state.Mode{state.Dual, state.StatelessFirst, state.StatelessOnly}, o.Mode):
		return fmt.Errorf("askback: States.Mode %q does not exist: choose %q, %q or %q",
			o.Mode, state.Dual, state.StatelessFirst, state.StatelessOnly)
	case o.Overflow < 0:
		return errors.New("askback: States.Overflow is negative; zero means never")
	case o.Overflow > travels:
		return fmt.Errorf("askback: States.Overflow is %d, but no more than %d bytes travel: "+
			"choose less, or raise Limits.StateBytes", o.Overflow, travels)
	}
	if o.Mode != state.StatelessOnly && !named {
		c.Log.Warn("askback: no Options.Principal: calls of callers without a bearer token cannot go on from the store; " +
			"nothing would keep one anonymous caller from another's state")
	}
	o.Store = safeStore{o.Store}
	c.States = &o
	return nil
}

// safeStore is a store whose panics are errors.
type safeStore struct{ store state.Store }

func (s safeStore) PutState(ctx context.Context, id, equal string, data []byte, expires time.Time) error {
	return fault.Safely(func() error { return s.store.PutState(ctx, id, equal, data, expires) })
}

func (s safeStore) SwapState(
	ctx context.Context, id, equal string, old, data []byte, expires time.Time,
) (swapped bool, err error) {
	err = fault.Safely(func() error { swapped, err = s.store.SwapState(ctx, id, equal, old, data, expires); return err })
	return swapped, err
}

func (s safeStore) GetState(ctx context.Context, id string) (data []byte, err error) {
	err = fault.Safely(func() error { data, err = s.store.GetState(ctx, id); return err })
	return data, err
}

func (s safeStore) FindStates(ctx context.Context, equal string, limit int) (data [][]byte, err error) {
	err = fault.Safely(func() error { data, err = s.store.FindStates(ctx, equal, limit); return err })
	return data, err
}

func (s safeStore) DeleteState(ctx context.Context, id string) error {
	return fault.Safely(func() error { return s.store.DeleteState(ctx, id) })
}

// storedState is what the store beside requestState has of one call: its state, and what is too large to travel.
type storedState struct {
	carrier *Carrier
	request *call.Request

	data     []byte    // what the store holds of the call, if no other request has changed it
	outlives time.Time // the end of its state because of the deadlines of its questions
}

// keeps reports whether every state is stored.
func (s *storedState) keeps() bool {
	return s.carrier.States != nil && s.carrier.States.Mode != state.StatelessOnly
}

// seal makes the requestState of j, and stores what the phase wants stored.
func (s *storedState) seal(
	ctx context.Context, j *journal.Journal, b *seal.Binding, now, expires time.Time,
) (string, error) {
	payload := j.Append(make([]byte, 0, 512))
	sealed, err := s.sealOrRefer(ctx, b, payload, now, expires)
	if err == nil && len(sealed) <= s.carrier.Limits.StateBytes && s.keeps() {
		s.put(ctx, j, b, payload, expires)
	}
	return sealed, err
}

// sealOrRefer makes the requestState of a journal's encoding, or of a reference to it.
func (s *storedState) sealOrRefer(
	ctx context.Context, b *seal.Binding, payload []byte, now, expires time.Time,
) (string, error) {
	overflow := s.carrier.States.Overflow
	if overflow == 0 || len(payload) <= overflow { // a larger payload never fits when sealed
		sealed, err := s.carrier.Keys.Seal(*b, payload, now, expires)
		if overflow == 0 || err == nil && len(sealed) <= overflow {
			return sealed, err
		}
	}
	if most := s.carrier.Limits.StoredBytes; len(payload) > most {
		return "", &fault.LimitError{Limit: "bytes of a stored state", Max: int64(most)}
	}
	sum := sha256.Sum256(payload)
	// The clocks of instances and stores differ.
	err := s.carrier.States.Store.PutState(ctx, hex.EncodeToString(sum[:]), "", payload, expires.Add(seal.MaxClockSkew))
	if err != nil {
		s.failed(ctx, "storing a state that is too large to travel", err)
		return "", fault.Internal()
	}
	s.observe(ctx, state.Overflowed)
	return s.carrier.Keys.Seal(*b, journal.AppendReference(nil, sum), now, expires)
}

// put stores the encoding of j, also when the client has gone away: steps that ran must not run again. For the
// same reason it leaves what is stored if another request of the call has come further in the meantime.
func (s *storedState) put(ctx context.Context, j *journal.Journal, b *seal.Binding, payload []byte, expires time.Time) {
	delivered := ctx.Err() == nil
	if s.outlives.After(expires) { // the client may come back with the state before, and what came in time counts
		expires = s.outlives
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	for {
		swapped, err := s.carrier.States.Store.SwapState(ctx, stateID(j), stateCall(b), s.data, payload, expires)
		if swapped && err == nil {
			s.data = payload
			return
		}
		if err == nil {
			s.data, err = s.carrier.States.Store.GetState(ctx, stateID(j))
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			s.failed(ctx, "storing a state", err)
			return
		}
		if s.data != nil && !replaces(j, delivered, s.data) {
			return
		}
	}
}

// replaces reports whether a journal is to be stored in place of what is there: it has come further, or as far and is
// what the client goes on from.
func replaces(j *journal.Journal, delivered bool, stored []byte) bool {
	there, err := journal.Decode(stored)
	if err != nil {
		return true // nobody can go on from it
	}
	further := cmp.Or(cmp.Compare(j.Round, there.Round), cmp.Compare(len(j.Entries), len(there.Entries)))
	return further > 0 || further == 0 && delivered
}

// keepTimeout bounds the time for storing a state.
const keepTimeout = 10 * time.Second

// drop deletes the state of a call that has ended.
func (s *storedState) drop(ctx context.Context, j *journal.Journal) {
	if !s.keeps() || ctx.Err() != nil { // the client does not learn that it has ended
		return
	}
	if err := s.carrier.States.Store.DeleteState(ctx, stateID(j)); err != nil {
		s.failed(ctx, "deleting a stored state", err)
	}
}

// reconcile returns the journal that a call goes on from in [state.Dual]: j, whose encoding is
// payload, came with the request.
func (s *storedState) reconcile(ctx context.Context, j *journal.Journal, payload []byte) *journal.Journal {
	data, err := s.carrier.States.Store.GetState(ctx, stateID(j))
	var stored *journal.Journal
	if s.data = data; err == nil && data != nil {
		stored, err = journal.Decode(data)
	}
	switch {
	case err != nil:
		s.failed(ctx, "reading a stored state", err)
		return j
	case stored == nil:
		s.observe(ctx, state.Absent)
		return j
	case bytes.Equal(data, payload):
		s.observe(ctx, state.Same)
		return j
	case stored.Round < j.Round:
		s.observe(ctx, state.Behind)
		return j
	case stored.Round > j.Round:
		s.observe(ctx, state.Older)
	default:
		s.observe(ctx, state.Different)
		s.carrier.Log.WarnContext(ctx, "askback: a requestState is not what is stored; the call goes on from what is stored",
			"method", s.request.Handler.Method, "call", journal.Derived("call", j.ID), "round", j.Round)
	}
	if j.IsManual() {
		return j // its answers do not name the round of their question
	}
	// The answers are to the questions that came with the state.
	for key := range s.request.Params.Responses {
		both := func(q journal.Question) bool { return q.Wire == key && slices.Contains(j.Pending, q) }
		if !slices.ContainsFunc(stored.Pending, both) {
			delete(s.request.Params.Responses, key)
		}
	}
	return stored
}

// find returns the stored journal of a call whose request brought no state that opens, or nil.
func (s *storedState) find(ctx context.Context, b *seal.Binding) *journal.Journal {
	var found [][]byte
	var err error
	if equal := stateCall(b); equal != "" {
		found, err = s.carrier.States.Store.FindStates(ctx, equal, 2)
	}
	var j *journal.Journal
	if err == nil && len(found) == 1 {
		s.data = found[0]
		j, err = journal.Decode(found[0])
	}
	switch {
	case err != nil:
		s.failed(ctx, "looking up a stored state", err)
	case len(found) > 1:
		s.observe(ctx, state.Ambiguous)
	// The answers may be to questions of any round. Their keys name the question (see
	// [journal.Run.Distinct]), except those that a handler in the manual style chooses.
	case j == nil || j.Round != 1 && j.IsManual() || j.Started.Before(s.carrier.Since):
		s.observe(ctx, state.Unknown)
	default:
		return j
	}
	return nil
}

// load returns the encoding that a reference points to. If there is none, the reason says why.
// An error without a reason is the store's.
func (s *storedState) load(ctx context.Context, sum [sha256.Size]byte) (payload []byte, reason seal.Reason, err error) {
	if s.carrier.States == nil {
		return nil, "no_store", errors.New("the state is in a store, and this instance has none: " +
			"set Options.States on every instance")
	}
	payload, err = s.carrier.States.Store.GetState(ctx, hex.EncodeToString(sum[:]))
	switch {
	case err != nil:
		return nil, "", err
	case payload == nil:
		return nil, "stored_missing", errors.New("the store does not have what the state refers to: " +
			"it was deleted, or instances do not share the store")
	case sha256.Sum256(payload) != sum:
		return nil, "stored_altered", errors.New("the store does not have what was stored: it was altered")
	}
	return payload, "", nil
}

// stateID is the key of a call's state in the store.
func stateID(j *journal.Journal) string { return journal.Derived("state", j.ID) }

// stateCall is the key under which the states of equal calls are found. It is empty for
// anonymous callers, who must not get each other's.
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

// failed logs and observes a failure of the store.
func (s *storedState) failed(ctx context.Context, doing string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) && !fault.CutShort(ctx) {
		return // the client went away, which ended the store's context
	}
	s.carrier.Log.ErrorContext(ctx, "askback: "+doing+" failed", "method", s.request.Handler.Method, "error", err)
	s.observe(ctx, state.Failed)
}

// observe tells the operator the outcome of a state.
func (s *storedState) observe(ctx context.Context, outcome state.Outcome) {
	s.carrier.tell(ctx, s.request, report.AuditState, string(outcome))
}
