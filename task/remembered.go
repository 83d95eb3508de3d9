package task

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"
)

// Remembered is a decision of people that lets later calls pass without asking them again. To stores Content is opaque.
// Key and each of Who have at most 512 bytes. Times have a resolution of a millisecond.
type Remembered struct {
	Key     string   // what the decision is for: equal for calls that it lets pass, and for no others
	Who     []string // whom it concerns, as in [Question.For], each once
	Content []byte   // what it says of itself
	Decided time.Time
	Until   time.Time
	Left    int // how many calls it still lets pass
}

// A memoryRemembered is a [Remembered] as the store has it. The store shares none of its bytes.
type memoryRemembered struct {
	Remembered
	forgotten int64           // in milliseconds since 1970, or 0
	passed    map[string]bool // the calls that it has let pass
}

func (r *Remembered) clone() *Remembered {
	c := *r
	c.Who, c.Content = slices.Clone(r.Who), bytes.Clone(r.Content)
	return &c
}

// holds reports whether the decision still lets calls pass that it has let pass before.
func (r *memoryRemembered) holds(now int64) bool {
	return r != nil && r.forgotten == 0 && r.Until.UnixMilli() > now
}

// Remember keeps a decision. See [Store].
func (s *MemoryStore) Remember(ctx context.Context, r *Remembered) error {
	return s.do(ctx, func(now int64) error {
		added := &memoryRemembered{Remembered: *r.clone(), passed: make(map[string]bool)}
		added.Decided, added.Until = timeAt(r.Decided.UnixMilli()), timeAt(r.Until.UnixMilli())
		if there := s.remembered[r.Key]; there != nil {
			if !there.Decided.Before(added.Decided) || there.forgotten >= added.Decided.UnixMilli() {
				return nil
			}
			added.passed = there.passed
		}
		if !added.holds(now) {
			return nil
		}
		if s.remembered == nil {
			s.remembered = make(map[string]*memoryRemembered)
		}
		s.remembered[r.Key] = added
		return nil
	})
}

// Recall lets a call pass by a decision. See [Store].
func (s *MemoryStore) Recall(ctx context.Context, key, call string) (r *Remembered, err error) {
	err = s.do(ctx, func(now int64) error {
		there := s.remembered[key]
		if !there.holds(now) || there.Left <= 0 && !there.passed[call] {
			return ErrNotFound
		}
		if !there.passed[call] {
			there.passed[call] = true
			there.Left--
		}
		r = there.clone()
		return nil
	})
	return r, err
}

// Remembered reads decisions that let calls pass. See [Store].
func (s *MemoryStore) Remembered(
	ctx context.Context, who []string, after *Remembered, limit int,
) (found []*Remembered, err error) {
	newest := func(a, b *Remembered) int { return cmp.Or(b.Decided.Compare(a.Decided), cmp.Compare(a.Key, b.Key)) }
	err = s.do(ctx, func(now int64) error {
		for _, r := range s.remembered {
			concerns := who == nil || slices.ContainsFunc(r.Who, func(w string) bool { return slices.Contains(who, w) })
			if concerns && r.holds(now) && r.Left > 0 && (after == nil || newest(&r.Remembered, after) > 0) {
				found = append(found, r.clone())
			}
		}
		slices.SortFunc(found, newest)
		found = found[:min(len(found), max(limit, 0))]
		return nil
	})
	return found, err
}

// Forget ends a decision. See [Store].
func (s *MemoryStore) Forget(ctx context.Context, key string) error {
	return s.do(ctx, func(now int64) error {
		there := s.remembered[key]
		if !there.holds(now) {
			return ErrNotFound
		}
		there.forgotten = now
		return nil
	})
}
