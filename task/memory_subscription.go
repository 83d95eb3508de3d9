package task

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
)

// isDue reports whether a subscription can be claimed, unless it is claimed.
func (s *Subscription) isDue(now int64) bool { return !s.Due.IsZero() && !s.Due.After(timeAt(now)) }

// clone returns a copy: the store shares none of its bytes.
func (s *Subscription) clone() *Subscription {
	c := *s
	c.State = bytes.Clone(s.State)
	return &c
}

// Subscribed reads the subscriptions of a principal. See [Subscriptions].
func (s *MemoryStore) Subscribed(ctx context.Context, principal string) (all []*Subscription, err error) {
	err = s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		for _, id := range slices.Sorted(maps.Keys(s.subscriptions)) {
			if m := s.subscriptions[id]; m.Principal == principal {
				all = append(all, m.clone())
			}
		}
		return nil
	})
	return all, err
}

// SaveSubscription adds or changes a subscription. See [Subscriptions].
func (s *MemoryStore) SaveSubscription(ctx context.Context, sub *Subscription, most int) error {
	return s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		m := s.subscriptions[sub.ID]
		if m == nil {
			m = new(Subscription)
			for _, other := range s.subscriptions {
				if other.Principal == sub.Principal {
					most--
				}
			}
			if most <= 0 {
				return ErrConflict
			}
		}
		if m.Version != sub.Version {
			return ErrConflict
		}
		sub.Version = rand.Text()
		saved := sub.clone()
		if m.isDue(now) {
			saved.Due = m.Due
		}
		if s.subscriptions == nil {
			s.subscriptions = make(map[string]*Subscription)
		}
		s.subscriptions[sub.ID] = saved
		return nil
	})
}

// ClaimSubscriptions takes subscriptions that are due. See [Subscriptions].
func (s *MemoryStore) ClaimSubscriptions(ctx context.Context, c SubscriptionClaim) (taken []*Subscription, err error) {
	err = s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		var due []*Subscription
		for _, m := range s.subscriptions {
			if m.isDue(now) && !m.Leased.After(timeAt(now)) && !slices.Contains(c.Principals, m.Principal) &&
				!slices.Contains(c.Hosts, m.Host) {
				due = append(due, m)
			}
		}
		slices.SortFunc(due, func(a, b *Subscription) int {
			return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID))
		})
		for _, m := range due[:min(len(due), max(c.Limit, 0))] {
			m.Leased, m.Version = timeAt(now+roundUp(c.Lease)), rand.Text()
			m.Due = m.Leased
			taken = append(taken, m.clone())
		}
		return nil
	})
	return taken, err
}

// endSubscriptions deletes those that have ended.
func (s *MemoryStore) endSubscriptions(now int64) {
	maps.DeleteFunc(s.subscriptions, func(_ string, m *Subscription) bool { return m.Expires.UnixMilli() <= now })
}

// wakeSubscriptions makes the subscriptions of the principal due that a reader may be.
func (s *MemoryStore) wakeSubscriptions(reader string, now int64) {
	_, principal, _ := strings.Cut(reader, ":")
	for _, m := range s.subscriptions {
		if m.Principal == principal && !m.isDue(now) {
			m.Due = timeAt(now)
		}
	}
}
