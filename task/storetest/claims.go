package storetest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

var claimTests = []test{
	{"Fence and Attempts rise by one, the Nonce is new, and the rest of the row stays", func(f *fixture, s task.Store) {
		t := newTask("alice")
		t.Status, t.Message, t.Round, t.Attempts = task.Working, "hello", 2, -1 // as a server leaves it that stops
		t.Pending, t.Outcome = []byte("pending"), []byte("outcome")
		f.create(s, t)
		for i := range 3 {
			got := f.claimThis(s, t.ID, long)
			want := clone(t)
			want.Claim, want.Attempts = task.Claim{Fence: int64(i + 1), Nonce: got.Nonce}, i
			f.wantSame(got, want)
			f.wantRow(s, want)
			f.release(s, got)
		}
	}},
	{"each claim has a nonce of its own, of 128 bits or more, in letters and digits", func(f *fixture, s task.Store) {
		seen := make(map[string]bool)
		nonce := regexp.MustCompile(`^[\pL\p{Nd}]{22,}$`)
		note := func(how string, t *task.Task) {
			f.check(nonce.MatchString(t.Nonce), "%s: the nonce is %q", how, t.Nonce)
			f.check(!seen[t.Nonce], "%s: the nonce %s was there before", how, t.Nonce)
			seen[t.Nonce] = true
		}
		for i := range 6 {
			f.add(s, fmt.Sprint(i%2))
		}
		for range 2 {
			claimed := f.claimAll(s, "", nil, 12)
			f.require(len(claimed) == 6, "Claim took %d tasks, and 6 are due", len(claimed))
			for _, c := range claimed {
				note("Claim of several", c.Task)
				f.release(s, c.Task)
			}
		}
		t := f.addRunning(s, "alice")
		note("Create", t)
		f.update(s, t, task.Update{Lease: long})
		note("Update", t)
	}},
	{"a task is due again when its lease ends, and not before", func(f *fixture, s task.Store) {
		other := f.instances(s, 2)[1]
		t := f.add(s, "alice")
		const lease = 60 * time.Millisecond
		start := time.Now()
		first := f.claimThis(s, t.ID, lease)
		second := f.claimNext(other)
		f.wantPassed(start, lease)
		first.Fence, first.Nonce, first.Attempts = first.Fence+1, second.Nonce, 2
		f.wantSame(second, first)
		f.noneDue(s)
	}},
	{"a task that is due is claimed, though it is terminal or its time to live has ended", func(f *fixture, s task.Store) {
		for _, status := range terminal {
			t := f.addParked(s, "alice")
			t.Status, t.Stopped = status, true
			f.update(s, t, task.Update{Due: 0})
			got := f.claimThis(s, t.ID, long)
			f.check(got.Status == status && got.Stopped, "the task should be stopped and %s: %+v", status, got)
		}
		f.claimThis(s, f.past().add(s, "alice").ID, long)
	}},
	{"of a principal's tasks it takes the one that has been due longest", func(f *fixture, s task.Store) {
		tasks := f.addInTurn(s, "alice", 12)
		want := ids(tasks)
		// Those at odd places are due anew, in reverse, and so come after the others.
		for i := len(tasks) - 1; i > 0; i -= 2 {
			t := tasks[i]
			f.update(s, t, task.Update{Due: -1})
			f.update(s, t, task.Update{Due: 0})
			f.tick(s, t.Updated)
			want = append(slices.DeleteFunc(want, func(id string) bool { return id == t.ID }), t.ID)
		}
		var got []string
		for range want {
			got = append(got, f.claim(s, "alice", long).ID)
		}
		f.wantEqual("the order of the claims", got, want)
		f.noneDue(s)
	}},
	{"a lease that ended has its place by that end", func(f *fixture, s task.Store) {
		first := f.add(s, "alice")
		f.tick(s, first.Created)
		c := f.claimThis(s, first.ID, long)
		second := f.add(s, "alice")
		f.tick(s, second.Created)
		f.release(s, c)
		f.claimThis(s, second.ID, long)
		f.claimThis(s, first.ID, long)
	}},
	{"principals with as many tasks as there are free workers are skipped", func(f *fixture, s task.Store) {
		principals := slices.Sorted(slices.Values([]string{"", "\x01", "a", "a\x01", "a\x01b", "a!", "b", "ä", "日本",
			"\U0010FFFF", "\U0010FFFFz"}))
		for _, p := range principals {
			f.add(s, p)
			f.add(s, p)
		}
		for i := range 1 << len(principals) {
			var skip, want, got []string
			for n, p := range principals {
				if i>>n&1 == 1 {
					skip = append(skip, p)
				} else {
					want = append(want, p)
				}
			}
			if len(skip) > 2 && len(want) > 2 {
				continue
			}
			skip = append(skip, "nobody", "a") // also twice
			want = slices.DeleteFunc(want, func(p string) bool { return p == "a" })
			slices.Reverse(skip)
			after := principals[i%len(principals)]
			for range want {
				t := must(claimOne(s, f.ctx, after, skip, long))(f, "Claim")
				if t == nil {
					break
				}
				after = t.Principal
				got = append(got, after)
				f.release(s, t)
			}
			slices.Sort(got)
			f.wantEqual(fmt.Sprintf("the principals of one turn without %q", skip), got, want)
		}
		t, err := claimOne(s, f.ctx, "a", principals, long)
		f.check(t == nil && err == nil, "when all principals have their share Claim gave %v, %v", t, err)
	}},
	{"principals take turns", func(f *fixture, s task.Store) {
		principals := []string{"", "A", "a", "b", "B", "ä", "a ", "_", "10", "9", "日本", "zzz"}
		const each = 3
		for _, p := range principals {
			for range each {
				f.add(s, p)
			}
		}
		var order []string
		after := ""
		for range each * len(principals) {
			after = f.claim(s, after, long).Principal
			order = append(order, after)
		}
		first := order[:len(principals)]
		f.wantEqual("the principals in turn", order, slices.Repeat(first, each))
		f.wantEqual("the principals", slices.Sorted(slices.Values(first)), slices.Sorted(slices.Values(principals)))
		f.noneDue(s)
	}},
	{"a principal with one task does not wait for one with a thousand, after any other", func(f *fixture, s task.Store) {
		for range 1000 {
			f.add(s, "with many")
		}
		f.add(s, "a few")
		for _, turn := range []struct{ after, want string }{{"a few", "with many"}, {"with many", "a few"},
			{"a few", "with many"}} {
			t := f.claim(s, turn.after, long)
			f.check(t.Principal == turn.want, "after %q came a task of %q, want %q", turn.after, t.Principal, turn.want)
		}
		for _, after := range []string{"with many", "", "a", "z", "with many ", "日本", "'", "\U0010FFFF"} {
			t := f.claim(s, after, long)
			f.check(t.Principal == "with many", "after %q came a task of %q", after, t.Principal)
		}
	}},
	{"a principal whose tasks are not due has no turn", func(f *fixture, s task.Store) {
		want := make(map[string]bool)
		for i := range 20 {
			p := fmt.Sprint(i)
			f.addParked(s, p)
			switch t := f.add(s, p); i % 3 {
			case 0:
				f.claimThis(s, t.ID, long)
			case 1:
				f.update(s, t, task.Update{Due: long})
			case 2:
				f.update(s, t, task.Update{Due: -1})
			}
		}
		for i := 0; i < 20; i += 4 {
			f.add(s, fmt.Sprint(i))
			want[fmt.Sprint(i)] = true
		}
		after := "0"
		for range len(want) {
			after = f.claim(s, after, long).Principal
			f.check(want[after], "%q had a turn without a task that is due, or a second one", after)
			delete(want, after)
		}
		f.noneDue(s)
	}},
	{"several tasks are claimed at once, with their journals, and no principal gets a second one before each has one",
		func(f *fixture, s task.Store) {
			want := make(map[string][]string) // the IDs of each principal, those first that have been due longest
			for _, n := range []int{3, 1, 2} {
				for _, p := range []string{"a", "b", "c", "d"}[:n] {
					t := newTask(p)
					f.create(s, t, "one of "+p, "", "two of "+t.ID)
					want[p] = append(want[p], t.ID)
					f.tick(s, t.Created)
				}
			}
			f.add(s, "busy")
			busy := []task.Load{{Principal: "busy", Target: "deploy", Tasks: 4}}
			left := 6
			for after := "a"; left > 0; {
				claimed := must(s.Claim(f.ctx, after, busy, long, 4))(f, "Claim")
				f.require(len(claimed) > 0 && len(claimed) <= 4, "of %d that are due it took %d, want 1 to 4", left, len(claimed))
				most := 1
				got := make(map[string]int)
				for _, c := range claimed {
					after = c.Principal
					if got[after]++; got[after] > most {
						most++
						for p, ids := range want {
							f.check(len(ids) == 0 || p == after || got[p] > 0, "%q got a second task before %q had one", after, p)
						}
					}
					f.require(len(want[after]) > 0 && want[after][0] == c.ID,
						"Claim took %s of %q, want the first of %q", c.ID, after, want[after])
					want[after] = want[after][1:]
					f.check(c.Fence == 1 && c.Attempts == 1, "not the first claim: %+v", c)
					f.wantRow(s, c.Task)
					f.wantEqual("the journal", append(c.Entries, c.Call), list("one of "+after, "", "two of "+c.ID, "call"))
					left--
				}
			}
			f.check(len(f.claimAll(s, "", busy, 4)) == 0, "Claim took a task of who is busy")
		}},
	{"each task goes to the principal with the fewest, below the number of free workers", func(f *fixture, s task.Store) {
		for _, tt := range []struct {
			free           int
			has, due, want map[string]int
		}{
			{free: 1, due: map[string]int{"a": 9}, want: map[string]int{"a": 1}},
			{free: 2, due: map[string]int{"a": 9}, want: map[string]int{"a": 1}},
			{free: 3, due: map[string]int{"a": 9}, want: map[string]int{"a": 2}},
			{free: 16, due: map[string]int{"a": 20}, want: map[string]int{"a": 8}},
			{free: 16, due: map[string]int{"a": 3}, want: map[string]int{"a": 3}},
			{free: 16, due: map[string]int{"a": 20, "b": 20}, want: map[string]int{"a": 6, "b": 5}},
			{free: 16, due: map[string]int{"a": 20, "b": 20, "c": 20}, want: map[string]int{"a": 4, "b": 4, "c": 4}},
			{free: 8, due: map[string]int{"a": 20}, has: map[string]int{"a": 8}, want: map[string]int{}},
			{free: 9, due: map[string]int{"a": 20}, has: map[string]int{"a": 7}, want: map[string]int{"a": 1}},
			{free: 8, due: map[string]int{"a": 20, "b": 20}, has: map[string]int{"a": 8}, want: map[string]int{"b": 4}},
			{free: 8, due: map[string]int{"a": 20, "b": 1}, has: map[string]int{"a": 4, "b": 7}, want: map[string]int{"a": 2}},
			{free: 4, due: map[string]int{"a": 9, "b": 9}, has: map[string]int{"a": 3, "b": 3}, want: map[string]int{"a": 1}},
			{free: 3, due: map[string]int{"a": 9, "b": 9, "c": 9, "d": 9}, has: map[string]int{"a": 1, "b": 2, "c": 1},
				want: map[string]int{"d": 1, "a": 1}},
			{free: 2, due: map[string]int{"a": 9, "b": 9, "c": 9}, has: map[string]int{"a": 1, "b": 1},
				want: map[string]int{"c": 1}},
		} {
			prefix := newID() // of principals; the others have no more that is due
			var load []task.Load
			for p, n := range tt.has {
				load = append(load, task.Load{Principal: prefix + p, Target: "other", Tasks: n})
			}
			for p, n := range tt.due {
				for range n {
					f.add(s, prefix+p)
				}
			}
			got := make(map[string]int)
			for _, c := range f.claimAll(s, prefix, load, tt.free) {
				got[strings.TrimPrefix(c.Principal, prefix)]++
			}
			f.wantEqual(fmt.Sprintf("with %d free workers, %v running and %v due", tt.free, tt.has, tt.due), got, tt.want)
			for f.tryClaim(s, "", long) != nil { // nothing is left for the next case
			}
		}
	}},
	{"the targets of a principal take turns", func(f *fixture, s task.Store) {
		for _, target := range strings.Split("slow slow slow slow slow quick quick quick ", " ") {
			t := newTask("alice")
			t.Target = target
			f.tick(s, f.create(s, t).Created)
		}
		running := map[string]int{}
		claim := func(want string) {
			load := []task.Load{{Principal: "bob", Target: "quick", Tasks: 50}}
			n := 0
			for target, tasks := range running {
				load = append(load, task.Load{Principal: "alice", Target: target, Tasks: tasks})
				n += tasks
			}
			claimed := must(s.Claim(f.ctx, "", load, long, n+1))(f, "Claim") // room for one
			f.require(len(claimed) == 1 && claimed[0].Target == want,
				"with %v running Claim took %d tasks, want one of %q: %+v", running, len(claimed), want, claimed)
			running[want]++
		}
		for _, target := range []string{"slow", "quick", "", "slow", "quick"} {
			claim(target)
		}
		delete(running, "quick") // they were quick
		claim("quick")
		claim("slow")
	}},
	{"several tasks that are claimed at once are of all targets", func(f *fixture, s task.Store) {
		for _, target := range []string{"slow", "quick"} {
			for range 30 {
				t := newTask("alice")
				t.Target = target
				f.create(s, t)
			}
		}
		got := make(map[string]int)
		for _, c := range f.claimAll(s, "", nil, 16) {
			got[c.Target]++
		}
		f.check(got["slow"] == 4 && got["quick"] == 4, "of 16 workers %v were taken, want 4 for each", got)
	}},
	{"instances that claim at the same time get all tasks, each once", func(f *fixture, s task.Store) {
		const n = 120
		handles := f.instances(s, 2)
		var want []string
		for i := range n {
			want = append(want, f.add(s, fmt.Sprint(i%5)).ID)
		}
		claimed := together(&f.suite, 8, func(i int, add func(string)) error {
			after := ""
			for range n + 1 {
				claimed, err := handles[i%2].Claim(f.ctx, after, nil, long, 1+i/2)
				if len(claimed) == 0 || err != nil {
					return err
				}
				for _, t := range claimed {
					after = t.Principal
					add(t.ID)
				}
			}
			return nil
		})
		f.wantEqual("what was claimed", slices.Sorted(slices.Values(claimed)), slices.Sorted(slices.Values(want)))
		f.noneDue(s)
	}},
}

var renewTests = []test{
	{"a lease can be renewed, also when it has ended, while nobody has claimed the task; it returns the Version",
		func(f *fixture, s task.Store) {
			c := f.addLeased(s)
			for range 3 {
				f.release(s, c)
				f.renew(s, c, long)
				f.noneDue(s)
				f.wantRow(s, c)
				f.update(s, c, task.Update{Keep: true})
			}
		}},
	{"after another claim it is ErrLeaseLost, and the new lease stays as it is", func(f *fixture, s task.Store) {
		lost, current := f.loseLease(s, f.instances(s, 2)[1])
		for _, claim := range others(lost, current) {
			f.wantRenew(s, lost.ID, claim, task.ErrLeaseLost)
		}
		f.noneDue(s)
		f.wantRow(s, current)
	}},
	{"several leases are renewed at once, each for itself, with results in their order", func(f *fixture, s task.Store) {
		lost, current := f.loseLease(s, f.instances(s, 2)[1])
		held, other := f.addLeased(s), f.addLeased(s)
		f.update(s, other, task.Update{Keep: true})
		parked := f.addLeased(s)
		f.update(s, parked, task.Update{Due: -1})
		given := f.addLeased(s)
		const lease = 60 * time.Millisecond
		start := time.Now()
		renewed, err := s.Renew(f.ctx, []task.Leased{
			{ID: held.ID, Claim: held.Claim}, {ID: lost.ID, Claim: lost.Claim}, {ID: newID(), Claim: held.Claim},
			{ID: other.ID, Claim: other.Claim}, {ID: parked.ID, Claim: parked.Claim}, {ID: held.ID, Claim: lost.Claim},
			{ID: lost.ID, Claim: current.Claim},
		}, lease)
		f.ok("Renew", err)
		f.wantEqual("Renew", renewed, []task.Renewed{{}, {Err: task.ErrLeaseLost}, {Err: task.ErrNotFound}, {Version: 1},
			{Version: 1}, {Err: task.ErrLeaseLost}, {}}, cmpopts.EquateErrors())
		want, due := []string{held.ID, other.ID, lost.ID}, []string(nil)
		for range want {
			due = append(due, f.claimNext(s).ID)
		}
		f.wantPassed(start, lease)
		f.wantEqual("those that are due after the new time", slices.Sorted(slices.Values(due)),
			slices.Sorted(slices.Values(want)))
		f.noneDue(s)
		f.wantRow(s, given) // nobody has named it
		renewed, err = s.Renew(f.ctx, nil, long)
		f.check(len(renewed) == 0 && err == nil, "Renew of no leases: %v, %v", renewed, err)
	}},
}

// wantClaimed requires that a task, whose journal has these entries, is claimed until its lease is given back.
func (f *fixture) wantClaimed(s task.Store, t *task.Task, entries ...string) {
	for _, s := range f.instances(s, 2) {
		f.wantRow(s, t)
		f.noneDue(s)
	}
	f.append(s, t.ID, t.Claim, "step")
	f.wantJournal(s, t.ID, append(entries, "step")...)
	f.release(s, t)
	c := f.claimThis(s, t.ID, long)
	f.check(c.Fence == t.Fence+1, "the next claim has the Fence %d, want %d", c.Fence, t.Fence+1)
}

// claimAll claims for a server that runs load and has so many free workers, until it gets nothing more. A store may
// leave some tasks for the next Claim, whose load counts those before.
func (f *fixture) claimAll(s task.Store, after string, load []task.Load, free int) (all []*task.Claimed) {
	running := make(map[task.Load]int)
	for _, l := range load {
		running[task.Load{Principal: l.Principal, Target: l.Target}] = l.Tasks
	}
	for {
		load = load[:0]
		for l, n := range running {
			l.Tasks = n
			load = append(load, l)
		}
		claimed := must(s.Claim(f.ctx, after, load, long, free-len(all)))(f, "Claim")
		if len(claimed) == 0 {
			return all
		}
		for _, c := range claimed {
			running[task.Load{Principal: c.Principal, Target: c.Target}]++
		}
		all = append(all, claimed...)
	}
}
