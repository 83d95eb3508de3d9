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
	{"a subscription is added once, and prolonged with new terms, as it has come", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			sub := f.subscribe(s, "one", "alice", long)
			if sub.Version != 1 || string(sub.Progress) != "start of one" || sub.Expires.Location() != time.UTC {
				f.Errorf("the subscription is %+v", sub)
			}
			claimed := f.claimSubscriptions(s, all, "one")[0]
			claimed.Progress = everyByte
			f.ok("SettleSubscription", s.SettleSubscription(f.ctx, claimed, -1))
			again := newSubscription("one", "alice")
			again.Host, again.Terms, again.Progress = "other.example", []byte("other terms"), []byte("from the start")
			f.ok("Subscribe", s.Subscribe(f.ctx, again, 2*long, 1))
			if again.Version != 2 || string(again.Progress) != string(everyByte) || !again.Expires.After(sub.Expires) {
				f.Errorf("the subscription is %+v", again)
			}
			got := f.subscribed(s, "alice", "one")[0]
			if string(got.Terms) != "other terms" || got.Host != "other.example" || got.Version != 2 ||
				!got.Expires.Equal(again.Expires) || string(got.Progress) != string(everyByte) || got.Claim != "" {
				f.Errorf("the subscription is %+v", got)
			}
			f.claimSubscriptions(s, all, "one") // prolonged, it is due
		})},
	{"a principal has no more subscriptions than it may, and others have theirs", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			f.subscribe(s, "1", "alice", long)
			f.subscribe(s, "2", "alice", long)
			f.subscribe(s, "3", "bob", long)
			f.wantError("Subscribe", s.Subscribe(f.ctx, newSubscription("4", "alice"), long, 2), task.ErrQuota)
			f.ok("Subscribe", s.Subscribe(f.ctx, newSubscription("2", "alice"), long, 2))
			f.ok("Subscribe", s.Subscribe(f.ctx, newSubscription("4", "bob"), long, 2))
			f.subscribed(s, "alice", "1", "2")
			f.subscribed(s, "bob", "3", "4")
			f.subscribed(s, "")
			f.ok("Unsubscribe", s.Unsubscribe(f.ctx, "1"))
			f.wantError("Unsubscribe", s.Unsubscribe(f.ctx, "1"), task.ErrNotFound)
			f.ok("Subscribe", s.Subscribe(f.ctx, newSubscription("4a", "alice"), long, 2))
			f.subscribed(s, "alice", "2", "4a")
		})},
	{"what has ended is no subscription any more", subscribes(func(f *fixture, s task.Subscriptions, _ task.Store) {
		f.subscribe(s, "one", "alice", time.Millisecond)
		f.eventually("it has ended", func() bool {
			found, err := s.Subscribed(f.ctx, "alice")
			f.ok("Subscribed", err)
			return len(found) == 0
		})
		f.wantError("Unsubscribe", s.Unsubscribe(f.ctx, "one"), task.ErrNotFound)
		f.claimSubscriptions(s, all)
		f.subscribe(s, "two", "alice", 5*time.Millisecond)
		late, err := s.ClaimSubscriptions(f.ctx, all)
		f.ok("ClaimSubscriptions", err)
		f.eventually("it has ended", func() bool {
			found, err := s.Subscribed(f.ctx, "alice")
			f.ok("Subscribed", err)
			return len(found) == 0
		})
		next := newSubscription("two", "alice")
		next.Progress = []byte("anew")
		f.ok("Subscribe", s.Subscribe(f.ctx, next, long, 1))
		if string(next.Progress) != "anew" {
			f.Errorf("a subscription that had ended goes on as %q", next.Progress)
		}
		for _, sub := range late {
			f.wantError("SettleSubscription", s.SettleSubscription(f.ctx, sub, -1), task.ErrLeaseLost)
		}
		f.claimSubscriptions(s, all, "two")
	})},
	{"events of its principal make a subscription due, also while it is claimed", subscribes(
		func(f *fixture, s task.Subscriptions, store task.Store) {
			f.subscribe(s, "alice's", "alice", long)
			f.subscribe(s, "bob's", "bob", long)
			f.idleSubscriptions(s, "alice's", "bob's")
			t := f.addLogged(store, "alice")
			f.claimSubscriptions(s, all)
			f.park(store, t, question("key", "user:carol"))
			claimed := f.claimSubscriptions(s, all, "alice's")
			f.claimSubscriptions(s, all)
			f.updateStatus(store, t, task.Completed, task.Update{Due: -1})
			f.claimSubscriptions(s, all)
			f.ok("SettleSubscription", s.SettleSubscription(f.ctx, claimed[0], -1))
			f.idleSubscriptions(s, "alice's")
			other := f.addLogged(store, "alice")
			f.updateStatus(store, other, task.Completed, task.Update{Due: -1})
			claimed = f.claimSubscriptions(s, all, "alice's")
			f.ok("SettleSubscription", s.SettleSubscription(f.ctx, claimed[0], long))
			f.claimSubscriptions(s, all)
			other = f.addLogged(store, "alice")
			f.updateStatus(store, other, task.Completed, task.Update{Due: -1})
			f.idleSubscriptions(s, "alice's") // it does not wait for what it was to be tried again
			other = f.addLogged(store, "alice")
			f.park(store, other, question("key", "user:bob"))
			f.idleSubscriptions(s, "alice's", "bob's")
		})},
	{"a claim ends with its lease, and only its holder settles it", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			f.subscribe(s, "one", "alice", long)
			short := all
			short.Lease = time.Millisecond
			first := f.claimSubscriptions(s, short, "one")[0]
			var second *task.Subscription
			f.eventually("its lease has ended", func() bool {
				taken, err := s.ClaimSubscriptions(f.ctx, all)
				f.ok("ClaimSubscriptions", err)
				if len(taken) > 0 {
					second = taken[0]
				}
				return second != nil
			})
			first.Progress = []byte("late")
			f.wantError("SettleSubscription", s.SettleSubscription(f.ctx, first, -1), task.ErrLeaseLost)
			second.Progress, second.Terms = []byte("second"), []byte("sealed again")
			f.ok("SettleSubscription", s.SettleSubscription(f.ctx, second, 0))
			f.wantError("SettleSubscription", s.SettleSubscription(f.ctx, second, 0), task.ErrLeaseLost)
			third := f.claimSubscriptions(s, all, "one")[0]
			if string(third.Progress) != "second" || string(third.Terms) != "sealed again" || third.Claim == second.Claim {
				f.Errorf("the subscription is %+v", third)
			}
			f.ok("Subscribe", s.Subscribe(f.ctx, newSubscription("one", "alice"), long, 1))
			f.claimSubscriptions(s, all) // it is prolonged, and still claimed
			third.Progress, third.Terms = []byte("third"), []byte("sealed again")
			f.ok("SettleSubscription", s.SettleSubscription(f.ctx, third, -1))
			got := f.claimSubscriptions(s, all, "one")[0]
			if string(got.Progress) != "third" || string(got.Terms) != "terms of one" {
				f.Errorf("prolonged meanwhile, the subscription is %+v", got)
			}
			f.ok("Unsubscribe", s.Unsubscribe(f.ctx, "one"))
			f.wantError("SettleSubscription", s.SettleSubscription(f.ctx, got, -1), task.ErrLeaseLost)
			f.wantError("SettleSubscription", s.SettleSubscription(f.ctx, newSubscription("two", "alice"), -1),
				task.ErrLeaseLost)
		})},
	{"a claim takes some of each principal and for each host, and leaves out who has enough", subscribes(
		func(f *fixture, s task.Subscriptions, _ task.Store) {
			for i := range 4 {
				for _, principal := range []string{"alice", "bob"} {
					f.subscribe(s, fmt.Sprint(principal, i), principal, long)
				}
			}
			sub := newSubscription("carol", "carol")
			sub.Host = "third.example"
			f.ok("Subscribe", s.Subscribe(f.ctx, sub, long, 1))
			c := all
			c.Each, c.Principals = 2, []string{"bob", "nobody"}
			if got := f.principals(s, c); !slices.Equal(got, []string{"alice", "alice", "carol"}) {
				f.Errorf("the claim took subscriptions of %q", got)
			}
			c.Each, c.Principals, c.Hosts = 9, nil, []string{"hooks.example"}
			if got := f.principals(s, c); got != nil {
				f.Errorf("the claim took subscriptions of %q", got)
			}
			c.Hosts, c.Limit = nil, 1
			if got := f.principals(s, c); len(got) != 1 {
				f.Errorf("the claim took subscriptions of %q", got)
			}
			c.Limit, c.Each = 9, 3 // for one host, of any principal
			if got := f.principals(s, c); len(got) != 3 {
				f.Errorf("the claim took subscriptions of %q", got)
			}
		})},
	{"several instances never claim a subscription at the same time", subscribes(
		func(f *fixture, s task.Subscriptions, store task.Store) {
			const n, instances = 40, 4
			for i := range n {
				f.subscribe(s, fmt.Sprintf("%02d", i), fmt.Sprint("principal ", i%5), long)
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
			if len(taken) > n || len(slices.Compact(taken)) < len(taken) {
				f.Errorf("%d subscriptions were claimed %d times: %q", n, len(taken), taken)
			}
			f.eventually("all are claimed", func() bool { // what was passed over, because somebody had locked it
				got, err := s.ClaimSubscriptions(f.ctx, all)
				f.ok("ClaimSubscriptions", err)
				for _, sub := range got {
					if slices.Contains(taken, sub.ID) {
						f.Errorf("%s is claimed again", sub.ID)
					}
					taken = append(taken, sub.ID)
				}
				return len(taken) == n
			})
		})},
}

// all is a claim of what is due.
var all = task.SubscriptionClaim{Each: 100, Limit: 100, Lease: long}

func newSubscription(id, principal string) *task.Subscription {
	return &task.Subscription{ID: id, Principal: principal, Host: "hooks.example", Terms: []byte("terms of " + id),
		Progress: []byte("start of " + id)}
}

func (f *fixture) subscribe(s task.Subscriptions, id, principal string, ttl time.Duration) *task.Subscription {
	f.Helper()
	sub := newSubscription(id, principal)
	f.ok("Subscribe", s.Subscribe(f.ctx, sub, ttl, 100))
	return sub
}

// subscribed requires that a principal has these subscriptions.
func (f *fixture) subscribed(s task.Subscriptions, principal string, want ...string) []*task.Subscription {
	f.Helper()
	found, err := s.Subscribed(f.ctx, principal)
	f.ok("Subscribed", err)
	f.wantSubscriptions("Subscribed", found, want)
	return found
}

// claimSubscriptions claims, and requires that these are taken.
func (f *fixture) claimSubscriptions(
	s task.Subscriptions, c task.SubscriptionClaim, want ...string,
) []*task.Subscription {
	f.Helper()
	taken, err := s.ClaimSubscriptions(f.ctx, c)
	f.ok("ClaimSubscriptions", err)
	f.wantSubscriptions("ClaimSubscriptions", taken, want)
	for _, sub := range taken {
		if sub.Claim == "" || sub.Principal == "" || sub.Host == "" || len(sub.Terms) == 0 || sub.Version == 0 ||
			sub.Expires.IsZero() {
			f.Errorf("the claimed subscription is %+v", sub)
		}
	}
	return taken
}

// idleSubscriptions claims these, and settles them until an event comes.
func (f *fixture) idleSubscriptions(s task.Subscriptions, want ...string) {
	f.Helper()
	for _, sub := range f.claimSubscriptions(s, all, want...) {
		f.ok("SettleSubscription", s.SettleSubscription(f.ctx, sub, -1))
	}
}

func (f *fixture) wantSubscriptions(what string, subs []*task.Subscription, want []string) {
	f.Helper()
	var got []string
	for _, sub := range subs {
		got = append(got, sub.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		f.Fatalf("%s gives %q, want %q", what, got, want)
	}
}

// principals claims, and returns whose subscriptions were taken.
func (f *fixture) principals(s task.Subscriptions, c task.SubscriptionClaim) (all []string) {
	f.Helper()
	taken, err := s.ClaimSubscriptions(f.ctx, c)
	f.ok("ClaimSubscriptions", err)
	for _, sub := range taken {
		all = append(all, sub.Principal)
	}
	slices.Sort(all)
	return all
}
