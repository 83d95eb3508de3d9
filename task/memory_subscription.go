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
	scheduled bool
	dueAt     int64 // in milliseconds since 1970, if it is scheduled
	woken     bool  // an event has come since it was claimed
}

// wake makes a subscription due at once or, while it is claimed, when it is settled.
func (m *memorySubscription) wake(now int64) {
	if m.woken = true; m.Claim == "" {
		m.scheduled, m.dueAt = true, now
	}
}

func (m *memorySubscription) clone() *Subscription {
	c := m.Subscription
	c.Terms, c.Progress = bytes.Clone(m.Terms), bytes.Clone(m.Progress)
	return &c
}

// Subscribe adds or prolongs a subscription. See [Subscriptions].
func (s *MemoryStore) Subscribe(ctx context.Context, sub *Subscription, ttl time.Duration, most int) error {
	return s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		m := s.subscriptions[sub.ID]
		count := 1
		for _, other := range s.subscriptions {
			if other != m && other.Principal == sub.Principal {
				count++
			}
		}
		if count > most {
			return ErrQuota
		}
		if m == nil {
			m = &memorySubscription{Subscription: *sub}
			m.Version, m.Claim, m.Progress = 0, "", bytes.Clone(sub.Progress)
			if s.subscriptions == nil {
				s.subscriptions = make(map[string]*memorySubscription)
			}
			s.subscriptions[m.ID] = m
		}
		m.Host, m.Terms, m.Expires = sub.Host, bytes.Clone(sub.Terms), timeAt(now+roundUp(ttl))
		m.Version++
		m.wake(now)
		sub.Expires, sub.Version, sub.Progress = m.Expires, m.Version, bytes.Clone(m.Progress)
		return nil
	})
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

// Unsubscribe deletes a subscription. See [Subscriptions].
func (s *MemoryStore) Unsubscribe(ctx context.Context, id string) error {
	return s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		if s.subscriptions[id] == nil {
			return ErrNotFound
		}
		delete(s.subscriptions, id)
		return nil
	})
}

// ClaimSubscriptions takes subscriptions that are due. See [Subscriptions].
func (s *MemoryStore) ClaimSubscriptions(ctx context.Context, c SubscriptionClaim) (taken []*Subscription, err error) {
	err = s.do(ctx, func(now int64) error {
		s.endSubscriptions(now)
		var due []*memorySubscription
		for _, m := range s.subscriptions {
			if m.scheduled && m.dueAt <= now && !slices.Contains(c.Principals, m.Principal) &&
				!slices.Contains(c.Hosts, m.Host) {
				due = append(due, m)
			}
		}
		slices.SortFunc(due, func(a, b *memorySubscription) int {
			return cmp.Or(cmp.Compare(a.dueAt, b.dueAt), cmp.Compare(a.ID, b.ID))
		})
		of, to := make(map[string]int), make(map[string]int)
		for _, m := range due {
			if len(taken) < c.Limit && of[m.Principal] < c.Each && to[m.Host] < c.Each {
				of[m.Principal]++
				to[m.Host]++
				m.dueAt, m.Claim, m.woken = now+roundUp(c.Lease), rand.Text(), false
				taken = append(taken, m.clone())
			}
		}
		return nil
	})
	return taken, err
}

// SettleSubscription ends a claim. See [Subscriptions].
func (s *MemoryStore) SettleSubscription(ctx context.Context, sub *Subscription, due time.Duration) error {
	return s.do(ctx, func(now int64) error {
		m := s.subscriptions[sub.ID]
		if m == nil || sub.Claim == "" || m.Claim != sub.Claim {
			return ErrLeaseLost
		}
		m.Claim, m.Progress = "", bytes.Clone(sub.Progress)
		if m.Version == sub.Version {
			m.Terms = bytes.Clone(sub.Terms)
		}
		if m.scheduled, m.dueAt = due >= 0, now+roundUp(due); m.woken {
			m.wake(now)
		}
		return nil
	})
}

// endSubscriptions deletes those that have ended.
func (s *MemoryStore) endSubscriptions(now int64) {
	maps.DeleteFunc(s.subscriptions, func(_ string, m *memorySubscription) bool { return m.Expires.UnixMilli() <= now })
}

// wakeSubscriptions makes the subscriptions of the principal due that a reader may be.
func (s *MemoryStore) wakeSubscriptions(reader string, now int64) {
	_, principal, _ := strings.Cut(reader, ":")
	for _, m := range s.subscriptions {
		if m.Principal == principal {
			m.wake(now)
		}
	}
}
