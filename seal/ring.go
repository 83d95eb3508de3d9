package seal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Ring is an immutable, ordered set of keys: the first one seals, all of them open. Its zero value opens nothing and
// cannot seal. Like a [Key], it can be printed and logged without giving secrets away.
type Ring struct {
	sealers []*sealer
	// switched is when the first key took over from another one, zero if it did not or nobody knows.
	switched time.Time
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
	r := &Ring{switched: switched.UTC().Truncate(time.Second)}
	for i, k := range keys {
		if k.isZero() {
			return nil, fmt.Errorf("seal: key %d of the ring is the zero Key: make keys with NewKey", i+1)
		}
		if r.sealer(k.ID()) != nil {
			return nil, fmt.Errorf("seal: key %s is in the ring twice: leave one out", k.ID())
		}
		s, err := newSealer(k)
		if err != nil {
			return nil, err
		}
		r.sealers = append(r.sealers, s)
	}
	return r, nil
}

// Keys returns the keys in their order: the first one seals.
func (r *Ring) Keys() []Key {
	keys := make([]Key, len(r.sealers))
	for i, s := range r.sealers {
		keys[i] = s.key
	}
	return keys
}

func (r *Ring) sealer(keyID string) *sealer {
	for _, s := range r.sealers {
		if s.key.ID() == keyID {
			return s
		}
	}
	return nil
}

// String names the keys without their secrets.
func (r Ring) String() string {
	var names []string
	for _, s := range r.sealers {
		names = append(names, s.key.String())
	}
	return "seal.Ring(" + strings.Join(names, ", ") + ")"
}

// Format implements [fmt.Formatter]: every verb writes what String returns.
func (r Ring) Format(f fmt.State, _ rune) { writeString(f, r.String()) }

// LogValue implements [slog.LogValuer] with what String returns.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }
