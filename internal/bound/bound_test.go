package bound

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
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
		"the total":           {{"alice", 3, ""}, {"bob", 3, ""}, {"carol", 2, ""}, {"carol", 1, Everybody}, {"", 1, Everybody}},
		"its own limit first": {{"alice", 3, ""}, {"bob", 3, ""}, {"carol", 2, ""}, {"alice", 1, Principal}},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPool("things", Share{Total: 8, PerPrincipal: 3, Anonymous: 2})
			var holds []Hold
			for _, take := range takes {
				hold, err := p.Take(take.principal, take.n)
				holds = append(holds, hold)
				full, ok := errors.AsType[*FullError](err)
				if ok != (take.full != "") || ok && (full.Whose != take.full || !strings.Contains(err.Error(), "things")) {
					t.Errorf("%+v: %v", take, err)
				}
			}
			for i := range holds {
				holds[i].Release()
				holds[i].Release()
			}
			if p.used != 0 || len(p.held) != 0 {
				t.Errorf("all was given back, and the pool holds %d for %v", p.used, p.held)
			}
		})
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

func TestNoLimit(t *testing.T) {
	var p *Pool
	hold, err := p.Take("alice", 1<<40)
	if err != nil || hold.Resize(1<<40) != nil {
		t.Error("a nil pool has a limit")
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
				hold.Release()
			}
		})
	}
	all.Wait()
	if p.used != 0 || len(p.held) != 0 {
		t.Errorf("the pool holds %d for %v", p.used, p.held)
	}
}
