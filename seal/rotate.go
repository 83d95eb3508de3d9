package seal

import (
	"errors"
	"fmt"
	"time"
)

// Step is one of the three steps of a rotation. Each is rolled out to every instance before the next is taken.
type Step string

// The steps, in their order.
const (
	StepLearn  Step = "learn"  // a new key comes last: all instances can open what it will seal
	StepSwitch Step = "switch" // the new key moves to the front and seals from now on
	StepForget Step = "forget" // the older keys go
)

// ErrTooEarly matches the error of [Ring.Rotate] when the step before has to settle first.
var ErrTooEarly = errors.New("too early for the next step of the rotation")

// Rotate takes the next step of a rotation and returns the ring to roll out. The receiver stays as it is.
//
// The state of the ring decides which step it is: one key, learn; the newest key not first, switch; otherwise, forget.
// Keys are ordered by [Key.Created], and a learned key is always created later than the keys before it, even if the
// clock went back.
//
// No step is taken earlier than wait after the one before. Rotate only knows when it was called, not when the ring
// was rolled out, so wait has to cover both: the time that a rollout takes and the longest time to live of a token.
// Then every instance can open every live token at any time, also halfway through a rollout. A wait of zero forces
// the step. For too early a call, the error matches [ErrTooEarly] and names the time at which to come back.
func (r *Ring) Rotate(now time.Time, wait time.Duration) (*Ring, Step, error) {
	set := r.load()
	next, step, err := set.rotate(now, wait)
	if err != nil || set.revoked.IsZero() {
		return next, step, err
	}
	return next.RevokeBefore(set.revoked), step, nil
}

func (set *keySet) rotate(now time.Time, wait time.Duration) (*Ring, Step, error) {
	keys := set.keys()
	if len(keys) == 0 {
		return nil, "", errors.New("seal: the ring is empty: make it with NewRing or ParseRing")
	}
	newest := 0
	for i, k := range keys {
		if k.Created().After(keys[newest].Created()) {
			newest = i
		}
	}
	switch {
	case len(keys) == 1:
		created := wholeSecond(now)
		if after := keys[0].Created().Add(time.Second); created.Before(after) {
			created = after
		}
		next, err := NewRing(keys[0], NewKey(created))
		return next, StepLearn, err

	case newest != 0:
		if err := settled(StepSwitch, keys[newest].Created(), now, wait); err != nil {
			return nil, "", err
		}
		order := append([]Key{keys[newest]}, keys[:newest]...)
		next, err := newRing(wholeSecond(now), append(order, keys[newest+1:]...)...)
		return next, StepSwitch, err

	default:
		if set.switched.IsZero() && wait > 0 {
			return nil, "", fmt.Errorf("seal: cannot tell when key %s began to seal, so not whether the older keys can be "+
				"forgotten: add an entry %s%s with the right time to the key file, or force the step", keys[0].ID(), switchedPrefix,
				timeLayout)
		}
		if err := settled(StepForget, set.switched, now, wait); err != nil {
			return nil, "", err
		}
		next, err := NewRing(keys[0])
		return next, StepForget, err
	}
}

// wholeSecond rounds up, because a step must not come due before the time that was asked for.
func wholeSecond(t time.Time) time.Time {
	return t.Add(time.Second - time.Nanosecond).Truncate(time.Second)
}

// settled refuses a step before wait has passed since the previous one.
func settled(step Step, previous, now time.Time, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	if due := previous.Add(wait); now.Before(due) {
		return fmt.Errorf("seal: %w: %s is due at %s, when the step before has settled for %v",
			ErrTooEarly, step, due.UTC().Format(time.RFC3339), wait)
	}
	return nil
}
