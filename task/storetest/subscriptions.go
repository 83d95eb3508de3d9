package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/task"
)

// subscribes tests a store that is a [task.Subscriptions].
func subscribes(test func(f *fixture, s task.Subscriptions, store task.Store)) func(f *fixture, s task.Store) {
	return func(f *fixture, s task.Store) {
		subs, ok := s.(task.Subscriptions)
		if !ok {
			f.Skip("not tested: this store is no task.Subscriptions")
		}
		test(f, subs, s)
	}
}

var subscriptionTests = []test{
	{"a subscription is added once, and then changed by who knows its version", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			sub := f.subscribe(s, "one", "alice")
			added := *sub
			got := f.subscribed(s, "alice", "one")[0]
			f.check(got.Version == sub.Version && got.Expires.Equal(sub.Expires) && got.Expires.Location() == time.UTC &&
				got.Host == sub.Host && string(got.State) == "state of one" && got.Due.Equal(sub.Due) &&
				got.Leased.IsZero(),
				"the subscription is %+v, want %+v", got, sub)
			f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, f.newSubscription(s, "one", "alice"), 9), task.ErrConflict)
			got.Expires, got.Due, got.State = got.Expires.Add(long), time.Time{}, everyByte
			f.ok("SaveSubscription", s.SaveSubscription(f.ctx, got, 0))
			changed := f.subscribed(s, "alice", "one")[0]
			f.check(changed.Version == got.Version && changed.Version != added.Version && changed.Expires.Equal(got.Expires) &&
				string(changed.State) == string(everyByte),
				"the subscription is %+v, want %+v", changed, got)
			was := added.Version
			f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, &added, 9), task.ErrConflict)
			f.check(added.Version == was, "the version of what was not saved is another one")
			other := f.newSubscription(s, "two", "alice")
			other.Version = was
			f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, other, 9), task.ErrConflict)
			f.subscribed(s, "alice", "one")
		})},
	{"a principal has no more subscriptions than it may, and others have theirs", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			f.subscribe(s, "1", "alice")
			f.subscribe(s, "2", "alice")
			f.subscribe(s, "3", "bob")
			f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, f.newSubscription(s, "4", "alice"), 2), task.ErrConflict)
			f.ok("SaveSubscription", s.SaveSubscription(f.ctx, f.newSubscription(s, "4", "bob"), 2))
			first := f.subscribed(s, "alice", "1", "2")[0]
			f.subscribed(s, "bob", "3", "4")
			f.subscribed(s, "")
			first.Expires = time.Time{}
			f.ok("SaveSubscription", s.SaveSubscription(f.ctx, first, 0))
			f.ok("SaveSubscription", s.SaveSubscription(f.ctx, f.newSubscription(s, "4a", "alice"), 2))
			f.subscribed(s, "alice", "2", "4a")
		})},
	{"what has ended is no subscription any more", subscribes(func(f *fixture, s task.Subscriptions, _ task.Store) {
		f.subscribe(s, "one", "alice")
		claimed := f.claimSubscriptions(s, all, "one")[0]
		sub := f.subscribed(s, "alice", "one")[0]
		sub.Expires = time.Time{}
		f.ok("SaveSubscription", s.SaveSubscription(f.ctx, sub, 0))
		f.subscribed(s, "alice")
		f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, claimed, 9), task.ErrConflict)
		f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, sub, 9), task.ErrConflict)
		again := f.subscribe(s, "one", "alice")
		f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, claimed, 9), task.ErrConflict)
		f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, sub, 9), task.ErrConflict)
		claimed = f.claimSubscriptions(s, all, "one")[0]
		f.check(string(claimed.State) == "state of one" && claimed.Version != again.Version,
			"the subscription is %+v", claimed)
		f.subscribe(s, "two", "alice")
		soon := f.subscribed(s, "alice", "one", "two")[1]
		soon.Expires = f.clock(s).Add(time.Millisecond)
		f.ok("SaveSubscription", s.SaveSubscription(f.ctx, soon, 0))
		f.eventually("it has ended", func() bool {
			found, err := s.Subscribed(f.ctx, "alice")
			f.ok("Subscribed", err)
			return len(found) == 1
		})
		f.claimSubscriptions(s, all)
		f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, soon, 9), task.ErrConflict)
	})},
	{"events of its principal make a subscription due, also while it is claimed", subscribes(
		func(f *fixture, s task.Subscriptions, store task.Store) {
			f.subscribe(s, "alice's", "alice")
			f.subscribe(s, "bob's", "bob")
			f.idleSubscriptions(s, "alice's", "bob's")
			t := f.addLogged(store, "alice")
			f.claimSubscriptions(s, all)
			f.park(store, t, question("key", "user:carol"))
			claimed := f.claimSubscriptions(s, all, "alice's")[0]
			f.claimSubscriptions(s, all)
			f.updateStatus(store, t, task.Completed, task.Update{Due: -1})
			f.claimSubscriptions(s, all)
			f.save(s, claimed, -1)
			f.idleSubscriptions(s, "alice's")
			f.claimSubscriptions(s, all)
			end := func() {
				other := f.addLogged(store, "alice")
				f.updateStatus(store, other, task.Completed, task.Update{Due: -1})
			}
			end()
			claimed = f.claimSubscriptions(s, all, "alice's")[0]
			f.save(s, claimed, long)
			f.claimSubscriptions(s, all)
			end()
			claimed = f.claimSubscriptions(s, all, "alice's")[0] // it does not wait for what it was to be tried again
			end()
			f.save(s, claimed, long)
			f.idleSubscriptions(s, "alice's")
			other := f.addLogged(store, "alice")
			f.park(store, other, question("key", "user:bob"))
			f.idleSubscriptions(s, "alice's", "bob's")
		})},
	{"a claim ends with its lease, or when its subscription is saved so", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			f.subscribe(s, "one", "alice")
			short := all
			short.Lease = time.Millisecond
			before := f.clock(s)
			first := f.claimSubscriptions(s, short, "one")[0]
			lease, least := first.Leased.Sub(before), short.Lease
			f.check(first.Due.Equal(first.Leased) && lease >= least && lease <= least+f.clock(s).Sub(before),
				"claimed for %v, it is %v", short.Lease, lease)
			var second *task.Subscription
			f.eventually("its lease has ended", func() bool {
				taken, err := s.ClaimSubscriptions(f.ctx, all)
				f.ok("ClaimSubscriptions", err)
				if len(taken) > 0 {
					second = taken[0]
				}
				return second != nil
			})
			f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, first, 9), task.ErrConflict)
			f.claimSubscriptions(s, all)
			second.State = []byte("second")
			f.save(s, second, 0)
			third := f.claimSubscriptions(s, all, "one")[0]
			f.check(string(third.State) == "second" && third.Version != second.Version,
				"the subscription is %+v", third)
			prolonged := f.subscribed(s, "alice", "one")[0]
			f.check(prolonged.Leased.Equal(third.Leased) && prolonged.Due.Equal(third.Leased),
				"claimed until %v, the subscription is %+v", third.Leased, prolonged)
			prolonged.State, prolonged.Due = []byte("prolonged"), f.clock(s)
			f.ok("SaveSubscription", s.SaveSubscription(f.ctx, prolonged, 9))
			f.claimSubscriptions(s, all) // it is due, and still claimed
			f.wantError("SaveSubscription", s.SaveSubscription(f.ctx, third, 9), task.ErrConflict)
			f.save(s, prolonged, -1)
			got := f.claimSubscriptions(s, all, "one")[0]
			f.check(string(got.State) == "prolonged", "prolonged meanwhile, the subscription is %+v", got)
		})},
	{"a claim takes what is due longest, and leaves out who has enough", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			now := f.clock(s)
			for i, id := range []string{"3", "1", "2", "4"} {
				sub := f.newSubscription(s, id, []string{"alice", "bob"}[i%2])
				sub.Host, sub.Due = sub.Principal+".example", now.Add(-time.Duration(9-i)*time.Second)
				f.ok("SaveSubscription", s.SaveSubscription(f.ctx, sub, 9))
			}
			f.claimSubscriptions(s, task.SubscriptionClaim{Limit: 9, Principals: []string{"bob", "alice", "nobody"}})
			f.claimSubscriptions(s, task.SubscriptionClaim{Limit: 9, Hosts: []string{"bob.example", "alice.example"}})
			f.claimSubscriptions(s, task.SubscriptionClaim{Lease: long})
			c := task.SubscriptionClaim{Limit: 1, Principals: []string{"alice"}, Lease: long}
			f.claimSubscriptions(s, c, "1")
			c.Principals, c.Hosts = nil, []string{"bob.example"}
			f.claimSubscriptions(s, c, "3")
			c.Limit, c.Hosts = 9, nil
			f.claimSubscriptions(s, c, "2", "4")
		})},
	{"several instances never claim a subscription at the same time", subscribes(
		func(f *fixture, s task.Subscriptions, store task.Store) {
			const n, instances = 40, 4
			for i := range n {
				f.subscribe(s, fmt.Sprintf("%02d", i), fmt.Sprint("principal ", i%5))
			}
			handles := f.instances(store, instances)
			c := all
			c.Limit = 3
			taken := together(&f.suite, instances, func(i int, add func(string)) error {
				for {
					got, err := handles[i].(task.Subscriptions).ClaimSubscriptions(f.ctx, c)
					for _, sub := range got {
						add(sub.ID)
					}
					if err != nil || len(got) == 0 {
						return err
					}
				}
			})
			slices.Sort(taken)
			f.check(len(taken) <= n && len(slices.Compact(taken)) >= len(taken),
				"%d subscriptions were claimed %d times: %q", n, len(taken), taken)
			f.eventually("all are claimed", func() bool { // what was passed over, because somebody had locked it
				got, err := s.ClaimSubscriptions(f.ctx, all)
				f.ok("ClaimSubscriptions", err)
				for _, sub := range got {
					f.check(!slices.Contains(taken, sub.ID), "%s is claimed again", sub.ID)
					taken = append(taken, sub.ID)
				}
				return len(taken) == n
			})
		})},
}

// all is a claim of what is due.
var all = task.SubscriptionClaim{Limit: 100, Lease: long}

// clock is the time by the clock of a store.
func (f *fixture) clock(s task.EventLog) time.Time {
	page, err := s.Events(f.ctx, task.EventQuery{})
	f.ok("Events", err)
	return page.Now
}

// newSubscription returns one that is due.
func (f *fixture) newSubscription(s task.Subscriptions, id, principal string) *task.Subscription {
	now := f.clock(s)
	return &task.Subscription{ID: id, Principal: principal, Host: "hooks.example", Expires: now.Add(long), Due: now,
		State: []byte("state of " + id)}
}

func (f *fixture) subscribe(s task.Subscriptions, id, principal string) *task.Subscription {
	sub := f.newSubscription(s, id, principal)
	f.ok("SaveSubscription", s.SaveSubscription(f.ctx, sub, 100))
	return sub
}

// save ends the claim of a subscription that is due after a time or, if that is negative, when an event comes.
func (f *fixture) save(s task.Subscriptions, sub *task.Subscription, due time.Duration) {
	if sub.Due, sub.Leased = (time.Time{}), (time.Time{}); due >= 0 {
		sub.Due = f.clock(s).Add(due)
	}
	f.ok("SaveSubscription", s.SaveSubscription(f.ctx, sub, 0))
}

// subscribed requires that a principal has these subscriptions.
func (f *fixture) subscribed(s task.Subscriptions, principal string, want ...string) []*task.Subscription {
	found, err := s.Subscribed(f.ctx, principal)
	f.ok("Subscribed", err)
	f.wantSubscriptions("Subscribed", found, want)
	return found
}

// claimSubscriptions claims, and requires that these are taken.
func (f *fixture) claimSubscriptions(
	s task.Subscriptions, c task.SubscriptionClaim, want ...string,
) []*task.Subscription {
	taken, err := s.ClaimSubscriptions(f.ctx, c)
	f.ok("ClaimSubscriptions", err)
	f.wantSubscriptions("ClaimSubscriptions", taken, want)
	for _, sub := range taken {
		f.check(sub.Principal != "" && sub.Host != "" && len(sub.State) != 0 && sub.Version != "" && !sub.Expires.IsZero() &&
			!sub.Due.IsZero() && !sub.Leased.IsZero(),
			"the claimed subscription is %+v", sub)
	}
	return taken
}

// idleSubscriptions claims these, and saves them until an event comes.
func (f *fixture) idleSubscriptions(s task.Subscriptions, want ...string) {
	for _, sub := range f.claimSubscriptions(s, all, want...) {
		f.save(s, sub, -1)
	}
}

func (f *fixture) wantSubscriptions(what string, subs []*task.Subscription, want []string) {
	var got []string
	for _, sub := range subs {
		got = append(got, sub.ID)
	}
	slices.Sort(got)
	f.require(slices.Equal(got, want), "%s gives %q, want %q", what, got, want)
}
