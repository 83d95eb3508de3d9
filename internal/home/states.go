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
	"strconv"
	"time"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
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

// keepsStates reports whether every state is stored.
func (c *Carried) keepsStates() bool { return c.States != nil && c.States.Mode != state.StatelessOnly }

// failed logs and observes a failure of the store.
func (c *Carried) failed(ctx context.Context, doing string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) && !fault.CutShort(ctx) {
		return // the client went away, which ended the store's context
	}
	c.Log.ErrorContext(ctx, "askback: "+doing+" failed", "method", c.request.Handler.Method, "error", err)
	c.observe(ctx, state.Failed)
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

// sealBesideStore makes the requestState of j, and stores what the phase wants stored.
func (c *Carried) sealBesideStore(ctx context.Context, j *journal.Journal, now, expires time.Time) (string, error) {
	b, payload := c.binding(), j.Append(make([]byte, 0, 512))
	sealed, err := c.sealOrRefer(ctx, &b, payload, now, expires)
	if err == nil && len(sealed) <= c.Limits.StateBytes && c.keepsStates() {
		c.putState(ctx, j, &b, payload, expires)
	}
	return sealed, err
}

// Drop deletes the state of a call that has ended.
func (c *Carried) Drop(ctx context.Context, j *journal.Journal) {
	if !c.keepsStates() || ctx.Err() != nil { // the client does not learn that it has ended
		return
	}
	if err := c.States.Store.DeleteState(ctx, stateID(j)); err != nil {
		c.failed(ctx, "deleting a stored state", err)
	}
}

// keepUndelivered stores the journal of a round whose client has gone away. The client gets no
// response, so it may repeat the round.
func (c *Carried) keepUndelivered(ctx context.Context, j *journal.Journal) {
	if !c.keepsStates() {
		return
	}
	j.Round++ // a client that repeats the round is one round behind
	if len(j.Pending) == 0 {
		// Its questions keep their deadlines.
		j.Pending = slices.DeleteFunc(c.timed, func(q journal.Question) bool { return j.Settled(&q) })
	}
	now, b, payload := time.Now(), c.binding(), j.Append(nil)
	if expires := c.expiry(j, now); expires.After(now) && len(payload) <= c.Limits.StoredBytes {
		c.putState(ctx, j, &b, payload, expires)
	}
}

// putState stores the encoding of j, also when the client has gone away: steps that ran must not run again. For the
// same reason it leaves what is stored if another request of the call has come further in the meantime.
func (c *Carried) putState(ctx context.Context, j *journal.Journal, b *seal.Binding, payload []byte,
	expires time.Time,
) {
	delivered := ctx.Err() == nil
	if c.outlives.After(expires) { // the client may come back with the state before, and what came in time counts
		expires = c.outlives
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	for {
		swapped, err := c.States.Store.SwapState(ctx, stateID(j), stateCall(b), c.stored, payload, expires)
		if swapped && err == nil {
			c.stored = payload
			return
		}
		if err == nil {
			c.stored, err = c.States.Store.GetState(ctx, stateID(j))
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			c.failed(ctx, "storing a state", err)
			return
		}
		if c.stored != nil && !replaces(j, delivered, c.stored) {
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

// reconcile returns the journal that a call goes on from in [state.Dual]: j, whose encoding is
// payload, came with the request.
func (c *Carried) reconcile(ctx context.Context, j *journal.Journal, payload []byte) *journal.Journal {
	data, err := c.States.Store.GetState(ctx, stateID(j))
	var stored *journal.Journal
	if c.stored = data; err == nil && data != nil {
		stored, err = journal.Decode(data)
	}
	switch {
	case err != nil:
		c.failed(ctx, "reading a stored state", err)
		return j
	case stored == nil:
		c.observe(ctx, state.Absent)
		return j
	case bytes.Equal(data, payload):
		c.observe(ctx, state.Same)
		return j
	case stored.Round < j.Round:
		c.observe(ctx, state.Behind)
		return j
	case stored.Round > j.Round:
		c.observe(ctx, state.Older)
	default:
		c.observe(ctx, state.Different)
		c.Log.WarnContext(ctx, "askback: a requestState is not what is stored; the call goes on from what is stored",
			"method", c.request.Handler.Method, "call", journal.Derived("call", j.ID), "round", j.Round)
	}
	if j.IsManual() {
		return j // its answers do not name the round of their question
	}
	// The answers are to the questions that came with the state.
	for key := range c.request.Params.Responses {
		both := func(q journal.Question) bool { return q.Wire == key && slices.Contains(j.Pending, q) }
		if !slices.ContainsFunc(stored.Pending, both) {
			delete(c.request.Params.Responses, key)
		}
	}
	return stored
}

// recall returns the stored journal of a call whose request brought no state that opens,
// or nil. An error is the replay guard's.
func (c *Carried) recall(ctx context.Context, outcome state.Outcome) (*journal.Journal, error) {
	if !c.keepsStates() {
		return nil, nil
	}
	b := c.binding()
	var found [][]byte
	var err error
	if equal := stateCall(&b); equal != "" {
		found, err = c.States.Store.FindStates(ctx, equal, 2)
	}
	var j *journal.Journal
	if err == nil && len(found) == 1 {
		c.stored = found[0]
		j, err = journal.Decode(found[0])
	}
	// The answers may be to questions of any round. Their keys name the question (see
	// [journal.Run.Distinct]), except those that a handler in the manual style chooses.
	fits := err == nil && j != nil && (j.Round == 1 || !j.IsManual()) && !j.Started.Before(c.Since)
	if fits {
		var fault error
		now := time.Now()
		until := now.Add(c.Limits.RoundTTL)
		if longer := c.expiry(j, now); longer.After(until) { // the round's state outlives a deadline
			until = longer
		}
		if fits, fault = c.use(ctx, until, roundID(j)); fault != nil {
			return nil, fault
		}
	}
	switch {
	case err != nil:
		c.failed(ctx, "looking up a stored state", err)
		return nil, nil
	case len(found) > 1:
		c.observe(ctx, state.Ambiguous)
		return nil, nil
	case !fits:
		c.observe(ctx, state.Unknown)
		return nil, nil
	}
	c.observe(ctx, outcome)
	return j, nil
}

// roundID returns the ID of a round for a [state.Guard], whether its journal was carried or stored.
func roundID(j *journal.Journal) string {
	return journal.Derived("round "+strconv.Itoa(j.Round), j.ID)
}

// sealOrRefer makes the requestState of a journal's encoding, or of a reference to it.
func (c *Carried) sealOrRefer(
	ctx context.Context, b *seal.Binding, payload []byte, now, expires time.Time,
) (string, error) {
	overflow := c.States.Overflow
	if overflow == 0 || len(payload) <= overflow { // a larger payload never fits when sealed
		sealed, err := c.Keys.Seal(*b, payload, now, expires)
		if overflow == 0 || err == nil && len(sealed) <= overflow {
			return sealed, err
		}
	}
	if most := c.Limits.StoredBytes; len(payload) > most {
		return "", &fault.LimitError{Limit: "bytes of a stored state", Max: int64(most)}
	}
	sum := sha256.Sum256(payload)
	// The clocks of instances and stores differ.
	err := c.States.Store.PutState(ctx, hex.EncodeToString(sum[:]), "", payload, expires.Add(seal.MaxClockSkew))
	if err != nil {
		c.failed(ctx, "storing a state that is too large to travel", err)
		return "", fault.Internal()
	}
	c.observe(ctx, state.Overflowed)
	return c.Keys.Seal(*b, journal.AppendReference(nil, sum), now, expires)
}

// load returns the encoding that a reference points to. If there is none, the reason says why.
// An error without a reason is the store's.
func (c *Carried) load(ctx context.Context, sum [sha256.Size]byte) (payload []byte, reason seal.Reason, err error) {
	if c.States == nil {
		return nil, "no_store", errors.New("the state is in a store, and this instance has none: " +
			"set Options.States on every instance")
	}
	payload, err = c.States.Store.GetState(ctx, hex.EncodeToString(sum[:]))
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
