package bound

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestPool(t *testing.T) {
	type take struct {
		principal string
		n         int
		full      Whose // empty: it is given
	}
	for name, takes := range map[string][]take{
		"a principal's share": {{"alice", 3, ""}, {"alice", 1, Principal}, {"bob", 1, ""}},
		"at once":             {{"alice", 4, Principal}, {"alice", 3, ""}},
		"the anonymous share": {{"", 2, ""}, {"", 1, Anonymous}, {"alice", 1, ""}},
		"the total": {{"alice", 3, ""}, {"bob", 3, ""}, {"carol", 2, ""}, {"carol", 1, Everybody},
			{"", 1, Everybody}},
		"its own limit first": {{"alice", 3, ""}, {"bob", 3, ""}, {"carol", 2, ""}, {"alice", 1, Principal}},
		"room for newcomers": {{"alice", 3, ""}, {"bob", 2, ""}, {"bob", 1, Others}, {"carol", 1, ""}, {"dave", 1, ""},
			{"", 1, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPool("things", Share{Total: 8, PerPrincipal: 3, Anonymous: 2})
			var holds []*Hold
			for _, take := range takes {
				hold, err := p.Take(take.principal, take.n)
				holds = append(holds, &hold)
				full, ok := errors.AsType[*FullError](err)
				if ok != (take.full != "") || ok && (full.Whose != take.full || !strings.Contains(err.Error(), "things")) {
					t.Errorf("%+v: %v", take, err)
				}
			}
			for _, hold := range holds {
				hold.Release()
				hold.Release()
			}
			p.mustBeEmpty(t)
		})
	}
}

func (p *Pool) mustBeEmpty(t testing.TB) {
	t.Helper()
	if p.all != (holder{}) || len(p.held) != 0 {
		t.Errorf("all was given back, and the pool holds %+v for %v", p.all, p.held)
	}
}

func TestAPrincipalAloneReachesItsLimit(t *testing.T) {
	for _, own := range []int{1, 4, 8, 12, 16} {
		p := NewPool("things", Share{Total: 16, PerPrincipal: own, Anonymous: own})
		for i := range own {
			if _, err := p.Take("alice", 1); err != nil {
				t.Errorf("%d of %d: %v", i+1, own, err)
			}
		}
	}
}

func TestAHoldGrows(t *testing.T) {
	p := NewPool("bytes", Share{Total: 8, PerPrincipal: 4, Anonymous: 2})
	hold, err := p.Take("alice", 3)
	if err != nil || hold.Resize(5) == nil || hold.Resize(4) != nil {
		t.Errorf("3 of 4 (%v) were to grow by 1, and not by 2", err)
	}
	if hold.Resize(2) != nil || hold.Resize(4) != nil {
		t.Error("what was given back cannot be taken again")
	}
	hold.Release()
	if _, err := p.Take("alice", 4); err != nil {
		t.Error("after the release:", err)
	}
}

// waiter has a Hold and records that it has given way.
type waiter struct {
	Hold
	because *FullError
	worked  bool // when it gave way
	works   func(*waiter) bool
}

func (w *waiter) GiveWay(because *FullError) {
	w.because = because
	w.worked = w.works != nil && w.works(w)
}

func mustTake(t *testing.T, p *Pool, principal string, n int) *waiter {
	t.Helper()
	hold, err := p.Take(principal, n)
	if err != nil {
		t.Fatalf("%s, %d: %v", principal, n, err)
	}
	return &waiter{Hold: hold}
}

// What waits gives way to the newcomer: of the largest holder, and there what has cost most.
func TestWhatWaitsGivesWay(t *testing.T) {
	type held struct {
		principal string
		n         int
		waited    time.Duration // zero: it does not wait
	}
	for name, c := range map[string]struct {
		held []held
		take held
		goes []int
		full Whose
	}{
		"the oldest of the same principal": {
			held: []held{{"alice", 1, 2}, {"alice", 1, 3}, {"alice", 1, 1}, {"alice", 1, 0}, {"bob", 1, 9}},
			take: held{"alice", 1, 0}, goes: []int{1},
		},
		"the one that has cost most": {
			held: []held{{"alice", 1, 4}, {"alice", 3, 2}},
			take: held{"alice", 1, 0}, goes: []int{1},
		},
		"as many as it takes": {
			held: []held{{"alice", 1, 4}, {"alice", 1, 3}, {"alice", 2, 1}},
			take: held{"alice", 2, 0}, goes: []int{0, 1},
		},
		"none, where all of them are too few": {
			held: []held{{"alice", 3, 0}, {"alice", 1, 5}},
			take: held{"alice", 2, 0}, full: Principal,
		},
		"none of another principal's, where the own limit is reached": {
			held: []held{{"alice", 4, 0}, {"bob", 4, 5}},
			take: held{"alice", 1, 0}, full: Principal,
		},
		"the largest holder's, where the total is reached": {
			held: []held{{"alice", 3, 5}, {"bob", 2, 1}, {"bob", 2, 2}, {"carol", 3, 5}, {"dave", 2, 5}},
			take: held{"eve", 1, 0}, goes: []int{2},
		},
		"the next one's, where the largest holder works": {
			held: []held{{"alice", 4, 0}, {"bob", 4, 0}, {"carol", 3, 1}, {"dave", 1, 9}},
			take: held{"eve", 1, 0}, goes: []int{2},
		},
		"the newcomer's own, who is the largest holder": {
			held: []held{{"alice", 3, 5}, {"bob", 3, 5}, {"carol", 3, 5}, {"dave", 2, 1}, {"dave", 1, 1}},
			take: held{"dave", 1, 0}, goes: []int{3},
		},
		"the anonymous callers', who are one holder": {
			held: []held{{"", 1, 1}, {"", 1, 5}, {"", 1, 0}, {"alice", 2, 9}},
			take: held{"", 1, 0}, goes: []int{1},
		},
		"nothing, where all work": {
			held: []held{{"alice", 4, 0}, {"bob", 4, 0}, {"carol", 4, 0}},
			take: held{"dave", 1, 0}, full: Everybody,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPool("things", Share{Total: 12, PerPrincipal: 4, Anonymous: 3})
				now := time.Now()
				var all []*waiter
				for _, h := range c.held {
					// At once, as what waits is later what was let in before.
					w := &waiter{Hold: Hold{pool: p, principal: h.principal}}
					p.add(&w.Hold, h.n)
					if h.waited > 0 {
						w.Wait(w)
						w.since = now.Add(-h.waited * time.Second)
					}
					all = append(all, w)
				}
				taken, err := p.Take(c.take.principal, c.take.n)
				full, _ := errors.AsType[*FullError](err)
				if (full == nil) != (c.full == "") || full != nil && full.Whose != c.full {
					t.Errorf("got %v, want %q", err, c.full)
				}
				goes := make(map[int]bool)
				for _, i := range c.goes {
					goes[i] = true
				}
				for i, w := range all {
					if gave := w.because != nil; gave != goes[i] {
						t.Errorf("%d gave way: %v (%v)", i, gave, w.because)
					}
					if resumed := w.Resume(); (resumed != nil) != goes[i] || goes[i] && w.Resize(1) == nil {
						t.Errorf("%d resumes: %v", i, resumed)
					}
					w.Release()
				}
				taken.Release()
				p.mustBeEmpty(t)
			})
		})
	}
}

// Work is not interrupted, also after a wait.
func TestWhatWorksDoesNotGiveWay(t *testing.T) {
	p := NewPool("things", Share{Total: 4, PerPrincipal: 2, Anonymous: 2})
	first, second := mustTake(t, p, "alice", 1), mustTake(t, p, "alice", 1)
	first.Wait(first)
	expect.Check(t, first.Resume())
	second.Wait(second)
	mustTake(t, p, "alice", 1)
	if first.because != nil || second.because == nil || !strings.Contains(second.because.Error(), "gave way") {
		t.Errorf("the one that works gave way: %v, the one that waits: %v", first.because, second.because)
	}
	if _, err := p.Take("alice", 1); err == nil {
		t.Error("a third one that works was let in")
	}
	mustTake(t, p, "bob", 1)
}

// A small Hold is not driven out by many small ones that were there before, nor a large one that is young by old ones.
func TestNobodyIsDrivenOutByWhatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool("bytes", Share{Total: 256, PerPrincipal: 64, Anonymous: 128})
		for range 120 {
			w := mustTake(t, p, "", 1)
			w.Wait(w)
		}
		time.Sleep(30 * time.Second)
		honest := mustTake(t, p, "", 8)
		honest.Wait(honest)
		for range 60 { // others come while it arrives
			time.Sleep(50 * time.Millisecond)
			w := mustTake(t, p, "", 1)
			w.Wait(w)
		}
		if honest.because != nil {
			t.Errorf("an upload of 3 seconds was driven out by what stood still: %v", honest.because)
		}
	})
}

// Whatever is taken, resized, waits and is released: no limit is exceeded, nothing that works is taken from its holder,
// nothing is forgotten, and a principal who has nothing is let in as long as something is left or waits.
func TestLawOfPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := Share{Total: rapid.IntRange(4, 40).Draw(t, "total")}
		share.PerPrincipal = rapid.IntRange(1, share.Total).Draw(t, "principal")
		share.Anonymous = rapid.IntRange(1, share.Total).Draw(t, "anonymous")
		p := NewPool("things", share)
		var all []*waiter
		waits := make(map[*waiter]bool)
		pick := func() *waiter {
			if len(all) == 0 {
				t.Skip("nothing is held")
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "hold")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				principal := rapid.SampledFrom([]string{"", "alice", "bob", "carol", "dave"}).Draw(t, "principal")
				n := rapid.IntRange(0, 3).Draw(t, "n")
				before, left := p.held[principal], share.Total-p.all.works()
				hold, err := p.Take(principal, n)
				if err != nil && before.n == 0 && n == 1 && left > 0 {
					t.Errorf("%q has nothing, and is refused one where %d are left or wait: %v", principal, left, err)
				}
				if err == nil {
					all = append(all, &waiter{Hold: hold, works: func(w *waiter) bool { return !waits[w] }})
				}
			},
			"wait":    func(*rapid.T) { w := pick(); w.Wait(w); waits[w] = true },
			"resume":  func(*rapid.T) { w := pick(); _ = w.Resume(); waits[w] = false },
			"resize":  func(t *rapid.T) { _ = pick().Resize(rapid.IntRange(0, 5).Draw(t, "n")) },
			"release": func(*rapid.T) { w := pick(); w.Release(); waits[w] = false },
			"": func(t *rapid.T) {
				var counted holder
				byPrincipal := make(map[string]holder)
				for _, w := range all {
					own := byPrincipal[w.principal]
					if w.waiter != nil {
						counted.waits += w.n
						own.waits += w.n
					}
					counted.n += w.n
					own.n += w.n
					byPrincipal[w.principal] = own
					if w.because != nil && w.n > 0 {
						t.Errorf("a Hold gave way and is of %d", w.n)
					}
					if w.worked {
						t.Error("a Hold that was worked on gave way")
					}
				}
				if counted != p.all || counted.n > share.Total {
					t.Errorf("the pool counts %+v of %d; held are %+v", p.all, share.Total, counted)
				}
				for principal, own := range byPrincipal {
					limit, _ := p.own(principal)
					is := p.held[principal]
					is.waiting = nil
					if own != is || own.n > limit {
						t.Errorf("%q holds %+v of %d; the pool counts %+v", principal, own, limit, is)
					}
				}
			},
		})
		for _, w := range all {
			w.Release()
		}
		if p.all != (holder{}) || len(p.held) != 0 {
			t.Errorf("all was given back, and the pool holds %+v for %v", p.all, p.held)
		}
	})
}

func TestNoLimit(t *testing.T) {
	var p *Pool
	hold, err := p.Take("alice", 1<<40)
	if err != nil || hold.Resize(1<<40) != nil {
		t.Error("a nil pool has a limit")
	}
	hold.Wait(new(waiter))
	if hold.Resume() != nil {
		t.Error("a Hold of a nil pool gave way")
	}
	hold.Release()
}

func TestPoolIsSafeForConcurrentUse(t *testing.T) {
	p := NewPool("things", Share{Total: 8, PerPrincipal: 3, Anonymous: 2})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				hold, _ := p.Take(fmt.Sprint(i%4), 1)
				hold.Wait(ignore{})
				_ = hold.Resume()
				hold.Release()
			}
		})
	}
	all.Wait()
	p.mustBeEmpty(t)
}

// ignore is a Waiter that does not care.
type ignore struct{}

func (ignore) GiveWay(*FullError) {}
