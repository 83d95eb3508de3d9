package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

var subscriptionTests = needs[task.Subscriptions]([]test{
	{"a subscription is added once, and then changed by who knows its version", func(f *fixture, s task.Store) {
		sub := f.subscribe(s, "one", "alice")
		added := *sub
		got := f.subscribed(s, "alice", "one")[0]
		f.wantEqual("the subscription", got, sub)
		f.check(got.Expires.Location() == time.UTC, "it ends at %v, not in UTC", got.Expires)
		f.wantSave(s, f.newSubscription(s, "one", "alice"), 9, task.ErrConflict)
		got.Expires, got.Due, got.State = got.Expires.Add(long), time.Time{}, everyByte
		f.wantSave(s, got, 0, nil)
		changed := f.subscribed(s, "alice", "one")[0]
		f.wantEqual("the changed subscription", changed, got, cmpopts.IgnoreFields(task.Subscription{}, "Due"))
		f.check(changed.Version != added.Version, "its version is the one before it was changed")
		was := added.Version
		f.wantSave(s, &added, 9, task.ErrConflict)
		f.check(added.Version == was, "the version of what was not saved is another one")
		other := f.newSubscription(s, "two", "alice")
		other.Version = was
		f.wantSave(s, other, 9, task.ErrConflict)
		f.subscribed(s, "alice", "one")
	}},
	{"a principal has no more subscriptions than it may, and others have theirs", func(f *fixture, s task.Store) {
		f.subscribe(s, "1", "alice")
		f.subscribe(s, "2", "alice")
		f.subscribe(s, "3", "bob")
		f.wantSave(s, f.newSubscription(s, "4", "alice"), 2, task.ErrConflict)
		f.wantSave(s, f.newSubscription(s, "4", "bob"), 2, nil)
		first := f.subscribed(s, "alice", "1", "2")[0]
		f.subscribed(s, "bob", "3", "4")
		f.subscribed(s, "")
		first.Expires = time.Time{}
		f.wantSave(s, first, 0, nil)
		f.wantSave(s, f.newSubscription(s, "4a", "alice"), 2, nil)
		f.subscribed(s, "alice", "2", "4a")
	}},
	{"what has ended is no subscription any more", func(f *fixture, s task.Store) {
		f.subscribe(s, "one", "alice")
		claimed := f.claimSubscriptions(s, all, "one")[0]
		sub := f.subscribed(s, "alice", "one")[0]
		sub.Expires = time.Time{}
		f.wantSave(s, sub, 0, nil)
		f.subscribed(s, "alice")
		f.wantSave(s, claimed, 9, task.ErrConflict)
		f.wantSave(s, sub, 9, task.ErrConflict)
		again := f.subscribe(s, "one", "alice")
		f.wantSave(s, claimed, 9, task.ErrConflict)
		f.wantSave(s, sub, 9, task.ErrConflict)
		claimed = f.claimSubscriptions(s, all, "one")[0]
		f.check(string(claimed.State) == "state of one" && claimed.Version != again.Version, "it is %+v", claimed)
		f.subscribe(s, "two", "alice")
		soon := f.subscribed(s, "alice", "one", "two")[1]
		soon.Expires = f.now(s).Add(time.Millisecond)
		f.wantSave(s, soon, 0, nil)
		f.eventually("it has ended", func() bool {
			found := must(s.(task.Subscriptions).Subscribed(f.ctx, "alice"))(f, "Subscribed")
			return len(found) == 1
		})
		f.claimSubscriptions(s, all)
		f.wantSave(s, soon, 9, task.ErrConflict)
	}},
	{"events of its principal make a subscription due, also while it is claimed", func(f *fixture, s task.Store) {
		f.subscribe(s, "alice's", "alice")
		f.subscribe(s, "bob's", "bob")
		f.idleSubscriptions(s, "alice's", "bob's")
		t := f.addLogged(s, "alice")
		f.claimSubscriptions(s, all)
		f.park(s, t, question("key", "user:carol"))
		claimed := f.claimSubscriptions(s, all, "alice's")[0]
		f.claimSubscriptions(s, all)
		f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
		f.claimSubscriptions(s, all)
		f.save(s, claimed, -1)
		f.idleSubscriptions(s, "alice's")
		f.claimSubscriptions(s, all)
		end := func() { f.updateStatus(s, f.addLogged(s, "alice"), task.Completed, task.Update{Due: -1}) }
		end()
		claimed = f.claimSubscriptions(s, all, "alice's")[0]
		f.save(s, claimed, long)
		f.claimSubscriptions(s, all)
		end()
		claimed = f.claimSubscriptions(s, all, "alice's")[0] // it does not wait for what it was to be tried again
		end()
		f.save(s, claimed, long)
		f.idleSubscriptions(s, "alice's")
		f.park(s, f.addLogged(s, "alice"), question("key", "user:bob"))
		f.idleSubscriptions(s, "alice's", "bob's")
	}},
	{"a claim ends with its lease, or when its subscription is saved so", func(f *fixture, s task.Store) {
		f.subscribe(s, "one", "alice")
		short := all
		short.Lease = time.Millisecond
		before := f.now(s)
		first := f.claimSubscriptions(s, short, "one")[0]
		lease, least := first.Leased.Sub(before), short.Lease
		f.check(first.Due.Equal(first.Leased) && lease >= least && lease <= least+f.now(s).Sub(before),
			"claimed for %v, it is %v", short.Lease, lease)
		var second *task.Subscription
		f.eventually("its lease has ended", func() bool {
			taken := must(s.(task.Subscriptions).ClaimSubscriptions(f.ctx, all))(f, "ClaimSubscriptions")
			if len(taken) > 0 {
				second = taken[0]
			}
			return second != nil
		})
		f.wantSave(s, first, 9, task.ErrConflict)
		f.claimSubscriptions(s, all)
		second.State = []byte("second")
		f.save(s, second, 0)
		third := f.claimSubscriptions(s, all, "one")[0]
		f.check(string(third.State) == "second" && third.Version != second.Version, "it is %+v", third)
		prolonged := f.subscribed(s, "alice", "one")[0]
		f.check(prolonged.Leased.Equal(third.Leased) && prolonged.Due.Equal(third.Leased),
			"claimed until %v, the subscription is %+v", third.Leased, prolonged)
		prolonged.State, prolonged.Due = []byte("prolonged"), f.now(s)
		f.wantSave(s, prolonged, 9, nil)
		f.claimSubscriptions(s, all) // it is due, and still claimed
		f.wantSave(s, third, 9, task.ErrConflict)
		f.save(s, prolonged, -1)
		got := f.claimSubscriptions(s, all, "one")[0]
		f.check(string(got.State) == "prolonged", "prolonged meanwhile, the subscription is %+v", got)
	}},
	{"a claim takes what is due longest, and leaves out who has enough", func(f *fixture, s task.Store) {
		now := f.now(s)
		for i, id := range []string{"3", "1", "2", "4"} {
			sub := f.newSubscription(s, id, []string{"alice", "bob"}[i%2])
			sub.Host, sub.Due = sub.Principal+".example", now.Add(-time.Duration(9-i)*time.Second)
			f.wantSave(s, sub, 9, nil)
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
	}},
	{"several instances never claim a subscription at the same time", func(f *fixture, s task.Store) {
		const n, instances = 40, 4
		for i := range n {
			f.subscribe(s, fmt.Sprintf("%02d", i), fmt.Sprint("principal ", i%5))
		}
		handles := f.instances(s, instances)
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
			got := must(s.(task.Subscriptions).ClaimSubscriptions(f.ctx, all))(f, "ClaimSubscriptions")
			for _, sub := range got {
				f.check(!slices.Contains(taken, sub.ID), "%s is claimed again", sub.ID)
				taken = append(taken, sub.ID)
			}
			return len(taken) == n
		})
	}},
})

// all is a claim of what is due.
var all = task.SubscriptionClaim{Limit: 100, Lease: long}

// wantSave requires that saving a subscription gives this error.
func (f *fixture) wantSave(s task.Store, sub *task.Subscription, most int, want error) {
	f.wantError("SaveSubscription of "+sub.ID, s.(task.Subscriptions).SaveSubscription(f.ctx, sub, most), want)
}

// newSubscription returns one that is due.
func (f *fixture) newSubscription(s task.Store, id, principal string) *task.Subscription {
	now := f.now(s)
	return &task.Subscription{ID: id, Principal: principal, Host: "hooks.example", Expires: now.Add(long), Due: now,
		State: []byte("state of " + id)}
}

func (f *fixture) subscribe(s task.Store, id, principal string) *task.Subscription {
	sub := f.newSubscription(s, id, principal)
	f.wantSave(s, sub, 100, nil)
	return sub
}

// save ends the claim of a subscription that is due after a time or, if that is negative, when an event comes.
func (f *fixture) save(s task.Store, sub *task.Subscription, due time.Duration) {
	if sub.Due, sub.Leased = (time.Time{}), (time.Time{}); due >= 0 {
		sub.Due = f.now(s).Add(due)
	}
	f.wantSave(s, sub, 0, nil)
}

// subscribed requires that a principal has these subscriptions.
func (f *fixture) subscribed(s task.Store, principal string, want ...string) []*task.Subscription {
	found := must(s.(task.Subscriptions).Subscribed(f.ctx, principal))(f, "Subscribed")
	f.wantSubscriptions("Subscribed", found, want)
	return found
}

// claimSubscriptions claims, and requires that these are taken.
func (f *fixture) claimSubscriptions(s task.Store, c task.SubscriptionClaim, want ...string) []*task.Subscription {
	taken := must(s.(task.Subscriptions).ClaimSubscriptions(f.ctx, c))(f, "ClaimSubscriptions")
	f.wantSubscriptions("ClaimSubscriptions", taken, want)
	for _, sub := range taken {
		f.check(sub.Principal != "" && sub.Host != "" && len(sub.State) != 0 && sub.Version != "" && !sub.Expires.IsZero() &&
			!sub.Due.IsZero() && !sub.Leased.IsZero(),
			"the claimed subscription is %+v", sub)
	}
	return taken
}

// idleSubscriptions claims these, and saves them until an event comes.
func (f *fixture) idleSubscriptions(s task.Store, want ...string) {
	for _, sub := range f.claimSubscriptions(s, all, want...) {
		f.save(s, sub, -1)
	}
}

func (f *fixture) wantSubscriptions(what string, subs []*task.Subscription, want []string) {
	got := each(subs, func(sub *task.Subscription) string { return sub.ID })
	slices.Sort(got)
	f.wantEqual(what, got, want)
}
