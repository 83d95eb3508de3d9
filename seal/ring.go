package seal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// Ring is an ordered set of keys: the first one seals, all of them open. [Ring.Replace] changes the keys while the ring
// is in use; nothing else does. Its zero value opens nothing and cannot seal. Copies of a ring share its keys. Like a
// [Key], it can be printed and logged without giving secrets away.
type Ring struct {
	current *atomic.Pointer[keySet] // nil in the zero Ring
}

// keySet holds the keys of a ring at one time. It does not change, so that Open needs no lock.
type keySet struct {
	sealers []*sealer
	// switched is when the first key took over from another one, zero if it did not or nobody knows.
	switched time.Time
	// revoked is the time before which no accepted token was issued. Zero means that none was revoked.
	revoked time.Time
}

// load returns what the ring holds now. An operation loads it once.
func (r *Ring) load() *keySet {
	if r.current == nil {
		return new(keySet)
	}
	return r.current.Load()
}

func (s *keySet) ring() *Ring {
	r := &Ring{current: new(atomic.Pointer[keySet])}
	r.current.Store(s)
	return r
}

// NewRing makes a ring of at least one key. It refuses a key given twice, and the zero Key. Under FIPS 140-only mode
// it fails: the cipher is not an approved one.
func NewRing(keys ...Key) (*Ring, error) {
	return newRing(time.Time{}, keys...)
}

func newRing(switched time.Time, keys ...Key) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("seal: a ring needs a key: make one with NewKey or 'askback keys new'")
	}
	set := &keySet{switched: switched.UTC().Truncate(time.Second)}
	for i, k := range keys {
		if k.isZero() {
			return nil, fmt.Errorf("seal: key %d of the ring is the zero Key: make keys with NewKey", i+1)
		}
		if set.sealer(k.ID()) != nil {
			return nil, fmt.Errorf("seal: key %s is in the ring twice: leave one out", k.ID())
		}
		s, err := newSealer(k)
		if err != nil {
			return nil, err
		}
		set.sealers = append(set.sealers, s)
	}
	return set.ring(), nil
}

// Replace makes the ring hold what next holds, from the next token on: a server that has the ring in its options uses
// other keys without a restart. Next stays as it is. To replace the keys of many instances without refusing a token,
// give all of them each step of a rotation before the next one: see [Ring.Rotate].
//
// It is safe for concurrent use with all methods. It is an error if one of the two is the zero Ring; then nothing has
// changed.
func (r *Ring) Replace(next *Ring) error {
	if r.current == nil || next == nil || next.current == nil {
		return errors.New("seal: replace the keys of a ring: an empty ring: make both with NewRing or ParseRing")
	}
	r.current.Store(next.load())
	return nil
}

// RevokeBefore returns a ring with the same keys that refuses every token issued before t, with [ReasonRevoked]. It
// rounds t up to a whole second. The receiver stays as it is, and a later time that it has already remains. Give the
// result to every instance, in its key file or with [Ring.Replace].
//
// This ends calls whose tokens were stolen. Anybody who has a key can issue tokens for any time: a key that has leaked
// must be removed.
func (r *Ring) RevokeBefore(t time.Time) *Ring {
	next := *r.load()
	if t = wholeSecond(t).UTC(); t.After(next.revoked) {
		next.revoked = t
	}
	return next.ring()
}

// Revoked returns the time of [Ring.RevokeBefore], in UTC and whole seconds, or zero.
func (r *Ring) Revoked() time.Time { return r.load().revoked }

// Keys returns the keys in their order: the first one seals.
func (r *Ring) Keys() []Key { return r.load().keys() }

func (set *keySet) keys() []Key {
	keys := make([]Key, len(set.sealers))
	for i, s := range set.sealers {
		keys[i] = s.key
	}
	return keys
}

func (set *keySet) sealer(keyID string) *sealer {
	for _, s := range set.sealers {
		if s.key.ID() == keyID {
			return s
		}
	}
	return nil
}

// String names the keys without their secrets.
func (r Ring) String() string {
	var names []string
	for _, s := range r.load().sealers {
		names = append(names, s.key.String())
	}
	return "seal.Ring(" + strings.Join(names, ", ") + ")"
}

// Format implements [fmt.Formatter]: every verb writes what String returns.
func (r Ring) Format(f fmt.State, _ rune) { writeString(f, r.String()) }

// LogValue implements [slog.LogValuer] with what String returns.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }
