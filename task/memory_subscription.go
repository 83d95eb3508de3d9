package task

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"
)

// memorySubscription is a subscription as the store has it. The store shares none of its bytes.
type memorySubscription struct {
	Subscription
	leased time.Time // until when it is claimed
}

func (m *memorySubscription) isDue(now int64) bool {
	return !m.Due.IsZero() && !m.Due.After(timeAt(now))
}

func (m *memorySubscription) clone() *Subscription {
	c := m.Subscription
	c.State = bytes.Clone(m.State)
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
		m, there := s.subscriptions[sub.ID]
		if !there {
			m = new(memorySubscription)
			for _, other := range s.subscriptions {
				if other.Principal == sub.Principal {
					most--
				}
			}
		}
		if m.Version != sub.Version || !there && most <= 0 {
			return ErrConflict
		}
		due := sub.Due
		if m.isDue(now) { // an event has come since it was claimed
			due = m.Due
		}
		sub.Version = rand.Text()
		m = &memorySubscription{Subscription: *sub}
		m.Due, m.State = due, bytes.Clone(sub.State)
		if s.subscriptions == nil {
			s.subscriptions = make(map[string]*memorySubscription)
		}
		s.subscriptions[m.ID] = m
		return nil
	})
}

// ClaimSubscriptions takes subscriptions that are due. See [Subscriptions].
func (s *MemoryStore) ClaimSubscriptions(ctx context.Context, c SubscriptionClaim) (taken []*Subscription, err error) {
	err = s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		var due []*memorySubscription
		for _, m := range s.subscriptions {
			if m.isDue(now) && !m.leased.After(timeAt(now)) && !slices.Contains(c.Principals, m.Principal) &&
				!slices.Contains(c.Hosts, m.Host) {
				due = append(due, m)
			}
		}
		slices.SortFunc(due, func(a, b *memorySubscription) int {
			return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID))
		})
		for _, m := range due[:min(len(due), max(c.Limit, 0))] {
			m.leased, m.Version = timeAt(now+roundUp(c.Lease)), rand.Text()
			m.Due = m.leased
			taken = append(taken, m.clone())
		}
		return nil
	})
	return taken, err
}

// endSubscriptions deletes those that have ended.
func (s *MemoryStore) endSubscriptions(now int64) {
	maps.DeleteFunc(s.subscriptions, func(_ string, m *memorySubscription) bool { return m.Expires.UnixMilli() <= now })
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
